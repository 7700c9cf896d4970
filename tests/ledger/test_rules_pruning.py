"""Pruning, and what the ledger knows better than a look-up that failed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.attempt import STATES, Attempt, Earlier
from executor.refusal import Refused
from executor.rules.ledger import Terms, claim, look_up_failed, prunable
from tests.ledger.attempts import WINDOW_S, attempt, later, rebooted, wanted

DAY = 24 * 3600.0


# rule: ledger.pruning
@pytest.mark.parametrize("state", ["delivered", "released"])
def test_what_is_settled_is_forgotten_once_it_blocks_nothing_and_its_time_is_over(
    state: Any,
) -> None:
    """A ledger that only grows is one that somebody deletes."""
    settled = attempt("a-1", state)

    assert prunable(settled, DAY, later(DAY))

    assert not prunable(settled, DAY, later(DAY - 0.001))


# rule: ledger.pruning
@pytest.mark.parametrize("state", ["reserved", "dispatching", "unresolved", "paused"])
def test_what_is_open_is_never_forgotten(state: Any) -> None:
    """Forgetting it would be a way to do it twice."""
    far = later(100 * 365 * DAY)
    assert prunable(attempt("a-1", "delivered"), 0, far)

    assert not prunable(attempt("a-1", state, settled=later(0)), 0, far)


# rule: ledger.pruning
def test_a_window_longer_than_the_time_to_keep_keeps() -> None:
    """It still blocks; pruned it would not."""
    delivered = attempt("a-1", "delivered", window_ms=round(2 * DAY * 1000))
    assert prunable(delivered, DAY, later(2 * DAY))

    assert not prunable(delivered, DAY, later(2 * DAY - 0.001))


# rule: ledger.pruning
def test_a_settlement_without_its_time_is_kept() -> None:
    """It still holds; see the claim."""
    assert not prunable(attempt("a-1", "delivered", settled=None), 0, later(DAY))


# rule: ledger.pruning
# rule: ledger.clock
@given(st.integers(0, 10**8))
def test_a_clock_set_back_across_a_reboot_forgets_nothing(seconds: int) -> None:
    """What has to be kept for a day is not old an hour before it was made."""
    assert prunable(attempt("a-1", "delivered"), WINDOW_S, rebooted(WINDOW_S))

    assert not prunable(attempt("a-1", "delivered"), WINDOW_S, rebooted(-seconds))


# rule: ledger.pruning
@given(st.sampled_from(STATES), st.integers(0, 10**7), st.integers(0, 10**6), st.integers(0, 10**6))
def test_what_is_forgotten_would_not_have_been_in_the_way(
    state: Any, seconds: int, keep: int, window: int
) -> None:
    """Whatever is kept and for how long: pruning opens nothing that was shut."""
    one = attempt("a-1", state, window_ms=window * 1000)
    now = later(seconds)

    if prunable(one, keep, now):
        assert claim(wanted(), [one], Terms(window=window), now)


# rule: ledger.pruning
def test_no_number_of_attempts_refuses_a_new_action() -> None:
    """A full ledger that refuses is switched off within the hour."""
    many = [attempt(f"a-{number}", "released") for number in range(1, 5001)]

    assert claim(wanted(), many, Terms(), later(60)).state == "reserved"


# -- a look-up that failed ------------------------------------------------------------------------


def failed(name: str, attempts: list[Attempt]) -> Refused:
    return look_up_failed(name, attempts, "It exited with 1.", answered=True)


# rule: ledger.better-known
@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("delivered", "DUPLICATE_DELIVERED"),
        ("unresolved", "DUPLICATE_UNRESOLVED"),
        ("released", "LOOKUP_FAILED"),
        ("reserved", "LOOKUP_FAILED"),
        ("dispatching", "LOOKUP_FAILED"),
    ],
)
def test_a_look_up_that_fails_is_told_as_what_the_ledger_knows_to_explain_it(
    state: Any, code: str
) -> None:
    """A draft that its first send consumed is not "no such draft", also past every window."""
    mine = attempt("a-2", "reserved")
    assert failed("a-2", [mine]).code == "LOOKUP_FAILED"

    no = failed("a-2", [attempt("a-1", state), mine])

    assert no.code == code
    explained = None if code == "LOOKUP_FAILED" else Earlier.of(attempt("a-1", state))
    assert no.earlier == explained


# rule: ledger.better-known
def test_it_is_the_newest_explanation_that_is_told() -> None:
    """The one that consumed it last is the one to look at."""
    earlier = [
        attempt("a-1", "unresolved"),
        attempt("a-2", "delivered"),
        attempt("a-3", "released"),
    ]

    no = failed("a-4", [*earlier, attempt("a-4", "reserved")])

    assert no.earlier == Earlier.of(earlier[1])


# rule: ledger.better-known
def test_an_attempt_does_not_explain_its_own_look_up() -> None:
    """It has done nothing yet that could have consumed anything."""
    assert failed("a-2", [attempt("a-1", "unresolved")]).code == "DUPLICATE_UNRESOLVED"

    assert failed("a-1", [attempt("a-1", "unresolved")]).code == "LOOKUP_FAILED"


# rule: ledger.better-known
def test_a_delivery_that_was_named_as_known_explains_no_failed_look_up() -> None:
    """Whoever wants it once more would be told for ever that it happened before."""
    first, mine = attempt("a-1", "delivered"), attempt("a-2", "reserved", beside="a-1")
    assert failed("a-2", [first, attempt("a-2", "reserved")]).code == "DUPLICATE_DELIVERED"

    assert failed("a-2", [first, mine]).code == "LOOKUP_FAILED"

    doubtful = attempt("a-1", "unresolved")
    assert failed("a-2", [doubtful, mine]).code == "DUPLICATE_UNRESOLVED"


# rule: ledger.better-known
def test_a_look_up_that_gave_no_answer_is_no_reason_to_change_the_request() -> None:
    """It timed out: nobody said that what it looked for is not there."""
    no = look_up_failed("a-1", [], "It ended as timed-out.", answered=False)

    assert failed("a-1", []).recovery == "fix"
    assert (no.code, no.recovery) == ("LOOKUP_UNFINISHED", "retry")
    earlier = [attempt("a-1", "delivered"), attempt("a-2", "reserved")]
    assert look_up_failed("a-2", earlier, "It hung.", answered=False).code == "LOOKUP_UNFINISHED"
