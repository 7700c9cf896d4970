"""Bench: what it costs, as ratios within one run; absolute times mean little elsewhere.

Usage: python -m tools.bench [--only run|freeze|import|ledger] [--runs N] [--mebibytes N] [--rows N]
"""

import argparse
import tempfile
from functools import partial
from pathlib import Path

import trio

from executor import open_executor
from tools.bench import actions, ledger


async def bench_actions(only: str | None, runs: int, mebibytes: int) -> None:
    """Measure what goes through a whole executor."""
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        (directory / "true.yaml").write_text(actions.MANIFEST)
        async with open_executor(
            state=directory / "state", manifests=[directory / "true.yaml"], roots=[directory]
        ) as executor:
            if only in (None, "run"):
                await actions.bench_run(executor, runs)
            if only in (None, "freeze"):
                await actions.bench_freeze(executor, directory, mebibytes)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("run", "freeze", "import", "ledger"))
    parser.add_argument("--runs", type=int, default=100, help="actions through the gate")
    parser.add_argument("--mebibytes", type=int, default=1024, help="size of the frozen file")
    parser.add_argument("--rows", type=int, default=10**6, help="attempts in the largest ledger")
    given = parser.parse_args()
    if given.only in (None, "run", "freeze"):
        trio.run(partial(bench_actions, given.only, given.runs, given.mebibytes))
    if given.only in (None, "import"):
        actions.bench_import()
    if given.only in (None, "ledger"):
        ledger.bench(given.rows)


if __name__ == "__main__":
    main()
