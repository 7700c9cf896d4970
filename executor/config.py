"""Config: what the people who run the executor decide, in one YAML file."""

from typing import Literal

import msgspec
from msgspec import field

from executor.manifest import SecretSource
from executor.units import Duration, always


class LedgerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long a delivery blocks the same action, and how long settled attempts are kept."""

    window: Duration = always(Duration(15 * 60))
    keep: Duration = always(Duration(90 * 24 * 3600))


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The configuration; every guard is on without one.

    ``manifests`` are files or directories of manifests beside the shipped ones (``packs``);
    ``roots`` are the directories below which files may be frozen and writable paths opened;
    ``trusted`` are directories of commands beside the system's own; ``secrets`` gives sources by
    tool and name; ``retention`` is how long frozen copies stay after their run; ``ledger`` is about
    duplicates. Relative paths
    start from the directory of the file.
    """

    executor: Literal["config/1"] = "config/1"
    state: str | None = None
    manifests: tuple[str, ...] = ()
    packs: bool = True
    roots: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    degraded: bool = False
    secrets: dict[str, dict[str, SecretSource]] = field(default_factory=dict)
    retention: Duration = always(Duration(24 * 3600))
    ledger: LedgerConfig = field(default_factory=LedgerConfig)
