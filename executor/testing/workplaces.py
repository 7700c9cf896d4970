"""Workplaces: directories for what is only needed while somebody works, whatever ends that.

Each lies below the system's directory for temporary files, under a lock that the kernel frees with
its holder: what a killed run left is removed by the next one.
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LOCK = "lock"


@contextmanager
def workplace(prefix: str) -> Iterator[Path]:
    """Give a directory that is gone afterwards, however this ends.

    Args:
        prefix: how its name begins; of those that begin so, what nobody holds any more is removed.
    """
    _remove_left(prefix)
    home = Path(tempfile.mkdtemp(prefix=prefix))
    lock = os.open(home / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield home
    finally:
        remove(home)
        os.close(lock)


def remove(home: Path) -> None:
    """Remove a directory, whatever modes are in it; what somebody still writes to stays."""
    for place in _mounted(home):
        subprocess.run(["umount", "-l", place], check=False)

    def open_up(_: object, path: str, __: object) -> None:
        with suppress(OSError):
            os.chmod(os.path.dirname(path), 0o700)
            if os.path.isdir(path) and not os.path.islink(path):
                os.chmod(path, 0o700)
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)

    shutil.rmtree(home, onerror=open_up)


def _mounted(home: Path) -> list[str]:
    """Give what is mounted below a directory, the deepest first."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return []
    inside = os.path.join(os.path.realpath(home), "")
    places = [line.split()[4] for line in lines.splitlines()]
    return sorted((one for one in places if one.startswith(inside)), reverse=True)


def _remove_left(prefix: str) -> None:
    for home in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError):
            if home.is_symlink() or home.stat().st_uid != os.geteuid():
                continue
            lock = os.open(home / _LOCK, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(home)
            finally:
                os.close(lock)
