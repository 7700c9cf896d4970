"""Spec reading: from a file to a spec, and everything that is wrong with it, with its line."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from executor.effects.texts import read_text
from executor.plain_yaml import Document
from executor.plain_yaml import Path as Place
from executor.problems import Faulty, Problem, problem_at, read, shape_problems
from executor.testing import matching, parts
from executor.testing.merging import joined
from executor.testing.recognising import specs_below
from executor.testing.spec import (
    ALLOWED,
    Given,
    Scenario,
    Spec,
    SpecFile,
    Step,
    Then,
    step_name,
    step_names,
)  # fmt: skip


def read_spec(path: Path | str) -> SpecFile:
    """Read one file of rules and scenarios.

    Raises:
        Faulty: with every problem of the file, each with its line.
        OSError: it cannot be read.
    """
    return parse_spec(read_text(Path(path), decides=False), str(path))


def parse_spec(source: bytes, path: str) -> SpecFile:
    """Read the text of a file of rules and scenarios.

    Args:
        path: its name, for messages.
    Raises:
        Faulty: with every problem of it.
    """
    spec, document = read(source, path, Spec, _check(path))
    return SpecFile(path, spec, document)


def read_specs(paths: Iterable[Path | str]) -> list[SpecFile]:
    """Read files, and every file of directories that calls itself a spec.

    Raises:
        Faulty: with every problem of every file; an id that two rules or two scenarios of a file
            share is one.
        OSError: a file cannot be read.
    """
    found: list[SpecFile] = []
    problems: list[Problem] = []
    for path in _files(paths):
        try:
            found.append(read_spec(path))
        except Faulty as faulty:
            problems += faulty.problems
    problems += _twice(found)
    if problems:
        raise Faulty(problems)
    return found


def _files(paths: Iterable[Path | str]) -> Iterator[Path]:
    for path in map(Path, paths):
        if path.is_dir():
            yield from specs_below(path)
        else:
            yield path


# -- what the shape does not show ------------------------------------------------------------------


def _check(file: str) -> Any:
    def check(spec: Spec, document: Document) -> Iterator[Problem]:
        def at(place: Place, found: str, instead: str) -> Problem:
            return problem_at(document, file, place, found, instead)

        def given(value: Mapping[str, Any], place: Place) -> Iterator[Problem]:
            return shape_problems(value, Given, document, file, place)

        yield from given(spec.given, ("given",))
        for r, rule in enumerate(spec.rules):
            place: Place = ("rules", r)
            if not rule.id.startswith(f"{spec.family}."):
                yield at(
                    (*place, "id"),
                    f"{rule.id!r} is not of this family",
                    f"Begin it with '{spec.family}.'",
                )
            if not rule.built and rule.scenarios:
                yield at(
                    (*place, "built"),
                    "a rule that is not built has scenarios",
                    "Remove one of the two",
                )
            for s, scenario in enumerate(rule.scenarios):
                yield from _scenario_problems(spec, scenario, (*place, "scenarios", s), at, given)

    return check


def _scenario_problems(
    spec: Spec, scenario: Scenario, place: Place, at: Any, given: Any
) -> Iterator[Problem]:
    yield from given(joined(spec.given, scenario.given), (*place, "given"))
    yield from _step_problems(scenario.steps, (*place, "steps"), at)
    yield from _then_problems(scenario.then, (*place, "then"), at)
    if any(len(parts.chosen(step)) != 1 for step in scenario.steps):
        return  # without names nothing can be said of the control
    control, here = scenario.control, (*place, "control")
    ways = [key for key in ("given", "without", "instead") if getattr(control, key) is not None]
    if len(ways) != 1:
        yield at(
            here,
            f"a control that changes {' and '.join(ways) or 'nothing'}",
            "Put one fact right: write given, without or instead",
        )
    names = step_names(scenario.steps)
    named = [control.without] if control.without else list(control.instead or {})
    for name in named:
        if names.count(name) != 1:
            yield at((*here, ways[0]), f"{name!r} names no step", f"Write one of: {_listed(names)}")
    if control.instead is not None:
        if len(control.instead) != 1:
            yield at((*here, "instead"), "not one step", "Put one step in the place of one")
        for name, step in control.instead.items():
            yield from _kind_problems(step, (*here, "instead", name), at)
            if names.count(name) == 1 and scenario.steps[names.index(name)] == step:
                yield at((*here, "instead", name), *_SAME)
    if control.given is not None:
        whole = joined(joined(spec.given, scenario.given), control.given)
        yield from given(whole, (*here, "given"))
        if whole == joined(spec.given, scenario.given):
            yield at((*here, "given"), *_SAME)
    yield from _then_problems(control.then, (*here, "then"), at)
    if not _says_allowed(parts.chosen(control.then)):
        yield at(
            (*here, "then"),
            "nothing here says that it was allowed",
            f"Expect a status ({' or '.join(ALLOWED)}), or that something ran or was sent",
        )


def _says_allowed(expected: Mapping[str, Any]) -> bool:
    """Say whether a program that only crashes, or refuses everything, would be found out."""
    told = [expected.get("told", {}), *expected.get("answers", {}).values()]
    receipts = [one or {} for one in expected.get("receipt", {}).values()]
    return (
        any(isinstance(one, Mapping) and one.get("status") in ALLOWED for one in told)
        or any(one.get("predicate.result.status") in ALLOWED for one in receipts)
        or any(_is_some(expected.get("tally", {}).get(status)) for status in ALLOWED)
        or any(_is_some(expected.get(key)) for key in ("runs", "sent"))
    )


def _is_some(expected: Any) -> bool:
    """Say whether a count, or a list, is expected to be more than none."""
    match expected:
        case bool():
            return False
        case int() | float():
            return expected > 0
        case list() | tuple():
            return bool(expected)
        case Mapping() if word := matching.word_of(expected):
            return word in ("$least", "$length") and _is_some(expected[word])
        case Mapping():
            return any(map(_is_some, expected.values()))
    return False


def _step_problems(steps: Sequence[Step], place: Place, at: Any) -> Iterator[Problem]:
    for index, step in enumerate(steps):
        yield from _kind_problems(step, (*place, index), at)
    if any(len(parts.chosen(step)) != 1 for step in steps):
        return
    seen: set[str] = set()
    for index, step in enumerate(steps):
        made = _answers(step, step_name(step, index, steps))
        for name in made:
            if name in seen:
                yield at((*place, index), f"a second step named {name!r}", "Write another 'as'")
                break
        seen.update(made)


def _answers(step: Step, name: str) -> list[str]:
    """Give the names under which a step's answers, or those of its repetitions, are known."""
    [value] = parts.chosen(step).values()
    times = getattr(value, "times", 1)
    return [name] if times == 1 else [name, *(f"{name}-{n + 1}" for n in range(times))]


