"""Finished: how a command ended, as facts; what they mean is judged in `rules/outcomes.py`."""

import hashlib
import re
from typing import Literal

import msgspec

End = Literal[
    "exited",  # by itself, with an exit code
    "signalled",  # by a signal that was not ours
    "timed-out",  # the deadline passed and the tree was ended
    "cancelled",  # the caller or the executor gave up and the tree was ended
    "not-started",  # proven: the system did not start the command
    "given-up",  # proven: the caller gave up while the sandbox was set up
    "sandbox-failed",  # proven: the sandbox could not be set up, the command never started
    "fault",  # the executor itself failed while it ran: nothing is known
    "lost",  # the sandbox was ended from outside: nothing is known
]


class Output(msgspec.Struct, frozen=True):
    """What was kept of one stream, and how many bytes it had in all."""

    kept: bytes = b""
    total: int = 0
    truncated: bool = False
    """Bytes beyond the limit were read and thrown away."""

    @property
    def text(self) -> str:
        """The kept bytes as text; what is not UTF-8 becomes lone surrogates and can go back."""
        return self.kept.decode("utf-8", "surrogateescape")

    @property
    def sha256(self) -> str:
        """SHA-256, in hex, of the kept bytes."""
        return hashlib.sha256(self.kept).hexdigest()


class Finished(msgspec.Struct, frozen=True):
    """How a command ended.

    ``leftovers`` counts processes that it left behind and that were ended; ``detail`` is what the
    sandbox or the system said; ``seconds`` is the time from start to the end of the whole tree.
    """

    end: End
    exit: int | None = None
    signal: int | None = None
    stdout: Output = Output()
    stderr: Output = Output()
    leftovers: int = 0
    detail: str = ""
    seconds: float = 0.0
    passing: bool = False
    """It failed for want of something that may be there the next time."""


def printable(text: str) -> str:
    """Give a text that can be printed and stored: a byte that is not UTF-8 becomes ``\\xff``."""
    return re.sub("[\ud800-\udfff]", _escaped, text)


def _escaped(surrogate: re.Match[str]) -> str:
    number = ord(surrogate[0])
    return f"\\x{number - 0xDC00:02x}" if 0xDC80 <= number <= 0xDCFF else f"\\u{number:04x}"
