"""Resend: an unresolved action goes out again where its provider surely knows its key again."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from executor.attempt import Attempt, Moment
from executor.refusal import Refused
from executor.rules.ledger import Terms, claim, dispatch, resent, settle
from tests.ledger.attempts import OWNER, START, attempt, later, rebooted, said, wanted

KEY = "k" * 32
HOUR = 3600.0
TERMS = Terms(resend_window=HOUR)
OPEN = attempt("a-1", "unresolved", key=KEY)
NOW = later(HOUR - 0.001)


def resends(
    earlier: Sequence[Attempt] = (OPEN,),
    terms: Terms = TERMS,
    now: Moment = NOW,
    key: str = KEY,
) -> bool:
    return claim(wanted(key=key), earlier, terms, now).resend


def refusal(
    earlier: Sequence[Attempt] = (OPEN,),
    terms: Terms = TERMS,
    now: Moment = NOW,
    key: str = KEY,
) -> str:
    with pytest.raises(Refused) as no:
        claim(wanted(key=key), earlier, terms, now)
    return no.value.code


# rule: ledger.idempotency-key
def test_inside_the_window_an_unresolved_action_goes_out_again_and_never_after() -> None:
    """A provider that knows the key again makes of the two one; one that forgot it makes two."""
    assert resends(now=later(HOUR - 0.001))

    assert refusal(now=later(HOUR)) == "DUPLICATE_UNRESOLVED"
    assert refusal(now=later(365 * 24 * HOUR)) == "DUPLICATE_UNRESOLVED"


# rule: ledger.idempotency-key
def test_only_the_very_same_command_line_goes_out_again() -> None:
    """With another manifest the key may have gone out in another way, or not at all."""
    assert resends([OPEN])

    assert refusal([msgspec.structs.replace(OPEN, action="e" * 64)]) == "DUPLICATE_UNRESOLVED"


# rule: ledger.idempotency-key
@pytest.mark.parametrize(
    "now",
    [
        rebooted(60),
        rebooted(0),
        rebooted(-HOUR),
        later(2 * HOUR, step=-2 * HOUR),
        later(60, step=HOUR),
        later(-60),
    ],
    ids=[
        *("after a reboot", "at once after one", "set back across one"),
        *("set back meanwhile", "paused meanwhile", "ticks that went back"),
    ],
)
def test_a_time_that_is_not_proven_is_over(now: Moment) -> None:
    """Set back across a reboot, a clock says that no time went by; the provider forgot the key."""
    assert resends(now=later(60))
    assert resends(now=later(60, step=-2 * HOUR))

    assert refusal(now=now) == "DUPLICATE_UNRESOLVED"


# rule: ledger.idempotency-key
@pytest.mark.parametrize(
    ("earlier", "key"),
    [
        ([attempt("a-1", "unresolved", key=KEY)], ""),
        ([attempt("a-1", "unresolved", key="")], ""),
        ([attempt("a-1", "unresolved", key="")], KEY),
        ([attempt("a-1", "unresolved", key="j" * 32)], KEY),
        ([attempt("a-1", "unresolved", key=KEY, dispatched=None)], KEY),
        ([attempt("a-1", "unresolved", key=KEY, alarm="released, then delivered")], KEY),
    ],
    ids=["none now", "none at all", "none then", "another", "never dispatched", "an alarm"],
)
def test_without_the_same_key_on_its_way_before_nothing_goes_out_again(
    earlier: list[Attempt], key: str
) -> None:
    """What the provider never saw it cannot know again."""
    assert resends()

    assert refusal(earlier, key=key) == "DUPLICATE_UNRESOLVED"


# rule: ledger.idempotency-key
@pytest.mark.parametrize(
    ("state", "code"),
    [("delivered", "DUPLICATE_DELIVERED"), ("dispatching", "DUPLICATE_IN_FLIGHT")],
)
def test_only_what_is_unresolved_goes_out_again(state: Any, code: str) -> None:
    """A delivery has its answer already, and what runs will have one."""
    assert resends(now=later(60))

    assert refusal([attempt("a-1", state, key=KEY)], now=later(60)) == code


# rule: ledger.idempotency-key
def test_a_tool_without_a_window_never_sends_again() -> None:
    """A key alone says nothing of how long it is known."""
    assert resends(terms=Terms(resend_window=0.001), now=START)

    assert refusal(terms=Terms(), now=START) == "DUPLICATE_UNRESOLVED"


# rule: ledger.idempotency-key
@pytest.mark.parametrize("first", ["released", "unresolved"])
def test_the_window_counts_from_the_first_dispatch_under_the_key(first: Any) -> None:
    """Each resend would otherwise stretch it, and the provider counts from the first."""
    again = attempt("a-2", "unresolved", key=KEY, resend=True, dispatched=later(HOUR - 1))
    assert resends([again], now=later(HOUR + 1))

    earlier = [attempt("a-1", first, key=KEY), again]
    assert resends(earlier, now=later(HOUR - 0.001))
    assert refusal(earlier, now=later(HOUR + 1)) == "DUPLICATE_UNRESOLVED"


# rule: ledger.idempotency-key
def test_one_that_may_not_go_out_again_stands_in_the_way_of_the_rest() -> None:
    """Beside an attempt under another key it would be a second delivery."""
    other = attempt("a-1", "unresolved", key="j" * 32)
    again = attempt("a-2", "unresolved", key=KEY)
    assert resends([again])

    assert refusal([other, again]) == "DUPLICATE_UNRESOLVED"
    assert resends([other, again], Terms(resend_window=HOUR, beside="a-1"))


# rule: ledger.idempotency-key
def test_the_provider_s_window_is_looked_at_again_at_the_dispatch() -> None:
    """An approval or a look-up may take longer than the provider remembers."""
    reserved = claim(wanted("a-2", number=2, key=KEY), [OPEN], TERMS, NOW)
    assert dispatch(reserved, OWNER, [OPEN], TERMS, NOW).state == "dispatching"

    with pytest.raises(Refused) as no:
        dispatch(reserved, OWNER, [OPEN], TERMS, later(HOUR))

    assert no.value.code == "DUPLICATE_UNRESOLVED"


# rule: ledger.idempotency-key
@pytest.mark.parametrize("minutes", [0, 20, 120])
def test_what_turned_out_to_be_delivered_since_the_claim_does_not_go_out_again(
    minutes: float,
) -> None:
    """The resend was asked for because nobody knew; that the answer came late changes nothing."""
    before = attempt("a-1", "unresolved", key=KEY, decided_by="recovery")
    reserved = claim(wanted("a-2", number=2, key=KEY), [before], TERMS, later(60))
    assert dispatch(reserved, OWNER, [before], TERMS, later(120)).state == "dispatching"

    came = settle(before, said("delivered"), later(90))
    with pytest.raises(Refused) as no:
        dispatch(reserved, OWNER, [came], TERMS, later(120 + minutes * 60))

    assert no.value.code == "DUPLICATE_DELIVERED"


# -- what a delivery under the same key says of the others ----------------------------------------


def resend(state: Any = "delivered", **changes: Any) -> Attempt:
    return attempt("a-2", state, **({"key": KEY, "resend": True} | changes))


# rule: ledger.idempotency-key
def test_a_delivered_resend_settles_what_was_open_under_its_key() -> None:
    """To the provider it is one delivery; a person has nothing left to find out."""
    (settled,) = resent(resend(), [OPEN], said("delivered", result_id="m-9"), NOW)

    assert (settled.id, settled.state, settled.decided_by) == ("a-1", "delivered", "resend")
    assert (settled.settled, settled.result_id) == (NOW, "m-9")
    assert "a-2" in (settled.because or "")


# rule: ledger.idempotency-key
@pytest.mark.parametrize(
    ("done", "other"),
    [
        (resend("released"), OPEN),
        (resend("unresolved"), OPEN),
        (resend(resend=False), OPEN),
        (resend(), attempt("a-1", "unresolved", key="j" * 32)),
        (resend(), attempt("a-1", "unresolved", key=KEY, alarm="released, then delivered")),
        (resend(), attempt("a-1", "released", key=KEY)),
        (resend(), attempt("a-1", "delivered", key=KEY)),
        (resend(), attempt("a-1", "dispatching", key=KEY)),
    ],
    ids=[
        *("it was rejected", "it is unresolved too", "it was no resend", "another key"),
        *("an alarm", "released", "delivered", "dispatching"),
    ],
)
def test_nothing_else_is_settled_by_a_resend(done: Attempt, other: Attempt) -> None:
    """A rejection of the second says nothing of the first, and no alarm ends by itself."""
    assert list(resent(resend(), [OPEN], said("delivered"), NOW)) != []

    assert list(resent(done, [other], said("delivered"), NOW)) == []
