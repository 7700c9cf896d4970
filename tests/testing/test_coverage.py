"""Coverage of rules: each kind of gap is found, and a check that is blind says so."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from executor.plain_yaml import load
from executor.testing import coverage
from executor.testing.coverage import gaps
from executor.testing.mutants import parse_mutants
from executor.testing.places import shipped
from executor.testing.spec import schema
from executor.testing.spec_reading import parse_spec

SPEC = """\
executor: spec/1
family: page
rules:
  - id: page.a
    statement: s
    why: w
    codes: [CODE]
    scenarios:
      - id: x
        steps: [{run: {}}]
        then: {tally: {CODE: 1}}
        control: {given: {files: {a: a}}, then: {told: {status: delivered}}}
"""
MUTANTS = """\
mutants:
  - id: m
    rule: page.a
    why: w
    edit: {file: f, from: a, to: b}
    red: ["specs/page.yaml::x[control]", tests/t.py::test]
"""


def kinds(spec: str = SPEC, mutants: str = MUTANTS, *refusals: tuple[str, str]) -> list[str]:
    specs = [parse_spec(spec.encode(), "specs/page.yaml")]
    edits = [parse_mutants(mutants.encode(), "mutants/page.yaml")]
    return [one.kind for one in gaps(specs, edits, refusals)]


# rule: proof.every-rule
@pytest.mark.parametrize(
    ("kind", "spec", "mutants"),
    [
        ("no-scenario", SPEC[: SPEC.index("    scenarios")], MUTANTS.replace("[control]", "")),
        ("code-not-seen", SPEC.replace("tally: {CODE: 1}", "sent: 0"), MUTANTS),
        ("no-such-rule", SPEC, MUTANTS + MUTANTS[9:].replace("id: m", "id: n").replace(".a", ".b")),
        ("no-such-scenario", SPEC, MUTANTS.replace("::x[", "::y[")),
    ],
    ids=["no-scenario", "code-not-seen", "no-such-rule", "no-such-scenario"],
)
def test_a_gap_is_found_and_without_it_nothing(kind: str, spec: str, mutants: str) -> None:
    """What nothing tries to break is only hoped for."""
    assert kinds() == []

    assert kind in kinds(spec, mutants)


# rule: proof.every-rule
def test_a_rule_that_no_mutant_breaks_is_a_gap_unless_it_is_not_built() -> None:
    """A rule that is to come is counted, and no gap."""
    other = SPEC + "  - {id: page.b, statement: s, why: w, only-tests: it is so}\n"

    assert kinds(other) == ["no-mutant"]

    assert kinds(other.replace("only-tests: it is so", "built: false")) == []


# rule: proof.every-rule
def test_a_refusal_that_no_built_rule_states_is_a_gap() -> None:
    """Whoever is refused looks its rule up."""
    assert kinds(SPEC, MUTANTS, ("page.a", "CODE")) == []

    assert kinds(SPEC, MUTANTS, ("page.a", "OTHER")) == ["not-stated"]


# rule: proof.self-test
@pytest.mark.parametrize("check", ["_of_rules", "_of_mutants", "_of_refusals"])
def test_a_check_that_is_blind_is_found_out(check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that finds nothing may be blind."""
    assert coverage.missed() == ""

    def nothing(*_: object) -> Iterator[object]:
        return iter(())

    monkeypatch.setattr(coverage, check, nothing)
    assert coverage.missed() != ""


# rule: proof.self-test
def test_a_check_that_finds_too_much_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that cries at everything is switched off."""
    found: Callable[..., Any] = coverage._of_rules
    monkeypatch.setattr(coverage, "_of_rules", lambda *given: [*found(*given)] * 2)

    assert coverage.missed() != ""


def call(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "executor", "spec", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )


# rule: proof.every-rule
def test_every_rule_of_ours_is_proven() -> None:
    """The build fails for a rule that nothing tries to break."""
    done = call("coverage", "--json")

    assert (json.loads(done.stdout)["findings"], done.returncode) == ([], 0), done.stderr


def test_the_schema_takes_our_specs_and_no_misspelt_key() -> None:
    """An editor must not underline what is right, nor keep quiet about a slip."""
    found = json.loads(call("schema").stdout)
    assert found == json.loads(json.dumps(schema()))
    for path in sorted(shipped("specs").glob("*.yaml")):
        jsonschema.validate(load(path.read_bytes()).value, found)

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(load(SPEC.replace("tally", "taly").encode()).value, found)


def test_a_faulty_spec_is_told_by_line(tmp_path: Path) -> None:
    """Where, what was found, and what to write instead."""
    (tmp_path / "page.yaml").write_text(SPEC)
    good = call("check", str(tmp_path))
    assert (good.returncode, "1 scenarios" in good.stdout) == (0, True)

    (tmp_path / "page.yaml").write_text(SPEC.replace("tally", "taly"))
    bad = call("check", str(tmp_path))
    assert bad.returncode == 2
    assert bad.stderr.startswith(f"{tmp_path}/page.yaml:11:")
    assert "Did you mean 'tally'?" in bad.stderr


def test_the_reference_has_every_part() -> None:
    """What is not in it does not exist for its readers."""
    told = json.loads(call("parts", "--json").stdout)

    assert {"run", "write", "kill"} <= told["steps"].keys()
    assert all(doc for folder in ("given", "steps", "then") for doc in told[folder].values())
    assert "told: What the caller was told last" in call("parts").stdout
