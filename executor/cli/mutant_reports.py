"""Mutant reports: the files that a run of mutants can leave, and what CI services are shown."""

import os
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from executor.cli import papers
from executor.cli.output import say

if TYPE_CHECKING:
    from executor.testing.mutation.reports.entries import Standing

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


def reader(top: Path) -> Callable[[str], str]:
    """Give what reads the files of a project."""
    return lambda name: (top / name).read_text(encoding="utf-8")
