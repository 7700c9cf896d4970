"""Entries: mutants with their places in the text. What all of the reports are made from."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from executor.testing.mutants import DoesNotApply
from executor.testing.mutation.edits import difference, position
from executor.testing.mutation.generating import Generated
from executor.testing.mutation.judging import DETECTED, Judgement
from executor.testing.mutation.settings import Thresholds
from executor.testing.mutation.verdicts import Outcome, Subject, Verdict

IGNORED = "ignored"
WORDS = (
    "survived", "no-tests", "unstable", "invalid", "not-applied", "memory", "signal", "timeout",
    "killed", IGNORED,
)  # fmt: skip
"""What can become of a mutant, first what wants looking at."""


@dataclass(frozen=True, slots=True)
class Spot:
    """One change of a mutant: lines and columns from 1, the end behind the last character."""

    file: str
    begin: tuple[int, int]
    end: tuple[int, int]
    original: str
    replacement: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One mutant, and what became of it.

    ``kind`` is the operator of a generated one, else ``declared``. ``good`` says whether it ended
    as it should; ``spots`` is empty where its edit does not apply.
    """

    id: str
    rule: str
    kind: str
    word: str
    why: str
    good: bool
    spots: tuple[Spot, ...]
    killers: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    patch: str = ""
    seconds: float = 0.0

    @property
    def place(self) -> tuple[str, int]:
        """The file and line where it begins."""
        if self.spots:
            return self.spots[0].file, self.spots[0].begin[0]
        return "pyproject.toml", 1


@dataclass(frozen=True, slots=True)
class Standing:
    """All mutants of a run, and the texts that they change, as these are without them."""

    title: str
    entries: tuple[Entry, ...]
    texts: Mapping[str, str]
    thresholds: Thresholds = field(default_factory=Thresholds)
    seconds: float = 0.0
    void: str = ""

    def by_file(self) -> dict[str, list[tuple[Entry, Spot]]]:
        """Give the spots of each file, in the order of its text."""
        found: dict[str, list[tuple[Entry, Spot]]] = {}
        for entry in self.entries:
            for spot in entry.spots:
                found.setdefault(spot.file, []).append((entry, spot))
        return {
            name: sorted(found[name], key=lambda one: (one[1].begin, one[0].id))
            for name in sorted(found)
        }


def standing(
    title: str,
    outcome: Outcome,
    read: Callable[[str], str],
    *,
    ignored: Iterable[tuple[Generated, str]] = (),
    thresholds: Thresholds | None = None,
) -> Standing:
    """Put together what became of the mutants of a run.

    Args:
        read: gives the text of a file of the project.
        ignored: the mutants that are not run, and why.
    """
    texts: dict[str, str] = {}

    def kept(name: str) -> str:
        if name not in texts:
            texts[name] = read(name)
        return texts[name]

    entries = [_entry(one, kept) for one in outcome.verdicts]
    for mutant, why in ignored:
        left = Verdict(mutant, Judgement("survived", why), "")
        entries.append(_entry(left, kept, word=IGNORED))
    return Standing(
        title, tuple(entries), texts, thresholds or Thresholds(), outcome.seconds, outcome.void
    )


def suite_of(test: str) -> str:
    """Give the file of a test."""
    return str(PurePosixPath(test.partition("::")[0]))


def _entry(verdict: Verdict, read: Callable[[str], str], word: str | None = None) -> Entry:
    mutant, found = verdict.mutant, verdict.judgement
    generated = isinstance(mutant, Generated)
    good = found.word in DETECTED if generated else verdict.as_declared
    return Entry(
        mutant.id,
        mutant.rule,
        mutant.operator if isinstance(mutant, Generated) else "declared",
        word or found.word,
        found.why,
        good or word == IGNORED,
        _spots(mutant, read),
        found.killers,
        tuple(mutant.reds),
        verdict.patch,
        verdict.seconds,
    )


def _spots(mutant: Subject, read: Callable[[str], str]) -> tuple[Spot, ...]:
    try:
        texts = mutant.texts(read)
    except DoesNotApply:
        return ()
    spots = []
    for name, text in texts.items():
        before = read(name)
        start, end, replacement = difference(before, text)
        original = before[start:end]
        spots.append(
            Spot(name, position(before, start), position(before, end), original, replacement)
        )
    return tuple(spots)
