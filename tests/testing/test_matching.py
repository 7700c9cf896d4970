"""Matching: each word of expectations holds for what it means, and for nothing else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.testing.matching import MISSING, WORDS, Mismatch, compare, faults, matches

HOLDS: list[tuple[str, Any, Any]] = [
    ("$matches", "b+", "abbc"),
    ("$contains", "b", "abc"),
    ("$contains", {"$has": {"n": 1}}, [0, {"n": 1, "m": 2}]),
    ("$contains", "a", {"a": 1}),
    ("$has", {"a": 1}, {"a": 1, "b": 2}),
    ("$has", {}, {"b": 2}),
    ("$any", True, 0),
    ("$any", True, ""),
    ("$absent", True, None),
    ("$absent", True, MISSING),
    ("$not", 1, 2),
    ("$not", {"$contains": "b"}, "a"),
    ("$not", 1, None),
    ("$least", 2, 2),
    ("$most", 2, 2),
    ("$some", {"$least": 2}, [1, 2]),
    ("$each", {"$least": 1}, [1, 2]),
    ("$set", [1, 2], [2, 1]),
    ("$set", [{"$any": True}, 1], [1, 2]),
    ("$length", 2, [1, 1]),
    ("$length", 0, ""),
    ("$length", 1, {"a": 1}),
]
FAILS: list[tuple[str, Any, Any]] = [
    ("$matches", "b+", "ac"),
    ("$matches", "1", 1),
    ("$matches", "", MISSING),
    ("$contains", "b", "ac"),
    ("$contains", 1, "1"),
    ("$contains", "b", None),
    ("$contains", "b", []),
    ("$has", {"a": 1}, {"a": 2}),
    ("$has", {"a": 1}, {}),
    ("$has", {}, []),
    ("$any", True, None),
    ("$any", True, MISSING),
    ("$absent", True, 0),
    ("$absent", True, ""),
    ("$not", 1, 1),
    ("$not", 1, MISSING),
    ("$least", 2, 1),
    ("$least", 0, True),
    ("$least", 0, "1"),
    ("$most", 2, 3),
    ("$most", 2, MISSING),
    ("$some", 2, []),
    ("$some", 2, [1]),
    ("$some", "a", "a"),
    ("$each", 1, []),
    ("$each", 1, [1, 2]),
    ("$each", 1, 1),
    ("$set", [1, 1], [1, 2]),
    ("$set", [1], [1, 1]),
    ("$set", ["a"], "a"),
    ("$length", 2, [1]),
    ("$length", 0, None),
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet="ab1$", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(alphabet="ab", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


# rule: proof.every-expectation
def test_every_word_is_in_both_tables() -> None:
    """A new word is not done before it was seen to fail."""
    assert {word for word, _, _ in HOLDS} == {word for word, _, _ in FAILS} == set(WORDS)


@pytest.mark.parametrize(("word", "wanted", "actual"), HOLDS)
def test_a_word_holds(word: str, wanted: Any, actual: Any) -> None:
    """For what it means."""
    assert not list(faults({word: wanted}))
    assert matches({word: wanted}, actual)


@pytest.mark.parametrize(("word", "wanted", "actual"), FAILS)
def test_a_word_fails(word: str, wanted: Any, actual: Any) -> None:
    """For all else: in doubt too."""
    assert not list(faults({word: wanted}))
    assert not matches({word: wanted}, actual)


@given(VALUES)
def test_a_value_stands_for_itself(value: Any) -> None:
    """Whatever it is."""
    assert matches(value, value)


@given(VALUES, VALUES)
def test_a_value_stands_for_no_other(one: Any, other: Any) -> None:
    """``1`` is neither ``true`` nor ``"1"``; a mapping has no entry more and none less."""
    assert matches(one, other) == (repr(one) == repr(other) or same_mapping(one, other))


def same_mapping(one: Any, other: Any) -> bool:
    """Compare without the order of keys, and with the types."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_mapping(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_mapping, one, other))
    return type(one) is type(other) and one == other


def test_every_point_is_told_with_its_way() -> None:
    """One look must be enough."""
    expected = {"a": {"b": [1, 2]}, "c": {"$has": {"d": 1}}}
    actual = {"a": {"b": [1, 3], "x": 0}, "c": {"d": 2}}

    assert list(compare(expected, actual)) == [
        Mismatch(("a", "b", 1), 2, 3),
        Mismatch(("a", "x"), MISSING, 0),
        Mismatch(("c", "$has", "d"), 1, 2),
    ]


def test_a_loose_mapping_is_loose_at_its_top_alone() -> None:
    """What a caller is told may grow; what stands inside is said exactly."""
    seen = {"a": {"b": 1, "c": 2}, "d": 3}

    assert not list(compare({"a": {"b": 1, "c": 2}}, seen, exact=False))
    assert list(compare({"a": {"b": 1}}, seen, exact=False)) == [Mismatch(("a", "c"), MISSING, 2)]


@pytest.mark.parametrize(
    ("expected", "path"),
    [
        ({"$matchs": "a"}, ("$matchs",)),
        ({"a": [{"$matches": "("}]}, ("a", 0, "$matches")),
        ({"$matches": 1}, ("$matches",)),
        ({"$any": True, "b": 1}, ("$any",)),
        ({"$any": False}, ("$any",)),
        ({"$absent": 1}, ("$absent",)),
        ({"$least": "1"}, ("$least",)),
        ({"$most": True}, ("$most",)),
        ({"$length": None}, ("$length",)),
        ({"$set": "ab"}, ("$set",)),
        ({"$has": ["a"]}, ("$has",)),
        ({"$not": {"$nothing": 1}}, ("$not", "$nothing")),
    ],
)
def test_a_slip_in_an_expectation_is_found_before_anything_runs(
    expected: Any, path: tuple[Any, ...]
) -> None:
    """Else it would be compared with, and hold or fail by chance."""
    assert path in [where for where, _ in faults(expected)]


def test_a_hole_is_no_word() -> None:
    """``${root}`` stands for something that is known later."""
    assert not list(faults({"${root}": []}))
