"""Standing: how each rule came out. What all of the reports are made from."""

import bisect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from executor.plain_yaml import Path as Place
from executor.testing.spec import Case, Rule, SpecFile
from executor.testing.verdicts import Outcome, Verdict

WORDS = ("failed", "broken", "unsupported", "skipped", "passed")
"""What a case can come to, the worst first."""
NOT_RUN, NOT_BUILT = "not run", "not built"
_SCENARIO = 4
"""Steps of the path to a scenario: rules, number, scenarios, number."""
_BREAK = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Standing:
    """One rule, and what came of its cases.

    ``word`` is the worst of theirs; where there are none, ``not run`` or ``not built``. ``where``
    is the file and line in which the rule is stated.
    """

    file: SpecFile
    rule: Rule
    where: str
    word: str
    verdicts: tuple[Verdict, ...]

    @property
    def family(self) -> str:
        """The family that it belongs to."""
        return self.file.spec.family


def standings(outcome: Outcome) -> Iterator[Standing]:
    """Give every rule of the files, in the order in which they are written."""
    of_rule: dict[tuple[int, str], list[Verdict]] = {}
    for verdict in outcome.verdicts:
        of_rule.setdefault((id(verdict.case.file), verdict.case.rule.id), []).append(verdict)
    for file in outcome.files:
        for number, rule in enumerate(file.spec.rules):
            line = file.document.mark(("rules", number, "id")).line
            verdicts = of_rule.get((id(file), rule.id), [])
            yield Standing(
                file, rule, f"{file.path}:{line}", _word(rule, verdicts), tuple(verdicts)
            )


def _word(rule: Rule, verdicts: list[Verdict]) -> str:
    found = {one.word for one in verdicts}
    usual = NOT_RUN if rule.built else NOT_BUILT
    return next((word for word in WORDS if word in found), usual)


def count(number: int, noun: str) -> str:
    """Write a number of things: ``1 case``, ``2 cases``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class Sources:
    """The lines of the files, as they are now; nothing, where one can no longer be read."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}
        self._starts: dict[str, list[int]] = {}

    def scenario(self, case: Case) -> tuple[int, str]:
        """Give the number of the first line of a case's scenario, and its lines."""
        file = case.file
        place: Place = case.then_place[:_SCENARIO]
        first = file.document.mark(place).line
        if file.path not in self._lines:
            self._lines[file.path] = _read(file.path)
            marks = file.document.marks.items()
            self._starts[file.path] = sorted(
                {mark.line for path, mark in marks if len(path) <= _SCENARIO}
            )
        starts = self._starts[file.path]
        after = bisect.bisect_right(starts, first)
        end = starts[after] - 1 if after < len(starts) else None
        lines = self._lines[file.path][first - 1 : end]
        while lines and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
            lines.pop()
        return first, "\n".join(_dedented(lines))


def _read(path: str) -> list[str]:
    try:
        return _BREAK.split(Path(path).read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return []


def _dedented(lines: list[str]) -> list[str]:
    depth = len(lines[0]) - len(lines[0].lstrip()) if lines else 0
    return [line[depth:] if not line[:depth].strip() else line for line in lines]
