"""Streams: pipes that are kept up to a limit and drained beyond it, so that no writer blocks."""

import fcntl
import os
from dataclasses import dataclass, field

import trio

CHUNK = 64 * 1024


@dataclass
class Stream:
    """What a process writes: kept up to a limit, read to its end."""

    most: int
    near: int
    far: int
    kept: bytearray = field(default_factory=bytearray)
    total: int = 0
    at_end: bool = False

    @classmethod
    def open(cls, most: int) -> "Stream":
        """Open a pipe for one stream."""
        near, far = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(near, False)
        return cls(most, near, far)

    async def drain(self) -> None:
        """Read as long as anybody can write."""
        while not self.at_end:
            await trio.lowlevel.wait_readable(self.near)
            self._read()

    def sweep(self) -> None:
        """Take what lies in the pipe, and no more: a writer that got away cannot hold us."""
        for _ in range(fcntl.fcntl(self.near, fcntl.F_GETPIPE_SZ) // CHUNK + 1):
            if self.at_end or not self._read():
                return

    def _read(self) -> int:
        try:
            block = os.read(self.near, CHUNK)
        except BlockingIOError:
            return 0
        self.at_end = not block
        self.total += len(block)
        self.kept += block[: self.most - len(self.kept)]
        return len(block)

    @property
    def truncated(self) -> bool:
        """Bytes beyond the limit were read and thrown away."""
        return self.total > len(self.kept)

    def close_far(self) -> None:
        """Close the command's end, once it has its own."""
        if self.far >= 0:
            os.close(self.far)
            self.far = -1

    def close(self) -> None:
        """Close both ends."""
        self.close_far()
        os.close(self.near)

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
