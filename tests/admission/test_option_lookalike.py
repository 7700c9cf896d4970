"""A value does not become an option by beginning with a dash."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.admission.forge import admit, refused, tool

TEXT = {"type": "string"}
DASH = TEXT | {"allow_dash": True}
LIST = {"type": "array", "items": TEXT}


def _refuses(it: Any, value: Any, **others: Any) -> None:
    no = refused(it, {"x": value} | others)
    assert (no.rule, no.code) == ("admission.option-lookalike", "ARGUMENT_LOOKS_LIKE_OPTION")
    assert no.row.invalid_input


# rule: admission.option-lookalike
@pytest.mark.parametrize("value", ["-", "--", "-rf", "--upload-pack=x", "-1"])
@pytest.mark.parametrize(
    "argv",
    [
        ["{x}"],
        [["--to", "{x}"]],
        [{"when": "x", "argv": ["{x}"]}],
        [{"when": "x", "argv": ["--to", "{x}"]}],
        ["{x}tail"],
        ["{x}", "--"],
        ["x--", "{x}"],
        ["--=", "{x}"],
        [{"when": "absent", "argv": ["--"]}, "{x}"],
    ],
)
def test_a_value_at_the_head_of_an_argument_has_no_dash_option_lookalike(
    argv: list[Any], value: str
) -> None:
    """`git push --receive-pack=touch` has run what a branch name said."""
    it = tool({"x": TEXT, "absent": TEXT}, argv, required=["x"])
    assert "a-b" in "".join(admit(it, {"x": "a-b"}).argv)

    _refuses(it, value)


# rule: admission.option-lookalike
@pytest.mark.parametrize(
    "argv",
    [
        ["--", "{x}"],
        [["--", "{x}"]],
        [["--force", "--"], ["{x}"]],
        [{"when": "x", "argv": ["--", "{x}"]}],
        [{"when": "given", "argv": ["--"]}, "{x}"],
        ["--to={x}"],
        ["={x}"],
        [" {x}"],
    ],
)
def test_a_value_behind_the_end_of_options_or_inside_an_argument_may(argv: list[Any]) -> None:
    """The allowed twins: what a command cannot take for an option is the caller's own affair."""
    it = tool({"x": TEXT, "given": TEXT}, argv, required=["x"])

    assert "-rf" in admit(it, {"x": "-rf", "given": "y"}).argv[-1]


# rule: admission.option-lookalike
def test_the_manifest_can_say_that_a_dash_is_meant_option_lookalike() -> None:
    """A number may be negative; whoever declares that has looked at the command."""
    assert admit(tool({"x": DASH}, ["{x}"], required=["x"]), {"x": "-1"}).argv == ("-1",)
    number = {"type": "integer", "allow_dash": True}
    assert admit(tool({"x": number}, ["{x}"], required=["x"]), {"x": -1}).argv == ("-1",)

    _refuses(tool({"x": {"type": "integer"}}, ["{x}"], required=["x"]), -1)


# rule: admission.option-lookalike
def test_an_empty_piece_in_front_does_not_hide_the_dash_option_lookalike() -> None:
    """`{a}{x}` with nothing in `a` begins with `x`."""
    it = tool({"a": TEXT, "x": TEXT}, ["{a}{x}"], required=["a", "x"])
    assert admit(it, {"a": "b", "x": "-c"}).argv == ("b-c",)

    _refuses(it, "-c", a="")


def test_a_dash_that_is_allowed_to_one_piece_is_not_allowed_to_the_next() -> None:
    """`allow_dash` was said of a number, not of whatever stands behind it."""
    it = tool({"n": DASH, "x": TEXT}, ["{n}{x}"], required=["n", "x"])
    assert admit(it, {"n": "-1", "x": "-c"}).argv == ("-1-c",)

    _refuses(it, "-c", n="")


# rule: admission.option-lookalike
def test_every_item_of_a_list_is_looked_at_option_lookalike() -> None:
    """The first recipient is checked by everybody, the last by nobody."""
    each = [{"each": "x", "argv": ["--rcpt", "{item}"]}]
    it = tool({"x": LIST}, each)
    assert admit(it, {"x": ["a", "b"]}).argv == ("--rcpt", "a", "--rcpt", "b")

    _refuses(it, ["a", "b", "-oX"])
    for allowing in (
        tool({"x": {"type": "array", "items": DASH}}, each),
        tool({"x": LIST | {"allow_dash": True}}, each),
        tool({"x": LIST}, ["--", {"each": "x", "argv": ["{item}"]}]),
    ):
        assert admit(allowing, {"x": ["-oX"]}).argv[-1] == "-oX"


def test_the_end_of_options_said_by_a_value_ends_nothing() -> None:
    """Only the manifest can put `--`: a caller who could would be past every check."""
    it = tool({"a": DASH, "x": TEXT}, ["{a}", "{x}"], required=["a", "x"])
    assert admit(it, {"a": "--", "x": "b"}).argv == ("--", "b")

    _refuses(it, "-c", a="--")


def test_a_files_name_never_begins_with_a_dash() -> None:
    """The name of a file is a value as well; it is staged under one that no command mistakes."""
    it = tool(argv=["{files.f}"], files={"f": {}})

    assert admit(it, files={"f": "/x/--output=y"}).argv == ("_-output=y",)
    assert admit(it, files={"f": {"path": "/x/y", "name": "-rf"}}).argv == ("_rf",)


@given(
    pieces=st.lists(st.sampled_from(["a", "b", "c", "=", " ", ""]), min_size=1, max_size=4),
    values=st.lists(st.text(st.sampled_from("-a "), max_size=3), min_size=3, max_size=3),
)
@example(["a", "b"], ["", "-a", ""])
def test_no_argument_begins_with_a_dash_of_a_callers_option_lookalike(
    pieces: list[str], values: list[str]
) -> None:
    """Whatever the template, a word that starts with a dash started so in the manifest."""
    template = "".join(f"{{{piece}}}" if piece.isalpha() else piece for piece in pieces)
    given = dict(zip("abc", values, strict=True))
    it = tool(dict.fromkeys("abc", TEXT), [template], required=list("abc"))
    word = template.format(**given)

    if word.startswith("-"):
        assert refused(it, given).rule == "admission.option-lookalike"
    else:
        assert admit(it, given).argv == (word,)
