"""Crew: the copies of a project in which its tests run side by side, and taking turns at them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import trio

from executor.testing.mutation.edits import NO_OP, break_all
from executor.testing.mutation.judging import Judgement
from executor.testing.mutation.settings import Settings
from executor.testing.mutation.slot import Answer, Kind, Slot, WorkerGone, open_slot
from executor.testing.mutation.verdicts import Subject, Told, Verdict
from executor.testing.workplaces import workplace

_PREFIX = "executor-mutants-"
S = TypeVar("S", bound=Subject)


@dataclass(slots=True)
class Crew:
    """The slots, each for one mutant at a time."""

    slots: Sequence[Slot]
    free: trio.MemorySendChannel[Slot] = field(init=False)
    taking: trio.MemoryReceiveChannel[Slot] = field(init=False)
    turn: trio.Lock = field(default_factory=trio.Lock)

    def __post_init__(self) -> None:
        self.free, self.taking = trio.open_memory_channel[Slot](len(self.slots))
        for slot in self.slots:
            self.free.send_nowait(slot)

    @property
    def collected(self) -> frozenset[str]:
        """The ids of all tests."""
        return self.slots[0].collected

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[Slot]:
        """Take a slot that is free."""
        slot = await self.taking.receive()
        try:
            yield slot
        finally:
            self.free.send_nowait(slot)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[Slot]:
        """Take all of them, so that nothing runs beside."""
        async with self.turn:  # two that wait for all of them would wait for ever
            taken = [await self.taking.receive() for _ in self.slots]
        try:
            yield taken[0]
        finally:
            for slot in taken:
                self.free.send_nowait(slot)


@asynccontextmanager
async def open_crew(
    top: Path,
    settings: Settings,
    jobs: int,
    prepare: Callable[[Slot], None] = lambda _: None,
) -> AsyncIterator[Crew]:
    """Make so many copies of the project at ``top``, each with its tests collected.

    Args:
        prepare: is given each slot before anything of its copy is imported.
    Raises:
        WorkerGone: the tests cannot be collected.
    """
    async with AsyncExitStack() as stack:
        home = stack.enter_context(workplace(_PREFIX))
        opened = [
            open_slot(
                top, home / f"slot-{number}", tests=settings.tests, roots=settings.imports,
                leave_out=settings.leave_out, memory=int(settings.memory), prepare=prepare,
            )
            for number in range(jobs)
        ]  # fmt: skip
        yield Crew([await stack.enter_async_context(one) for one in opened])


async def side_by_side(
    mutants: Sequence[S], verdict: Callable[[S], Awaitable[Verdict]], told: Told
) -> tuple[Verdict, ...]:
    """Find out what becomes of mutants, as many at a time as there are slots; in their order."""
    verdicts: dict[int, Verdict] = {}

    async def one(number: int, mutant: S) -> None:
        verdicts[number] = await verdict(mutant)
        told(verdicts[number])

    async with trio.open_nursery() as nursery:
        for number, mutant in enumerate(mutants):
            nursery.start_soon(one, number, mutant)
    return tuple(verdicts[number] for number in range(len(mutants)))


async def blind(
    name: str, source: str, attempt: Callable[[dict[str, str]], Awaitable[Judgement]]
) -> str:
    """See a no-op live and an edit that breaks everything die, on the way that mutants take.

    Args:
        name: of the file that is edited, whose text is ``source``.
        attempt: runs some tests over files with other texts.
    Returns:
        why a run on that way would mean nothing; empty where it would mean something.
    """
    lived = await attempt({name: source + NO_OP})
    if lived.word != "survived":
        return f"a no-op is {lived.word}: {lived.why or lived.killers}"
    died = await attempt({name: break_all(source)})
    if died.word != "killed":
        return f"an edit that breaks all of {name} is {died.word}: {died.why}"
    return ""


async def ask(
    slot: Slot,
    names: Sequence[str],
    seconds: float,
    texts: Mapping[str, str] | None = None,
    *,
    fresh: bool = False,
    first_red: bool = False,
) -> Answer:
    """Run tests in a slot; a worker that ends by itself is an answer too."""
    kind: Kind = "fresh" if fresh else "collected"
    try:
        return await slot.run(kind, names, seconds, changed=texts, first_red=first_red)
    except WorkerGone:
        return Answer({}, ("the process that runs its tests ended by itself",), 70, False, 0.0, 0)
