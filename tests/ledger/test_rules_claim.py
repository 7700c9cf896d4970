"""Claim: what an earlier attempt at the same action says about asking again."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.attempt import STATES, Attempt, Earlier, Moment
from executor.refusal import Refused
from executor.rules.ledger import Terms, claim, duplicate, obstacle
from tests.ledger.attempts import OTHER, START, WINDOW_S, attempt, later, rebooted, wanted

TERMS = Terms(window=WINDOW_S)
SOON, PAST = later(60), later(WINDOW_S)


def refused(earlier: Sequence[Attempt], terms: Terms = TERMS, now: Moment = SOON) -> Refused:
    with pytest.raises(Refused) as no:
        claim(wanted(), earlier, terms, now)
    return no.value


def reserves(earlier: Sequence[Attempt], terms: Terms = TERMS, now: Moment = SOON) -> bool:
    return claim(wanted(), earlier, terms, now).state == "reserved"


MATRIX: dict[tuple[str, str], str | None] = {
    ("reserved", "inside"): "DUPLICATE_IN_FLIGHT",
    ("reserved", "at its end"): "DUPLICATE_IN_FLIGHT",
    ("reserved", "years on"): "DUPLICATE_IN_FLIGHT",
    ("reserved", "switched off"): "DUPLICATE_IN_FLIGHT",
    ("dispatching", "inside"): "DUPLICATE_IN_FLIGHT",
    ("dispatching", "at its end"): "DUPLICATE_IN_FLIGHT",
    ("dispatching", "years on"): "DUPLICATE_IN_FLIGHT",
    ("dispatching", "switched off"): "DUPLICATE_IN_FLIGHT",
    ("delivered", "inside"): "DUPLICATE_DELIVERED",
    ("delivered", "at its end"): None,
    ("delivered", "years on"): None,
    ("delivered", "switched off"): None,
    ("released", "inside"): None,
    ("released", "at its end"): None,
    ("released", "years on"): None,
    ("released", "switched off"): None,
    ("unresolved", "inside"): "DUPLICATE_UNRESOLVED",
    ("unresolved", "at its end"): "DUPLICATE_UNRESOLVED",
    ("unresolved", "years on"): "DUPLICATE_UNRESOLVED",
    ("unresolved", "switched off"): "DUPLICATE_UNRESOLVED",
}
WHEN: dict[str, tuple[Terms, Moment]] = {
    "inside": (TERMS, later(WINDOW_S - 0.001)),
    "at its end": (TERMS, PAST),
    "years on": (TERMS, rebooted(10 * 365 * 24 * 3600)),
    "switched off": (Terms(window=0), START),
}


# rule: ledger.in-flight
# rule: ledger.delivered
# rule: ledger.unresolved
@pytest.mark.parametrize(("state", "when"), MATRIX)
def test_what_an_earlier_attempt_stands_in_the_way_of_is_this_and_no_more(
    state: Any, when: str
) -> None:
    """Each state and each time, so that no pair is left to chance."""
    terms, now = WHEN[when]
    code = MATRIX[state, when]

    assert reserves([], terms, now)

    earlier = [attempt("a-1", state)]
    if code is None:
        assert reserves(earlier, terms, now)
    else:
        no = refused(earlier, terms, now)
        assert no.code == code
        assert no.earlier == Earlier.of(earlier[0])


# rule: ledger.in-flight
# rule: ledger.delivered
# rule: ledger.unresolved
def test_every_state_is_in_the_matrix() -> None:
    """A control: a new state needs a decision at each time."""
    assert set(MATRIX) == {(state, when) for state in STATES for when in WHEN}


# rule: ledger.in-flight
# rule: ledger.delivered
# rule: ledger.unresolved
@pytest.mark.parametrize(
    ("state", "rule", "recovery"),
    [
        ("dispatching", "ledger.in-flight", "wait"),
        ("delivered", "ledger.delivered", "stop"),
        ("unresolved", "ledger.unresolved", "ask"),
    ],
)
def test_a_refused_duplicate_is_told_what_helps(state: Any, rule: str, recovery: str) -> None:
    """Waiting, stopping and asking a person are three things for a caller."""
    no = refused([attempt("a-1", state)])

    assert (no.rule, no.recovery, no.stage) == (rule, recovery, "claim")
    assert "a-1" in no.because
    assert "a-1" in no.todo


# rule: ledger.unresolved
def test_a_state_that_nobody_knows_holds() -> None:
    """A later version may write one; what is not recognised must not open the way."""
    assert reserves([attempt("a-1", "released")])

    strange: Any = "paused"
    assert refused([attempt("a-1", strange)]).code == "DUPLICATE_UNRESOLVED"


# rule: ledger.delivered
def test_a_delivery_without_its_time_holds() -> None:
    """No window can be over that never began."""
    assert reserves([attempt("a-1", "delivered")], now=PAST)

    assert refused([attempt("a-1", "delivered", settled=None)], now=PAST).code == (
        "DUPLICATE_UNRESOLVED"
    )


# rule: ledger.in-flight
@pytest.mark.parametrize("state", ["reserved", "dispatching"])
@pytest.mark.parametrize("other", ["delivered", "unresolved"])
@pytest.mark.parametrize("order", [("a-1", "a-2"), ("a-2", "a-1")])
def test_an_attempt_in_flight_is_told_before_any_other(
    state: Any, other: Any, order: tuple[str, str]
) -> None:
    """Its end may change the answer: whoever is told to stop or to ask would act too early."""
    earlier = sorted(
        [attempt(order[0], state), attempt(order[1], other)], key=lambda one: one.number
    )
    assert refused([attempt(order[1], other)]).code != "DUPLICATE_IN_FLIGHT"

    no = refused(earlier)

    assert no.code == "DUPLICATE_IN_FLIGHT"
    assert no.earlier == Earlier.of(attempt(order[0], state))


# rule: ledger.in-flight
def test_an_attempt_in_flight_stands_in_the_way_even_when_it_is_named() -> None:
    """Nobody can know of something that it needs a second, before the first has ended."""
    earlier = [attempt("a-1", "dispatching")]
    ended = [attempt("a-1", "unresolved")]

    assert reserves(ended, Terms(beside="a-1"))

    assert refused(earlier, Terms(beside="a-1")).code == "DUPLICATE_IN_FLIGHT"


# rule: ledger.delivered
# rule: ledger.unresolved
@pytest.mark.parametrize(
    ("first", "second"), [("delivered", "unresolved"), ("unresolved", "delivered")]
)
def test_of_several_in_the_way_the_newest_is_told(first: Any, second: Any) -> None:
    """Naming the newest is what it takes to go on beside all of them."""
    earlier = [attempt("a-1", first), attempt("a-2", second), attempt("a-3", "released")]

    no = refused(earlier)

    assert no.earlier == Earlier.of(earlier[1])
    assert no.rule == f"ledger.{second}"


# rule: ledger.override-beside
def test_a_refused_override_is_not_invited_to_name_the_next_one() -> None:
    """A program that obeys would climb from attempt to attempt, and deliver at each."""
    first, second = attempt("a-1", "delivered"), attempt("a-2", "delivered", beside="a-1")
    assert "allow_duplicate" in refused([first]).todo

    no = refused([first, second], Terms(beside="a-1"))

    assert (no.code, no.earlier) == ("DUPLICATE_DELIVERED", Earlier.of(second))
    assert "It is not attempt a-1, which the request allows for." in no.because
    assert "allow_duplicate" not in no.todo


# rule: ledger.override-beside
@pytest.mark.parametrize("state", ["delivered", "unresolved"])
def test_beside_a_named_attempt_the_action_is_tried_again(state: Any) -> None:
    """A person who knows of it may want it twice; whoever asks must know which one."""
    earlier = [attempt("a-1", state)]
    assert refused(earlier).earlier == Earlier.of(earlier[0])

    reserved = claim(wanted(), earlier, Terms(beside="a-1"), SOON)

    assert (reserved.state, reserved.beside) == ("reserved", "a-1")
    assert not reserved.resend


# rule: ledger.override-beside
def test_a_named_attempt_stands_for_the_older_ones_and_not_for_newer_ones() -> None:
    """Whoever names the second has seen it, and with it the first; nobody has seen the third."""
    earlier = [attempt("a-1", "unresolved"), attempt("a-2", "delivered")]
    terms = Terms(beside="a-2")

    assert claim(wanted(), earlier, terms, SOON).beside == "a-2"

    no = refused([*earlier, attempt("a-3", "delivered")], terms)
    assert no.earlier is not None
    assert no.earlier.attempt == "a-3"
    assert refused(earlier, Terms(beside="a-1")).code == "DUPLICATE_DELIVERED"


# rule: ledger.override-beside
# rule: ledger.namespace
def test_naming_what_is_no_attempt_at_this_action_opens_nothing() -> None:
    """Any id would be a way through, and the answer would tell whether another's id exists."""
    earlier = [attempt("a-1", "delivered")]
    assert reserves(earlier, Terms(beside="a-1"))

    assert refused(earlier, Terms(beside="b-9")).code == "DUPLICATE_DELIVERED"
    no = refused([], Terms(beside="b-9"))
    assert (no.rule, no.code, no.earlier) == ("ledger.override-beside", "UNKNOWN_ATTEMPT", None)
    assert refused([attempt("a-1", "released")], Terms(beside="b-9")).code == "UNKNOWN_ATTEMPT"


