"""Running: all mutants of a project, with their controls, and the proof that a verdict means it.

In this order: copies; the controls, which must be green; a no-op that must live and an edit that
breaks everything, which must die; the mutants. What is not believed at once is looked at again, in
an interpreter that has imported nothing: every survivor, every timeout, and a sample of the kills.
"""

import ast
import difflib
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trio

from executor.testing.mutants import Mutant
from executor.testing.mutation import tree
from executor.testing.mutation.judging import (
    Judgement,
    control_fault,
    items_of,
    judge,
    time_limit,
)
from executor.testing.mutation.settings import Settings
from executor.testing.mutation.slot import Answer, Item, Slot, WorkerGone, open_slot

AGAIN_ONE_IN = 25
"""Of so many kills one is looked at again, chosen by its id."""
_CONTROLS_AT_ONCE = 40
_CONTROL_S = 120.0
NO_OP, BREAKS_ALL = "no-op", "breaks-everything"
Told = Callable[["Verdict"], None]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one mutant, and how it was found out."""

    mutant: Mutant
    judgement: Judgement
    patch: str
    output: str = ""
    exit: int | None = None
    seconds: float = 0.0
    how: str = ""

    @property
    def as_declared(self) -> bool:
        """Whether it ended as its file says."""
        return self.judgement.word == self.mutant.expect


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of all of them.

    ``void`` says why none of it means anything; it is empty otherwise.
    """

    verdicts: tuple[Verdict, ...]
    controls: Mapping[str, Item]
    void: str = ""
    seconds: float = 0.0
    again: int = 0
    """How many verdicts were looked at a second time."""


@dataclass(slots=True)
class _Crew:
    """The slots, each for one mutant at a time."""

    slots: Sequence[Slot]
    free: trio.MemorySendChannel[Slot] = field(init=False)
    taking: trio.MemoryReceiveChannel[Slot] = field(init=False)
    turn: trio.Lock = field(default_factory=trio.Lock)

    def __post_init__(self) -> None:
        self.free, self.taking = trio.open_memory_channel[Slot](len(self.slots))
        for slot in self.slots:
            self.free.send_nowait(slot)

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


async def run(
    top: Path,
    mutants: Sequence[Mutant],
    settings: Settings,
    *,
    jobs: int = 1,
    told: Told = lambda _: None,
) -> Outcome:
    """Run mutants of the project at ``top``, which is only read.

    Args:
        told: called with each verdict, as it is found.
    """
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        home = stack.enter_context(tree.workplace())
        opened = [
            open_slot(
                top, home / f"slot-{number}", tests=settings.tests, roots=settings.imports,
                leave_out=settings.leave_out, memory=int(settings.memory),
            )
            for number in range(jobs)
        ]  # fmt: skip
        try:
            slots = [await stack.enter_async_context(one) for one in opened]
        except WorkerGone as gone:
            return Outcome((), {}, void=f"the tests cannot be collected:\n{gone}")
        return await _Run(top, _Crew(slots), told, began).all(mutants)


