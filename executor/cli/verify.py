"""Verify: run rules' scenarios against the real executor, or against another implementation."""

import os
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from executor.cli import papers, signals, working
from executor.cli.output import note, print_json, printable, say, warn
from executor.cli.signals import NOTHING_HAPPENED, Interrupted
from executor.problems import Faulty, Problem

if TYPE_CHECKING:
    from executor.testing.spec import Case, SpecFile
    from executor.testing.verdicts import Outcome, Verdict

HARNESS_FAULT = 70
_FAMILIES_SHOWN = 20


@click.command("verify", short_help="Run the scenarios that try to break the rules.")
@click.argument("paths", metavar="[PATH...]", nargs=-1, type=click.Path())
@click.option(
    "-k",
    "expression",
    metavar="EXPR",
    default="",
    help="Only cases in whose file, rule or name these words are: "
    "'duplicate and not (control or crash)'.",
)
@click.option(
    "--family", "families", multiple=True, help="Only rules of this family. May be repeated."
)
@click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(min=1),
    help="Cases that run at the same time.  [default: one for each processor]",
)
@click.option(
    "--target",
    metavar="CMD",
    help="Test another implementation, which speaks the protocol of docs/targets.md on its stdin "
    "and stdout.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON object.")
@click.option("--junit", metavar="FILE", help="Write a JUnit report, for CI servers.")
@click.option("--html", metavar="FILE", help="Write a report for browsers, as one file.")
@click.option("--strict", is_flag=True, help="Fail also where a case is unsupported or skipped.")
@click.option("--keep", metavar="DIR", help="Keep the files of cases that did not pass in there.")
def command(
    paths: tuple[str, ...],
    expression: str,
    families: tuple[str, ...],
    jobs: int | None,
    target: str | None,
    as_json: bool,
    junit: str | None,
    html: str | None,
    keep: str | None,
    strict: bool,
) -> int:
    """Run the scenarios of spec files with real processes, each beside its control.

    A PATH is a spec file, or a directory of them. Without one our own rules are tested on this
    machine. Before anything else the harness is shown a target that lies, and must find it out.
    What a target cannot do is unsupported, and for what is skipped the machine lacks something:
    neither counts as passed. Both fail a run that is --strict; against the executor itself,
    unsupported always does, and skipped with CI in the environment.

    \b
    Example:
      executor verify
      executor verify specs -k 'deploy and not control' --keep kept
      executor verify --family ledger --html report.html
      executor verify --target 'python3 my_target.py' --json

    \b
    Exit codes:
      0   every case that could be run passed
      1   a case failed or is broken, or not a single one passed
      2   the options or the files are not valid; nothing was run
      5   it was interrupted
      70  the harness did not find a planted fault: believe no verdict
    """
    from executor.testing.reports import terminal

    words = None if target is None else _target(target)
    try:
        files, chosen = _selected(paths, expression, families)
    except Faulty as faulty:
        return _not_valid(faulty.problems, as_json)
    with papers.opened({"--junit": junit, "--html": html}) as opened:
        if keep is not None:
            _make_directory(keep)
        run = _Run(files, chosen, jobs or len(os.sched_getaffinity(0)), words, keep)
        try:
            working.run(run.go)
        except Interrupted:
            if as_json:
                print_json(run.cut_short())
                return NOTHING_HAPPENED
            for verdict in run.told:
                if verdict.word in ("broken", "failed"):
                    warn("\n".join(terminal.about(verdict)))
            note(f"interrupted; {len(run.told)} of {run.total} cases had come to their end.")
            return NOTHING_HAPPENED
        if run.missed:
            return _harness_fault(run.missed, as_json)
        holds = _holds(run.outcome, ours=words is None, strict=strict)
        code = 0 if holds else 1
        signals.settle(code)
        written = papers.write(opened, _reports(run.outcome))
    _tell(run.outcome, holds, as_json)
    return code if written else code or 1


class _Run:
    """The run itself, and what is known of it if it is cut short."""

    outcome: "Outcome"

    def __init__(
        self,
        files: "list[SpecFile]",
        chosen: "Callable[[Case], bool]",
        jobs: int,
        target: list[str] | None,
        keep: str | None,
    ) -> None:
        self.told: list[Verdict] = []
        self.total = sum(chosen(case) for file in files for case in file.cases())
        self.missed = ""
        self._files, self._chosen, self._jobs = files, chosen, jobs
        self._target, self._keep = target, None if keep is None else Path(keep).absolute()

    def cut_short(self) -> dict[str, Any]:
        """Give what was found before it was interrupted, as a report that does not hold."""
        from executor.testing.reports import as_json
        from executor.testing.verdicts import Outcome

        target = "executor" if self._target is None else " ".join(self._target)
        found = Outcome(tuple(self._files), tuple(self.told), target)
        return as_json.report(found, holds=False) | {"interrupted": True}

    async def go(self) -> None:
        """See whether the harness finds a planted fault, then run what was chosen."""
        from executor.testing import planted
        from executor.testing.engine import run_all
        from executor.testing.reports import terminal

        self.missed = await planted.missed()
        if self.missed:
            return
        with terminal.progress(self.total, sys.stderr) as show:

            def told(verdict: "Verdict") -> None:
                self.told.append(verdict)
                show(verdict)

            self.outcome = await run_all(
                self._files,
                target=self._target,
                jobs=self._jobs,
                keep=self._keep,
                chosen=self._chosen,
                told=told,
            )


