"""Matching: is what was seen what was expected?  Pure; knows no scenario and no world.

A value stands for itself, exactly. A mapping whose one key begins with ``$`` is a looser word:
`WORDS` says which there are.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

WORDS: dict[str, str] = {
    "$matches": "a text in which this regular expression is found",
    "$contains": "a text with this in it, or a list with this among its items",
    "$has": "a mapping with at least these entries",
    "$any": "anything, as long as it is there",
    "$absent": "nothing: the key is not there, or null",
    "$not": "anything that this is not",
    "$least": "a number no smaller",
    "$most": "a number no greater",
    "$some": "a list with at least one item like this",
    "$each": "a list, every item of which is like this",
    "$set": "a list of these, in any order",
    "$length": "a list, mapping or text of this length",
}
MISSING: Any = type("Missing", (), {"__repr__": lambda _: "nothing", "__slots__": ()})()
"""What is seen where there is nothing."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One point in which what was seen is not what was expected; ``path`` leads to it."""

    path: tuple[str | int, ...]
    expected: Any
    actual: Any


def word_of(expected: Any) -> str | None:
    """Give the looser word that an expectation is, if it is one."""
    if isinstance(expected, Mapping) and len(expected) == 1:
        [key] = expected
        if isinstance(key, str) and key.startswith("$"):
            return key
    return None


def is_about_number(expected: Any) -> bool:
    """Say whether an expectation is one of a number: one itself, or a word about one."""
    word = word_of(expected)
    if word is None:
        return _is_number(expected)
    return word in ("$least", "$most") or (word == "$not" and is_about_number(expected[word]))


def compare(
    expected: Any, actual: Any, path: tuple[str | int, ...] = (), *, exact: bool = True
) -> Iterator[Mismatch]:
    """Give every point in which ``actual`` is not as expected.

    Args:
        exact: a mapping has these entries and no others; it always does further down.
    """
    word = word_of(expected)
    if word is not None:
        wanted = expected[word]
        inside = _inside(word, wanted, actual, (*path, word))
        if inside is not None:
            yield from inside
        elif not _holds(word, wanted, actual):
            yield Mismatch(path, expected, actual)
    elif isinstance(expected, Mapping) and isinstance(actual, Mapping):
        for key, value in expected.items():
            yield from compare(value, actual.get(key, MISSING), (*path, key))
        if exact:
            for key in actual:
                if key not in expected:
                    yield Mismatch((*path, key), MISSING, actual[key])
    elif isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        if len(expected) == len(actual):
            for index, value in enumerate(expected):
                yield from compare(value, actual[index], (*path, index))
        else:
            yield Mismatch(path, list(expected), list(actual))
    elif not _same(expected, actual):
        yield Mismatch(path, expected, actual)


def faults(expected: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[Any, str]]:
    """Give what is wrong with an expectation itself: a word that nobody knows, a bad pattern."""
    if isinstance(expected, Mapping):
        for key, value in expected.items():
            if isinstance(key, str) and key.startswith("$") and not key.startswith("${"):
                if key not in WORDS:
                    yield (*path, key), f"{key!r} is no word of expectations"
                elif len(expected) != 1:
                    yield (*path, key), f"{key!r} stands beside other keys"
                elif fault := _fault(key, value):
                    yield (*path, key), fault
            yield from faults(value, (*path, key))
    elif isinstance(expected, list | tuple):
        for index, value in enumerate(expected):
            yield from faults(value, (*path, index))


def _fault(word: str, value: Any) -> str:
    match word:
        case "$matches":
            try:
                re.compile(value)
            except (re.error, TypeError) as wrong:
                return f"no regular expression: {wrong}"
        case "$least" | "$most" | "$length" if not _is_number(value):
            return f"{value!r} is no number"
        case "$any" | "$absent" if value is not True:
            return f"{word} says true, or is left out"
        case "$set" if not isinstance(value, list | tuple):
            return f"{word} takes a list"
        case "$has" if not isinstance(value, Mapping):
            return f"{word} takes a mapping"
    return ""


def _inside(word: str, wanted: Any, actual: Any, path: tuple[str | int, ...]) -> Any:
    """Give the mismatches of a word that looks into what was seen; ``None`` where it does not."""
    if word == "$has" and isinstance(actual, Mapping):
        return compare(wanted, actual, path, exact=False)
    if word == "$each" and isinstance(actual, list | tuple) and actual:
        return (miss for item in actual for miss in compare(wanted, item, path))
    return None


def _holds(word: str, wanted: Any, actual: Any) -> bool:
    match word:
        case "$matches":
            return isinstance(actual, str) and re.search(wanted, actual) is not None
        case "$contains":
            if isinstance(actual, str):
                return isinstance(wanted, str) and wanted in actual
            return isinstance(actual, list | tuple | Mapping) and any(
                matches(wanted, item) for item in actual
            )
        case "$any":
            return actual is not MISSING and actual is not None
        case "$absent":
            return actual is MISSING or actual is None
        case "$not":
            return actual is not MISSING and not matches(wanted, actual)
        case "$least":
            return _is_number(actual) and actual >= wanted
        case "$most":
            return _is_number(actual) and actual <= wanted
        case "$some":
            return isinstance(actual, list | tuple) and any(
                matches(wanted, item) for item in actual
            )
        case "$set":
            return isinstance(actual, list | tuple) and _same_set(list(wanted), list(actual))
        case "$length":
            return isinstance(actual, list | tuple | str | Mapping) and len(actual) == wanted
    return False  # $has and $each of what is no mapping, no list, or an empty one


def matches(expected: Any, actual: Any) -> bool:
    """Say whether what was seen is as expected."""
    return next(compare(expected, actual), None) is None


def _same_set(wanted: list[Any], actual: list[Any]) -> bool:
    """Say whether each can have one of its own; a word that fits many leaves the others theirs."""
    owners: dict[int, int] = {}

    def find(one: int, tried: set[int]) -> bool:
        for at, item in enumerate(actual):
            if at not in tried and matches(wanted[one], item):
                tried.add(at)
                if at not in owners or find(owners[at], tried):
                    owners[at] = one
                    return True
        return False

    return len(wanted) == len(actual) and all(find(one, set()) for one in range(len(wanted)))


def _same(expected: Any, actual: Any) -> bool:
    """``1`` is not ``true``, and not ``"1"``."""
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    if _is_number(expected) and _is_number(actual):
        return bool(expected == actual)
    return type(expected) is type(actual) and bool(expected == actual)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
