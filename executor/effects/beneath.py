"""Beneath: open a file below a directory, with no link on the way.

A link that stays inside is refused too: it can be turned elsewhere between two looks.
"""

import ctypes
import errno
import os
import stat

_OPENAT2 = 437  # the same number on every architecture
_RESOLVE = 0x02 | 0x04 | 0x08  # NO_MAGICLINKS | NO_SYMLINKS | BENEATH
_LIBC = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def open_path(directory: int, relative: str) -> int:
    """Open ``relative`` as a bare handle (``O_PATH``): nothing is read, nothing can block.

    Raises:
        OSError: ``ELOOP`` for a link on the way, ``EXDEV`` for a way out, or what was wrong.
        ValueError: the name cannot be written in the file system's encoding.
    Source: openat2(2)
    """
    _check(relative)
    try:
        return _openat2(directory, relative)
    except OSError as refused:
        # No such call: an old kernel, or a filter of a container that answers EPERM to it.
        if refused.errno not in (errno.ENOSYS, errno.EPERM):
            raise
    return walk(directory, relative)


def open_absolute(path: str) -> int:
    """Do the same for an absolute path: no link anywhere between ``/`` and its end."""
    top = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return open_path(top, path.strip("/") or ".")
    finally:
        os.close(top)


def walk(directory: int, relative: str) -> int:
    """Do the same step by step, where there is no openat2."""
    _check(relative)
    steps = relative.split("/")
    handle = os.dup(directory)
    try:
        for index, step in enumerate(steps):
            last = index == len(steps) - 1
            flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC | (0 if last else os.O_DIRECTORY)
            try:
                deeper = os.open(step or ".", flags, dir_fd=handle)
            except NotADirectoryError:
                # O_DIRECTORY meets a link before O_NOFOLLOW does.
                if os.path.islink(f"/proc/self/fd/{handle}/{step}"):
                    raise OSError(errno.ELOOP, "a symbolic link", step) from None
                raise
            os.close(handle)
            handle = deeper
        if stat.S_ISLNK(os.fstat(handle).st_mode):
            raise OSError(errno.ELOOP, "a symbolic link", relative)
        opened, handle = handle, -1
        return opened
    finally:
        if handle >= 0:
            os.close(handle)


def _check(relative: str) -> None:
    """Refuse what the two ways would take differently."""
    if "\0" in relative:
        # The kernel would stop reading here, and open a file of another name.
        raise OSError(errno.EINVAL, "no name can hold a NUL character", relative)
    if not relative:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), relative)
    if relative.startswith("/") or ".." in relative.split("/"):
        raise OSError(errno.EXDEV, "leads out of the directory", relative)


def _openat2(directory: int, relative: str) -> int:
    how = _OpenHow(os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE)
    for _ in range(100):  # EAGAIN: something below was renamed during the look
        handle: int = _LIBC.syscall(
            _OPENAT2, directory, os.fsencode(relative), ctypes.byref(how), ctypes.sizeof(how)
        )
        if handle >= 0:
            return handle
        error = ctypes.get_errno()
        if error != errno.EAGAIN:
            raise OSError(error, os.strerror(error), relative)
    raise OSError(errno.EAGAIN, "the directories keep changing", relative)
