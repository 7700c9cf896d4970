"""Sealing: bytes in memory that nobody can change any more, and their digest.

The command reads these very bytes: they are hashed after the seal is on, and no path is opened
again between the check and the use.
"""

import fcntl
import hashlib
import mmap
import os
import stat

CHUNK = 16 * 2**20
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


class Sealed:
    """A descriptor of sealed bytes in memory; close it when the command has its copy."""

    def __init__(self, descriptor: int, size: int) -> None:
        self.descriptor = descriptor
        self.size = size

    def sha256(self) -> str:
        """Hash the sealed bytes."""
        hashed = hashlib.sha256()
        if self.size:
            # Private: before 6.7 the kernel takes a shared view for one that could write.
            with mmap.mmap(
                self.descriptor, self.size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ
            ) as view:
                for start in range(0, self.size, CHUNK):
                    with memoryview(view) as whole, whole[start : start + CHUNK] as part:
                        hashed.update(part)
        return hashed.hexdigest()

    def bytes(self) -> bytes:
        """Give the sealed bytes."""
        return os.pread(self.descriptor, self.size, 0)

    def close(self) -> None:
        """Give the memory back, as far as nobody else holds it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def seal_file(path: str, size: int) -> Sealed:
    """Take a file into sealed memory.

    Args:
        size: the bytes that are expected; one more is taken, so that growth shows in the digest.
    Raises:
        OSError: it is gone, is no regular file, or cannot be read.
    """
    source = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(source).st_mode):
            raise OSError(0, "it is no regular file any more", path)
        memory = _memory()
        try:
            taken = 0
            while taken <= size:
                count = os.sendfile(memory, source, taken, size + 1 - taken)
                if not count:
                    break
                taken += count
            return _seal(memory, taken)
        except BaseException:
            os.close(memory)
            raise
    finally:
        os.close(source)


def seal_bytes(content: bytes) -> Sealed:
    """Take bytes into sealed memory."""
    memory = _memory()
    try:
        written = 0
        while written < len(content):
            written += os.write(memory, content[written:])
        return _seal(memory, written)
    except BaseException:
        os.close(memory)
        raise


def _memory() -> int:
    return os.memfd_create("sealed", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)


def _seal(memory: int, size: int) -> Sealed:
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, _SEALS)
    os.lseek(memory, 0, os.SEEK_SET)
    return Sealed(memory, size)
