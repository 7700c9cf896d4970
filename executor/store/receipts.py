"""Receipts: one file for each end of a request, whole and durable before anybody is told."""

import contextlib
import fcntl
import os
import secrets
from pathlib import Path
from typing import Any

from executor.receipt import encode
from executor.refusal import Unverified
from executor.store.ground import sync_directory

ROOM_BYTES = 64 * 1024
"""More than a receipt takes."""


class Receipts:
    """The receipts below one directory of mode 0700."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "receipts"
        self._directory.mkdir(mode=0o700, exist_ok=True)

    def path(self, name: str) -> Path:
        """Give where a receipt lies."""
        return self._directory / f"{name}.json"

    def any(self) -> bool:
        """Say whether any receipt is there."""
        return any(self._directory.glob("*.json"))

    def reserve(self, name: str) -> "Room":
        """Take the room for a receipt, so that a full disk is found out before anything runs.

        Raises:
            Unverified: ``freezing.private-store``.
        """
        try:
            room = self._take(name)
            try:
                fcntl.flock(room.descriptor, fcntl.LOCK_EX)
                os.posix_fallocate(room.descriptor, 0, ROOM_BYTES)
                swept = not os.fstat(room.descriptor).st_nlink  # between its birth and its lock
            except BaseException:
                room.close()
                raise
        except OSError as failed:
            raise _not_stored(name, failed) from failed
        if swept:
            room.close()
            return self.reserve(name)
        return room

    def _take(self, name: str) -> "Room":
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        temporary = self.path(name).with_suffix(".new")
        try:
            return Room(temporary, os.open(temporary, flags, 0o400))
        except FileExistsError:  # a killed executor left it, or another writes the same just now
            temporary = temporary.with_stem(f"{name}-{secrets.token_hex(4)}")
            return Room(temporary, os.open(temporary, flags, 0o400))

    def sweep(self) -> int:
        """Give back the room that killed executors took; give how many that were."""
        gone = 0
        for path in self._directory.glob("*.new"):
            with contextlib.suppress(OSError), open(path, "rb") as left:
                fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)  # free, however its owner ended
                path.unlink()
                gone += 1
        return gone

    def add(self, name: str, statement: dict[str, Any], room: "Room | None" = None) -> None:
        """Put a receipt on record; what is on record is never written over.

        Args:
            room: what `reserve` gave, if it was asked before; it is used up.
        Raises:
            Unverified: ``freezing.private-store``: it could not be made durable.
        """
        with room or self.reserve(name) as taken:
            try:
                content = encode(statement)
                if os.write(taken.descriptor, content) != len(content):
                    raise OSError(0, "it was cut short")
                os.ftruncate(taken.descriptor, len(content))
                os.fsync(taken.descriptor)
                os.link(taken.path, self.path(name))
                taken.path.unlink()
                sync_directory(self._directory)
            except OSError as failed:
                raise _not_stored(name, failed) from failed


class Room:
    """Room on the disk for one receipt; leaving its block gives back what was not used."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    def __enter__(self) -> "Room":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give it back."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)


def _not_stored(name: str, failed: OSError) -> Unverified:
    return Unverified(
        "freezing.private-store",
        "STORE_UNAVAILABLE",
        because=f"The receipt {name} could not be stored: {failed.strerror}.",
        todo="Make room on the disk of the state directory.",
    )
