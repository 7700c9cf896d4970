"""Ground: what a store lies on, and how its files look from outside. It opens none of them."""

import ctypes
import os
import stat
from pathlib import Path

from executor.rules import stores
from executor.store.faults import unsound

_LIBC = ctypes.CDLL(None, use_errno=True)
Shape = tuple[int, int, int]
"""What a file looks like from outside: its number, its bytes, its last change in nanoseconds."""


def check_ground(directory: Path) -> None:
    magic = file_system_magic(directory)
    if stores.file_system(magic) is None:
        raise unsound(
            f"{directory} lies on a file system whose locks and syncs cannot be relied on (statfs "
            f"says {magic:#x}): a network's, one in user space, or one that is not known."
        )


def file_system_magic(directory: Path) -> int:
    """Give ``f_type`` of statfs(2), its first word; `os.statvfs` leaves it out."""
    facts = (ctypes.c_long * 64)()
    if _LIBC.statfs(os.fsencode(directory), facts) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return int(facts[0]) & 0xFFFFFFFF


def check_file(path: Path) -> None:
    try:
        # Never open it here: closing any descriptor of a database drops SQLite's locks on it.
        facts = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(facts.st_mode):
        raise unsound(f"{path} is no regular file.")
    if not stores.is_private(facts.st_mode, facts.st_uid, os.geteuid()):
        raise unsound(
            f"{path} can be changed by others, or not by its user: it belongs to user "
            f"{facts.st_uid} and has mode {stat.S_IMODE(facts.st_mode):04o}, not 0600."
        )


def identity_of(path: str) -> tuple[int, int] | None:
    try:
        facts = os.lstat(path)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def shape_of(path: Path) -> Shape:
    facts = os.lstat(path)
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


def sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
