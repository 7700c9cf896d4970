"""Sweep: run every edit that a generator can make, and see which of them no test finds out."""

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from executor.cli import mutant_reports, papers, signals
from executor.cli.output import note, print_json, printable, say, warn
from executor.cli.projects import STALE, VOID, project
from executor.cli.signals import NOTHING_HAPPENED

if TYPE_CHECKING:
    from executor.testing.mutation.campaign import Campaign, Score
    from executor.testing.mutation.generating import Generated
    from executor.testing.mutation.settings import Settings, Thresholds
    from executor.testing.mutation.verdicts import Verdict


@click.command("sweep", short_help="Run every edit that a generator can make.")
@click.argument("paths", nargs=-1, metavar="[PATH...]")
@click.option(
    "--function", "functions", multiple=True, metavar="NAME", help="Only in functions of this name."
)
@click.option("--id", "names", multiple=True, help="Only the one of this id. May be repeated.")
@click.option(
    "--trace/--no-trace",
    default=True,
    help="Whether to find tests for what no known test kills; that takes as long as all tests do.",
)
@click.option(
    "--budget",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="What the tests of one mutant may take in all; others are not run.  [default: no limit]",
)
@click.option("--record", is_flag=True, help="Write down which test killed which (killers.json).")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Mutants that run at the same time.  [default: one for each processor]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the verdicts as one JSON object.")
@mutant_reports.options
def command(
    paths: tuple[str, ...],
    functions: tuple[str, ...],
    names: tuple[str, ...],
    trace: bool,
    budget: float | None,
    record: bool,
    jobs: int | None,
    as_json: bool,
) -> int:
    """Run every edit that mutmut's operators can make in the functions of PATHs, or of all that
    `[tool.executor.mutants.generated]` names.

    The test that is known to kill a mutant (mutants/killers.json) is tried first, and has to kill
    it again. For the others all tests are traced, once, and those that enter the mutant's function
    are run, the likeliest first. What survives is listed with its edit; what is in
    mutants/equivalent.yaml is not run.

    \b
    Example:
      executor mutants sweep executor/rules/ledger.py
      executor mutants sweep --no-trace

    \b
    Exit codes:
      0   no package's score is below its `break`
      1   one is
      2   the options or the files are not valid; nothing was run
      3   mutants/equivalent.yaml lists what is not there any more
      5   it was interrupted
      70  the run means nothing: the no-op or the edit that must die went wrong
    """
    from executor.testing.mutation import campaign
    from executor.testing.mutation.judging import DETECTED
    from executor.testing.mutation.known import write_killers
    from executor.testing.mutation.reports import entries

    found = project()
    mutants = _generated(found)
    chosen = [
        one
        for one in mutants
        if (not paths or any(campaign.is_in(one.file, path) for path in paths))
        and (not functions or one.function in functions)
        and (not names or one.id in names)
    ]
    if not chosen:
        raise click.UsageError("No mutant is chosen.")
    if stale := list(found.equivalents.stale(mutants)):
        for problem in stale:
            warn(printable(str(problem)))
        return STALE
    results: list[Campaign] = []
    done: list[Verdict] = []

    def told(verdict: "Verdict") -> None:
        done.append(verdict)
        if verdict.judgement.word not in DETECTED:
            warn(mutant_reports.about(verdict))
        if not len(done) % 100:
            note(f"{len(done)} of {len(chosen)}")

    def traced(count: int, of: int) -> None:
        if not count % 500:
            note(f"traced {count} of {of} tests")

    async def work() -> None:
        results.append(
            await campaign.run(
                found.top, chosen, found.settings, equivalents=found.equivalents,
                killers=found.killers, trace=trace, jobs=jobs or len(os.sched_getaffinity(0)),
                budget=math.inf if budget is None else budget, told=told, traced=traced,
            )
        )  # fmt: skip

    with papers.opened(mutant_reports.wanted()) as opened:
        if not mutant_reports.ran(work, done, len(chosen)):
            return NOTHING_HAPPENED
        [result] = results
        standing = entries.standing(
            "generated mutants", result.outcome, mutant_reports.reader(found.top),
            ignored=result.ignored, thresholds=_lowest(found.settings),
        )  # fmt: skip
        written = mutant_reports.write(opened, standing)
    if record and not result.outcome.void:
        alive = {one.id for one in mutants}
        tried = {one.id for one in chosen}
        kept = {one: test for one, test in found.killers.items() if one in alive - tried}
        write_killers(found.top / found.settings.mutants, kept | result.killers)
    code = VOID if result.outcome.void else int(not all(_holding(result.scores, chosen, mutants)))
    signals.settle(code)
    if as_json:
        print_json(_facts(result))
    else:
        mutant_reports.annotate(standing)
        _summary(result)
    return code if written else code or 1


def _generated(found: Any) -> "Sequence[Generated]":
    from executor.testing.mutation import campaign
    from executor.testing.mutation.generating import NoGenerator

    if not found.settings.generated:
        raise click.UsageError("pyproject.toml names no [tool.executor.mutants.generated].")
    try:
        texts = campaign.sources(found.top, found.settings)
        return campaign.all_generated(texts, found.settings)
    except NoGenerator as missing:
        raise click.UsageError(str(missing)) from None
    except SyntaxError as wrong:
        raise click.UsageError(f"{wrong.filename}: {wrong.msg}") from None


def _holding(
    scores: "Sequence[Score]", chosen: "Sequence[Generated]", all_: "Sequence[Generated]"
) -> list[bool]:
    """Say of each score whether it is enough; a part of the mutants says nothing of a package."""
    return [one.holds for one in scores] if len(chosen) == len(all_) else [True]


def _lowest(settings: "Settings") -> "Thresholds":
    """Give the thresholds of the package that breaks first: a report has room for one."""
    return min(settings.generated.values(), key=lambda one: one.break_)


def _summary(result: "Campaign") -> None:
    for score in result.scores:
        if whole := score.detected + score.survived:
            say(f"{score.package}: {score.per_cent:.1f} % ({score.detected} of {whole})")
    mutant_reports.tell(result.outcome, f"{len(result.ignored)} listed as equivalent")


def _facts(result: "Campaign") -> dict[str, Any]:
    return mutant_reports.facts(result.outcome) | {
        "scores": {one.package: round(one.per_cent, 2) for one in result.scores},
        "ignored": {one.id: why for one, why in result.ignored},
    }
