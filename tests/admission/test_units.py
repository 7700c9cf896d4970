"""Sizes and durations as people write them; what no system or JSON can carry is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor import units
from executor.units import Duration, Size

EXACT = 2**53


@pytest.mark.parametrize(
    ("kind", "written", "meant"),
    [
        (Size, "0 B", 0),
        (Size, "25 MiB", 25 * 2**20),
        (Size, "25MiB", 25 * 2**20),
        (Size, "1.5 KiB", 1536),
        (Size, "999999 GiB", 999999 * 2**30),
        (Size, "999999999999999 B", 10**15 - 1),
        (Duration, "60 s", 60.0),
        (Duration, "250 ms", 0.25),
        (Duration, "1.5 h", 5400.0),
        (Duration, "999999 d", 999999 * 86400.0),
    ],
)
def test_a_number_with_a_unit_is_an_amount(kind: type, written: str, meant: float) -> None:
    """Nobody counts the zeros of 26214400."""
    assert units.parse(kind, written) == meant
    assert meant * (1000 if kind is Duration else 1) < EXACT


@pytest.mark.parametrize("kind", [Size, Duration])
@pytest.mark.parametrize(
    "written",
    ["", "5", 5, None, True, "MiB", "-1 B", "-1 s", "1 MB", "1 kib", "1  MiB", "1 MiB\n", " 1 MiB",
     "1e3 B", "1,5 s", "1.5 B", "1.5 ms", "1. s", ".5 s", "٥ s", "9999999 GiB", "9999999 d", "1 w",
     "inf s", "nan s"],
)  # fmt: skip
def test_anything_else_is_none(kind: type, written: object) -> None:
    """A number without its unit is a guess; one past 2^53 is no number in JSON."""
    with pytest.raises(ValueError, match="not a number with a unit"):
        units.parse(kind, written)


@given(size=st.integers(0, 10**15))
def test_a_size_is_shown_as_it_could_be_written(size: int) -> None:
    """A message repeats what a person would write."""
    shown = units.show_size(size)

    amount, unit = shown.split(" ")
    factor = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[unit]
    assert abs(float(amount) * factor - size) <= factor * 0.05 + 1
