"""Mutant reports: what a run of mutants tells, to people, to CI services, and in files."""

import os
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from executor.cli import papers, working
from executor.cli.output import note, printable, say, styled, warn
from executor.cli.signals import Interrupted

if TYPE_CHECKING:
    from executor.testing.mutation.reports.entries import Standing
    from executor.testing.mutation.verdicts import Outcome, Verdict

_OPTIONS = {
    "--html": "Write a report for browsers, as one file.",
    "--elements": "Write JSON in the mutation-testing-report-schema, for Stryker's viewers.",
    "--junit": "Write a JUnit report, for CI servers.",
    "--sarif": "Write what did not end as it should as SARIF, for code scanning.",
}
Command = TypeVar("Command", bound=Callable[..., Any])


def options(command: Command) -> Command:
    """Give a command the options of all reports; they arrive as one mapping, ``wanted``."""
    for option, help_ in reversed(_OPTIONS.items()):
        command = click.option(
            option, metavar="FILE", help=help_, expose_value=False, callback=_keep
        )(command)
    return command


def _keep(context: click.Context, option: click.Parameter, value: str | None) -> None:
    wanted = context.ensure_object(dict).setdefault("reports", {})
    wanted[option.opts[0]] = value


def wanted() -> Mapping[str, str | None]:
    """Give what was asked for: option to path."""
    found: Mapping[str, str | None] = click.get_current_context().ensure_object(dict)["reports"]
    return found


def write(opened: Mapping[str, Any], standing: "Standing") -> bool:
    """Write the reports whose files are open; say whether all of them were."""
    from executor.testing.mutation.reports import elements, html, junit, sarif

    own = version("sealed-executor")
    return papers.write(
        opened,
        {
            "--html": lambda: html.report(standing),
            "--elements": lambda: elements.report(standing, version=own),
            "--junit": lambda: junit.report(standing),
            "--sarif": lambda: sarif.report(standing, version=own),
        },
    )


def annotate(standing: "Standing") -> None:
    """Tell the CI service that this runs on, if it is one that shows such lines beside the code."""
    from executor.testing.mutation.reports import annotations

    service = annotations.service(dict(os.environ))
    if service is not None:
        told = annotations.github if service == "github" else annotations.azure
        for line in told(standing):
            say(line)


def ran(work: Callable[[], Awaitable[None]], done: "Sequence[Verdict]", of: int) -> bool:
    """Run mutants; say whether they came to their end, and if not, how far they came."""
    try:
        working.run(work)
    except Interrupted:
        note(f"interrupted; {len(done)} of {of} mutants had a verdict.")
        return False
    return True


def about(verdict: "Verdict") -> str:
    """Give the lines that tell of a mutant which did not end as it should."""
    found, mutant = verdict.judgement, verdict.mutant
    lines = [styled(f"{mutant.id}: {found.word}", "red", bold=True) + f" ({mutant.rule})"]
    lines += [f"  {printable(line)}" for line in found.why.strip().splitlines()]
    lines += [f"  {printable(line)}" for line in verdict.patch.splitlines()]
    return "\n".join(lines)


def tell(outcome: "Outcome", more: str) -> None:
    """Tell people what came of a run, in one line."""
    if outcome.void:
        warn(styled("The run means nothing: ", "red", bold=True) + printable(outcome.void))
        return
    words = Counter(one.judgement.word for one in outcome.verdicts)
    told = ", ".join(f"{count} {word}" for word, count in words.most_common())
    rate = len(outcome.verdicts) / outcome.seconds if outcome.seconds else 0.0
    say(
        f"{told}; {more}, {outcome.again} looked at again; "
        f"{outcome.seconds:.0f} s, {rate:.1f} a second."
    )


def facts(outcome: "Outcome") -> dict[str, Any]:
    """Give what came of a run as plain data."""
    import msgspec

    from executor.testing.mutation.packet import Result

    return {
        "void": outcome.void,
        "seconds": round(outcome.seconds, 1),
        "again": outcome.again,
        "results": [msgspec.to_builtins(Result.of(one)) for one in outcome.verdicts],
    }


def reader(top: Path) -> Callable[[str], str]:
    """Give what reads the files of a project."""
    return lambda name: (top / name).read_text(encoding="utf-8")
