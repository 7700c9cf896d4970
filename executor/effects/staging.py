"""Staging: the private directory of a run without a sandbox; a sandbox has its own in memory."""

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from executor.effects.sealing import Sealed
from executor.effects.verifying import Verified

_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Area:
    """A staging area: ``work`` in it is the command's working directory.

    It is locked while it is used; what a killed executor left behind is free for `sweep`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = -1

    def lock(self) -> None:
        """Keep sweeps away from it."""
        self._lock = os.open(self.path, os.O_RDONLY | _DIRECTORY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

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
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(directory, fcntl.LOCK_SH):  # until it has its own lock it looks abandoned
        area = Area(directory / name)
        area.path.mkdir(mode=0o700)
        try:
            area.lock()
            _fill(area.path, verified)
        except BaseException:
            area.remove()
            raise
    return area


def _fill(path: Path, verified: Verified) -> None:
    for inner in ("home", "tmp", "work", "secrets"):
        (path / inner).mkdir(mode=0o700)
    for written, text in verified.frozen.admitted.asked.stage.items():
        place = path / "work" / written
        if written.endswith("/"):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        else:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # The bytes that the digest covers, whatever the locale's encoding is.
            place.write_bytes(text.encode("utf-8", "surrogateescape"))
    for file, sealed in verified.files.items():
        _write(path / "work" / file, sealed)
    for secret, sealed in verified.secret_files.items():
        _write(path / "secrets" / secret, sealed)


def sweep(directory: Path) -> int:
    """Remove the areas of runs whose executor is gone.

    Returns:
        how many. 0 as well when another process is staging right now.
    """
    gone = 0
    with (
        contextlib.suppress(FileNotFoundError, BlockingIOError),
        _locked(directory, fcntl.LOCK_EX | fcntl.LOCK_NB),
    ):
        for path in directory.iterdir():
            if _is_abandoned(path):
                _remove(path)
                gone += 1
    return gone


def _is_abandoned(path: Path) -> bool:
    _open_up(path)
    try:
        with _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB):
            return True
    except NotADirectoryError:  # a command without a sandbox can leave anything here
        return True
    except OSError:
        return False


@contextlib.contextmanager
def _locked(directory: Path, how: int) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY | _DIRECTORY)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)


def _write(place: Path, sealed: Sealed) -> None:
    target = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400)
    try:
        position = 0
        while position < sealed.size:
            position += os.sendfile(target, sealed.descriptor, position, sealed.size - position)
    finally:
        os.close(target)


def _remove(path: Path) -> None:
    """Remove a tree, however deep and whatever the command closed in it; follow no link."""
    with contextlib.suppress(OSError):
        if path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)
            return
        _open_up(path)
        top = os.open(path, os.O_RDONLY | _DIRECTORY)
        try:
            inner = _clear(top, top)
            while inner:
                name = inner.pop()
                with contextlib.suppress(OSError):
                    directory = os.open(name, os.O_RDONLY | _DIRECTORY, dir_fd=top)
                    try:
                        inner += _clear(directory, top)
                    finally:
                        os.close(directory)
                    os.rmdir(name, dir_fd=top)
        finally:
            os.close(top)
        path.rmdir()


def _clear(directory: int, top: int) -> list[str]:
    """Remove the files of a directory and move its directories to the top; give their new names."""
    moved = []
    for name in os.listdir(directory):
        with contextlib.suppress(OSError):
            try:
                os.unlink(name, dir_fd=directory)
            except IsADirectoryError:
                _open_up(name, directory)
                new = secrets.token_hex(16)
                os.rename(name, new, src_dir_fd=directory, dst_dir_fd=top)
                moved.append(new)
    return moved


def _open_up(path: str | Path, directory: int | None = None) -> None:
    """Make a directory accessible: the command may have closed it to itself, but it is ours."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_PATH | _DIRECTORY, dir_fd=directory)
        try:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
        finally:
            os.close(handle)
