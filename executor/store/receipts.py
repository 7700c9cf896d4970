"""Receipts: one file for each end of a request, whole and durable before anybody is told."""

import contextlib
import os
from pathlib import Path
from typing import Any

import rfc8785

from executor.refusal import Unverified


class Receipts:
    """The receipts below one directory of mode 0700."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "receipts"
        self._directory.mkdir(mode=0o700, exist_ok=True)

    def path(self, name: str) -> Path:
        """Give where a receipt lies."""
        return self._directory / f"{name}.json"

    def add(self, name: str, statement: dict[str, Any]) -> None:
        """Put a receipt on record; what is on record is never written over.

        Raises:
            Unverified: ``freezing.private-store``: it could not be made durable.
        """
        final = self.path(name)
        temporary = final.with_suffix(".new")
        try:
            descriptor = os.open(
                temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400
            )
            try:
                content = rfc8785.dumps(statement) + b"\n"
                if os.write(descriptor, content) != len(content):
                    raise OSError(0, "it was cut short")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.link(temporary, final)
            temporary.unlink()
            _sync_directory(self._directory)
        except OSError as failed:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise Unverified(
                "freezing.private-store",
                "STORE_UNAVAILABLE",
                because=f"The receipt {name} could not be stored: {failed.strerror}.",
                todo="Make room on the disk of the state directory.",
            ) from failed


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
