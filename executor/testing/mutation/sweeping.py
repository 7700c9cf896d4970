"""Sweeping: runs generated mutants. One red test is enough; which tests there are, a trace says.

The likeliest tests come first, in growing batches, and the first that goes red ends it. A test that
killed must be green without the mutant. What survives them all is looked at again in an
interpreter that has imported nothing; so is every timeout, alone, and a sample of the kills.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from executor.testing.mutation.crew import Crew, ask, blind, open_crew, side_by_side
from executor.testing.mutation.edits import break_all, patch_of
from executor.testing.mutation.generating import Generated
from executor.testing.mutation.judging import Judgement, control_fault, judge_any, time_limit
from executor.testing.mutation.settings import Settings
from executor.testing.mutation.slot import Answer, Item, WorkerGone
from executor.testing.mutation.verdicts import Outcome, Told, Verdict, is_sampled

_FIRST_BATCH, _GROWS = 8, 4
_PROBED = 5
_QUICK_S = 0.25
"""A survivor's tests that take less are looked at again: they run where stale caches could be."""
_CONTROL_S = 120.0


async def sweep(
    top: Path,
    mutants: Sequence[Generated],
    seconds: Mapping[str, float],
    settings: Settings,
    *,
    jobs: int = 1,
    budget: float = math.inf,
    told: Told = lambda _: None,
) -> Outcome:
    """Run generated mutants of the project at ``top``, which is only read.

    Args:
        seconds: what each test took when it was traced.
        budget: the seconds that the tests of one mutant may take in all; others are not run.
        told: called with each verdict, as it is found.
    """
    began = time.monotonic()
    took = {name: Item("passed", seconds=one) for name, one in seconds.items()}
    try:
        async with open_crew(top, settings, jobs) as crew:
            return await _Sweep(top, crew, took, budget, told, began).all(mutants)
    except WorkerGone as gone:
        return Outcome((), {}, void=f"the tests cannot be collected:\n{gone}")


