"""Problems: every fault of a YAML file, each with its place and what to write instead."""

import copy
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from executor import plain_yaml, units
from executor.plain_yaml import Document, Path, PlainYamlError

T = TypeVar("T")
SHOWN = 80
"""Characters of a wrong value that a message repeats."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a file: where, what was found, and what to write instead."""

    file: str
    line: int
    column: int
    key: str
    found: str
    instead: str

    def __str__(self) -> str:
        key = f" {self.key}:" if self.key else ""
        place = f"{self.file}:{self.line}:{self.column}:{key}"
        return f"{place} {sentence(self.found)} {sentence(self.instead)}"


class Faulty(ValueError):
    """A file with problems; the caller says which rule it broke."""

    def __init__(self, problems: Sequence[Problem], *, broken_yaml: bool = False) -> None:
        self.problems = tuple(problems)
        self.broken_yaml = broken_yaml
        super().__init__("\n".join(map(str, problems)))


def read(
    source: bytes,
    file: str,
    kind: type[T],
    check: Callable[[T, Document], Iterable[Problem]] | None = None,
    apart: Set[str] = frozenset(),
) -> tuple[T, Document]:
    """Read YAML into a strict value.

    Args:
        check: finds what the shape does not show. Where the shape has faults, it is given what is
            left without unknown keys and without faulty entries of ``apart``, if that is a whole.
        apart: entries of the root that nothing else refers to.
    Raises:
        Faulty: with every problem of the file.
    """
    try:
        document = plain_yaml.load(source)
    except PlainYamlError as broken:
        problem = Problem(file, broken.line, broken.column, "", broken.found, broken.instead)
        raise Faulty([problem], broken_yaml=True) from None
    problems: list[Problem] = []
    try:
        value = _convert(document.value, kind)
    except msgspec.ValidationError as first:
        errors = list(_errors(document.value, kind))
        problems = [problem for error in errors for problem in _explain(error, document, file)]
        if not problems:  # wrong in a way that no schema expresses; then msgspec's word stands
            found, _, at = str(first).partition(" - at `$")
            path = tuple(int(step) if step.isdigit() else step for step in _STEP.findall(at))
            problems = [problem_at(document, file, path, found, "Correct it")]
        rest = _set_aside(document.value, errors, kind, apart)
        if rest is None:
            raise _faulty(problems) from None
        value = rest
    if check is not None:
        problems += check(value, document)
    if problems:
        raise _faulty(problems)
    return value, document


def shape_problems(
    value: Any, kind: type, document: Document, file: str, place: Path
) -> Iterator[Problem]:
    """Find the faults of a part of a document that was put together from several places.

    Args:
        place: where it stands; a fault is told at the nearest place that is written there.
    """
    try:
        _convert(value, kind)
    except msgspec.ValidationError as first:
        problems = [
            problem
            for error in _errors(value, kind)
            for problem in _explain(error, document, file, place)
        ]
        yield from problems or [problem_at(document, file, place, str(first), "Correct it")]


def _convert(value: Any, kind: type[T]) -> T:
    return msgspec.convert(value, kind, dec_hook=units.parse)


def _set_aside(value: Any, errors: Sequence[Any], kind: type[T], apart: Set[str]) -> T | None:
    """Give what is left without the faults; ``None`` where the rest cannot be judged alone."""
    rest = copy.deepcopy(value)
    for error in errors:
        path = tuple(error.absolute_path)
        if path and path[0] in apart:
            rest.pop(path[0], None)
        elif error.validator == "additionalProperties":
            entries = rest
            for step in path:
                entries = entries[step]
            for key in set(entries) - set(error.schema.get("properties", {})):
                del entries[key]
        else:
            return None
    try:
        return _convert(rest, kind)
    except msgspec.ValidationError:
        return None


def _faulty(problems: Iterable[Problem]) -> Faulty:
    unique = dict.fromkeys(problems)
    return Faulty(sorted(unique, key=lambda problem: (problem.line, problem.column)))


