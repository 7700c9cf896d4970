"""Capabilities: the closed registry of what a tool can be allowed to do, read from one file.

So far a capability is its name and a sentence; approval class and target kind join them there
with the policy, without a change to any manifest.
"""

from functools import cache
from importlib.resources import files

import msgspec

from executor import plain_yaml


class Capability(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing a tool may be able to do."""

    summary: str


class _Registry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    executor: str
    capabilities: dict[str, Capability]


@cache
def registry() -> dict[str, Capability]:
    """Give every registered capability by name."""
    source = files("executor").joinpath("capabilities.yaml").read_bytes()
    return msgspec.convert(plain_yaml.load(source).value, _Registry).capabilities
