"""What no argument can carry, and a second line where one was declared, is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.refusal import Refused
from tests.admission.forge import admit, refused, tool
from tests.house import House

TEXT = {"type": "string"}
LIST = {"type": "array", "items": TEXT}


# rule: admission.single-line
@pytest.mark.parametrize("value", ["a\nBcc: e@out.test", "a\rb", "\n", "a\r\n", "a\0b", "\ud800"])
def test_a_field_of_one_line_takes_one_line_single_line(value: str) -> None:
    """`ok@corp.test` and a line break is a second header in a mail, a second line in a file."""
    it = tool({"x": TEXT, "xs": LIST})
    admit(it, {"x": "a\tb\u2028c\x0b\x85", "xs": ["ok"]})

    for parameters in ({"x": value}, {"xs": ["ok", value]}):
        no = refused(it, parameters)
        assert (no.rule, no.code) == ("admission.single-line", "INVALID_PARAMETERS")
        assert ("xs[1]: " if "xs" in parameters else "x: ") in no.because
        assert value not in no.because


# rule: admission.single-line
@pytest.mark.parametrize("where", ["parameter", "items", "list"])
def test_a_field_declared_multiline_takes_lines_but_no_nul_single_line(where: str) -> None:
    """A body has lines; a NUL ends any argument early, and half a character is none."""
    several: dict[str, Any] = {
        "parameter": TEXT | {"multiline": True},
        "items": {"type": "array", "items": TEXT | {"multiline": True}},
        "list": LIST | {"multiline": True},
    }[where]
    it = tool({"x": several})

    def given(text: str) -> dict[str, Any]:
        return {"x": text if where == "parameter" else [text]}

    assert admit(it, given("two\nlines\r\n")).argv == ("--x=two\nlines\r\n",)
    for odd in ("a\0b", "\ud800", "\udcff", "a\nb\0"):
        assert refused(it, given(odd)).rule == "admission.single-line"


@given(text=st.text())
def test_any_text_is_one_line_or_refused_single_line(text: str) -> None:
    """The rule is about three things and nothing else: no text is refused for its script."""
    it = tool({"x": TEXT})
    broken = any(sign in text for sign in "\0\r\n")

    if broken:
        assert refused(it, {"x": text}).rule == "admission.single-line"
    else:
        assert admit(it, {"x": text}).argv == (f"--x={text}",)


# rule: admission.single-line
@pytest.mark.parametrize("odd", ["a\0b", "\ud800"])
async def test_nothing_is_frozen_or_started_for_half_a_character_single_line(
    house: House, odd: str
) -> None:
    """Case 06: found out in the spawn, it was an odd exception after an approval was spent."""
    async with house.open() as executor:
        with pytest.raises(Refused) as no:
            await executor.run(house.request({"record": "stdout"}, "ok", odd))

        assert no.value.stage == "admit"
        assert "words[1]" in no.value.because
        assert no.value.receipt is not None
        assert no.value.receipt.action is None
        assert house.leftovers() == []

        corrected = await executor.run(house.request({"record": "stdout"}, "ok", "fine"))

    assert corrected.status == "delivered"