def problem_at(document: Document, file: str, path: Path, found: str, instead: str) -> Problem:
    """Place a fault that a rule found at ``path``."""
    mark = document.mark(path)
    return Problem(file, mark.line, mark.column, show_path(path), found, instead)


def show_path(path: Iterable[str | int]) -> str:
    """Write a path as people do: ``argv[1].each``; a key that is no plain word in quotes."""
    shown = ""
    for step in path:
        if isinstance(step, str) and _PLAIN_KEY.fullmatch(step):
            shown += f".{step}" if shown else step
        else:
            shown += f"[{show_value(step)}]"
    return shown


def did_you_mean(word: str, known: Iterable[str], what: str = "Known") -> str:
    """Say the closest known word, or all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"{what}: {', '.join(names)}" if names else f"{what}: none"


def sentence(text: str) -> str:
    """End a text as a sentence ends."""
    return text if text.endswith(("?", ".")) else f"{text}."


def show_value(value: Any) -> str:
    """Write a wrong value, shortened when long (and said so)."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text)} characters)"


def explain(error: Any) -> tuple[str, str]:
    """Say a fault that JSON Schema found in our words: what was found, and what to write."""
    rule, value, wanted = error.validator, error.instance, error.validator_value
    shown = show_value(value)
    match rule:
        case "type":
            kinds = wanted if isinstance(wanted, list) else [wanted]
            examples = error.schema.get("examples")
            form = f"it like {examples[0]!r}" if examples else _one_of(kinds)
            return _what_stands_here(value), f"Write {form}"
        case "anyOf":
            shapes = [_shape(branch) for branch in wanted]
            return _what_stands_here(value), f"Write {_one_of(shapes)}"
        case "enum" | "const":
            allowed = [str(item) for item in (wanted if rule == "enum" else [wanted])]
            return f"{shown} is not known here", did_you_mean(str(value), allowed)
        case "format":
            name, example = _FORMATS.get(wanted, (f"a {wanted}", ""))
            return f"{shown} is not {name}", f"Write it like {example}"
        case "pattern":
            said = error.schema.get("description", "")
            examples = error.schema.get("examples")
            form = f"Write it like {examples[0]!r}" if examples else f"It must match {wanted}"
            return f"{shown} does not have the right form", f"{said} {form}".strip()
        case "minLength" | "maxLength":
            found = f"{shown} has {_count(len(value), 'character')}"
        case "minItems" | "maxItems":
            found = f"a list of {_count(len(value), 'item')}"
        case "minProperties":
            found = "an empty mapping"
        case "uniqueItems":
            return f"{show_value(_twice(value))} is in the list twice", "Name each item once"
        case "multipleOf":
            return f"{shown} is no multiple of {wanted}", "Write one that is"
        case _:
            found = f"{shown} is out of bounds"
    if rule in _BOUNDS:
        return found, f"{_BOUNDS[rule]} {wanted}"
    return str(error.message), "Correct it"


_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STEP = re.compile(r"[A-Za-z0-9_-]+")
_BOUNDS = {
    "minLength": "The least is", "maxLength": "The most is",
    "minItems": "The least is", "maxItems": "The most is", "minProperties": "The least is",
    "minimum": "The least is", "maximum": "The most is",
    "exclusiveMinimum": "It must be more than", "exclusiveMaximum": "It must be less than",
}  # fmt: skip
_FORMATS = {
    "email": ("a plain e-mail address", "ana@example.org"),
    "uri": ("a URI with a host and without a password", "https://example.org/path"),
    "hostname": ("a host name", "example.org"),
    "ipv4": ("an IPv4 address", "192.0.2.1"),
    "ipv6": ("an IPv6 address without a zone", "2001:db8::1"),
    "date": ("a date", "2026-11-30"),
    "date-time": ("a time with its zone", "2026-11-30T10:00:00Z"),
    "uuid": ("a UUID", "123e4567-e89b-12d3-a456-426614174000"),
}


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _twice(items: Sequence[Any]) -> Any:
    return next((item for index, item in enumerate(items) if item in items[:index]), items)