@dataclass(slots=True)
class _Sweep:
    top: Path
    crew: Crew
    took: Mapping[str, Item]
    budget: float
    told: Told
    began: float
    controls: dict[str, Item] = field(default_factory=dict)
    killed: dict[str, list[str]] = field(default_factory=dict)
    """The tests that have killed something in a function, the latest first."""
    again: int = 0

    async def all(self, mutants: Sequence[Generated]) -> Outcome:
        void = await self.blind(mutants)
        verdicts = () if void else await side_by_side(mutants, self.verdict, self.told)
        took = time.monotonic() - self.began
        return Outcome(verdicts, self.controls, void, took, self.again)

    async def blind(self, mutants: Sequence[Generated]) -> str:
        """Say why the run would mean nothing: tried with the first mutant that allows it."""
        for mutant in mutants:
            source = self._read(mutant.file)
            tests = [one for one in mutant.reds[:_PROBED] if await self._is_green(one)]
            if tests and break_all(source) != source:

                async def attempt(
                    texts: Mapping[str, str], tests: Sequence[str] = tests
                ) -> Judgement:
                    judgement, _ = await self._try(tests, texts)
                    return judgement

                return await blind(mutant.file, source, attempt)
        return ""

    async def verdict(self, mutant: Generated) -> Verdict:
        """Find out what becomes of one mutant."""
        texts = mutant.texts(self._read)
        patch = patch_of(mutant.file, self._read(mutant.file), texts[mutant.file])
        if not mutant.reds:
            why = f"no test enters {mutant.function}"
            return Verdict(mutant, Judgement("no-tests", why), patch)
        reds = self._affordable(mutant)
        judgement, answer, tests, fresh = await self._through(reds, texts)
        how = "imported anew" if fresh else "in new code"
        again: Sequence[str] = ()
        if judgement.word == "survived" and not fresh:
            again = [one for one in reds if self.took[one].seconds < _QUICK_S]
        elif judgement.word == "timeout":
            again = tests
        elif judgement.word == "killed" and is_sampled(mutant.id):
            again = judgement.killers
        if again:
            how += ", and again cold"
            judgement, answer = await self._again(again, texts, judgement)
        if judgement.word == "survived":
            why = f"{len(reds)} of {len(mutant.reds)} tests stayed green"
            judgement = Judgement("survived", why)
        for one in judgement.killers:
            self.killed.setdefault(mutant.rule, []).insert(0, one)
        output = "\n".join(item.text for item in answer.items.values() if item.text)
        return Verdict(mutant, judgement, patch, output, answer.exit, answer.seconds, how)

    def _affordable(self, mutant: Generated) -> Sequence[str]:
        """Give its tests within the budget: first those that have killed beside it."""
        before = [one for one in self.killed.get(mutant.rule, ()) if one in mutant.reds]
        tests: list[str] = []
        seconds = 0.0
        for one in dict.fromkeys((*before[:_FIRST_BATCH], *mutant.reds)):
            seconds += self.took[one].seconds
            if tests and seconds > self.budget:
                break
            tests.append(one)
        return tests

    async def _through(
        self, reds: Sequence[str], texts: Mapping[str, str]
    ) -> tuple[Judgement, Answer, Sequence[str], bool]:
        """Go through its tests until one is red.

        Returns:
            besides what came of it, the batch of tests that ended it, and whether each was run
            with the file imported anew.
        """
        fresh = True
        for batch in _batches(reds):
            judgement, answer = await self._try_green(batch, texts)
            fresh = fresh and not answer.swapped
            if judgement.word != "survived":
                break
        return judgement, answer, batch, fresh

    async def _try_green(
        self, tests: Sequence[str], texts: Mapping[str, str]
    ) -> tuple[Judgement, Answer]:
        """Try tests; one that is red without the mutant too says nothing of it."""
        left = list(tests)
        while True:
            judgement, answer = await self._try(left, texts)
            red = [one for one in judgement.killers if not await self._is_green(one)]
            if judgement.word != "killed" or not red:
                return judgement, answer
            left = [one for one in left if one not in red]
            if not left:
                why = f"{red[0]} is red without the mutant too"
                return Judgement("unstable", why), answer

    async def _is_green(self, test: str) -> bool:
        """Say whether a test is green on the untouched copy; each is looked at once."""
        if test not in self.controls:
            async with self.crew.slot() as slot:
                answer = await ask(slot, [test], _CONTROL_S)
            self.controls[test] = answer.items.get(test) or Item("unfinished")
        return not control_fault(test, self.controls)

    async def _try(
        self, tests: Sequence[str], texts: Mapping[str, str]
    ) -> tuple[Judgement, Answer]:
        limit = time_limit(self.took, tests)
        async with self.crew.slot() as slot:
            answer = await ask(slot, tests, limit, texts, first_red=True)
            if not answer.swapped:
                answer = await ask(slot, tests, limit, texts, fresh=True, first_red=True)
        return judge_any(answer), answer

    async def _again(
        self, tests: Sequence[str], texts: Mapping[str, str], first: Judgement
    ) -> tuple[Judgement, Answer]:
        """Look a second time: cold, and where it was too slow, with nothing beside."""
        self.again += 1
        alone = first.word == "timeout"
        async with self.crew.alone() if alone else self.crew.slot() as slot:
            answer = await slot.run(
                "fresh", tests, time_limit(self.took, tests), changed=texts, cold=True,
                first_red=True,
            )  # fmt: skip
        found = judge_any(answer)
        if first.word == found.word or (first.word == "survived" and found.word == "killed"):
            return found, answer
        why = f"once {first.word} ({first.why}), once {found.word} ({found.why})"
        return Judgement("unstable", why), answer

    def _read(self, name: str) -> str:
        return (self.top / name).read_text(encoding="utf-8")


def _batches(tests: Sequence[str]) -> Iterator[Sequence[str]]:
    """Give the tests in batches: a few first, since most mutants die of the first that looks."""
    at, size = 0, _FIRST_BATCH
    while at < len(tests):
        yield tests[at : at + size]
        at, size = at + size, size * _GROWS
