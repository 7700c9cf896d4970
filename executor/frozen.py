"""Frozen: a request on its way to a frozen action. Values only."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from executor.manifest import IsolationLevel, Limits, Manifest, Secret, SecretSource
from executor.request import Request


class _Value(msgspec.Struct, frozen=True):
    pass


class SlotFile(_Value, frozen=True):
    """A file to freeze: the slot it fills, where it is, the name it gets, and its bounds."""

    slot: str
    path: str
    name: str
    max_bytes: int
    line_ends: str | None = None


class Target(_Value, frozen=True):
    """A capability that the action uses, and on what."""

    capability: str
    target: str | None


class Endpoint(_Value, frozen=True):
    """A host and port that the command may speak to."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class HostPath(_Value, frozen=True):
    """A path of this machine that the command may reach, and whether a caller chose it."""

    path: str
    from_request: bool


class Asked(_Value, frozen=True):
    """A request in the words of one command, before any file was touched."""

    tool: str
    manifest_sha256: str
    parameters: dict[str, Any]
    files: tuple[SlotFile, ...]
    argv: tuple[str, ...]
    env: dict[str, str]
    stdin: str | None
    stage: dict[str, str]
    account: str
    targets: tuple[Target, ...]
    network: tuple[Endpoint, ...]
    read: tuple[HostPath, ...]
    write: tuple[HostPath, ...]


class PinnedFile(_Value, frozen=True):
    """A program on disk: the path it is called by, its real path, the SHA-256 of its bytes."""

    path: str
    real_path: str
    sha256: str
    size: int


class PinnedCommand(_Value, frozen=True):
    """What is executed: ``files[0]`` with ``prefix`` before the arguments.

    A script is its interpreter with the script in ``prefix``; both are in ``files``.
    """

    files: tuple[PinnedFile, ...]
    prefix: tuple[str, ...] = ()

    def argv(self, arguments: tuple[str, ...]) -> tuple[str, ...]:
        """Give the whole command line."""
        return (self.files[0].path, *self.prefix, *arguments)


class Reach(_Value, frozen=True):
    """What the command will be able to reach, and how it is kept from the rest.

    ``missing`` says in words what the level in force cannot promise. ``network`` is ``none``,
    ``host`` (all that this machine reaches), or, once there is an egress proxy, ``declared``.
    """

    level: IsolationLevel
    required: IsolationLevel
    missing: tuple[str, ...]
    network: str
    endpoints: tuple[Endpoint, ...]
    read: tuple[str, ...]
    write: tuple[str, ...]


class SecretUse(_Value, frozen=True):
    """A secret that the command gets: its name, its source and its way in, never its value."""

    name: str
    source: SecretSource
    declared: Secret


class Admitted(_Value, frozen=True):
    """A request that may be frozen."""

    id: str
    request: Request
    manifest: Manifest
    asked: Asked
    command: PinnedCommand
    reach: Reach
    secrets: tuple[SecretUse, ...]


class FrozenFile(_Value, frozen=True):
    """The copy of one file, named by the SHA-256 of the copy's own bytes."""

    slot: str
    name: str
    size: int
    sha256: str


class FrozenAction(_Value, frozen=True):
    """A request fully resolved. Its digest is what is approved and what is run."""

    admitted: Admitted
    files: tuple[FrozenFile, ...]
    env: dict[str, str]
    digest: str
    fingerprint: str
    """What makes it the same thing as another action; see `rules/identity.py`."""
    key: str
    """The idempotency key that goes with the fingerprint."""

    @property
    def argv(self) -> tuple[str, ...]:
        """The whole command line."""
        return self.admitted.command.argv(self.admitted.asked.argv)


def covered(
    admitted: Admitted, files: tuple[FrozenFile, ...], env: Mapping[str, str]
) -> dict[str, Any]:
    """Give everything that the digest of an action covers, as RFC 8785 will write it.

    Whatever could change what happens is in it; what cannot (ids, times, notes, the path that a
    file came from) is not.
    """
    asked, reach = admitted.asked, admitted.reach
    return {
        "executor": "action/1",
        "tool": asked.tool,
        "manifest": asked.manifest_sha256,
        "command": [{"path": file.path, "sha256": file.sha256} for file in admitted.command.files],
        "argv": list(admitted.command.argv(asked.argv)),
        "env": {name: sha256_text(value) for name, value in env.items()},
        "stdin": None if asked.stdin is None else sha256_text(asked.stdin),
        "files": [
            {"slot": file.slot, "name": file.name, "size": file.size, "sha256": file.sha256}
            for file in files
        ],
        "stage": {name: sha256_text(text) for name, text in asked.stage.items()},
        "secrets": [
            {
                "name": use.name,
                "source": msgspec.to_builtins(use.source),
                "env": use.declared.env,
                "file": use.declared.file,
                "text": sha256_text(use.declared.text),
            }
            for use in admitted.secrets
        ],
        "account": asked.account,
        "targets": [[target.capability, target.target] for target in asked.targets],
        "isolation": {
            "level": reach.level,
            "network": reach.network,
            "endpoints": [str(endpoint) for endpoint in reach.endpoints],
            "read": list(reach.read),
            "write": list(reach.write),
        },
        "limits": limits_as_numbers(admitted.manifest.limits),
    }


def digest(admitted: Admitted, files: tuple[FrozenFile, ...], env: Mapping[str, str]) -> str:
    """Give the SHA-256, in hex, over the RFC 8785 form of all that the action covers."""
    import rfc8785

    return hashlib.sha256(rfc8785.dumps(covered(admitted, files, env))).hexdigest()


def limits_as_numbers(limits: Limits) -> dict[str, int]:
    """Give the limits in whole bytes, milliseconds and counts."""
    return {
        "deadline_ms": round(limits.deadline * 1000),
        "grace_ms": round(limits.grace * 1000),
        "output_bytes": int(limits.output),
        "memory_bytes": int(limits.memory),
        "processes": limits.processes,
        "file_bytes": int(limits.file_size),
        "open_files": limits.open_files,
        "cpu_ms": round((limits.deadline if limits.cpu is None else limits.cpu) * 1000),
        "scratch_bytes": int(limits.scratch),
    }


def sha256_text(text: str) -> str:
    """Give the SHA-256, in hex, of a text's UTF-8 bytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