@dataclass(slots=True)
class _Run:
    top: Path
    crew: _Crew
    told: Told
    began: float
    controls: dict[str, Item] = field(default_factory=dict)
    again: int = 0

    async def all(self, mutants: Sequence[Mutant]) -> Outcome:
        await self.control(mutants)
        void = await self.prove_itself(mutants)
        verdicts: dict[int, Verdict] = {}
        if not void:
            async with trio.open_nursery() as nursery:
                for number, mutant in enumerate(mutants):
                    nursery.start_soon(self._one, number, mutant, verdicts)
        ordered = tuple(verdicts[number] for number in sorted(verdicts))
        took = time.monotonic() - self.began
        return Outcome(ordered, self.controls, void, took, self.again)

    async def _one(self, number: int, mutant: Mutant, verdicts: dict[int, Verdict]) -> None:
        verdicts[number] = await self.verdict(mutant)
        self.told(verdicts[number])

    # -- the controls -------------------------------------------------------------------------

    async def control(self, mutants: Sequence[Mutant]) -> None:
        """Run every named test on the untouched copy; what was not green is run again alone."""
        names = sorted({name for mutant in mutants for name in mutant.reds})
        batches = [
            names[at : at + _CONTROLS_AT_ONCE] for at in range(0, len(names), _CONTROLS_AT_ONCE)
        ]
        async with trio.open_nursery() as nursery:
            for batch in batches:
                nursery.start_soon(self._control, batch)
        for name in names:
            if control_fault(name, self.controls):
                async with self.crew.alone() as slot:
                    answer = await _ask(slot, [name], _CONTROL_S)
                first = items_of(name, self.controls)
                for one, item in answer.items.items():
                    if one in first and first[one].outcome != item.outcome:
                        text = f"once {first[one].outcome}, once {item.outcome}: {item.text}"
                        self.controls[one] = Item("unfinished", text=text)
                    else:
                        self.controls[one] = item

    async def _control(self, names: Sequence[str]) -> None:
        async with self.crew.slot() as slot:
            answer = await _ask(slot, names, _CONTROL_S + _CONTROL_S * len(names) / 10)
        self.controls |= answer.items

    async def prove_itself(self, mutants: Sequence[Mutant]) -> str:
        """See a no-op live and an edit that breaks everything die, on the way that mutants take.

        Returns:
            why the run means nothing, if it does.
        """
        for mutant in mutants:
            texts = self._texts(mutant)
            [(name, text), *more] = (texts or {"": ""}).items()
            good = not any(control_fault(one, self.controls) for one in mutant.reds)
            if more or not good or not name.endswith(".py") or mutant.expect != "killed":
                continue
            source = (self.top / name).read_text(encoding="utf-8")
            try:
                broken = _broken(source)
            except SyntaxError:
                continue
            if broken == source or text == source:
                continue
            lived, _ = await self._try(mutant, {name: f"{source}\n# nothing else\n"})
            if lived.word != "survived":
                return f"a no-op is {lived.word}: {lived.why or lived.killers}"
            died, _ = await self._try(mutant, {name: broken})
            if died.word != "killed":
                return f"an edit that breaks all of {name} is {died.word}: {died.why}"
            return ""
        return ""

    # -- a mutant -----------------------------------------------------------------------------

    async def verdict(self, mutant: Mutant) -> Verdict:
        """Find out what becomes of one mutant."""
        texts = self._texts(mutant)
        patch = self._patch(texts or {})
        if texts is None:
            return Verdict(mutant, Judgement("not-applied", self._why_not(mutant)), patch)
        faults = [control_fault(name, self.controls) for name in mutant.reds]
        if fault := next(filter(None, faults), ""):
            missing = fault.endswith("is no test")
            return Verdict(mutant, Judgement("no-tests" if missing else "unstable", fault), patch)
        judgement, answer = await self._try(mutant, texts)
        how = "in new code" if answer.swapped else "imported anew"
        first = judgement
        if judgement.word in ("timeout", "survived") or _is_sampled(mutant.id):
            self.again += 1
            alone = judgement.word == "timeout"
            judgement, answer = await self._again(mutant, texts, alone=alone)
            how += ", and again cold"
            if {first.word, judgement.word} == {"survived", "killed"} and how.startswith("in new"):
                how += ", where it died: the new code alone did not reach its tests"
            elif judgement.word != first.word:
                why = f"once {first.word} ({first.why}), once {judgement.word} ({judgement.why})"
                judgement = Judgement("unstable", why)
        output = "\n".join(item.text for item in answer.items.values() if item.text)
        return Verdict(mutant, judgement, patch, output, answer.exit, answer.seconds, how)

    async def _try(self, mutant: Mutant, texts: Mapping[str, str]) -> tuple[Judgement, Answer]:
        """Run its tests: with new code in the collected ones, or else imported anew."""
        limit = time_limit(self.controls, mutant.reds)
        async with self.crew.slot() as slot:
            answer = await _ask(slot, mutant.reds, limit, texts)
            is_code = next(iter(texts)).endswith(".py")
            if (is_code and not answer.swapped) or (not is_code and not answer.read):
                answer = await _ask(slot, mutant.reds, limit, texts, fresh=True)
        return judge(mutant.reds, answer), answer

    async def _again(
        self, mutant: Mutant, texts: Mapping[str, str], *, alone: bool
    ) -> tuple[Judgement, Answer]:
        limit = time_limit(self.controls, mutant.reds)
        async with self.crew.alone() if alone else self.crew.slot() as slot:
            answer = await slot.run("fresh", mutant.reds, limit, changed=texts, cold=True)
        return judge(mutant.reds, answer), answer

    def _texts(self, mutant: Mutant) -> dict[str, str] | None:
        """Give each edited file's new text; ``None`` where an edit does not apply exactly once."""
        texts: dict[str, str] = {}
        for edit in mutant.edits:
            try:
                text = texts.get(edit.file) or (self.top / edit.file).read_text(encoding="utf-8")
            except OSError:
                return None
            if text.count(edit.from_) != 1:
                return None
            texts[edit.file] = text.replace(edit.from_, edit.to)
        return texts

    def _why_not(self, mutant: Mutant) -> str:
        for edit in mutant.edits:
            try:
                count = (self.top / edit.file).read_text(encoding="utf-8").count(edit.from_)
            except OSError as failed:
                return f"{edit.file}: {failed.strerror}"
            if count != 1:
                return f"{edit.file}: what it replaces occurs {count} times"
        return "its edits do not fit one another"

    def _patch(self, texts: Mapping[str, str]) -> str:
        return "".join(
            patch_of(name, (self.top / name).read_text(encoding="utf-8"), text)
            for name, text in texts.items()
        )


def patch_of(name: str, before: str, after: str) -> str:
    """Give a change as a unified diff that `git apply` and `patch -p1` take."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
    )
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


async def _ask(
    slot: Slot,
    names: Sequence[str],
    seconds: float,
    texts: Mapping[str, str] | None = None,
    *,
    fresh: bool = False,
) -> Answer:
    try:
        return await slot.run("fresh" if fresh else "collected", names, seconds, changed=texts)
    except WorkerGone:
        return Answer({}, ("the process that runs its tests ended by itself",), 0, False, 0.0, 0)


def _broken(source: str) -> str:
    """Make every function of a module fail at its first statement."""
    lines = source.splitlines(keepends=True)
    functions = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    for node in sorted(functions, key=lambda one: one.body[0].lineno, reverse=True):
        first = node.body[0]
        if first.lineno > node.lineno and not lines[first.lineno - 1][: first.col_offset].strip():
            indent = " " * first.col_offset
            lines.insert(first.lineno - 1, f"{indent}raise AssertionError('broken on purpose')\n")
    return "".join(lines)


def _is_sampled(name: str) -> bool:
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % AGAIN_ONE_IN == 0
