"""Verdicts: what came of running scenarios. Values only; `reports/` writes them down."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from executor.testing.spec import Case, SpecFile

Word = Literal["passed", "failed", "unsupported", "skipped", "broken"]
"""``unsupported``: the target cannot do what the scenario asks. ``skipped``: this machine lacks
what it needs. ``broken``: the harness or the target itself failed, so that nothing is known."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One expectation that did not come true.

    Attributes:
        key: the expectation, as a path: ``told.code``.
        where: file and line in which it is written.
    """

    key: str
    where: str
    expected: Any
    actual: Any

    def __str__(self) -> str:
        return f"{self.where}: {self.key}\n  expected {self.expected}\n  actual   {self.actual}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one case. ``why`` says what the failures alone do not."""

    case: Case
    word: Word
    failures: tuple[Failure, ...] = ()
    why: str = ""
    seconds: float = 0.0
    kept: str | None = None
    """The directory of its house, if it was kept."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of all of them.

    ``target`` is the name by which the implementation called itself.
    """

    files: tuple[SpecFile, ...]
    verdicts: tuple[Verdict, ...]
    target: str
    seconds: float = 0.0
    counts: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", Counter(one.word for one in self.verdicts))

    @property
    def not_built(self) -> list[str]:
        """The rules that are stated and not built yet."""
        return [rule.id for file in self.files for rule in file.spec.rules if not rule.built]

    def rule_word(self, rule: str) -> Word | None:
        """Give the worst word over the cases of a rule: it holds when each of them passed."""
        words = {one.word for one in self.verdicts if one.case.rule.id == rule}
        order: Sequence[Word] = ("failed", "broken", "unsupported", "skipped", "passed")
        return next((word for word in order if word in words), None)
