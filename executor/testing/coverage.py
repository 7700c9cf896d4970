"""Coverage: which rules does nothing prove?  Pure, over specs and mutants that were read.

Rule: ``proof.every-rule``
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from executor.testing import parts
from executor.testing.mutants import MutantsFile
from executor.testing.spec import Rule, SpecFile

KINDS: Mapping[str, str] = {
    "no-scenario": "a built rule that no scenario tries to break",
    "no-mutant": "a built rule that no mutant breaks",
    "no-such-rule": "a mutant of a rule that is not stated, or not built",
    "no-such-scenario": "a mutant that names a scenario which is not there",
    "code-not-seen": "a code that no scenario of its rule expects",
    "not-stated": "a refusal of the program that no built rule states",
}
_SCENARIO = re.compile(r"(?P<file>.+\.ya?ml)::(?P<id>[^:\[]+)(?P<control>\[control\])?")


@dataclass(frozen=True, slots=True)
class Finding:
    """One gap: where, about which rule, and of which of the `KINDS`."""

    where: str
    kind: str
    rule: str
    found: str

    def __str__(self) -> str:
        return f"{self.where}: {self.found}"

    def facts(self) -> dict[str, Any]:
        """Give it as plain data."""
        return asdict(self)


def gaps(
    specs: Sequence[SpecFile],
    mutants: Sequence[MutantsFile] | None,
    refusals: Iterable[tuple[str, str]] = (),
) -> list[Finding]:
    """Give every gap.

    Args:
        mutants: ``None`` where a project has none: then no rule needs one.
        refusals: the pairs of rule and code by which the program refuses.
    """
    return [
        *_of_rules(specs, mutants),
        *_of_mutants(specs, mutants or ()),
        *_of_refusals(specs, refusals),
    ]


def _of_rules(
    specs: Sequence[SpecFile], mutants: Sequence[MutantsFile] | None
) -> Iterator[Finding]:
    broken = {mutant.rule for file in mutants or () for mutant in file.mutants}
    for file, index, rule in _built(specs):
        where = f"{file.path}:{file.document.mark(('rules', index)).line}"
        if not rule.scenarios and not rule.only_tests:
            yield Finding(where, "no-scenario", rule.id, f"{rule.id} has no scenario")
        if mutants is not None and rule.id not in broken:
            yield Finding(where, "no-mutant", rule.id, f"{rule.id} has no mutant")
        seen = {word for scenario in rule.scenarios for word in _expected(scenario)}
        for code in rule.codes:
            if rule.scenarios and code not in seen:
                found = f"no scenario of {rule.id} expects {code}"
                yield Finding(where, "code-not-seen", rule.id, found)


def _of_mutants(specs: Sequence[SpecFile], mutants: Sequence[MutantsFile]) -> Iterator[Finding]:
    built = {rule.id for _, _, rule in _built(specs)}
    scenarios = {
        (_tail(file.path), scenario.id)
        for file in specs
        for rule in file.spec.rules
        for scenario in rule.scenarios
    }
    families = {_tail(file.path) for file in specs}
    for file in mutants:
        for mutant in file.mutants:
            if mutant.rule not in built:
                found = f"{mutant.id} breaks {mutant.rule}, which is no built rule"
                yield Finding(file.where(mutant), "no-such-rule", mutant.rule, found)
            for red in mutant.reds:
                named = _SCENARIO.fullmatch(red)
                if named is None or _tail(named["file"]) not in families:
                    continue
                if (_tail(named["file"]), named["id"]) not in scenarios:
                    found = f"{mutant.id} names {red}, which is no scenario"
                    yield Finding(file.where(mutant), "no-such-scenario", mutant.rule, found)


def _of_refusals(
    specs: Sequence[SpecFile], refusals: Iterable[tuple[str, str]]
) -> Iterator[Finding]:
    stated = {(rule.id, code) for _, _, rule in _built(specs) for code in rule.codes}
    for rule, code in refusals:
        if (rule, code) not in stated:
            found = f"the program refuses by {rule} with {code}, which no built rule states"
            yield Finding("executor/refusal.py", "not-stated", rule, found)


def _built(specs: Sequence[SpecFile]) -> Iterator[tuple[SpecFile, int, Rule]]:
    for file in specs:
        for index, rule in enumerate(file.spec.rules):
            if rule.built:
                yield file, index, rule


def _expected(scenario: Any) -> Iterator[str]:
    """Give every code that a scenario or its control expects."""
    for then in (scenario.then, scenario.control.then):
        expected = parts.chosen(then)
        for words in expected.pop("tally", {}):
            yield from words.split(" or ")
        yield from _codes(expected)


def _codes(value: Any) -> Iterator[str]:
    """Give what stands under a key ``code``, or a path that ends so; not what is denied."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if str(key).rpartition(".")[2] == "code" and isinstance(inner, str):
                yield inner
            elif key not in ("$not", "$absent"):
                yield from _codes(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _codes(inner)


def _tail(path: str) -> str:
    """Give the directory and name of a file: how mutants name it, wherever the project lies."""
    return "/".join(path.split("/")[-2:])


# -- is it blind? ----------------------------------------------------------------------------------

_SPEC = b"""\
executor: spec/1
family: planted
rules:
  - {id: planted.bare, statement: s, why: w}
  - id: planted.whole
    statement: s
    why: w
    codes: [SEEN, UNSEEN, DENIED, NAMED]
    scenarios:
      - id: a
        steps: [{run: {}}]
        then: {told: {code: SEEN, because: NAMED, earlier: {$not: {code: DENIED}}}}
        control: {given: {files: {a: a}}, then: {told: {status: delivered}}}
"""
_MUTANTS = b"""\
mutants:
  - id: a
    rule: planted.whole
    why: w
    edit: {file: f, from: a, to: b}
    red: [specs/planted.yaml::a, "specs/planted.yaml::a[control]", specs/planted.yaml::b]
  - {id: c, rule: planted.nothing, why: w, edit: {file: f, from: a, to: b}, red: "t.py::test"}
"""
_PLANTED = [
    ("no-scenario", "planted.bare"),
    ("no-mutant", "planted.bare"),
    *[("code-not-seen", "planted.whole")] * 3,
    ("no-such-scenario", "planted.whole"),
    ("no-such-rule", "planted.nothing"),
    ("not-stated", "planted.unstated"),
]


def missed() -> str:
    """Let the check look at planted gaps.

    Returns:
        what it did not find, or found too much; empty where it found just those.
    """
    from executor.testing.mutants import parse_mutants
    from executor.testing.spec_reading import parse_spec

    found = gaps(
        [parse_spec(_SPEC, "specs/planted.yaml")],
        [parse_mutants(_MUTANTS, "mutants/planted.yaml")],
        [("planted.whole", "SEEN"), ("planted.unstated", "CODE")],
    )
    pairs = sorted((one.kind, one.rule) for one in found)
    if pairs == sorted(_PLANTED):
        return ""
    return f"it found {pairs} instead of {sorted(_PLANTED)}"
