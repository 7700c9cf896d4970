"""Dispatch: once, by the executor that claimed it, after a second look at what is in its way."""

from collections.abc import Sequence
from typing import Any

import pytest

from executor.attempt import Attempt, Earlier, Owner
from executor.refusal import Refused
from executor.rules.ledger import Terms, claim, dispatch, settle
from tests.ledger.attempts import OTHER, OWNER, START, WINDOW_S, attempt, later, said, wanted

TERMS = Terms(window=WINDOW_S)
NOW = later(60)


def refused(
    one: Attempt | None,
    owner: Owner = OWNER,
    earlier: Sequence[Attempt] = (),
    terms: Terms = TERMS,
) -> Refused:
    with pytest.raises(Refused) as no:
        dispatch(one, owner, earlier, terms, NOW)
    return no.value


# rule: ledger.single-dispatch
@pytest.mark.parametrize("state", ["dispatching", "delivered", "released", "unresolved"])
def test_only_a_reserved_attempt_is_dispatched(state: Any) -> None:
    """A second dispatch is a second delivery, whatever became of the first."""
    first = dispatch(attempt("a-1"), OWNER, [], TERMS, NOW)
    assert (first.state, first.dispatched, first.settled) == ("dispatching", NOW, None)

    no = refused(attempt("a-1", state))

    assert (no.rule, no.code) == ("ledger.single-dispatch", "CLAIM_LOST")
    assert refused(first).code == "CLAIM_LOST"


# rule: ledger.single-dispatch
@pytest.mark.parametrize(
    "other",
    [
        OTHER,
        Owner("owner-2", OWNER.boot, OWNER.namespace, OWNER.pid, OWNER.started),
        Owner(OWNER.id, "boot-2", OWNER.namespace, OWNER.pid, OWNER.started),
        Owner(OWNER.id, OWNER.boot, OWNER.namespace, OWNER.pid, "5001"),
    ],
    ids=["a stranger", "other executor", "other boot", "other process"],
)
def test_only_the_executor_that_claimed_it_dispatches_an_attempt(other: Owner) -> None:
    """Whoever finds a claim must not take it for its own: its owner goes on too."""
    assert dispatch(attempt("a-1"), OWNER, [], TERMS, NOW).state == "dispatching"

    assert refused(attempt("a-1"), other).code == "CLAIM_LOST"


# rule: ledger.single-dispatch
def test_what_is_not_on_record_is_not_dispatched() -> None:
    """It would happen without a memory of it."""
    assert refused(None).code == "CLAIM_LOST"


# rule: ledger.single-dispatch
@pytest.mark.parametrize(
    ("came", "code"), [("delivered", "LATE_RESULT"), ("unresolved", "TIMED_OUT")]
)
def test_what_came_in_the_way_since_the_claim_is_seen_at_the_dispatch(came: Any, code: str) -> None:
    """A person said "not delivered", it is asked for again, and then the first one comes back."""
    before = attempt("a-1", "released", decided_by="person")
    reserved = claim(wanted("a-2", number=2), [before], TERMS, NOW)
    assert dispatch(reserved, OWNER, [before], TERMS, NOW).state == "dispatching"

    if came == "delivered":
        meanwhile = settle(before, said("delivered"), NOW)
    else:
        meanwhile = attempt("a-1", "unresolved", code=code)
    no = refused(reserved, earlier=[meanwhile])

    assert (no.code, no.earlier) == ("DUPLICATE_UNRESOLVED", Earlier.of(meanwhile))
    assert meanwhile.code == code


# rule: ledger.override-beside
def test_what_was_named_at_the_claim_is_not_in_the_way_of_the_dispatch() -> None:
    """The second look asks no more than the first."""
    terms = Terms(window=WINDOW_S, beside="a-2")
    earlier = [attempt("a-1", "unresolved"), attempt("a-2", "delivered")]
    reserved = claim(wanted("a-3", number=3), earlier, terms, NOW)

    assert dispatch(reserved, OWNER, earlier, terms, NOW).state == "dispatching"

    assert refused(reserved, earlier=earlier).code == "DUPLICATE_DELIVERED"


# rule: ledger.delivered
def test_a_window_that_ended_before_the_claim_is_over_at_the_dispatch() -> None:
    """Between the two nothing is asked again that was answered."""
    old = attempt("a-1", "delivered", settled=START)
    past = later(WINDOW_S)
    reserved = claim(wanted("a-2", number=2, claimed=past), [old], TERMS, past)

    assert dispatch(reserved, OWNER, [old], TERMS, past).state == "dispatching"


# rule: ledger.delivered
def test_a_delivery_that_came_after_the_claim_was_meant_by_it() -> None:
    """An approval may take longer than the window; who asked did not know of the delivery."""
    asked, long_after = later(60), later(60 + 10 * WINDOW_S)
    reserved = attempt("a-2", claimed=asked)
    old = attempt("a-1", "delivered", settled=later(60 - WINDOW_S, since=START))
    assert dispatch(reserved, OWNER, [old], TERMS, long_after).state == "dispatching"

    came = attempt("a-1", "delivered", settled=later(90))
    with pytest.raises(Refused) as no:
        dispatch(reserved, OWNER, [came], TERMS, long_after)

    assert no.value.code == "DUPLICATE_DELIVERED"
