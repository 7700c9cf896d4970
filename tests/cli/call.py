"""Call: the real command line, as a process of its own, in the house of a test."""

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.house import House

PATIENCE_S = 60.0  # only ever spent by a test that fails
TOP = Path(__file__).resolve().parents[2]
MOMENTS = Path(__file__).parent / "moments"
CONTRACT = {
    *("status", "code", "stage", "recovery", "result_id", "attempt", "action_digest", "receipt"),
    *("isolation", "rule", "because", "todo", "reply", "ledger", "earlier", "output"),
}


@dataclass
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    def result(self) -> dict[str, Any]:
        """Give the result that ``--json`` promises: one object, all of its keys, nothing else."""
        assert self.out.endswith("\n"), self
        assert self.out.count("\n") == 1, self
        found: dict[str, Any] = json.loads(self.out)
        assert set(found) == CONTRACT
        assert "Traceback" not in self.err
        return found


@dataclass
class Cli:
    """The command line with a house's directories. ``mark`` stands in the fake's arguments."""

    house: House
    mark: str = field(default_factory=lambda: f"mark-{uuid.uuid4().hex}")
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.house.home),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(TOP),
        }
        if "CI" in os.environ:
            self.env["CI"] = os.environ["CI"]

    @property
    def where(self) -> list[str]:
        """The options that name the house's directories."""
        trusted = [str(self.house.bin), *self.house.interpreter_directories()]
        return [
            *("--state", str(self.house.state), "--manifest", str(self.house.manifests)),
            *("--root", str(self.house.root)),
            *(word for path in trusted for word in ("--trusted", path)),
        ]

    def fake(self, plan: dict[str, Any] | None = None, *words: str) -> list[str]:
        """The words that run ``test.fake`` with a plan; another action each time.

        The same words run again ask for the same action again.
        """
        if not any(self.house.manifests.iterdir()):
            self.house.manifest()
        turn = self.house.turn()
        return [
            *("run", "test.fake", "-p", f"plan={json.dumps(plan or {})}", "-p"),
            *(f"words={self.mark}", *self.where, *words),
            *(word for name, text in turn.items() for word in ("-p", f"{name}={text}")),
        ]

    def __call__(self, *words: str, moment: dict[str, Any] | None = None, **how: Any) -> Done:
        """Run it to its end."""
        with self.start(*words, moment=moment, **how) as process:
            return finish(process)

    def start(
        self, *words: str, moment: dict[str, Any] | None = None, **how: Any
    ) -> "subprocess.Popen[str]":
        """Start it.

        Args:
            moment: ``event`` and ``about`` name an audit event of the interpreter, ``at`` which
                of them, counted from one that mentions ``after``; then ``signal`` comes, or
                ``raise`` is raised.
        """
        env = self.env | how.pop("env", {})
        if moment is not None:
            env["PYTHONPATH"] = f"{MOMENTS}:{env['PYTHONPATH']}"
            env["EXECUTOR_TEST_MOMENT"] = json.dumps({"at": [1]} | moment)
        program = how.pop("program", [sys.executable, "-m", "executor"])
        streams = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
        }
        return subprocess.Popen(
            [*program, *words],
            **{**streams, "cwd": self.house.root, "text": True, **how},
            env=env,
        )

    def through_shell(self, redirections: str) -> list[str]:
        """A program that starts the command line with streams closed or redirected."""
        return ["sh", "-c", f'exec "$@" {redirections}', "sh", sys.executable, "-m", "executor"]

    def receipts(self) -> list[dict[str, Any]]:
        """What is on record, in the order of time."""
        paths = sorted((self.house.state / "receipts").glob("*.json"))
        return [json.loads(path.read_text())["predicate"] for path in paths]

    def processes(self) -> list[int]:
        """Every living process that carries the mark in its arguments, but for the executor."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = path.read_bytes().split(b"\0")
                if any(self.mark.encode() in word for word in words) and b"--state" not in words:
                    found.append(int(path.parent.name))
        return found

    def nothing_is_left(self) -> None:
        """Neither a process nor a staging area nor a half-made copy is left."""
        until(lambda: not self.processes(), "the end of every process of the run")
        assert self.house.leftovers() == []
        incoming = self.house.state / "incoming"
        assert not incoming.exists() or list(incoming.iterdir()) == []


def finish(process: "subprocess.Popen[str]") -> Done:
    """Wait for the end."""
    out, err = process.communicate(timeout=PATIENCE_S)
    return Done(process.returncode, out or "", err or "")


def until(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"never seen: {what}"
        time.sleep(0.005)


@contextlib.contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    """A terminal: our side, and the program's."""
    ours, theirs = pty.openpty()
    try:
        yield ours, theirs
    finally:
        for descriptor in (ours, theirs):
            with contextlib.suppress(OSError):
                os.close(descriptor)


def read_terminal(ours: int, theirs: int, process: "subprocess.Popen[Any]") -> str:
    """Everything that a program writes to its terminal, to its end."""
    os.close(theirs)
    got = b""
    while True:
        ready, _, _ = select.select([ours], [], [], PATIENCE_S)
        assert ready, f"nothing more, and no end, after {got!r}"
        try:
            block = os.read(ours, 65536)
        except OSError:  # EIO: the last one has closed it
            break
        if not block:
            break
        got += block
    process.wait(PATIENCE_S)
    return got.decode()


def interrupt(process: "subprocess.Popen[Any]", number: int = signal.SIGTERM) -> None:
    """Send a signal."""
    process.send_signal(number)
