"""Slot: one copy of the project, and the workers that run its tests. One child at a time."""

import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec
import trio

from executor.testing.mutation import tree

Kind = Literal["collected", "fresh"]
_WORKER = Path(__file__).parent / "worker.py"
_BLOCK = 65536
FRESH_S = 20.0
"""What a child that imports everything anew may take beside its tests."""


class Item(msgspec.Struct, frozen=True):
    """What came of one test item."""

    outcome: Literal["passed", "failed", "skipped", "unfinished"]
    when: Literal["setup", "call", "teardown"] | None = None
    seconds: float = 0.0
    text: str = ""
    causes: tuple[str, ...] = ()
    """The built-in types, and those of pytest, that what it raised is of."""


class Answer(msgspec.Struct, frozen=True):
    """What came of one child.

    ``exit`` is its own code, negative for a signal; ``pytest`` that of pytest. ``swapped`` counts
    the functions with new code, where that was tried. ``read`` says whether the file was read.
    """

    items: dict[str, Item]
    broken: tuple[str, ...]
    exit: int
    late: bool
    seconds: float
    peak: int
    read: bool | None = None
    pytest: int | None = None
    swapped: int | None = None
    modules: tuple[str, ...] = ()


class _Collected(msgspec.Struct, frozen=True):
    collected: tuple[str, ...]
    broken: tuple[str, ...]


class WorkerGone(Exception):
    """A worker ended by itself: the copy cannot even be collected, or it was killed."""


class _Worker:
    def __init__(self, wire: trio.SocketStream, process: "subprocess.Popen[bytes]") -> None:
        self._wire = wire
        self._process = process
        self._heard = b""

    async def line(self) -> bytes:
        while b"\n" not in self._heard:
            block = await self._wire.receive_some(_BLOCK)
            if not block:
                raise WorkerGone
            self._heard += block
        line, _, self._heard = self._heard.partition(b"\n")
        return line

    async def ask(self, **asked: Any) -> bytes:
        try:
            await self._wire.send_all(msgspec.json.encode(asked) + b"\n")
            return await self.line()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise WorkerGone from None

    def end(self) -> None:
        self._wire.socket.close()
        self._process.kill()
        self._process.wait()


class Slot:
    """A copy below ``home``. Get one from `open_slot`."""

    def __init__(self, home: Path, tests: Sequence[str], roots: Sequence[str], memory: int) -> None:
        self.home = home
        self.top = home / "tree"
        self.current = home / "current"
        """Holds the number of the item that runs, while items are traced."""
        self._log = home / "log"
        self._tests = tests
        self._roots = roots
        self._memory = memory
        self._workers: dict[Kind, _Worker] = {}
        self._foreign: tuple[str, ...] | None = None
        self.collected: frozenset[str] = frozenset()

    async def collect(self) -> None:
        """Collect the tests, so that children have them already.

        Raises:
            WorkerGone: that cannot be done; with what was written instead.
        """
        self._workers["collected"] = worker = await self._start("collected")
        try:
            said = msgspec.json.decode(await worker.line(), type=_Collected)
        except WorkerGone:
            raise WorkerGone(self.output()) from None
        if said.broken:
            raise WorkerGone("\n".join(said.broken))
        self.collected = frozenset(said.collected)

    async def run(
        self,
        kind: Kind,
        ids: Sequence[str],
        seconds: float,
        *,
        changed: Mapping[str, str] | None = None,
        cold: bool = False,
        first_red: bool = False,
        numbers: Mapping[str, int] | None = None,
    ) -> Answer:
        """Run tests in a child, over some files with other texts.

        Args:
            ids: of test items, as pytest takes them.
            seconds: after so long the child is killed.
            changed: the new text of files, by their path in the copy; put back afterwards.
            cold: by a worker of its own, which has imported nothing.
            first_red: stop at the first item that fails.
            numbers: by which `tracing` knows the items; each then runs as if it were alone.
        """
        if kind == "collected" and kind not in self._workers:
            await self.collect()
        if kind == "fresh" and not cold and "fresh" not in self._workers:
            self._workers["fresh"] = await self._start_fresh(ids)
        pristine = {name: (self.top / name).read_bytes() for name in changed or {}}
        try:
            for name, text in (changed or {}).items():
                tree.forget_compiled(self.top / name)
                (self.top / name).write_text(text, encoding="utf-8")
            asked: dict[str, Any] = {"do": "run", "ids": list(ids), "seconds": seconds}
            asked |= {"output": str(self._log), "memory": self._memory, "first_red": first_red}
            if numbers is not None:
                asked |= {"numbers": numbers, "current": str(self.current)}
            if changed:
                [name, *more] = changed
                asked["file"] = str(self.top / name)
                if kind == "collected" and name.endswith(".py"):
                    asked["pristine"] = pristine[name].decode()
                if more and kind == "collected":
                    asked["pristine"] = ""  # several files: only a fresh import is the whole edit
            self._log.write_bytes(b"")
            if kind == "fresh":
                asked["seconds"] += FRESH_S
            answer = await self._ask(kind, asked, cold)
            return msgspec.json.decode(answer, type=Answer)
        finally:
            for name, before in pristine.items():
                tree.forget_compiled(self.top / name)
                (self.top / name).write_bytes(before)

    async def _ask(self, kind: Kind, asked: dict[str, Any], cold: bool) -> bytes:
        if cold:
            worker = await self._start("fresh")
            try:
                return await worker.ask(**asked)
            finally:
                worker.end()
        try:
            return await self._workers[kind].ask(**asked)
        except WorkerGone:
            self._workers.pop(kind).end()
            raise

    async def _start_fresh(self, ids: Sequence[str]) -> _Worker:
        """Start a worker that has imported all that a child would import, but for the copy."""
        worker = await self._start("fresh")
        if self._foreign is None:
            answer = await worker.ask(
                do="run", ids=[ids[0], "--collect-only"], seconds=120, output=str(self._log),
                modules=True, write_bytecode=True,
            )  # fmt: skip
            self._foreign = msgspec.json.decode(answer, type=Answer).modules
        await worker.ask(do="import", modules=self._foreign)
        return worker

    async def _start(self, kind: Kind) -> _Worker:
        ours, theirs = socket.socketpair()
        roots = [str(self.top / root) for root in self._roots if (self.top / root).is_dir()]
        arguments = list(self._tests) if kind == "collected" else []
        with theirs, self._log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, str(_WORKER), kind, str(theirs.fileno()), *arguments],
                cwd=self.top,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(roots), "EXECUTOR_MUTANT": "1"},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return _Worker(trio.SocketStream(trio.socket.from_stdlib_socket(ours)), process)

    def output(self) -> str:
        """Give what the last child wrote."""
        return self._log.read_text(errors="backslashreplace") if self._log.exists() else ""

    def end(self) -> None:
        """End its workers, and with them their children."""
        for worker in self._workers.values():
            worker.end()
        self._workers.clear()


@asynccontextmanager
async def open_slot(
    top: Path,
    home: Path,
    *,
    tests: Sequence[str],
    roots: Sequence[str],
    leave_out: Sequence[str],
    memory: int,
    prepare: Callable[["Slot"], None] = lambda _: None,
) -> AsyncIterator[Slot]:
    """Copy the project below ``home`` and collect its tests.

    Args:
        prepare: is given the slot before anything of its copy is imported.
    """
    home.mkdir()
    slot = Slot(home, tests, roots, memory)
    await trio.to_thread.run_sync(tree.copy, top, slot.top, leave_out)
    prepare(slot)
    try:
        await slot.collect()
        yield slot
    finally:
        slot.end()
