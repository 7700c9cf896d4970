"""Texts: read a configuration, manifest or request, whatever stands in its place."""

import errno
import os
import stat
from pathlib import Path

MOST = 2**20
"""Bytes that any of our YAML may have; one more is read, so that too much shows."""


def read_text(path: str | os.PathLike[str], *, decides: bool = True) -> bytes:
    """Read a small regular file, without ever blocking.

    Args:
        decides: it says what may run, so that nobody else may be able to write it.
    Raises:
        OSError: it is gone, is no regular file, is writable by everybody, or cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        facts = os.fstat(descriptor)
        if stat.S_ISDIR(facts.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "No regular file", os.fspath(path))
        directory = os.stat(Path(path).resolve().parent).st_mode
        everybody = directory & stat.S_IWOTH and not directory & stat.S_ISVTX
        if decides and (facts.st_mode & stat.S_IWOTH or everybody):
            found = "Everybody can change it (`chmod o-w` the file and its directory)"
            raise OSError(errno.EPERM, found, os.fspath(path))
        text = b""
        while len(text) <= MOST and (block := os.read(descriptor, MOST + 1 - len(text))):
            text += block
        return text
    finally:
        os.close(descriptor)
