"""Verifying: right before the start, every byte that was frozen is looked at again."""

import contextlib
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import trio

from executor.effects import beneath, sealing
from executor.effects.blobs import Blobs
from executor.effects.sealing import Sealed
from executor.frozen import FrozenAction, FrozenFile, PinnedFile
from executor.problems import show_value
from executor.refusal import Refused, Unverified

Changed = Callable[[type[Refused], str], Refused]
"""Makes the refusal of bytes that are not the ones that were frozen, of what was found instead."""
_REPLACED = {
    0: "it is no regular file any more",
    errno.ENXIO: "it is no regular file any more",
    errno.ELOOP: "it is a symbolic link now",
    errno.ENOENT: "it is gone",
    errno.ENOTDIR: "it is gone",
}


@dataclass(slots=True)
class OpenedPath:
    """A path of this machine that the command will reach, and a handle on what it was."""

    path: str
    writes: bool
    descriptor: int

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode."""
        facts = os.fstat(self.descriptor)
        return facts.st_dev, facts.st_ino


@dataclass(slots=True)
class Verified:
    """A frozen action whose bytes were found unchanged and lie in sealed memory.

    ``close`` gives memory and handles back; the command has its own copies by then.
    """

    frozen: FrozenAction
    commands: list[tuple[PinnedFile, Sealed]] = field(default_factory=list)
    files: dict[str, Sealed] = field(default_factory=dict)
    stdin: Sealed | None = None
    paths: list[OpenedPath] = field(default_factory=list)
    secret_environment: dict[str, str] = field(default_factory=dict)
    secret_files: dict[str, Sealed] = field(default_factory=dict)
    secret_values: list[bytes] = field(default_factory=list)

    def __enter__(self) -> "Verified":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give everything back."""
        sealed = [one for _, one in self.commands]
        sealed += [*self.files.values(), *self.secret_files.values()]
        for one in sealed:
            one.close()
        if self.stdin is not None:
            self.stdin.close()
        for path in self.paths:
            os.close(path.descriptor)
        self.paths.clear()


async def verify(frozen: FrozenAction, blobs: Blobs) -> Verified:
    """Take commands and files into sealed memory, and compare what was taken.

    Raises:
        Refused: ``freezing.rehash-before-spawn``, ``admission.command-pinned``,
            ``admission.script-pinned`` or ``isolation.paths``; nothing is kept then.
    """
    return await trio.to_thread.run_sync(partial(_verify, frozen, blobs))


def _verify(frozen: FrozenAction, blobs: Blobs) -> Verified:
    verified = Verified(frozen)
    try:
        for file in frozen.files:
            trio.from_thread.check_cancelled()
            verified.files[file.name] = _take(
                os.fspath(blobs.path(file.sha256)), file.size, file.sha256, _copy_changed(file)
            )
        for index, command in enumerate(frozen.admitted.command.files):
            trio.from_thread.check_cancelled()
            rule = "admission.command-pinned" if index == 0 else "admission.script-pinned"
            sealed = _take(
                command.real_path,
                command.size,
                command.sha256,
                _command_changed(command, rule),
            )
            verified.commands.append((command, sealed))
        verified.stdin = _stdin(frozen, verified)
        reach = frozen.admitted.reach
        for path, writes in [(p, False) for p in reach.read] + [(p, True) for p in reach.write]:
            verified.paths.append(OpenedPath(path, writes, _open(path)))
    except BaseException:
        verified.close()
        raise
    return verified


def _take(path: str, size: int, sha256: str, changed: Changed) -> Sealed:
    try:
        sealed = sealing.seal_file(path, size)
    except OSError as failed:
        if found := _REPLACED.get(failed.errno or 0):
            raise changed(Refused, found) from None
        raise changed(Unverified, f"it cannot be read: {failed.strerror}") from failed
    found = sealed.sha256()
    if found != sha256:
        sealed.close()
        raise changed(Refused, f"its SHA-256 is {found}")
    return sealed


def _copy_changed(file: FrozenFile) -> Changed:
    def refusal(kind: type[Refused], found: str) -> Refused:
        return kind(
            "freezing.rehash-before-spawn",
            "FROZEN_COPY_CHANGED",
            because=f"The copy of {show_value(file.name)} was frozen with the SHA-256 "
            f"{file.sha256}; {found}.",
            todo="Find out who wrote into the store; then ask again, which freezes the file anew."
            if kind is Refused
            else "Make sure that the store can be read and memory is free; then ask again.",
        )

    return refusal


def _command_changed(command: PinnedFile, rule: str) -> Changed:
    def refusal(kind: type[Refused], found: str) -> Refused:
        return kind(
            rule,
            "COMMAND_CHANGED",
            because=f"{command.path} was pinned with the SHA-256 {command.sha256}; {found}.",
            todo="If it was updated on purpose, ask again."
            if kind is Refused
            else "Make sure that it can be read and memory is free; then ask again.",
        )

    return refusal


def _stdin(frozen: FrozenAction, verified: Verified) -> Sealed | None:
    asked = frozen.admitted.asked
    if asked.stdin is not None:
        return sealing.seal_bytes(asked.stdin.encode("utf-8", "surrogateescape"))
    declared = frozen.admitted.manifest.stdin
    if declared is None or declared.file is None:
        return None
    for file in frozen.files:
        if file.slot == declared.file:
            source = verified.files[file.name]
            return Sealed(os.dup(source.descriptor), source.size)
    return None


def _open(path: str) -> int:
    try:
        with contextlib.suppress(FileNotFoundError):
            return beneath.open_absolute(path)
        found = "it does not exist"
    except (OSError, ValueError) as failed:
        found = getattr(failed, "strerror", None) or str(failed)
    raise Refused(
        "isolation.paths",
        "PATH_NOT_FOUND",
        because=f"{show_value(path)} cannot be given to the command: {found}.",
        todo="Name an existing file or directory by its real path, without symbolic links.",
    )