# rule: ledger.override-beside
@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("dispatching", "DUPLICATE_IN_FLIGHT"),
        ("delivered", "DUPLICATE_DELIVERED"),
        ("unresolved", "DUPLICATE_UNRESOLVED"),
        ("released", None),
    ],
)
def test_a_replayed_override_is_refused_by_the_attempt_that_it_made(
    state: Any, code: str | None
) -> None:
    """The replay says "again" again; it means the same time."""
    terms = Terms(beside="a-1")
    first = attempt("a-1", "delivered")
    assert reserves([first], terms)

    made = attempt("a-2", state, beside="a-1")
    if code is None:
        assert reserves([first, made], terms)
    else:
        no = refused([first, made], terms)
        assert (no.code, no.earlier) == (code, Earlier.of(made))


# rule: ledger.override-beside
def test_an_override_that_delivered_nothing_leaves_the_earlier_delivery_in_the_way() -> None:
    """A rejection of the second try says nothing about the first."""
    earlier = [attempt("a-1", "delivered"), attempt("a-2", "released", beside="a-1")]

    no = refused(earlier)

    assert no.earlier == Earlier.of(earlier[0])


# rule: ledger.namespace
@given(st.sampled_from(STATES))
def test_a_refusal_tells_of_the_attempt_only_what_its_own_account_may_know(state: Any) -> None:
    """Whose executor, which digest and which key are nobody's business but the ledger's."""
    one = attempt("a-1", state, key="k" * 32, owner=OTHER, action="e" * 64)

    told = Earlier.of(one).facts()

    assert set(told) == {
        *("attempt", "state", "code", "result_id"),
        *("claimed_at", "settled_at", "receipt"),
    }
    assert told["attempt"] == "a-1"
    assert told["claimed_at"] == START.at
    for secret in (one.key, one.action, one.fingerprint, one.account, OTHER.id):
        assert secret not in str(told)