def _errors(value: Any, kind: type) -> Iterator[Any]:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    # Unlike JSON Schema, a strict value takes no 2.0 for a whole number.
    types = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, one: isinstance(one, int) and not isinstance(one, bool)
    )
    validator = extend(Draft202012Validator, type_checker=types)  # type: ignore[no-untyped-call]
    schema = msgspec.json.schema(kind, schema_hook=units.schema)
    for error in validator(schema).iter_errors(value):
        yield from _leaves(error)


def _leaves(error: Any) -> Iterator[Any]:
    """Of a failed union, keep the branch that got furthest: it is what the author meant."""
    if not error.context:
        yield error
        return
    branches: dict[int, list[Any]] = {}
    for inner in error.context:
        branches.setdefault(inner.schema_path[0], []).append(inner)
    of_the_kind = [
        faults
        for faults in branches.values()
        if not any(
            fault.absolute_path == error.absolute_path
            and (fault.validator == "type" or _is_other_kind(fault))
            for fault in faults
        )
    ]
    if not of_the_kind:
        yield error
        return
    for fault in min(of_the_kind, key=len):
        yield from _leaves(fault)


def _is_other_kind(fault: Any) -> bool:
    """A closed set of words was meant for a word, not for a list that is wrong elsewhere."""
    return fault.validator in ("enum", "const") and not isinstance(fault.instance, str)


def _explain(error: Any, document: Document, file: str, place: Path = ()) -> Iterator[Problem]:
    path = (*place, *error.absolute_path)
    rule, value, wanted = error.validator, error.instance, error.validator_value

    def problem(at: Path, found: str, instead: str) -> Problem:
        return problem_at(document, file, at, found, instead)

    if rule == "additionalProperties" and isinstance(wanted, bool):
        known = error.schema.get("properties", {})
        for key in sorted(set(value) - set(known)):
            yield problem((*path, key), f"unknown key {show_value(key)}", did_you_mean(key, known))
    elif _is_of_a_key(error):
        yield problem((*path, value), *explain(error))
    elif rule == "required":
        for key in wanted:
            if key not in value:
                yield problem(path, f"{key!r} is missing", _describe(error.schema, key))
    else:
        yield problem(path, *explain(error))


def _is_of_a_key(error: Any) -> bool:
    """Whether a key itself is wrong, and not what stands under it."""
    return "propertyNames" in error.absolute_schema_path


def _describe(schema: Any, key: str) -> str:
    wanted = schema.get("properties", {}).get(key, {})
    return f"Add {key!r}: {_shape(wanted)}"


def _shape(schema: Any) -> str:
    if "enum" in schema:
        return _one_of([repr(item) for item in schema["enum"]])
    if "const" in schema:
        return repr(schema["const"])
    if "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return _one_of(kinds)
    if "anyOf" in schema:
        shapes = [_shape(branch) for branch in schema["anyOf"]]
        return _one_of([shape for shape in shapes if shape != _WORDS["null"]] or shapes)
    if "$ref" in schema:
        return _WORDS["object"]
    return "a value"


_WORDS = {
    "object": "a mapping",
    "array": "a list",
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}


def _one_of(kinds: Sequence[str]) -> str:
    words = list(dict.fromkeys(_WORDS.get(kind, kind) for kind in kinds))
    if len(words) > 1 and _WORDS["null"] in words:
        words.remove(_WORDS["null"])  # to leave the key out says the same
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " or " + words[-1]


def _what_stands_here(value: Any) -> str:
    match value:
        case None:
            return "no value stands here"
        case bool():
            return f"{str(value).lower()} is a boolean"
        case list() | dict():
            return "a list stands here" if isinstance(value, list) else "a mapping stands here"
        case int() | float() | str():
            kinds = {int: "integer", float: "number", str: "string"}
            kind = next(kinds[kind] for kind in kinds if isinstance(value, kind))
            return f"{show_value(value)} is {_WORDS[kind]}"
        case _:
            return f"{show_value(value)} is of Python's type {type(value).__name__}"
