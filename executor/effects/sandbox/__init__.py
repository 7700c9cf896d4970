"""Sandbox: the levels of isolation, each behind the same few calls."""

from dataclasses import dataclass
from typing import Protocol

from executor.effects.verifying import Verified
from executor.finished import End
from executor.manifest import IsolationLevel


@dataclass(frozen=True, slots=True)
class Streams:
    """The descriptors that become the command's 0, 1 and 2."""

    stdin: int
    stdout: int
    stderr: int


@dataclass(frozen=True, slots=True)
class Ended:
    """How the command itself ended; processes that it left behind may still run."""

    end: End
    exit: int | None = None
    signal: int | None = None
    detail: str = ""
    passing: bool = False
    """It failed for want of something that may be there the next time."""


class Running(Protocol):
    """A command that was started, with all its descendants."""

    async def wait(self) -> Ended:
        """Wait for the end of the command itself. May be called again."""

    def signal(self, number: int) -> None:
        """Send a signal to the command and every descendant."""

    async def end(self) -> int:
        """End everything, wait until it is gone, and give how many processes were left."""


class Sandbox(Protocol):
    """One level of isolation."""

    level: IsolationLevel

    async def start(self, verified: Verified, streams: Streams) -> Running | Ended:
        """Start the command; an ``Ended`` proves that it was not started.

        Cancelling this leaves nothing behind and nothing started.
        """
