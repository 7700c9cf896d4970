"""Target: an implementation under test, as a process that speaks JSON-RPC over stdin and stdout.

docs/targets.md is the protocol. What is told here is what the target said; whether it is right is
for the expectations.
"""

import json
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import psutil
import trio

from executor.testing.warm import Pids, Warm

PROTOCOL = "target/1"
_METHOD_NOT_FOUND = -32601
_LONGEST_LINE = 64 * 2**20
_BLOCK = 65536
_WORDS_SHOWN = 2000
_LOOK_AGAIN_S = 0.001


class Unsupported(Exception):
    """The target cannot do what the scenario asks; nothing is known of the rule."""


class Broken(Exception):
    """The harness or the target failed, so that nothing is known of the rule."""


class Gone(Exception):
    """The target ended before it answered."""


class _Hello(msgspec.Struct, frozen=True):
    name: str
    can: list[str]
    version: str = ""


@dataclass(slots=True, eq=False)
class _Waiting:
    done: trio.Event = field(default_factory=trio.Event)
    message: dict[str, Any] | None = None


class Target:
    """One process of a target. Get one from `start`; `serve` reads what it says."""

    def __init__(self, pids: Pids, wire: trio.SocketStream, errors: Path) -> None:
        self.pids = pids
        self.errors = errors
        self.can: frozenset[str] = frozenset()
        self.name = ""
        self.opened: dict[str, Any] | None = None
        self.heard: Callable[[str, dict[str, Any]], None] = lambda *_: None
        self.gone = trio.Event()
        self._fault: Broken | None = None
        self._wire = wire
        self._waiting: dict[int, _Waiting] = {}
        self._number = 0
        self._sending = trio.Lock()
        self._process = _process(pids.target)
        self._supervisor = _process(pids.supervisor)

    # -- talking ------------------------------------------------------------------------------

    async def hello(self) -> None:
        """Ask who it is and what it can do."""
        said = await self.call("hello", protocol=PROTOCOL)
        try:
            hello = msgspec.convert(said, _Hello)
        except msgspec.ValidationError as slip:
            raise Broken(f"its answer to 'hello': {slip}{self.last_words()}") from None
        self.name = f"{hello.name} {hello.version}".strip()
        self.can = frozenset(hello.can)

    def needs(self, *abilities: str) -> None:
        """Go on only if it can do all of this.

        Raises:
            Unsupported: it cannot.
        """
        for ability in abilities:
            if ability not in self.can:
                raise Unsupported(f"{self.name} cannot do {ability!r}")

    async def call(self, method: str, **params: Any) -> Any:
        """Ask for one thing and wait for the answer.

        Raises:
            Unsupported: it does not know the method.
            Gone: it ended first.
            Broken: it says that it failed.
        """
        if self.gone.is_set():
            raise self._fault or Gone(f"it had ended before it was asked {method!r}")
        self._number += 1
        number, waiting = self._number, _Waiting()
        self._waiting[number] = waiting
        asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        try:
            async with self._sending:
                await self._wire.send_all(json.dumps(asked).encode() + b"\n")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._end()
        await waiting.done.wait()
        if self._fault is not None:
            raise self._fault
        if waiting.message is None:
            raise Gone(f"it ended before it answered {method!r}{self.last_words()}")
        if "error" in waiting.message:
            raise self._refused(method, waiting.message["error"])
        return waiting.message.get("result")

    def _refused(self, method: str, error: Any) -> Exception:
        if not isinstance(error, dict):
            return Broken(f"{method!r} failed: {error!r}{self.last_words()}")
        if error.get("code") == _METHOD_NOT_FOUND and method not in self.can:
            return Unsupported(f"{self.name} does not know {method!r}")
        return Broken(f"{method!r} failed: {error.get('message')}{self.last_words()}")

    async def serve(self) -> None:
        """Take in what it says until it has ended. A fault of it is told by `call`."""
        line = bytearray()
        try:
            while block := await self._wire.receive_some(_BLOCK):
                line += block
                while (end := line.find(b"\n")) >= 0:
                    self._take(bytes(line[:end]))
                    del line[: end + 1]
                if len(line) > _LONGEST_LINE:
                    raise Broken(f"a line of more than {_LONGEST_LINE} bytes")
        except Broken as fault:
            self._fault = fault
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self._end()

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
            if not isinstance(message, dict):
                raise TypeError
        except (ValueError, TypeError, RecursionError):
            raise Broken(f"no JSON-RPC: {line[:200]!r}{self.last_words()}") from None
        number, params = message.get("id"), message.get("params", {})
        if number is None and "method" in message:
            if isinstance(params, dict):
                self.heard(message["method"], params)
        elif isinstance(number, int) and (waiting := self._waiting.pop(number, None)):
            waiting.message = message
            waiting.done.set()
        else:
            raise Broken(f"an answer to nothing: {line[:200]!r}")

    def _end(self) -> None:
        self.gone.set()
        for waiting in self._waiting.values():
            waiting.done.set()
        self._waiting.clear()

    def last_words(self) -> str:
        """Give the end of what it wrote to stderr."""
        with suppress(OSError):
            with self.errors.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _WORDS_SHOWN))
                text = file.read(_WORDS_SHOWN).decode("utf-8", "backslashreplace").strip()
            if text:
                return f"; its last words: {text}"
        return ""

    # -- its process --------------------------------------------------------------------------

    def left(self) -> list[psutil.Process]:
        """Give the processes below its supervisor, without itself.

        Raises:
            Broken: the supervisor has gone before it, so that nobody knows what it left.
        """
        if self._supervisor is None or not _lives(self._supervisor):
            if self._process is not None and _lives(self._process):
                raise Broken(f"the process above {self.name} has gone, and what was left with it")
            return []
        try:
            below = self._supervisor.children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [one for one in below if one.pid != self.pids.target and _lives(one)]

    def signal(self, number: int) -> None:
        """Send it a signal."""
        if self._process is not None:
            with suppress(psutil.NoSuchProcess):
                self._process.send_signal(number)

    def is_stopped(self) -> bool:
        """Say whether it stands still by a signal."""
        return self._process is not None and self._process.status() == psutil.STATUS_STOPPED

    async def kill(self) -> None:
        """Kill it, and it alone, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        await self.gone.wait()
        # Its locks are freed after its streams are closed.
        while self._process is not None and self._process.is_running():  # noqa: ASYNC110 - no event
            await trio.sleep(_LOOK_AGAIN_S)

    async def ended(self) -> None:
        """Wait until it has ended; what it left may hold its streams open for longer."""
        while (  # noqa: ASYNC110 - no event tells it
            not self.gone.is_set() and self._process is not None and _lives(self._process)
        ):
            await trio.sleep(_LOOK_AGAIN_S)

    def end(self) -> None:
        """Kill it and all that it left."""
        self._wire.socket.close()
        left: list[psutil.Process] = []
        with suppress(Broken):
            left = self.left()
        for one in (*left, self._process, self._supervisor):
            if one is not None:
                with suppress(psutil.NoSuchProcess):
                    one.kill()


def start(
    warm: Warm,
    directory: Path,
    errors: Path,
    command: Sequence[str] | None = None,
    environment: dict[str, str] | None = None,
    *,
    held: Path | None = None,
    terminal: str | None = None,
) -> Target:
    """Start a process of a target.

    Args:
        held: a file that it has open as descriptor 3.
        terminal: the path of its controlling terminal; otherwise it has none.
    """
    ours, theirs = socket.socketpair()  # theirs blocks, as the streams of a program do
    with ExitStack() as opened:
        opened.enter_context(theirs)
        log = opened.enter_context(errors.open("ab"))
        streams = [theirs.fileno(), theirs.fileno(), log.fileno()]
        if held is not None:
            streams.append(opened.enter_context(held.open("rb")).fileno())
        pids = warm.start(streams, str(directory), command, environment, terminal)
    return Target(pids, trio.SocketStream(trio.socket.from_stdlib_socket(ours)), errors)


def _process(pid: int) -> psutil.Process | None:
    """Give a process in a way that never means another one of the same number."""
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        return None


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
