"""Planted: is the harness able to find a fault?  It is shown a target that lies.

The target says that it delivered, and did nothing. Nothing of the executor takes part, so that a
fault of the executor is never taken for one of the harness.
"""

import sys
from pathlib import Path

from executor.testing.engine import run_all
from executor.testing.spec_reading import read_spec
from executor.testing.verdicts import Outcome

_HERE = Path(__file__).parent
_TARGET = (sys.executable, "-IS", str(_HERE / "liar.py"))
_RIGHT = [
    ("nothing-was-sent", "failed", ["sent: 1, but 0"]),
    ("nothing-was-sent[control]", "passed", []),
    ("it-has-no-clock", "unsupported", []),
    ("it-has-no-clock[control]", "passed", []),
    ("it-answers-nonsense", "broken", []),
    ("it-answers-nonsense[control]", "passed", []),
]


async def missed() -> str:
    """Let the harness judge the target that lies.

    Returns:
        what it did not find out; empty where it found out everything.
    """
    outcome = await run_all([read_spec(_HERE / "liar.yaml")], target=_TARGET, jobs=len(_RIGHT))
    pairs = zip(_found(outcome), _RIGHT, strict=True)
    return "; ".join(f"{was} instead of {right}" for was, right in pairs if was != right)


def _found(outcome: Outcome) -> list[tuple[str, str, list[str]]]:
    return [
        (
            verdict.case.id,
            verdict.word,
            [f"{one.key}: {one.expected}, but {one.actual}" for one in verdict.failures],
        )
        for verdict in outcome.verdicts
    ]
