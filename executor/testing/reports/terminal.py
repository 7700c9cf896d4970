"""Terminal: what came of a run, for people who wait for it.

Colors are ANSI; whoever writes the lines takes them out where no terminal shows them.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TextIO

import click

from executor.testing.reports.standing import NOT_BUILT, NOT_RUN, WORDS, count, standings
from executor.testing.reports.values import shown
from executor.testing.verdicts import Outcome, Verdict
from executor.visible import printable

MOST = 1000
"""Characters of a value that are shown."""
_COLORS = {
    "passed": "green",
    "failed": "red",
    "broken": "red",
    "unsupported": "yellow",
    "skipped": "yellow",
}


@contextlib.contextmanager
def progress(total: int, stream: TextIO) -> Iterator[Callable[[Verdict], None]]:
    """Count the verdicts as they come, on a terminal; anywhere else, keep quiet."""
    if not stream.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    bar = Progress(*columns, console=Console(file=stream), transient=True, auto_refresh=False)
    task = bar.add_task("", total=total)
    counts: Counter[str] = Counter()

    def told(verdict: Verdict) -> None:
        counts[verdict.word] += 1
        said = ", ".join(f"{counts[word]} {word}" for word in WORDS[:-1] if counts[word])
        with contextlib.suppress(OSError):  # the terminal has gone; the run goes on
            bar.update(task, advance=1, description=said, refresh=True)

    with contextlib.suppress(OSError):
        bar.start()
    try:
        yield told
    finally:
        with contextlib.suppress(OSError):
            bar.stop()


def lines(outcome: Outcome) -> Iterator[str]:
    """Give the whole report: everything that did not pass, then the counts."""
    for word in ("unsupported", "skipped"):
        yield from _lacking(word, outcome)
    for verdict in outcome.verdicts:
        if verdict.word in ("broken", "failed"):
            yield from about(verdict)
            yield ""
    yield from _families(outcome)
    yield from _sum(outcome)


def about(verdict: Verdict) -> Iterator[str]:
    """Say what is wrong with a case that failed or is broken."""
    case = verdict.case
    head = click.style(verdict.word, fg=_COLORS[verdict.word], bold=True)
    yield f"{head} {case.rule.id} {case.id}"
    for failure in verdict.failures:
        yield f"  {printable(failure.where)}: {printable(failure.key)}"
        yield f"    expected {shown(failure.expected, MOST)}"
        yield f"    actual   {shown(failure.actual, MOST)}"
    if verdict.why:
        first, *more = verdict.why.strip().split("\n")
        yield f"  {printable(case.where)}: {printable(first)}"
        yield from (f"    {printable(line)}" for line in more)
    if verdict.kept:
        yield f"  kept in {printable(verdict.kept)}"


def _lacking(word: str, outcome: Outcome) -> Iterator[str]:
    """Tell the cases that were not run to their end, together with those of the same reason."""
    reasons: dict[str, list[Verdict]] = {}
    for verdict in outcome.verdicts:
        if verdict.word == word:
            reasons.setdefault(verdict.why, []).append(verdict)
    for why, verdicts in reasons.items():
        yield f"{click.style(word, fg=_COLORS[word], bold=True)} {printable(why)}"
        yield from (f"  {one.case.rule.id} {one.case.id}" for one in verdicts)
        yield ""


def _families(outcome: Outcome) -> Iterator[str]:
    counts: dict[str, Counter[str]] = {}
    for verdict in outcome.verdicts:
        counts.setdefault(verdict.case.file.spec.family, Counter())[verdict.word] += 1
    width = max(map(len, counts), default=0)
    for family, counted in counts.items():
        yield f"{family:{width}}  {_counted(counted)}"


def _sum(outcome: Outcome) -> Iterator[str]:
    words = Counter(standing.word for standing in standings(outcome))
    rules = sum(words[word] for word in WORDS)
    said = f"{count(len(outcome.verdicts), 'case')} of {count(rules, 'rule')}"
    yield ""
    yield (
        f"{said} against {printable(outcome.target)} in {outcome.seconds:.1f} s: "
        f"{_counted(outcome.counts)}."
    )
    if words[NOT_RUN]:
        yield f"No case was run of {count(words[NOT_RUN], 'other rule')}."
    if words[NOT_BUILT]:
        yield f"Stated and not built yet: {count(words[NOT_BUILT], 'rule')}."


def _counted(counts: Counter[str]) -> str:
    words = [word for word in reversed(WORDS) if counts[word]]
    return ", ".join(click.style(f"{counts[word]} {word}", fg=_COLORS[word]) for word in words)
