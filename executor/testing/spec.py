"""Spec: the rules of a family and their scenarios, as they are written in YAML.

A scenario has one fault; its control is the same with that one fact put right, and is allowed.
Without the control, a program that only crashes would pass. Values only: `spec_reading` reads and
checks them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec

from executor.plain_yaml import Document
from executor.plain_yaml import Path as Place
from executor.testing import parts
from executor.testing.merging import joined

if TYPE_CHECKING:
    Given: TypeAlias = msgspec.Struct
    Step: TypeAlias = msgspec.Struct
    Then: TypeAlias = msgspec.Struct
else:
    Given = parts.struct("Given", "executor.testing.given")
    Step = parts.struct("Step", "executor.testing.steps")
    Then = parts.struct("Then", "executor.testing.then")

Need = Literal["sandbox", "root"]
"""What a scenario needs of the machine; where it is lacking, that is said."""
Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", examples=["asked-again"])]
RuleId = Annotated[
    str, msgspec.Meta(pattern=r"^[a-z]+\.[a-z]+(-[a-z]+)*$", examples=["ledger.in-flight"])
]
ALLOWED = ("delivered", "ok")
"""Statuses by which a control shows that it was allowed."""


class _Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class Control(_Value, frozen=True):
    """The twin of a scenario: one fact put right, and what must come of it.

    Exactly one of the three says which: ``given`` is merged over the scenario's own (as a patch),
    ``without`` leaves a step out, ``instead`` puts another in the place of one. Steps are named by
    their ``as``, else by their kind where it is the only one of its kind.
    """

    then: Then
    given: dict[str, Any] | None = None
    without: str | None = None
    instead: dict[str, Step] | None = None


class Scenario(_Value, frozen=True):
    """One fault, the steps that meet it, and what must come of it."""

    id: Name
    steps: Annotated[tuple[Step, ...], msgspec.Meta(min_length=1)]
    then: Then
    control: Control
    why: str = ""
    needs: tuple[Need, ...] = ()
    given: dict[str, Any] = {}


class Rule(_Value, frozen=True):
    """A promise that can be seen broken.

    ``only_tests`` says why no scenario can try to break it, so that tests alone have to.
    """

    id: RuleId
    statement: str
    why: str
    codes: tuple[str, ...] = ()
    built: bool = True
    only_tests: str = msgspec.field(default="", name="only-tests")
    scenarios: tuple[Scenario, ...] = ()


class Spec(_Value, frozen=True):
    """The rules of one family. ``given`` is what all of its scenarios start from."""

    executor: Literal["spec/1"]
    family: Annotated[str, msgspec.Meta(pattern="^[a-z]+$")]
    rules: tuple[Rule, ...]
    given: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Case:
    """What is run: a scenario, or its control."""

    file: "SpecFile"
    rule: Rule
    scenario: Scenario
    control: bool
    given: Given
    steps: tuple[Step, ...]
    then: Then
    then_place: Place

    @property
    def id(self) -> str:
        """Its name in its file: ``asked-again``, or ``asked-again[control]``."""
        return f"{self.scenario.id}[control]" if self.control else self.scenario.id

    @property
    def where(self) -> str:
        """The file and line in which its expectations begin."""
        return self.place(())

    def place(self, path: Place) -> str:
        """Give the file and line of an expectation, or of the nearest that is written."""
        mark = self.file.document.mark((*self.then_place, *path))
        return f"{self.file.path}:{mark.line}"


@dataclass(frozen=True, slots=True)
class SpecFile:
    """A spec, and where each part of it is written. ``path`` is as it was given."""

    path: str
    spec: Spec
    document: Document

    def cases(self) -> Iterator[Case]:
        """Give every scenario, each followed by its control."""
        for r, rule in enumerate(self.spec.rules):
            for s, scenario in enumerate(rule.scenarios):
                place: Place = ("rules", r, "scenarios", s)
                given = joined(self.spec.given, scenario.given)
                yield Case(
                    self,
                    rule,
                    scenario,
                    False,
                    _given(given),
                    scenario.steps,
                    scenario.then,
                    (*place, "then"),
                )
                control = scenario.control
                yield Case(
                    self,
                    rule,
                    scenario,
                    True,
                    _given(joined(given, control.given or {})),
                    _steps(scenario),
                    control.then,
                    (*place, "control", "then"),
                )


def step_name(step: Step, index: int, steps: Sequence[Step]) -> str:
    """Name a step: by its ``as``, else by its kind, with its number where there are several."""
    [(kind, value)] = parts.chosen(step).items()
    if own := getattr(value, "as_", None):
        return str(own)
    kinds = [next(iter(parts.chosen(other))) for other in steps]
    return kind if kinds.count(kind) == 1 else f"{kind}-{kinds[: index + 1].count(kind)}"


def step_names(steps: Sequence[Step]) -> list[str]:
    """Name every step."""
    return [step_name(step, index, steps) for index, step in enumerate(steps)]


def schema() -> dict[str, Any]:
    """Give the JSON Schema of a spec file."""
    from executor import units

    found: dict[str, Any] = msgspec.json.schema(Spec, schema_hook=units.schema)
    given = msgspec.json.schema_components([Given], schema_hook=units.schema)[1]
    return found | {"$defs": found.get("$defs", {}) | given}


def _given(value: Mapping[str, Any]) -> Given:
    from executor import units

    return msgspec.convert(dict(value), Given, dec_hook=units.parse)


def _steps(scenario: Scenario) -> tuple[Step, ...]:
    control, names = scenario.control, step_names(scenario.steps)
    steps = zip(names, scenario.steps, strict=True)
    instead = control.instead or {}
    return tuple(instead.get(name, step) for name, step in steps if name != control.without)
