"""Problems: every fault of a YAML file, each with its place and what to write instead."""

import difflib
from collections.abc import Iterable, Iterator, Sequence
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
        return f"{self.file}:{self.line}:{self.column}:{key} {self.found}. {self.instead}."


class Faulty(ValueError):
    """A file with problems; the caller says which rule it broke."""

    def __init__(self, problems: Sequence[Problem], *, broken_yaml: bool = False) -> None:
        self.problems = tuple(problems)
        self.broken_yaml = broken_yaml
        super().__init__("\n".join(map(str, problems)))


def read(source: bytes, file: str, kind: type[T]) -> tuple[T, Document]:
    """Read YAML into a strict value.

    Raises:
        Faulty: with every problem of the file that its shape shows.
    """
    try:
        document = plain_yaml.load(source)
    except PlainYamlError as broken:
        problem = Problem(file, broken.line, broken.column, "", broken.found, broken.instead)
        raise Faulty([problem], broken_yaml=True) from None
    try:
        return msgspec.convert(document.value, kind, dec_hook=units.parse), document
    except msgspec.ValidationError as first:
        found = list(_enumerate(document, file, kind))
        # A value can be wrong in a way that no schema expresses; then msgspec's word stands.
        raise Faulty(found or [Problem(file, 1, 1, "", str(first), "Correct it")]) from None


def problem_at(document: Document, file: str, path: Path, found: str, instead: str) -> Problem:
    """Place a fault that a rule found at ``path``."""
    mark = document.mark(path)
    return Problem(file, mark.line, mark.column, show_path(path), found, instead)


def show_path(path: Iterable[str | int]) -> str:
    """Write a path as people do: ``argv[1].each``."""
    shown = ""
    for step in path:
        shown += f"[{step}]" if isinstance(step, int) else f".{step}" if shown else step
    return shown


def did_you_mean(word: str, known: Iterable[str], what: str = "Known") -> str:
    """Say the closest known word, or all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"{what}: {', '.join(names)}" if names else f"{what}: none"


def show_value(value: Any) -> str:
    """Write a wrong value, shortened when long (and said so)."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text)} characters)"


def _enumerate(document: Document, file: str, kind: type) -> Iterator[Problem]:
    from jsonschema import Draft202012Validator

    schema = msgspec.json.schema(kind, schema_hook=units.schema)
    for error in Draft202012Validator(schema).iter_errors(document.value):
        for leaf in _leaves(error):
            yield from _explain(leaf, document, file)


def _leaves(error: Any) -> Iterator[Any]:
    """Of a failed union, keep the branch that got furthest: it is what the author meant."""
    if not error.context:
        yield error
        return
    branches: dict[int, list[Any]] = {}
    for inner in error.context:
        branches.setdefault(inner.schema_path[0], []).append(inner)
    same_type = [
        faults
        for faults in branches.values()
        if not any(f.validator == "type" and f.absolute_path == error.absolute_path for f in faults)
    ]
    if not same_type:
        yield error
        return
    for fault in min(same_type, key=len):
        yield from _leaves(fault)


def _explain(error: Any, document: Document, file: str) -> Iterator[Problem]:
    path = tuple(error.absolute_path)
    rule, value, wanted = error.validator, error.instance, error.validator_value

    def problem(at: Path, found: str, instead: str) -> Problem:
        return problem_at(document, file, at, found, instead)

    if rule == "additionalProperties" and isinstance(wanted, bool):
        known = error.schema.get("properties", {})
        for key in sorted(set(value) - set(known)):
            yield problem((*path, key), f"unknown key {key!r}", did_you_mean(key, known))
    elif rule == "propertyNames" or (path and rule == "pattern" and value == path[-1]):
        yield problem((*path, value), f"{value!r} is not a name", f"It must match {wanted}")
    elif rule == "required":
        for key in wanted:
            if key not in value:
                yield problem(path, f"{key!r} is missing", _describe(error.schema, key))
        return
    elif rule == "type":
        kinds = wanted if isinstance(wanted, list) else [wanted]
        yield problem(path, f"{show_value(value)} is {_type(value)}", "Write " + _one_of(kinds))
    elif rule in ("enum", "const"):
        allowed = [str(item) for item in (wanted if rule == "enum" else [wanted])]
        yield problem(
            path, f"{show_value(value)} is not known here", did_you_mean(str(value), allowed)
        )
    elif rule == "anyOf":
        shapes = [_shape(branch) for branch in wanted]
        yield problem(path, f"{show_value(value)} is {_type(value)}", "Write " + _one_of(shapes))
    elif rule == "pattern":
        example = error.schema.get("examples", [wanted])[0]
        said = error.schema.get("description", "")
        yield problem(
            path,
            f"{show_value(value)} does not have the right form",
            f"{said} Write it like {example!r}".strip(),
        )
    else:
        yield problem(path, error.message, f"{rule} is {wanted!r} here")


def _describe(schema: Any, key: str) -> str:
    wanted = schema.get("properties", {}).get(key, {})
    return f"Add {key!r}, {_shape(wanted)}"


def _shape(schema: Any) -> str:
    if "enum" in schema:
        return _one_of([repr(item) for item in schema["enum"]])
    if "const" in schema:
        return repr(schema["const"])
    if "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        shown = _one_of(kinds)
        if schema["type"] == "object" and "properties" in schema:
            shown += f" with {', '.join(schema['properties'])}"
        return shown
    if "anyOf" in schema:
        return _one_of([_shape(branch) for branch in schema["anyOf"]])
    if "$ref" in schema:
        return f"a mapping ({schema['$ref'].rsplit('/')[-1]})"
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
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " or " + words[-1]


def _type(value: Any) -> str:
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    kinds |= {dict: "object", type(None): "null"}
    return _WORDS[kinds[type(value)]]
