"""Clock: how long ago was it?  Within a boot nobody's setting counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.attempt import Moment
from executor.refusal import Refused
from executor.rules.ledger import Terms, claim, elapsed, prunable
from tests.ledger.attempts import START, WINDOW_S, attempt, later, rebooted, wanted

HOUR = 3600.0
SECONDS = st.integers(0, 10**8)
STEPS = st.integers(-(10**8), 10**8)
moments = st.builds(
    Moment, st.integers(0, 4 * 10**12), st.integers(0, 10**11), st.sampled_from(["b-1", "b/2"])
)


def blocks(now: Moment) -> bool:
    try:
        claim(wanted(), [attempt("a-1", "delivered")], Terms(window=WINDOW_S), now)
    except Refused as no:
        return no.code == "DUPLICATE_DELIVERED"
    return False


# rule: ledger.clock
@given(SECONDS, STEPS)
def test_within_a_boot_no_setting_of_the_clock_counts(seconds: int, step: int) -> None:
    """22 c and d: an hour is an hour, however often somebody sets the clock."""
    assert elapsed(START, later(seconds, step=step)) == seconds


# rule: ledger.clock
@pytest.mark.parametrize("step", [-2 * HOUR, 0, 2 * HOUR])
def test_a_clock_step_neither_opens_nor_keeps_the_window(step: float) -> None:
    """22 d: set back two hours after completion, it is still done already."""
    assert blocks(later(60, step=step))
    assert blocks(later(WINDOW_S - 0.001, step=step))

    assert not blocks(later(WINDOW_S, step=step))


# rule: ledger.clock
@given(SECONDS)
def test_across_a_reboot_a_clock_set_back_never_opens_the_window(seconds: int) -> None:
    """All that is left is the wall's clock, and what it cannot know it holds against the action."""
    assert not blocks(rebooted(WINDOW_S))

    assert blocks(rebooted(-seconds))
    assert elapsed(START, rebooted(-seconds)) == 0


# rule: ledger.clock
def test_across_a_reboot_the_wall_s_clock_is_all_there_is() -> None:
    """The ticks begin again: 5 seconds since the boot say nothing of the time before."""
    assert elapsed(START, rebooted(90)) == 90
    assert blocks(rebooted(WINDOW_S - 0.001))


# rule: ledger.clock
@given(moments, moments)
def test_no_time_is_ever_less_than_none(since: Moment, now: Moment) -> None:
    """Ticks go back when a machine is set back to an earlier picture of itself."""
    assert elapsed(since, now) >= 0


# rule: ledger.clock
# rule: ledger.pruning
@given(SECONDS, STEPS, st.booleans())
def test_no_clock_ends_an_unresolved_attempt(seconds: int, step: int, reboot: bool) -> None:
    """22 b and d: set forward by years, it still asks for a person."""
    unresolved = attempt("a-1", "unresolved")
    now = rebooted(seconds + step) if reboot else later(seconds, step=step)

    assert not prunable(unresolved, 0, now)
    with pytest.raises(Refused) as no:
        claim(wanted(), [unresolved], Terms(window=0), now)
    assert no.value.code == "DUPLICATE_UNRESOLVED"


# rule: ledger.clock
@given(moments)
def test_a_moment_survives_being_written(moment: Moment) -> None:
    """The ledger keeps it as text; a millisecond lost is a window that ends early."""
    assert Moment.parse(str(moment)) == moment


# rule: ledger.clock
@pytest.mark.parametrize("text", ["", "2026-01-01T00:00:00.000Z", "x 1 boot", "2026-01-01 1"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    """A time that is guessed would open or keep a window."""
    with pytest.raises(ValueError, match=r".*"):
        Moment.parse(text)
