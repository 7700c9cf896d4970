"""What `executor spec coverage` cannot see of the rules: the table of refusals, and the tests."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from executor.refusal import TABLE

TOP = Path(__file__).parent.parent
RULES: dict[str, dict[str, Any]] = {
    rule["id"]: rule
    for path in sorted((TOP / "specs").glob("*.yaml"))
    for rule in yaml.safe_load(path.read_text())["rules"]
    if rule.get("built", True)
}
TESTED = set(
    re.findall(
        r"^\s*# rule: ([a-z]+\.[a-z-]+)",
        "\n".join(path.read_text() for path in (TOP / "tests").rglob("test_*.py")),
        re.MULTILINE,
    )
)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.rule}-{row.code}")
def test_a_refusal_can_be_looked_up_in_its_spec(row: Any) -> None:
    """One search for a rule's id must find the whole story."""
    assert row.code in RULES[row.rule]["codes"]


@pytest.mark.parametrize("rule", [one for one, told in RULES.items() if "only-tests" in told])
def test_a_rule_without_scenarios_has_a_test(rule: str) -> None:
    """`executor spec coverage` sees to all others, and to their mutants."""
    assert rule in TESTED


def test_no_test_names_a_rule_that_is_not_stated() -> None:
    """A misspelt rule would look covered and be nobody's."""
    assert TESTED - set(RULES) == set()