def _kind_problems(step: Step, place: Place, at: Any) -> Iterator[Problem]:
    if len(parts.chosen(step)) != 1:
        known = ", ".join(parts.parts("executor.testing.steps"))
        yield at(place, "not one step", f"Write one of: {known}")


def _then_problems(then: Then, place: Place, at: Any) -> Iterator[Problem]:
    expected = parts.chosen(then)
    if not expected:
        yield at(place, "nothing is expected", "Write what must come of it")
    known = parts.parts("executor.testing.then")
    for key, value in expected.items():
        for path, found in matching.faults(value, (key,)):
            yield at((*place, *path), found, f"Write one of: {', '.join(matching.WORDS)}")
        if known[key].named:
            yield from _name_problems(value, (*place, key), at)
            for name, inner in value.items():
                if key in ("answers", "receipt", "nowhere") and inner is not None:
                    yield from _name_problems(inner, (*place, key, name), at)


def _name_problems(value: Any, place: Place, at: Any) -> Iterator[Problem]:
    """See that something is expected of something: words have no meaning where names stand."""
    if not value:
        yield at(place, "nothing is expected", "Write what must come of it, or leave it out")
    for name in value if isinstance(value, Mapping) else ():
        if name in matching.WORDS:
            found = f"{name!r} stands where a name does"
            yield at((*place, name), found, "Write it as the value of a name")


def _twice(files: Sequence[SpecFile]) -> Iterator[Problem]:
    rules: dict[str, str] = {}
    for file in files:
        scenarios: dict[str, int] = {}
        for r, rule in enumerate(file.spec.rules):
            place: Place = ("rules", r)
            line = file.document.mark((*place, "id")).line
            if first := rules.get(rule.id):
                yield problem_at(
                    file.document,
                    file.path,
                    (*place, "id"),
                    f"the rule {rule.id} is stated twice",
                    f"See {first}",
                )
            rules[rule.id] = f"{file.path}:{line}"
            for s, scenario in enumerate(rule.scenarios):
                here: Place = (*place, "scenarios", s, "id")
                if other := scenarios.get(scenario.id):
                    yield problem_at(
                        file.document,
                        file.path,
                        here,
                        f"a second {scenario.id!r}",
                        f"See line {other}",
                    )
                scenarios[scenario.id] = file.document.mark(here).line


_SAME = ("the control is the scenario", "Put one fact right")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
