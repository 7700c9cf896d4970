"""Running: all mutants of a project, with their controls, and the proof that a verdict means it.

In this order: copies; the controls, which must be green; a no-op that must live and an edit that
breaks everything, which must die; the mutants. What is not believed at once is looked at again, in
an interpreter that has imported nothing: every survivor, every timeout, and a sample of the kills.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import trio

from executor.testing.mutants import DoesNotApply, Mutant
from executor.testing.mutation.crew import Crew, ask, blind, open_crew, side_by_side
from executor.testing.mutation.edits import break_all, patch_of
from executor.testing.mutation.judging import (
    Judgement,
    control_fault,
    items_of,
    judge,
    time_limit,
)
from executor.testing.mutation.settings import Settings
from executor.testing.mutation.slot import Answer, Item, WorkerGone
from executor.testing.mutation.verdicts import Outcome, Told, Verdict, is_sampled

_CONTROLS_AT_ONCE = 40
_CONTROL_S = 120.0


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
    try:
        async with open_crew(top, settings, jobs) as crew:
            return await _Run(top, crew, told, began).all(mutants)
    except WorkerGone as gone:
        return Outcome((), {}, void=f"the tests cannot be collected:\n{gone}")


@dataclass(slots=True)
class _Run:
    top: Path
    crew: Crew
    told: Told
    began: float
    controls: dict[str, Item] = field(default_factory=dict)
    again: int = 0

    async def all(self, mutants: Sequence[Mutant]) -> Outcome:
        await self.control(mutants)
        void = await self.blind(mutants)
        verdicts = () if void else await side_by_side(mutants, self.verdict, self.told)
        took = time.monotonic() - self.began
        return Outcome(verdicts, self.controls, void, took, self.again)

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
                    answer = await ask(slot, [name], _CONTROL_S)
                first = items_of(name, self.controls)
                for one, item in answer.items.items():
                    if one in first and first[one].outcome != item.outcome:
                        text = f"once {first[one].outcome}, once {item.outcome}: {item.text}"
                        self.controls[one] = Item("unfinished", text=text)
                    else:
                        self.controls[one] = item

    async def _control(self, names: Sequence[str]) -> None:
        async with self.crew.slot() as slot:
            answer = await ask(slot, names, _CONTROL_S + _CONTROL_S * len(names) / 10)
        self.controls |= answer.items

    async def blind(self, mutants: Sequence[Mutant]) -> str:
        """Say why the run would mean nothing: tried with the first mutant that allows it."""
        for mutant in mutants:
            try:
                [(name, text), *more] = mutant.texts(self._read).items()
                source = self._read(name)
                usable = not more and name.endswith(".py") and mutant.expect == "killed"
                usable = usable and source not in (text, break_all(source))
            except (DoesNotApply, SyntaxError):
                continue
            if usable and not any(control_fault(one, self.controls) for one in mutant.reds):

                async def attempt(texts: Mapping[str, str], mutant: Mutant = mutant) -> Judgement:
                    judgement, _ = await self._try(mutant, texts)
                    return judgement

                return await blind(name, source, attempt)
        return ""

    # -- a mutant -----------------------------------------------------------------------------

    async def verdict(self, mutant: Mutant) -> Verdict:
        """Find out what becomes of one mutant."""
        try:
            texts = mutant.texts(self._read)
        except DoesNotApply as stale:
            return Verdict(mutant, Judgement("not-applied", str(stale)), "")
        patch = self._patch(texts)
        faults = [control_fault(name, self.controls) for name in mutant.reds]
        if fault := next(filter(None, faults), ""):
            missing = fault.endswith("is no test")
            return Verdict(mutant, Judgement("no-tests" if missing else "unstable", fault), patch)
        judgement, answer = await self._try(mutant, texts)
        how = "in new code" if answer.swapped else "imported anew"
        first = judgement
        if judgement.word in ("timeout", "survived") or is_sampled(mutant.id):
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
            answer = await ask(slot, mutant.reds, limit, texts)
            is_code = next(iter(texts)).endswith(".py")
            if (is_code and not answer.swapped) or (not is_code and not answer.read):
                answer = await ask(slot, mutant.reds, limit, texts, fresh=True)
        return judge(mutant.reds, answer), answer

    async def _again(
        self, mutant: Mutant, texts: Mapping[str, str], *, alone: bool
    ) -> tuple[Judgement, Answer]:
        limit = time_limit(self.controls, mutant.reds)
        async with self.crew.alone() if alone else self.crew.slot() as slot:
            answer = await slot.run("fresh", mutant.reds, limit, changed=texts, cold=True)
        return judge(mutant.reds, answer), answer

    def _read(self, name: str) -> str:
        return (self.top / name).read_text(encoding="utf-8")

    def _patch(self, texts: Mapping[str, str]) -> str:
        return "".join(patch_of(name, self._read(name), text) for name, text in texts.items())
