"""Values: is a value what its parameter declares?  Every fault is told, with its place."""

from collections.abc import Callable, Iterator
from functools import cache
from math import isfinite
from typing import Any

from executor.manifest import Parameter
from executor.plain_yaml import MAX_EXACT
from executor.problems import explain
from executor.rules.formats import FORMATS


def faults(parameter: Parameter, value: Any) -> list[str]:
    """Say each way in which ``value`` breaks the schema: ``[0]: 5 is ... (write ...)``."""
    if odd := [f"{place}: {fault}" for place, fault in _odd_numbers(parameter, value)]:
        return odd  # JSON Schema would compare what cannot be compared
    found = []
    for error in _validator(_schema_bytes(parameter)).iter_errors(value):
        place = "".join(f"[{step}]" for step in error.absolute_path)
        fault, instead = explain(error)
        found.append(f"{place}: {fault} ({instead[:1].lower()}{instead[1:]})")
    return found


def line_faults(parameter: Parameter, value: Any) -> list[str]:
    """Say each text in ``value`` that no argument, or no field of one line, can carry."""
    multiline = parameter.multiline or bool(parameter.items and parameter.items.multiline)
    return [
        f"{place}: {fault}"
        for place, text in _places(value)
        if isinstance(text, str) and (fault := line_fault(text, multiline=multiline))
    ]


def line_fault(text: str, *, multiline: bool) -> str | None:
    """Say what in ``text`` keeps it from being one argument, or one line."""
    if "\0" in text:
        return "a NUL character, which no argument can carry"
    if any("\ud800" <= character <= "\udfff" for character in text):
        return "half of a surrogate pair, which no argument can carry"
    if not multiline and ("\r" in text or "\n" in text):
        return "a line break, in a field of one line"
    return None


def whole(parameter: Parameter, value: Any) -> Any:
    """Give integers as integers: JSON Schema takes 2.0 for one, a command would not."""
    if parameter.type == "integer" and isinstance(value, float):
        return int(value)
    if parameter.items is not None and isinstance(value, list):
        return [whole(parameter.items, item) for item in value]
    return value


def _places(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a scalar, or each item of a list; no parameter holds anything deeper."""
    if isinstance(value, list):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    else:
        yield "", value


def _odd_numbers(parameter: Parameter, value: Any) -> Iterator[tuple[str, str]]:
    """Yield numbers past what JSON carries exactly: no bound holds them, or they are two in one."""
    kind = parameter.type if parameter.items is None else parameter.items.type
    for place, number in _places(value):
        if isinstance(number, float) and not isfinite(number):
            yield place, f"{number} is no number that JSON can carry"
        elif (isinstance(number, int) or (isinstance(number, float) and kind == "integer")) and (
            abs(number) > MAX_EXACT
        ):
            yield place, "a number that JSON cannot carry exactly"


def _schema_bytes(parameter: Parameter) -> bytes:
    import msgspec

    return msgspec.json.encode(parameter.schema(), order="sorted")


@cache
def _validator(schema: bytes) -> Any:
    import msgspec
    from jsonschema import Draft202012Validator, FormatChecker

    checker = FormatChecker(formats=())
    for name, is_valid in FORMATS.items():
        checker.checks(name)(_of_texts(is_valid))
    return Draft202012Validator(msgspec.json.decode(schema), format_checker=checker)


def _of_texts(is_valid: Callable[[str], bool]) -> Callable[[Any], bool]:
    """JSON Schema: a format says nothing about what is no text."""
    return lambda value: not isinstance(value, str) or is_valid(value)
