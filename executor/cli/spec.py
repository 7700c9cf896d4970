"""Spec: check the files of rules and scenarios, and say what they can hold."""

import inspect
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from executor.cli.output import print_json, printable, say, styled, warn
from executor.problems import Faulty

if TYPE_CHECKING:
    from executor.testing.coverage import Finding
    from executor.testing.mutants import MutantsFile
    from executor.testing.spec import SpecFile

BLIND = 70
NOT_VALID = 2
_FOLDERS = {
    "given": "What a case starts from",
    "steps": "What is done to the executor and to the world around it",
    "then": "What must come of it",
}


@click.group("spec", short_help="Check rules and scenarios, and say what they can hold.")
def command() -> None:
    """Check the files of rules and scenarios, and say what they can hold.

    `executor verify` runs them. docs/scenarios.md begins with a tool, a fake and its scenarios.

    \b
    Example:
      executor spec check specs
      executor spec parts
    """


@command.command("check", short_help="Say what is wrong with spec files.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print the problems as one JSON object.")
def check(paths: tuple[str, ...], as_json: bool) -> int:
    """Say what is wrong with spec files, by line; nothing is run.

    A PATH is a file, or a directory of them. Exits with 2 where anything is wrong.

    \b
    Example:
      executor spec check specs
    """
    from executor.testing.spec_reading import read_specs

    try:
        files = read_specs(paths)
    except Faulty as faulty:
        return _not_valid(faulty, as_json)
    except OSError as failed:
        raise click.UsageError(f"{failed.filename}: {failed.strerror}.") from None
    if not files:
        raise click.UsageError("No spec is there: a spec begins with `executor: spec/1`.")
    if as_json:
        print_json({"problems": []})
    else:
        for file in files:
            say(f"{printable(file.path)}: {_counted([file])}.")
    return 0


@command.command("schema", short_help="Print the JSON Schema of a spec file.")
def schema() -> int:
    """Print the JSON Schema of a spec file, for editors.

    \b
    Example:
      executor spec schema > spec.schema.json
    """
    from executor.testing.spec import schema as made

    say(json.dumps(made(), indent=2))
    return 0


@command.command("parts", short_help="Print what given, steps and then can hold.")
@click.option("--json", "as_json", is_flag=True, help="Print it as one JSON object.")
def parts(as_json: bool) -> int:
    """Print every key of given, steps and then, and every word of expectations.

    \b
    Example:
      executor spec parts
    """
    from executor.testing.matching import WORDS
    from executor.testing.parts import parts as known

    folders = {name: known(f"executor.testing.{name}") for name in _FOLDERS}
    if as_json:
        told = {name: {key: one.doc for key, one in all_.items()} for name, all_ in folders.items()}
        print_json({**told, "words": WORDS})
        return 0
    for name, title in _FOLDERS.items():
        say(styled(f"{name}: {title}\n", bold=True))
        for key, one in folders[name].items():
            head, _, rest = one.doc.partition("\n")
            own = inspect.getdoc(one.type) if one.type.__module__ == one.act.__module__ else ""
            say(f"  {styled(key, 'cyan')}: {head}")
            own = "" if own == "See the module." else own
            for line in filter(str.strip, f"{rest}\n{own}".splitlines()):
                say(f"    {line}")
        say("")
    say(styled("words: Looser than a value, as a mapping with one key\n", bold=True))
    for word, meaning in WORDS.items():
        say(f"  {styled(word, 'cyan')}: {meaning}")
    return 0


@command.command("coverage", short_help="Find rules that nothing proves.")
@click.option(
    "--specs", "specs", multiple=True, metavar="PATH", help="By default our own. May be repeated."
)
@click.option("--mutants", metavar="PATH", help="A file of mutants, or a directory of them.")
@click.option("--json", "as_json", is_flag=True, help="Print the gaps as one JSON object.")
def coverage(specs: tuple[str, ...], mutants: str | None, as_json: bool) -> int:
    """Find rules without scenario or mutant, and scenarios and mutants without rule.

    With --specs the mutants are those in ./mutants; where there is no such directory, no rule
    needs one. Before that the check is shown planted gaps, and must find each.

    \b
    Example:
      executor spec coverage
      executor spec coverage --specs specs --mutants mutants

    \b
    Exit codes:
      0   every built rule is proven
      1   there are gaps
      2   the files are not valid
      70  a planted gap was not found: believe nothing
    """
    from executor.refusal import TABLE
    from executor.testing.coverage import gaps, missed
    from executor.testing.mutants import read_mutants
    from executor.testing.places import shipped
    from executor.testing.spec_reading import read_specs

    if blind := missed():
        warn(f"The check is blind: {printable(blind)}")
        return BLIND
    refusals = [] if specs else [(row.rule, row.code) for row in TABLE]
    where: Path | None = Path(mutants or "mutants") if mutants or specs else shipped("mutants")
    if where == Path("mutants") and not mutants and not where.exists():
        where = None
    try:
        files = read_specs(specs or [shipped("specs")])
        edits = None if where is None else read_mutants([where])
    except Faulty as faulty:
        return _not_valid(faulty, as_json)
    except OSError as failed:
        raise click.UsageError(f"{failed.filename}: {failed.strerror}.") from None
    if not files:
        raise click.UsageError("No spec is there: a spec begins with `executor: spec/1`.")
    found = gaps(files, edits, refusals)
    if as_json:
        print_json({"findings": [one.facts() for one in found], **_numbers(files, edits or ())})
    else:
        _tell(files, edits or (), found)
    return int(bool(found))


def _tell(
    files: "Sequence[SpecFile]", edits: "Sequence[MutantsFile]", found: "Sequence[Finding]"
) -> None:
    for one in found:
        warn(printable(str(one)))
    mutants = sum(len(file.mutants) for file in edits)
    say(f"{_counted(files)}, {mutants} mutants.")
    if found:
        kinds = Counter(one.kind for one in found)
        told = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        say(styled(f"{len(found)} gaps: {told}.", "red", bold=True))
    else:
        say(styled("Every built rule is proven.", "green", bold=True))


def _numbers(files: "Sequence[SpecFile]", edits: "Sequence[MutantsFile]") -> dict[str, Any]:
    rules = [rule for file in files for rule in file.spec.rules]
    return {
        "rules": len(rules),
        "not_built": [rule.id for rule in rules if not rule.built],
        "scenarios": sum(len(rule.scenarios) for rule in rules),
        "mutants": sum(len(file.mutants) for file in edits),
    }


def _counted(files: "Sequence[SpecFile]") -> str:
    rules = [rule for file in files for rule in file.spec.rules]
    built = sum(rule.built for rule in rules)
    scenarios = sum(len(rule.scenarios) for rule in rules)
    return f"{built} rules, {len(rules) - built} not built yet, {scenarios} scenarios with controls"


def _not_valid(faulty: Faulty, as_json: bool) -> int:
    if as_json:
        from dataclasses import asdict

        print_json({"problems": [asdict(one) for one in faulty.problems]})
    else:
        for problem in faulty.problems:
            warn(printable(str(problem)))
    return NOT_VALID
