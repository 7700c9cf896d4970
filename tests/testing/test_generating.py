"""Generating: edits that fit their file, with names that stay, and functions that can be traced."""

from pathlib import Path

import pytest

from executor.testing.mutation import edits
from executor.testing.mutation.generating import Generated, functions, generated, instrumented

SOURCE = '''\
"""A module."""

from functools import cache

LIMIT = 1 + 1


@cache
def doubled(number: int = 1 + 1) -> int:
    """Double."""
    return number * 2


class Shop:
    rate: int = 3

    def taxed(self, price):
        # ä comes first, so that bytes are not characters
        return "ä", price + self.rate

    class Inner:
        def holds(self):
            def inside():
                return True

            return inside() and not False


def after(text):
    if text == "a" or text is None:
        return text.lstrip()
    return text
'''


def edits_of(source: str) -> dict[str, Generated]:
    """Give the edits by what they do."""
    return {f"{one.original} -> {one.replacement}": one for one in generated("shop.py", source)}


def test_every_edit_is_a_program_that_differs_in_one_place() -> None:
    """An edit that is none, or no program, would count as killed."""
    found = generated("shop.py", SOURCE)

    assert len(found) == len({one.id for one in found}) > 10
    for one in found:
        text = one.texts(lambda _: SOURCE)["shop.py"]
        compile(text, "shop.py", "exec")
        assert text != SOURCE
        assert SOURCE[one.start : one.end] == one.original
        assert text == SOURCE[: one.start] + one.replacement + SOURCE[one.end :]


@pytest.mark.parametrize(
    ("edit", "function"),
    [
        ("* -> /", "doubled"),
        ("+ -> -", "Shop.taxed"),
        ("True -> False", "Shop.Inner.holds.<locals>.inside"),
        ("and -> or", "Shop.Inner.holds"),
        ("== -> !=", "after"),
        ("or -> and", "after"),
        ("lstrip -> rstrip", "after"),
    ],
)
def test_an_edit_is_in_the_innermost_function_around_it(edit: str, function: str) -> None:
    """Decorated functions and those of inner classes are edited like any other."""
    assert edits_of(SOURCE)[edit].function == function


def test_what_runs_at_import_is_left_alone() -> None:
    """Module-level code, defaults and decorators run before any test does."""
    outside = ("LIMIT = 1 + 1", "number: int = 1 + 1", "@cache", "rate: int = 3")
    places = [(SOURCE.index(text), SOURCE.index(text) + len(text)) for text in outside]

    for one in generated("shop.py", SOURCE):
        assert not any(start <= one.start < end for start, end in places), one


def test_a_name_stays_where_the_code_around_it_moves() -> None:
    """What is known of a mutant would be lost with every line above it."""
    moved = SOURCE.replace("LIMIT = 1 + 1", "LIMIT = 2\n\n\ndef new(a):\n    return a == 1\n")

    before, after = generated("shop.py", SOURCE), generated("shop.py", moved)

    assert {one.id for one in before} < {one.id for one in after}


def test_the_same_edit_twice_in_a_function_has_two_names() -> None:
    """One of them may be killed, and the other not."""
    source = "def both(a, b):\n    return a == 1, b == 1\n"

    found = [one for one in generated("a.py", source) if one.original == "=="]

    assert len({one.id for one in found}) == len(found) == 2


def test_every_function_says_that_it_was_entered() -> None:
    """Methods, inner functions and decorated ones too; and the module does what it did."""
    names = functions(SOURCE)
    assert names == [
        "doubled",
        "Shop.taxed",
        "Shop.Inner.holds",
        "Shop.Inner.holds.<locals>.inside",
        "after",
    ]
    text = instrumented(SOURCE, names.index, "_entered = SEEN.append")
    space: dict[str, object] = {"SEEN": []}

    exec(compile(text, "shop.py", "exec"), space)  # noqa: S102 - it is what is tested

    assert space["SEEN"] == []
    assert space["doubled"](4) == 8  # type: ignore[operator]
    assert space["Shop"].Inner().holds() is True  # type: ignore[attr-defined]
    assert space["Shop"]().taxed(1) == ("ä", 4)  # type: ignore[operator]
    assert space["SEEN"] == [0, 2, 3, 1]
    assert space["doubled"].__doc__ == "Double."


def test_a_future_import_stays_first() -> None:
    """Anything before it is a syntax error."""
    source = '"""Doc."""\nfrom __future__ import annotations\n\n\ndef a():\n    return 1\n'

    text = instrumented(source, lambda _: 7, "_entered = print")

    compile(text, "a.py", "exec")
    assert text.index("__future__") < text.index("_entered")


@pytest.mark.parametrize("name", ["formats", "freezing", "stores", "values"])
def test_our_own_rules_can_be_edited_and_traced(name: str) -> None:
    """All that mutmut finds in a function fits the text again."""
    path = Path("executor/rules") / f"{name}.py"
    source = path.read_text()

    for one in generated(str(path), source)[::17]:
        compile(one.texts(lambda _: source)[str(path)], str(path), "exec")
    compile(instrumented(source, lambda _: 0, "_entered = print"), str(path), "exec")


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("a == b", "a != b", ("==", "!=")),
        ("return x", "return None", ("x", "None")),
        ("f(a, b)", "f(b)", ("a, ", "")),
        ("total += 1", "total = 1", ("+=", "=")),
        ("aa", "a", ("aa", "a")),
        ("", "x", ("", "x")),
        ("same", "same", ("", "")),
    ],
)
def test_a_difference_is_told_in_whole_words(
    before: str, after: str, change: tuple[str, str]
) -> None:
    """Readers see what is replaced by what."""
    start, end, replacement = edits.difference(before, after)

    assert before[:start] + replacement + before[end:] == after
    assert (before[start:end], replacement) == change


def test_a_position_counts_from_one() -> None:
    """As editors do."""
    assert [edits.position("ab\nc", at) for at in (0, 2, 3, 4)] == [(1, 1), (1, 3), (2, 1), (2, 2)]
