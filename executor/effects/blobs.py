"""Blobs: frozen copies in a private directory, each named by the SHA-256 of its own bytes.

A run holds its copies by a locked file; the kernel frees the lock however the run ends. Copies
that no hold names any more go with the next sweep after the retention time.
"""

import contextlib
import ctypes
import fcntl
import hashlib
import os
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path

CHUNK = 256 * 1024
"""Bytes per read when hashing; larger ones fall out of the processor's cache."""
COPY_CHUNK = 8 * 2**20
_LIBC = ctypes.CDLL(None, use_errno=True)
_NEVER = 0.0
"""The time of change of a hold that was not released."""

Step = Callable[[int], None]
"""Called with the bytes just handled: to show progress, and to give up by an exception."""


class Unreadable(Exception):
    """The source, not the store, could not be read; its cause says why."""


class Hold:
    """Keeps the copies of one run from being swept; ``release`` starts the retention time.

    Args:
        descriptor: a locked file, whose time of change is the time of the release; -1 when
            there is nothing to keep.
    """

    def __init__(self, descriptor: int = -1) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> "Hold":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Let the copies go, the retention time from now."""
        if self._descriptor >= 0:
            # Without its mark the hold counts as that of a killed run, and is kept for longer.
            with contextlib.suppress(OSError):
                os.utime(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1


class Blobs:
    """The frozen copies below one directory of mode 0700."""

    def __init__(self, directory: Path) -> None:
        self._blobs = directory / "blobs"
        self._incoming = directory / "incoming"
        self._holds = directory / "holds"
        for made in (self._blobs, self._incoming, self._holds):
            made.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = directory / "blobs.lock"

    def path(self, sha256: str) -> Path:
        """Give where the copy with this digest lies, or would lie."""
        return self._blobs / sha256[:2] / sha256

    @contextlib.contextmanager
    def freezing(self) -> Iterator["Incoming"]:
        """Take copies in: all of them are kept under a hold in the end, or none stays.

        Sweeps are kept away from the first copy until the hold that names it.
        """
        with self._locked(fcntl.LOCK_SH):
            incoming = Incoming(self, self._incoming, self._holds)
            try:
                yield incoming
            finally:
                incoming.discard()

    def sweep(self, retention: float) -> int:
        """Remove what no run needs and no retention time keeps.

        Args:
            retention: seconds that copies stay after the last run that held them.
        Returns:
            how many copies went. 0 as well when another process is freezing right now.
        """
        try:
            with self._locked(fcntl.LOCK_EX | fcntl.LOCK_NB):
                for unfinished in self._incoming.iterdir():
                    unfinished.unlink(missing_ok=True)
                return self._sweep(retention)
        except BlockingIOError:
            return 0

    def _sweep(self, retention: float) -> int:
        kept: set[str] = set()
        for hold in self._holds.iterdir():
            if self._is_over(hold, retention):
                hold.unlink(missing_ok=True)
            else:
                kept |= set(hold.read_text("ascii", "replace").split())
        gone = 0
        for blob in self._blobs.glob("??/*"):
            if blob.name not in kept and blob.is_file():
                blob.unlink(missing_ok=True)
                gone += 1
        return gone

    def _is_over(self, hold: Path, retention: float) -> bool:
        descriptor = os.open(hold, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        else:
            now, released = time.time(), os.fstat(descriptor).st_mtime
            if not _NEVER < released <= now:
                # Its executor was killed, or the clock was set back: the time counts from now.
                os.utime(descriptor, (now, now))
                released = now
            return now - released >= retention
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, how)
            yield
        finally:
            os.close(descriptor)


class Incoming:
    """Copies on their way in, none of them in its place yet."""

    def __init__(self, blobs: Blobs, directory: Path, holds: Path) -> None:
        self._blobs = blobs
        self._directory = directory
        self._holds = holds
        self._copies: dict[Path, str] = {}

    def put(
        self, source: int, size: int, step: Step, look: Callable[[bytes], None] | None = None
    ) -> tuple[str, int]:
        """Copy an open file in, and name the copy by its own bytes.

        Args:
            look: shown every byte of the copy, in order.
        Returns:
            the SHA-256 in hex and the size of the copy.
        Raises:
            OSError: the disk is full, or what else the system said of the store.
            Unreadable: the source could not be read.
        """
        temporary = self._directory / secrets.token_hex(16)
        self._copies[temporary] = ""
        copy = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400)
        try:
            copied = _copy(source, copy, size, step)
            self._copies[temporary] = hash_descriptor(copy, step, look)
        finally:
            os.close(copy)
        return self._copies[temporary], copied

    def keep(self, name: str) -> Hold:
        """Keep the copies, and make them and the hold durable with one sync for the whole set."""
        path = self._holds / name
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            digests = sorted(set(self._copies.values()))
            os.write(descriptor, "".join(f"{digest}\n" for digest in digests).encode())
            os.utime(descriptor, (_NEVER, _NEVER))
            for temporary, sha256 in self._copies.items():
                final = self._blobs.path(sha256)
                final.parent.mkdir(mode=0o700, exist_ok=True)
                # An equal copy that is there already is replaced: whatever became of it, these
                # bytes are the ones that were hashed.
                temporary.rename(final)
            _sync_file_system(descriptor)
        except BaseException:
            os.close(descriptor)
            path.unlink(missing_ok=True)
            raise
        self._copies.clear()
        return Hold(descriptor)

    def discard(self) -> None:
        """Remove what was not kept."""
        for temporary in self._copies:
            temporary.unlink(missing_ok=True)


def hash_descriptor(
    descriptor: int, step: Step, look: Callable[[bytes], None] | None = None
) -> str:
    """Give the SHA-256, in hex, of all bytes behind a descriptor, in constant memory."""
    hashed = hashlib.sha256()
    buffer = memoryview(bytearray(CHUNK))
    position = 0
    while count := os.preadv(descriptor, [buffer], position):
        hashed.update(buffer[:count])
        if look is not None:
            look(bytes(buffer[:count]))
        position += count
        step(count)
    return hashed.hexdigest()


def _copy(source: int, copy: int, size: int, step: Step) -> int:
    """Copy up to one byte more than ``size``, so that growth shows."""
    copied = 0
    in_kernel = True
    while copied <= size:
        wanted = min(COPY_CHUNK, size + 1 - copied)
        if in_kernel:
            try:
                count = os.copy_file_range(source, copy, wanted, copied, copied)
            except OSError:
                in_kernel = False  # by hand it shows whether this is so, and whose fault it is
                continue
            if not count and not copied:
                in_kernel = False  # some file systems answer 0 where they cannot
                continue
        else:
            try:
                block = os.pread(source, min(wanted, CHUNK), copied)
            except OSError as failed:
                raise Unreadable from failed
            count = len(block)
            written = 0
            while written < count:
                written += os.pwrite(copy, block[written:], copied + written)
        if not count:
            break
        copied += count
        step(count)
    return copied


def _sync_file_system(descriptor: int) -> None:
    if _LIBC.syncfs(descriptor) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"the store could not be synced: {os.strerror(error)}")
