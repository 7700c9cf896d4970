"""Owners: who has an executor open, and whether one of them is proven to be gone.

An open executor keeps a file locked; the kernel frees the lock however it ends. Beside that its
process is known by number and start, so that neither a lost file nor a reused number decides alone.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from executor.attempt import Owner
from executor.effects import clock, processes
from executor.rules import ledger
from executor.rules.ledger import Sighting

_OPEN_HERE: set[str] = set()
"""The owners that this very process has open."""


class Owners:
    """The owners' locks below one directory of mode 0700."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "owners"
        self._directory.mkdir(mode=0o700, exist_ok=True)

    @contextlib.contextmanager
    def registered(self) -> Iterator[Owner]:
        """Be an owner for the time of the block."""
        owner = Owner(
            id=clock.new_id(),
            boot=clock.boot(),
            namespace=_namespace(),
            pid=os.getpid(),
            started=processes.started(os.getpid()),
        )
        path = self._directory / owner.id
        unlocked = path.with_suffix(".new")
        descriptor = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            unlocked.rename(path)  # under its own name it is locked from the first instant
            _OPEN_HERE.add(owner.id)
            yield owner
        finally:
            _OPEN_HERE.discard(owner.id)
            path.unlink(missing_ok=True)
            os.close(descriptor)

    def is_gone(self, owner: Owner) -> bool:
        """Say whether an owner is proven to be gone."""
        if owner.id in _OPEN_HERE:
            return False
        mine = (owner.boot, owner.namespace, owner.pid) == (
            clock.boot(),
            _namespace(),
            os.getpid(),
        )
        started = "" if mine else processes.started(owner.pid)  # ours, but no longer open
        seen = Sighting(clock.boot(), _namespace(), self._lock(owner.id), started)
        return ledger.is_gone(owner, seen)

    def sweep(self) -> None:
        """Remove the files of owners that are gone."""
        for path in self._directory.iterdir():
            if self._lock(path.name) == "free":
                path.unlink(missing_ok=True)

    def _lock(self, name: str) -> ledger.Lock:
        try:
            descriptor = os.open(self._directory / name, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return "missing"
        except OSError:
            return "held"  # what cannot be looked at is not proven to be free
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return "held"
        else:
            return "free"
        finally:
            os.close(descriptor)


def _namespace() -> str:
    """Name the PID namespace that this process counts in."""
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return ""
