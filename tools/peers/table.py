"""Table: rule x target, from what came of the same cases in each. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from executor.testing.reports import as_json
from executor.testing.reports.standing import NOT_BUILT, NOT_RUN, Standing, count, standings
from executor.testing.reports.terminal import about
from executor.testing.verdicts import Outcome

HOLDS, FAILS, CANNOT_SAY, BROKEN = "holds", "FAILS", "cannot say", "broken"
_WORDS = {
    "passed": HOLDS,
    "failed": FAILS,
    "broken": BROKEN,
    "unsupported": CANNOT_SAY,
    "skipped": CANNOT_SAY,
}
_GAP = "  "

Outcomes = Mapping[str, Outcome]
"""By the name of the target; each of the same cases."""


def cell(standing: Standing) -> str:
    """Say how a rule stands in one target, and in how many of its cases.

    ``holds 4``: in all four. ``FAILS 1/4``: one failed. ``cannot say 2/4``: none failed, and of two
    the target cannot say, or the machine. ``broken 1/4``: nothing is known of one, by a fault.
    """
    cases = len(standing.verdicts)
    if standing.word == "passed":
        return f"{HOLDS} {cases}"
    word = _WORDS[standing.word]
    alike = sum(_WORDS[one.word] == word for one in standing.verdicts)
    return f"{word} {alike}/{cases}"


def lines(outcomes: Outcomes) -> Iterator[str]:
    """Give one line for each rule that has cases, one column for each target; then the sums."""
    rows = [["rule", *outcomes]]
    sums: dict[str, Counter[str]] = {name: Counter() for name in outcomes}
    without: Counter[str] = Counter()
    for rule in zip(*(standings(outcome) for outcome in outcomes.values()), strict=True):
        if not rule[0].verdicts:
            without[rule[0].word] += 1
            continue
        rows.append([rule[0].rule.id, *map(cell, rule)])
        for name, standing in zip(outcomes, rule, strict=True):
            sums[name][_WORDS[standing.word]] += 1
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield _GAP.join(map(str.ljust, row, widths)).rstrip()
    yield ""
    for name, words in sums.items():
        counted = (f"{words[word]} {word}" for word in (HOLDS, FAILS, CANNOT_SAY, BROKEN))
        yield f"{name}: {', '.join(counted)}, of {count(words.total(), 'rule')}."
    if without[NOT_RUN]:
        yield f"No case was run of {count(without[NOT_RUN], 'other rule')}."
    if without[NOT_BUILT]:
        yield f"Stated and not built yet: {count(without[NOT_BUILT], 'rule')}."


def reasons(outcomes: Outcomes) -> Iterator[str]:
    """Give why: every case that did not pass, target by target."""
    for name, outcome in outcomes.items():
        for verdict in outcome.verdicts:
            if verdict.word != "passed":
                yield ""
                first, *more = about(verdict)
                yield f"{name}: {first}"
                yield from more


def as_object(outcomes: Outcomes) -> dict[str, Any]:
    """Give it for programs: ``targets`` maps each name to a report as `executor verify --json`."""
    reports = {
        name: as_json.report(outcome, holds=outcome.counts.total() == outcome.counts["passed"])
        for name, outcome in outcomes.items()
    }
    return {"report": "compare/1", "targets": reports}
