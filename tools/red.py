"""See tests go red: apply each edit of `mutants/` to a copy and run the tests that it names.

A first tool for the time before the mutation runner. The copy is imported instead of the
installed package, the untouched copy must be green first, and only a failed test counts.

Usage: python tools/red.py [FAMILY ...] [--only ID]
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import yaml

TOP = Path(__file__).parent.parent
PYTEST_FAILED = 1


class Mutant(NamedTuple):
    """One edit, and the tests that must go red."""

    id: str
    rule: str
    file: str
    old: str
    new: str
    red: tuple[str, ...]


def read(families: list[str]) -> list[Mutant]:
    """Read the mutants of some families, or of all."""
    mutants = []
    for path in sorted((TOP / "mutants").glob("*.yaml")):
        if families and path.stem not in families:
            continue
        for entry in yaml.safe_load(path.read_text())["mutants"]:
            edit = entry["edit"]
            red = tuple([entry["red"]] if isinstance(entry["red"], str) else entry["red"])
            mutants.append(
                Mutant(entry["id"], entry["rule"], edit["file"], edit["from"], edit["to"], red)
            )
    return mutants


def passes(tree: Path, test: str) -> tuple[int, str]:
    """Run one test on a tree; give pytest's exit code and its output."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", test],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        errors="backslashreplace",  # a failing test may print any bytes
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def judge(tree: Path, mutant: Mutant) -> str:
    """Give the verdict on one mutant: ``killed``, or what is wrong."""
    file = tree / mutant.file
    source = file.read_text()
    if source.count(mutant.old) != 1:
        return f"not applied: its text occurs {source.count(mutant.old)} times"
    file.write_text(source.replace(mutant.old, mutant.new))
    try:
        for test in mutant.red:
            code, output = passes(tree, test)
            if code != PYTEST_FAILED or " failed" not in output.splitlines()[-1]:
                return f"survived {test} (exit {code}): {output.splitlines()[-1:]}"
    finally:
        file.write_text(source)
    return "killed"


def main() -> int:
    """Judge the mutants; 0 when each was killed by each test it names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*")
    parser.add_argument("--only")
    arguments = parser.parse_args()
    mutants = [m for m in read(arguments.families) if arguments.only in (None, m.id)]
    bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis")
        shutil.copytree(TOP, tree, ignore=ignored)
        for test in sorted({test for mutant in mutants for test in mutant.red}):
            code, output = passes(tree, test)
            if code != 0:
                print(f"control not green: {test}\n{output[-2000:]}")
                bad += 1
        for mutant in mutants if not bad else ():
            verdict = judge(tree, mutant)
            print(f"{mutant.id}: {verdict}", flush=True)
            bad += verdict != "killed"
    print(f"{len(mutants)} mutants, {bad} not as declared")
    return 1 if bad or not mutants else 0


if __name__ == "__main__":
    sys.exit(main())
