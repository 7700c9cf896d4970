"""Manifest: print the format, and check manifests before anybody relies on them."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from executor.capabilities import registry
from executor.cli.output import print_json, printable, say, warn
from executor.manifest import manifest_schema
from executor.problems import Faulty, Problem
from executor.rules import manifests


@click.group("manifest", short_help="Print the format of manifests, and check manifests.")
def command() -> None:
    """Print the format of manifests, and check manifests.

    \b
    Example:
      executor manifest check tools/note.yaml
      executor manifest schema > manifest.schema.json
    """


@command.command("schema", short_help="Print the JSON Schema of a manifest.")
def schema() -> None:
    """Print the JSON Schema (2020-12) of a manifest, for editors and other tools.

    \b
    Example:
      executor manifest schema > manifest.schema.json
    """
    say(json.dumps(manifest_schema(), indent=2))


@command.command("check", short_help="Tell every problem of each file.")
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line for each file.")
def check(files: tuple[Path, ...], as_json: bool) -> int:
    """Tell every problem of each FILE: its place, what was found, what to write instead.

    Of a directory, every *.yaml in it is checked. Nothing is run. Exits with 0 when there is no
    problem, else with 2.

    \b
    Example:
      executor manifest check tools/*.yaml
      executor manifest check tools --json
    """
    failed = False
    declared: dict[str, Path] = {}
    for file in _files(files):
        tool, problems = _check(file, declared)
        failed = failed or bool(problems)
        if as_json:
            print_json(_as_json(file, tool, problems))
        elif not problems:
            say(printable(f"{file}: {tool} is valid."))
        for problem in problems:
            warn(printable(str(problem)))
    return 2 if failed else 0


def _files(given: Sequence[Path]) -> Iterator[Path]:
    for path in given:
        inside = sorted(path.glob("*.yaml")) if os.path.isdir(path) else ()
        yield from inside or (path,)


def _check(file: Path, declared: dict[str, Path]) -> tuple[str | None, tuple[Problem, ...]]:
    """Check one file; ``declared`` are the tools of those before it, and its own joins them."""
    try:
        tool = manifests.load(file.read_bytes(), str(file), registry()).manifest.tool
    except Faulty as faulty:
        return None, faulty.problems
    except IsADirectoryError:
        return None, (_unread(file, "There is no *.yaml in this directory", "Name another one"),)
    except (OSError, ValueError) as failed:
        found = getattr(failed, "strerror", None) or str(failed)
        return None, (_unread(file, found, "Check the path and who may read it"),)
    other = declared.setdefault(tool, file)
    if other.resolve() != file.resolve():
        found = f"{tool!r} is declared in {other} too"
        return tool, (Problem(str(file), 1, 1, "tool", found, "Give it another name"),)
    return tool, ()


def _unread(file: Path, found: str, instead: str) -> Problem:
    return Problem(str(file), 1, 1, "", found, instead)


def _as_json(file: Path, tool: str | None, problems: Sequence[Problem]) -> dict[str, object]:
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
