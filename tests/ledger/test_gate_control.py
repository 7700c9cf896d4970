"""Control: with the window switched off, the tests that see a delivery block go red, and no other.

What asserts that is named `..._is_refused_as_delivered`.
"""

import os
import re
import subprocess
import sys

from tests.spawning.runs import TOP

CASES = "tests/ledger/test_gate_cases.py"
SELECTED = "test_19 or test_22_d or test_22_e or test_24_c or test_24_g or test_46 or owner_whose"
ENDING = "_is_refused_as_delivered"


def outcomes(window: str | None) -> dict[str, set[str]]:
    """Run some of the cases; give the names that passed and those that failed."""
    environment = {k: v for k, v in os.environ.items() if k != "EXECUTOR_DUPLICATE_WINDOW"}
    if window is not None:
        environment["EXECUTOR_DUPLICATE_WINDOW"] = window
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-rA", "-q", "-p", "no:cacheprovider"),
            *(CASES, "-k", SELECTED),
        ],
        cwd=TOP,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, set[str]] = {"PASSED": set(), "FAILED": set()}
    for outcome, name in re.findall(r"^(\w+) \S+::(test_\w+)", done.stdout, re.MULTILINE):
        found[outcome].add(name)
    return found


# rule: ledger.delivered
# rule: ledger.window
def test_without_a_window_exactly_what_sees_a_delivery_block_goes_red() -> None:
    """A test that stays green then would be green whatever the ledger does."""
    on, off = outcomes(None), outcomes("0")

    every = on["PASSED"]
    assert on["FAILED"] == set()
    assert off["PASSED"] | off["FAILED"] == every
    assert off["FAILED"] == {name for name in every if name.endswith(ENDING)}
    assert len(off["FAILED"]) == 4
    assert len(off["PASSED"]) == 5
