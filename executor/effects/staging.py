"""Staging: the private directory of a run without a sandbox; a sandbox has its own in memory."""

import contextlib
import fcntl
import os
import shutil
from pathlib import Path

from executor.effects.sealing import Sealed
from executor.effects.verifying import Verified


class Area:
    """A staging area: ``work`` is the command's working directory.

    It is locked while it is used; what a killed executor left behind is free for `sweep`.
    """

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    def remove(self) -> None:
        """Remove the area and all that the command made in it."""
        _remove(self.path)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def stage(directory: Path, name: str, verified: Verified) -> Area:
    """Make a staging area and put the verified bytes into it.

    Raises:
        OSError: the disk is full, or what else the system said; nothing is left then.
    """
    path = directory / name
    path.mkdir(mode=0o700, parents=True)
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    area = Area(path, lock)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for inner in ("home", "tmp", "work", "secrets"):
            (path / inner).mkdir(mode=0o700)
        for written, text in verified.frozen.admitted.asked.stage.items():
            place = path / "work" / written
            if written.endswith("/"):
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
            else:
                place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                place.write_text(text)
        for file, sealed in verified.files.items():
            _write(path / "work" / file, sealed)
        for secret, sealed in verified.secret_files.items():
            _write(path / "secrets" / secret, sealed)
    except BaseException:
        area.remove()
        raise
    return area


def sweep(directory: Path) -> int:
    """Remove the areas of runs whose executor is gone; give how many."""
    gone = 0
    with contextlib.suppress(FileNotFoundError):
        for path in directory.iterdir():
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(path)
                gone += 1
            except BlockingIOError:
                pass
            finally:
                os.close(lock)
    return gone


def _write(place: Path, sealed: Sealed) -> None:
    target = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400)
    try:
        position = 0
        while position < sealed.size:
            position += os.sendfile(target, sealed.descriptor, position, sealed.size - position)
    finally:
        os.close(target)


def _remove(path: Path) -> None:
    for directory, _, _ in os.walk(path):
        # The command may have closed a directory to itself; it is ours to open again.
        with contextlib.suppress(OSError):
            os.chmod(directory, 0o700)
    shutil.rmtree(path, ignore_errors=True)
