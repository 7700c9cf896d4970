"""Line ends: what ends a line for one reader must end it for all."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.refusal import Refused
from executor.rules.freezing import LineEnds
from tests.house import House


def bare_line(*pieces: bytes) -> int | None:
    """Give the line that is said to end badly."""
    found = LineEnds()
    for piece in pieces:
        found.look(piece)
    found.end()
    return found.bare_at


# rule: freezing.line-ends
@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"", None),
        (b"no end at all", None),
        (b"a\r\nb\r\n", None),
        (b"\n", 1),
        (b"a\r\nb\nc\r\n", 2),
        (b"a\rb\r\n", 1),
        (b"a\r\n\r\r\n", 2),
        (b"a\r\nb\r", 2),
    ],
)
def test_only_a_pair_ends_a_line_line_ends(text: bytes, line: int | None) -> None:
    """CR and LF mean an end only together."""
    assert bare_line(text) == line


# rule: freezing.line-ends
@given(st.text(alphabet="ab\r\n", max_size=40), st.lists(st.integers(0, 40), max_size=6))
def test_how_it_comes_in_pieces_makes_no_difference_line_ends(text: str, cuts: list[int]) -> None:
    """A large file is read in pieces, and a pair can lie across two."""
    raw = text.encode()
    places = sorted({0, *(min(cut, len(raw)) for cut in cuts), len(raw)})
    pieces = [raw[a:b] for a, b in pairwise(places)]

    assert bare_line(*pieces) == bare_line(raw)
    assert (bare_line(raw) is None) == (raw.replace(b"\r\n", b"").strip(b"ab") == b"")


# rule: freezing.line-ends
@pytest.mark.parametrize("text", [b"a\r\nb\r\n\r\n", b"a\r\nb\nc", b"a\r\nb\rc", b"a\r\n\r\r\n"])
def test_wherever_it_is_cut_in_three_the_answer_is_the_same_line_ends(text: bytes) -> None:
    """Neither a pair is torn, nor are two halves of different lines taken for one."""
    for first in range(len(text) + 1):
        for second in range(first, len(text) + 1):
            pieces = text[:first], text[first:second], text[second:]
            assert bare_line(*pieces) == bare_line(text), pieces


# rule: freezing.line-ends
async def test_only_a_slot_that_asks_is_looked_at_line_ends(house: House) -> None:
    """Most files have the line ends of their author."""
    doc = {"doc": str(house.file("doc", b"one\ntwo\n"))}
    house.manifest(files={"doc": {}})
    async with house.open() as executor:
        assert (await executor.run(house.request(files=doc))).status == "delivered"

    house.manifest(files={"doc": {"line_ends": "crlf"}})
    async with house.open() as executor:
        with pytest.raises(Refused) as no:
            await executor.run(house.request(files=doc))

    assert no.value.code == "BARE_LINE_END"
    assert list((house.state / "incoming").iterdir()) == []