# rule: ledger.delivered
@pytest.mark.parametrize("state", STATES)
def test_a_receipt_is_promised_only_of_what_has_ended(state: Any) -> None:
    """A caller that is sent to a receipt must find one."""
    told = Earlier.of(attempt("a-1", state))

    assert told.receipt == (None if state in ("reserved", "dispatching") else "a-1")
    assert (told.settled_at is None) == (state in ("reserved", "dispatching"))
    assert told.result_id == ("m-7" if state == "delivered" else None)


# rule: ledger.unresolved
@pytest.mark.parametrize("state", ["reserved", "dispatching", "delivered", "unresolved"])
@pytest.mark.parametrize("code", [None, "OUTCOME_UNKNOWN", "TIMED_OUT", "EXECUTOR_GONE"])
def test_no_refusal_says_that_it_did_not_happen(state: Any, code: str | None) -> None:
    """17: the answer was lost, not the message; a person who reads "not sent" sends it again."""
    one = attempt("a-1", state, code=code)
    found = obstacle(one, WINDOW_S, SOON)
    assert found is not None

    because = duplicate(one, found).because.lower()

    for claimed in ("not sent", "not delivered", "not happen", "nothing", "failed", "never"):
        assert claimed not in because
    if state == "unresolved":
        assert "may have happened" in because


# rule: ledger.by-attempt
def test_a_claim_changes_nothing_but_its_own_state() -> None:
    """What is asked for and what is on record must be the same."""
    asked = wanted(key="k" * 32)

    assert claim(asked, [], TERMS, SOON) == asked
