"""Which rule holds in which implementation: runs the scenarios of `specs/`, or of PATHs, against
the executor, its own command line, a plain subprocess and a plain bwrap, and prints the table.

Exits with 0 once they were compared, whatever came of it; with 1 if a case is broken, so that
nothing is known of it; with 2 if a spec is not valid.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import click
import trio

from executor.problems import Faulty
from executor.testing import engine, planted
from executor.testing.choosing import reader
from executor.testing.places import shipped
from executor.testing.spec import Case
from executor.testing.spec_reading import read_specs
from tools.peers import table

PEERS = Path(__file__).parent
TARGETS: Mapping[str, Sequence[str] | None] = {
    "executor": None,
    "executor-cli": (sys.executable, str(PEERS / "executor_cli.py")),
    "plain-subprocess": (sys.executable, str(PEERS / "plain_subprocess.py")),
    "plain-bwrap": (sys.executable, str(PEERS / "plain_bwrap.py")),
}


def main(arguments: Sequence[str]) -> int:
    """Run the cases, print the table, and give the exit code."""
    given = _parser().parse_args(arguments)
    try:
        files = read_specs(given.paths)
    except (Faulty, OSError) as wrong:
        click.echo(str(wrong), err=True)
        return 2
    words = reader(given.k)

    def chosen(case: Case) -> bool:
        return words(f"{case.file.path}::{case.id} {case.rule.id}")

    if missed := trio.run(planted.missed):
        click.echo(f"The harness did not find a planted fault: {missed}", err=True)
        return 70
    outcomes = {}
    for name in given.only or TARGETS:
        click.echo(f"{name} ...", err=True)
        run = partial(engine.run_all, files, target=TARGETS[name], jobs=given.jobs, chosen=chosen)
        outcomes[name] = trio.run(run)
    if given.json:
        click.echo(json.dumps(table.as_object(outcomes), indent=1))
    else:
        click.echo("\n".join(table.lines(outcomes)))
        if given.why:
            click.echo("\n".join(table.reasons(outcomes)))
    return int(any(one.counts["broken"] for one in outcomes.values()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="compare", description=__doc__)
    parser.add_argument("paths", nargs="*", default=[shipped("specs")], metavar="PATH")
    parser.add_argument("-k", default="", metavar="WORDS", help="only cases for which these hold")
    parser.add_argument("--only", action="append", choices=TARGETS, help="may be repeated")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--why", action="store_true", help="tell each case that did not pass")
    parser.add_argument("--json", action="store_true", help="print one JSON object, and no table")
    return parser
