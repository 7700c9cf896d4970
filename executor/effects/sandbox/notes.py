"""Notes: which sandboxes an executor has started, so that the next one can end what it left.

A note is a locked file; the kernel frees the lock however the executor ends.
"""

import contextlib
import fcntl
import os
import signal
from pathlib import Path

from executor.effects import processes
from executor.effects.processes import Handle

_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Note:
    """One sandbox on record, until ``remove``."""

    def __init__(self, path: Path, lock: int) -> None:
        self._path = path
        self._lock = lock

    def remove(self) -> None:
        """Say that it is gone."""
        self._path.unlink(missing_ok=True)
        os.close(self._lock)


class Notes:
    """The notes in one directory.

    Args:
        directory: made if it is not there.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(mode=0o700, exist_ok=True)
        self._boot = _BOOT.read_text().strip()

    def add(self, leader: int) -> Note:
        """Note a sandbox by the leader of its session, which is bwrap itself."""
        name = f"{leader}.{processes.started(leader)}.{self._boot}"
        path = self._directory / name
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        return Note(path, lock)

    def sweep(self) -> int:
        """End the sandboxes whose executor is gone; give how many processes that were."""
        ended = 0
        for path in self._directory.iterdir():
            lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                leader, start, boot = path.name.split(".")
                if boot == self._boot:
                    ended += _end_session(int(leader), start)
                path.unlink(missing_ok=True)
            except (BlockingIOError, ValueError):
                pass  # still in use, or no note of ours
            finally:
                os.close(lock)
        return ended


def _end_session(leader: int, start: str) -> int:
    """End what is left of a session.

    As long as it has a member, the kernel gives its number to nobody else: either its leader is
    still the one that was noted, or there is no such process any more.
    """
    if processes.started(leader) not in ("", start):
        return 0
    ended = 0
    for pid in processes.in_session(leader):
        with contextlib.suppress(OSError), Handle(pid) as handle:
            if processes.session(pid) == leader:
                handle.signal(signal.SIGKILL)
                ended += 1
    return ended
