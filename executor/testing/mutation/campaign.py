"""Campaign: all generated mutants of a project, from what is known of them to a score.

A mutant whose killer is known is tried with that test alone. Only what it does not kill needs a
trace of the whole suite, which takes as long as the suite does.
"""

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from executor.testing.mutation import generating, tracing, tree
from executor.testing.mutation.generating import Generated
from executor.testing.mutation.judging import DETECTED, Judgement
from executor.testing.mutation.known import Equivalents
from executor.testing.mutation.settings import Settings, Thresholds
from executor.testing.mutation.slot import Item, WorkerGone
from executor.testing.mutation.sweeping import sweep
from executor.testing.mutation.verdicts import Outcome, Told, Verdict

_KNOWN_S = 2.0
"""What is allowed for a known killer that was not timed: its limit is the least there is."""
_MESSAGE = re.compile(r"""\s*(?:\w+=)?f?(["']).* .*\1,?\s*""")


@dataclass(frozen=True, slots=True)
class Score:
    """What of a package's mutants was found out, in per cent; all of them where there are none."""

    package: str
    thresholds: Thresholds
    detected: int
    survived: int

    @property
    def per_cent(self) -> float:
        """The share that was detected."""
        whole = self.detected + self.survived
        return 100.0 * self.detected / whole if whole else 100.0

    @property
    def holds(self) -> bool:
        """Whether it is not below what breaks a build."""
        return self.per_cent >= self.thresholds.break_


@dataclass(frozen=True, slots=True)
class Campaign:
    """What came of it. ``ignored`` are the mutants that are listed as equivalent, and why."""

    outcome: Outcome
    ignored: tuple[tuple[Generated, str], ...]
    killers: dict[str, str]
    scores: tuple[Score, ...]


def sources(top: Path, settings: Settings) -> dict[str, str]:
    """Read the files in which edits are generated, by their path in the project."""
    chosen = [
        name
        for name in tree.files(top, settings.leave_out)
        if name.endswith(".py") and any(is_in(name, one) for one in settings.generated)
    ]
    return {name: (top / name).read_text(encoding="utf-8") for name in sorted(chosen)}


def all_generated(texts: Mapping[str, str], settings: Settings) -> list[Generated]:
    """Give every edit of some files that is wanted.

    Raises:
        NoGenerator: mutmut is not installed.
        SyntaxError: a file cannot be read as Python.
    """
    every = [one for name, text in texts.items() for one in generating.generated(name, text)]
    return every if settings.messages else [one for one in every if not _is_message(one)]


async def run(
    top: Path,
    mutants: Sequence[Generated],
    settings: Settings,
    *,
    equivalents: Equivalents,
    killers: dict[str, str],
    trace: bool,
    jobs: int,
    budget: float = math.inf,
    told: Told = lambda _: None,
    traced: tracing.Told = lambda *_: None,
) -> Campaign:
    """Run generated mutants of the project at ``top``, which is only read.

    Args:
        killers: the test that is known to kill a mutant, by the mutant's id.
        trace: whether to find tests for those that no known test kills.
        budget: the seconds that the tests of one mutant may take in all; others are not run.
        told: called with each verdict, as it is found.
        traced: called while tests are traced: how many have run, and how many there are.
    """
    ignored = [(one, why) for one in mutants if (why := equivalents.why(one)) is not None]
    listed = {one.id for one, _ in ignored}
    left = [one for one in mutants if one.id not in listed]
    known = [replace(one, reds=(killers[one.id],)) for one in left if one.id in killers]
    verdicts: dict[str, Verdict] = {}

    def keep(outcome: Outcome) -> str:
        verdicts.update({one.mutant.id: one for one in outcome.verdicts})
        return outcome.void

    controls: dict[str, Item] = {}
    void, again, seconds = "", 0, 0.0
    if known:

        def told_if_found(verdict: Verdict) -> None:
            if verdict.judgement.word in DETECTED:
                told(verdict)

        outcome = await sweep(
            top, known, {one.reds[0]: _KNOWN_S for one in known}, settings, jobs=jobs,
            told=told_if_found,
        )  # fmt: skip
        void, again, seconds = keep(outcome), outcome.again, outcome.seconds
        controls |= outcome.controls
    open_ = [one for one in left if not _is_detected(verdicts.get(one.id))]
    if open_ and not void and trace:
        texts = sources(top, settings)
        try:
            found = await tracing.trace(top, texts, settings, jobs, traced)
        except WorkerGone as gone:
            return Campaign(Outcome((), {}, void=f"they cannot be traced:\n{gone}"), (), {}, ())
        outcome = await sweep(
            top,
            [replace(one, reds=tuple(found.tests(one.file, one.function))) for one in open_],
            found.seconds,
            settings,
            jobs=jobs,
            budget=budget,
            told=told,
        )
        void = keep(outcome)
        again, seconds = again + outcome.again, seconds + outcome.seconds
        controls |= outcome.controls
    elif not void:
        for one in open_:
            why = "no test is known that kills it, and none was looked for"
            verdicts[one.id] = Verdict(one, Judgement("no-tests", why), "")
            told(verdicts[one.id])
    ordered = tuple(verdicts[one.id] for one in left if one.id in verdicts)
    return Campaign(
        Outcome(ordered, controls, void, seconds, again),
        tuple(ignored),
        _killers(ordered),
        tuple(_scores(ordered, settings)),
    )


def _is_detected(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.judgement.word in DETECTED


def _killers(verdicts: Iterable[Verdict]) -> dict[str, str]:
    """Give the test that killed each; of a timeout the first of those that did not end."""
    found = {}
    for one in verdicts:
        if _is_detected(one):
            found[one.mutant.id] = (*one.judgement.killers, *one.mutant.reds)[0]
    return found


def _scores(verdicts: Sequence[Verdict], settings: Settings) -> Iterator[Score]:
    for package, thresholds in settings.generated.items():
        own = [one for one in verdicts if is_in(one.mutant.id.partition(":")[0], package)]
        detected = sum(_is_detected(one) for one in own)
        yield Score(package, thresholds, detected, len(own) - detected)


def _is_message(mutant: Generated) -> bool:
    """Say whether an edit changes, or leaves out, a literal with a blank in it."""
    if mutant.operator == "SimpleString":
        return " " in mutant.original
    return mutant.operator == "Call" and _MESSAGE.fullmatch(mutant.original) is not None


def is_in(name: str, package: str) -> bool:
    """Say whether a file is what is named, or below it."""
    package = os.path.normpath(package)
    return name == package or name.startswith(f"{package}/")
