"""Owners: who has an executor open, and whether one of them is proven to be gone.

An open executor keeps a file locked; the kernel frees the lock however it ends. Beside that its
process is known by number and start, so that neither a lost file nor a reused number decides alone.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from executor.attempt import Owner
from executor.effects import clock, processes
from executor.refusal import Unverified
from executor.rules import ledger
from executor.rules.ledger import Sighting

_OPEN_HERE: dict[str, int] = {}
"""The owners that this very process has open, and the descriptors of their locks."""


def _leave_to_parent() -> None:
    """Let go, in a child without an exec of its own: it would hold its parent's locks."""
    for descriptor in _OPEN_HERE.values():
        os.close(descriptor)
    _OPEN_HERE.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


class Owners:
    """The owners' locks below one directory of mode 0700."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "owners"
        self._directory.mkdir(mode=0o700, exist_ok=True)
        self._kept: set[str] = set()

    @contextlib.contextmanager
    def registered(self) -> Iterator[Owner]:
        """Be an owner for the time of the block.

        Raises:
            Unverified: ``ledger.full-disk``: its lock cannot be made.
        """
        owner = Owner(
            id=clock.new_id(),
            boot=clock.boot(),
            namespace=_namespace(),
            pid=os.getpid(),
            started=processes.started(os.getpid()),
        )
        path = self._directory / owner.id
        try:
            _OPEN_HERE[owner.id] = _locked(path)
        except OSError as failed:
            raise Unverified(
                "ledger.full-disk",
                "STORE_UNAVAILABLE",
                because=f"The lock of this executor cannot be made: {failed.strerror}.",
                todo="Make room on the disk of the state directory; then open it again.",
            ) from failed
        try:
            yield owner
        finally:
            if owner.id in _OPEN_HERE:  # else this is a fork, and the owner its parent
                if owner.id not in self._kept:
                    with contextlib.suppress(OSError):
                        path.unlink(missing_ok=True)
                os.close(_OPEN_HERE.pop(owner.id))

    def keep_lock(self, owner: Owner) -> None:
        """Leave the file of one that still owes something: a free lock is proof, none is not."""
        self._kept.add(owner.id)

    def is_gone(self, owner: Owner) -> bool:
        """Say whether an owner is proven to be gone."""
        if owner.id in _OPEN_HERE:
            return False
        mine = (owner.boot, owner.namespace, owner.pid) == (
            clock.boot(),
            _namespace(),
            os.getpid(),
        )
        ended = mine or processes.state(owner.pid) in (
            "Z",
            "X",
        )  # ours, and no longer open; or dead
        started = "" if ended else processes.started(owner.pid)
        seen = Sighting(clock.boot(), _namespace(), self._lock(owner.id), started)
        return ledger.is_gone(owner, seen)

    def left(self) -> list[str]:
        """Give the files of owners that are gone; what they left is settled before `remove`."""
        return [path.name for path in self._directory.iterdir() if self._lock(path.name) == "free"]

    def remove(self, left: Sequence[str]) -> None:
        """Remove such files. Without one, an owner in another namespace is never proven gone."""
        for name in left:
            with contextlib.suppress(OSError):
                (self._directory / name).unlink(missing_ok=True)

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


def _locked(path: Path) -> int:
    """Make a file that is locked from the first instant that it has this name."""
    unlocked = path.with_suffix(".new")
    while True:
        descriptor = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            unlocked.rename(path)
        except FileNotFoundError:  # another's sweep came before the lock
            os.close(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        else:
            return descriptor


def _namespace() -> str:
    """Name what numbers and starts of processes count in: the PID and the time namespace."""
    try:
        return f"{os.stat('/proc/self/ns/pid').st_ino} {clock.boottime_offset()}"
    except OSError:
        return ""
