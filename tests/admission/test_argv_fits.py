"""What the kernel would not take is refused before anything is frozen, claimed or asked."""

import os

import pytest

from executor.refusal import Refused
from executor.rules.admission import MAX_ARGUMENT, MAX_ARGUMENTS, check_argv_fits
from tests.house import House, recorded

PLENTY = 10**9


# rule: admission.argv-fits
async def test_an_argument_one_byte_too_long_is_refused_argv_fits(house: House) -> None:
    """Case 06: the longest argument reaches the command whole, one byte more reaches nothing."""
    longest = "a" * 131071
    async with house.open() as executor:
        done = await executor.run(house.request({"record": "stdout"}, "x", longest))
        argv = recorded(done)["argv"]
        assert argv == ["--", "x", longest]

        with pytest.raises(Refused) as no:
            await executor.run(house.request({"record": "stdout"}, "x", longest + "a"))

        assert (no.value.rule, no.value.code) == ("admission.argv-fits", "ARGV_TOO_LONG")
        assert no.value.stage == "admit"
        index = len(recorded(done)["cmdline"]) - 1
        assert f"Argument {index} is 131072 bytes" in no.value.because
        assert no.value.receipt is not None
        assert no.value.receipt.action is None
        assert house.leftovers() == []

        corrected = await executor.run(house.request({"record": "stdout"}, "x"))
        assert corrected.status == "delivered"


# rule: admission.argv-fits
@pytest.mark.parametrize("letter", ["a", "é", "漢", "😀"])
def test_bytes_are_counted_and_not_characters_argv_fits(letter: str) -> None:
    """The kernel counts bytes; 40,000 emoji are too many."""
    fits = letter * (MAX_ARGUMENT // len(letter.encode()))
    check_argv_fits(("x", fits), {}, PLENTY)

    with pytest.raises(Refused) as no:
        check_argv_fits(("x", fits + letter), {}, PLENTY)

    assert no.value.code == "ARGV_TOO_LONG"
    assert "Argument 1 " in no.value.because


# rule: admission.argv-fits
def test_a_variable_is_counted_with_its_name_argv_fits() -> None:
    """The kernel sees NAME=value as one string."""
    check_argv_fits((), {"NAME": "a" * (MAX_ARGUMENT - 5)}, PLENTY)

    with pytest.raises(Refused) as no:
        check_argv_fits((), {"NAME": "a" * (MAX_ARGUMENT - 4)}, PLENTY)

    assert no.value.code == "ARGV_TOO_LONG"
    assert "NAME" in no.value.because


# rule: admission.argv-fits
def test_arguments_and_environment_are_counted_together_argv_fits() -> None:
    """Many short arguments are a long line too; each costs its end and a pointer."""
    argv, env = ("a" * 91,) * 10, {"N": "b" * 89}
    check_argv_fits(argv, env, 1100)

    with pytest.raises(Refused) as no:
        check_argv_fits(argv, env, 1099)

    assert no.value.code == "ARGV_TOO_LONG"
    assert "1100" in no.value.because


def test_an_unlimited_stack_does_not_lift_the_kernels_own_bound_argv_fits() -> None:
    """With `ulimit -s unlimited` the system promises exabytes, and Linux stops at 6 MiB."""
    word = "a" * (2**16 - 9)
    check_argv_fits((word,) * (MAX_ARGUMENTS // 2**16), {}, PLENTY)

    with pytest.raises(Refused):
        check_argv_fits((word,) * (MAX_ARGUMENTS // 2**16 + 1), {}, PLENTY)


# rule: admission.argv-fits
async def test_what_fits_is_started_and_what_does_not_is_refused_argv_fits(house: House) -> None:
    """The bound is the system's: just below it the real kernel takes the line."""
    room = min(os.sysconf("SC_ARG_MAX"), MAX_ARGUMENTS)
    many = [str(number).rjust(100_000, "x") for number in range(room // 100_000 + 1)]
    async with house.open() as executor:
        fitting = house.request({}, *many[: (room - 2**17) // 100_100])
        assert (await executor.run(fitting)).status == "delivered"

        with pytest.raises(Refused) as no:
            await executor.run(house.request({}, *many))

    assert no.value.code == "ARGV_TOO_LONG"