# -- what is asked for -----------------------------------------------------------------------------


def _selected(
    paths: tuple[str, ...], expression: str, families: tuple[str, ...]
) -> "tuple[list[SpecFile], Callable[[Case], bool]]":
    """Read the files, and choose among their cases.

    Raises:
        Faulty: the files are not valid.
        click.UsageError: nothing is chosen.
    """
    from executor.testing import choosing

    try:
        holds = choosing.reader(expression)
    except choosing.BadExpression as bad:
        raise click.BadParameter(f"{expression!r}: {bad}.", param_hint="'-k'") from None
    files = _read(paths)
    known = sorted({file.spec.family for file in files})
    for family in families:
        if family not in known:
            said = ", ".join(known[:_FAMILIES_SHOWN]) or "there is none"
            raise click.BadParameter(f"{family!r}; known: {said}.", param_hint="'--family'")
    if families:
        files = [file for file in files if file.spec.family in families]

    def chosen(case: "Case") -> bool:
        return holds(f"{case.file.path}::{case.id}\n{case.rule.id}")

    if not any(chosen(case) for file in files for case in file.cases()):
        raise click.UsageError("Nothing is selected: no case of a spec is meant by this.")
    return files, chosen


def _read(paths: tuple[str, ...]) -> "list[SpecFile]":
    from executor.testing.places import shipped
    from executor.testing.spec_reading import read_specs

    try:
        return read_specs(paths or [shipped("specs")])
    except OSError as failed:
        file, found = str(failed.filename or ""), failed.strerror or str(failed)
        problem = Problem(file, 1, 1, "", found, "Check the path and who may read it")
        raise Faulty([problem]) from None


def _target(given: str) -> list[str]:
    """Give the words of the target. It is started elsewhere, so that files are named in full."""
    try:
        words = shlex.split(given)
    except ValueError as wrong:
        raise click.BadParameter(f"{given!r}: {wrong}.", param_hint="'--target'") from None
    if not words or shutil.which(words[0]) is None:
        found = f"there is no program {words[0]!r}" if words else "it is empty"
        raise click.BadParameter(f"{found}.", param_hint="'--target'")
    head, *rest = words
    if "/" in head:
        head = os.path.abspath(head)
    return [head, *(os.path.abspath(word) if os.path.isfile(word) else word for word in rest)]


def _make_directory(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(0, "Permission denied")
    except OSError as failed:
        said = f"{path!r} cannot be written: {failed.strerror}."
        raise click.BadParameter(said, param_hint="'--keep'") from None


# -- what came of it -------------------------------------------------------------------------------


def _holds(outcome: "Outcome", *, ours: bool, strict: bool) -> bool:
    counts = outcome.counts
    if counts["failed"] or counts["broken"] or not counts["passed"]:
        return False
    from executor.testing.recognising import is_ci

    if counts["unsupported"] and (ours or strict):  # we can do all that there is a word for
        return False
    return not (counts["skipped"] and (strict or (ours and is_ci(os.environ))))


def _reports(outcome: "Outcome") -> "dict[str, Callable[[], bytes]]":
    from executor.testing.reports import html, junit

    return {
        "--junit": lambda: junit.report(outcome),
        "--html": lambda: html.report(outcome).encode(),
    }


def _tell(outcome: "Outcome", holds: bool, as_json: bool) -> None:
    if as_json:
        from executor.testing.reports import as_json as json_report

        print_json(json_report.report(outcome, holds=holds))
    else:
        from executor.testing.reports import terminal

        for line in terminal.lines(outcome):
            say(line)


def _not_valid(problems: tuple[Problem, ...], as_json: bool) -> int:
    for problem in problems:
        warn(printable(str(problem)))
    if as_json:
        print_json(
            {
                "report": "verify/1",
                "holds": False,
                "problems": [
                    {
                        "file": problem.file,
                        "line": problem.line,
                        "column": problem.column,
                        "key": problem.key,
                        "found": problem.found,
                        "instead": problem.instead,
                    }
                    for problem in problems
                ],
            }
        )
    return 2


def _harness_fault(missed: str, as_json: bool) -> int:
    said = f"the harness did not find a planted fault, so that no verdict counts: {missed}"
    note(printable(said))
    if as_json:
        print_json({"report": "verify/1", "holds": False, "fault": said})
    return HARNESS_FAULT
