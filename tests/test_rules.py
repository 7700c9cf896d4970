"""Every built rule is stated once, has a code in the table, a test and a mutant."""

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
MUTATED = {
    mutant["rule"]
    for path in sorted((TOP / "mutants").glob("*.yaml"))
    for mutant in yaml.safe_load(path.read_text())["mutants"]
}


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.rule}-{row.code}")
def test_a_refusal_can_be_looked_up_in_its_spec(row: Any) -> None:
    """One search for a rule's id must find the whole story."""
    assert row.code in RULES[row.rule]["codes"]


@pytest.mark.parametrize("rule", sorted(RULES))
def test_a_rule_has_a_test(rule: str) -> None:
    """A rule without a test is a wish."""
    assert rule in TESTED


@pytest.mark.parametrize("rule", sorted(RULES))
def test_a_rule_has_a_mutant(rule: str) -> None:
    """A test that was never seen red may not be able to fail."""
    assert rule in MUTATED


def test_no_test_or_mutant_names_a_rule_that_is_not_stated() -> None:
    """A misspelt rule would look covered and be nobody's."""
    assert (TESTED | MUTATED) - set(RULES) == set()
