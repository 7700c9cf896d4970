"""Talk: a peer as a process, and the protocol spoken to it by hand, line by line."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from executor.testing.house import House

PEERS = Path(__file__).parents[2] / "tools" / "peers"
PATIENCE_S = 60.0


class Peer:
    """One process of a peer. ``told`` holds its notifications."""

    def __init__(self, name: str, home: House) -> None:
        self.home = home
        self.told: list[dict[str, Any]] = []
        self._answers: dict[int, dict[str, Any]] = {}
        self._number = 0
        self.process = subprocess.Popen(
            [sys.executable, str(PEERS / f"{name}.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        # A peer that keeps quiet for ever ends the test, not the patience of whoever waits for it.
        self._watchdog = threading.Timer(PATIENCE_S, self.process.kill)
        self._watchdog.start()

    def ask(self, method: str, **params: Any) -> int:
        """Ask, and give the number under which it will be answered."""
        self._number += 1
        asked = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asked).encode() + b"\n")
        self.process.stdin.flush()
        return self._number

    def answer(self, number: int) -> dict[str, Any]:
        """Wait for an answer and give the whole message."""
        while number not in self._answers:
            self._read()
        return self._answers.pop(number)

    def call(self, method: str, **params: Any) -> Any:
        """Ask for something that the peer can do, and give its result."""
        return self.answer(self.ask(method, **params))["result"]

    def until_held(self) -> dict[str, Any]:
        """Wait until a run is held and give what was told."""
        while not self.told:
            self._read()
        return self.told.pop(0)

    def open(self) -> Any:
        """Open it on its house."""
        return self.call(
            "open",
            state=str(self.home.state),
            roots=[str(self.home.root)],
            manifests=[str(self.home.manifests)],
            trusted=[str(self.home.bin), *self.home.interpreter_directories()],
            config=str(self.home.config) if self.home.config.exists() else None,
        )

    def start(self, run: str = "one", *, pause: str | None = None, **request: Any) -> int:
        """Ask for an action and give the number under which it will be answered."""
        whole = {"tool": "test.post", "asked_by": {"role": "tester"}, **request}
        return self.ask("run", run=run, request=whole, pause=pause)

    def run(self, **request: Any) -> Any:
        """Run an action to its end."""
        return self.answer(self.start(**request))["result"]

    def end(self) -> int:
        """Close its stdin and give its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait()

    def below(self) -> list[psutil.Process]:
        """Give the processes that it started."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def leave(self) -> None:
        """Kill it and whatever is left of it."""
        left = self.below() if self.process.poll() is None else []
        self.process.kill()
        for one in left:
            if one.is_running():
                one.kill()
        self._watchdog.cancel()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the peer ended, or kept quiet for too long"
        message = json.loads(line)
        if "id" in message:
            self._answers[message["id"]] = message
        else:
            self.told.append(message)


@contextmanager
def talking(name: str, home: House) -> Iterator[Peer]:
    """Start a peer, open it, and leave nothing of it."""
    peer = Peer(name, home)
    try:
        peer.open()
        yield peer
    finally:
        peer.leave()


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds in the world outside."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)
