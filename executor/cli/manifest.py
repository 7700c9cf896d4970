"""Manifest: print the format, and check manifests before anybody relies on them."""

import json
from pathlib import Path

import click

from executor.capabilities import registry
from executor.cli.output import print_json, printable, say
from executor.manifest import manifest_schema
from executor.problems import Faulty, Problem
from executor.rules import manifests


@click.group("manifest")
def command() -> None:
    """The format of manifests, and whether a manifest is right."""


@command.command("schema")
def schema() -> None:
    """Print the JSON Schema of a manifest.

    \b
    Example:
      executor manifest schema > manifest.schema.json
    """
    say(json.dumps(manifest_schema(), indent=2))


@command.command("check")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each file.")
def check(files: tuple[Path, ...], as_json: bool) -> int:
    """Tell every problem of each FILE: its place, what was found, what to write instead.

    Exits with 0 when there is none, else with 2.

    \b
    Example:
      executor manifest check tools/*.yaml
    """
    failed = False
    for file in files:
        tool, problems = _check(file)
        failed = failed or bool(problems)
        if as_json:
            print_json(_as_json(file, tool, problems))
            continue
        if not problems:
            say(f"{file}: {tool} is valid.")
        for problem in problems:
            click.echo(printable(str(problem)), err=True)
    return 2 if failed else 0


def _check(file: Path) -> tuple[str | None, tuple[Problem, ...]]:
    try:
        return manifests.load(file.read_bytes(), str(file), registry()).manifest.tool, ()
    except Faulty as faulty:
        return None, faulty.problems
    except OSError as failed:
        return None, (Problem(str(file), 1, 1, "", str(failed.strerror), "Check the path"),)


def _as_json(file: Path, tool: str | None, problems: tuple[Problem, ...]) -> dict[str, object]:
    return {
        "file": str(file),
        "tool": tool,
        "valid": not problems,
        "problems": [
            {
                "line": problem.line,
                "column": problem.column,
                "key": problem.key,
                "found": problem.found,
                "instead": problem.instead,
            }
            for problem in problems
        ],
    }
