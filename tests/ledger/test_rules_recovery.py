"""Recovery: an attempt is settled for its executor only when that is proven to be gone."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.rules.ledger import Lock, Sighting, is_gone, recover
from executor.rules.outcomes import OWN_CODES, PROVES_NOTHING_RAN
from tests.ledger.attempts import OTHER, OWNER, attempt, later, rebooted

NOW = later(60)
SAME, ANOTHER = OWNER.started, "9999"
# lock, same boot, same namespace, the process that has its number here -> gone
PROVEN: dict[tuple[Lock, bool, bool, str], bool] = {
    ("held", True, True, SAME): False,
    ("held", True, True, ANOTHER): False,
    ("held", True, True, ""): False,
    ("held", True, False, SAME): False,
    ("held", True, False, ANOTHER): False,
    ("held", True, False, ""): False,
    ("held", False, True, SAME): False,
    ("held", False, True, ANOTHER): False,
    ("held", False, True, ""): False,
    ("held", False, False, SAME): False,
    ("held", False, False, ANOTHER): False,
    ("held", False, False, ""): False,
    ("free", True, True, SAME): False,  # the file may be a copy
    ("free", True, True, ANOTHER): True,
    ("free", True, True, ""): True,
    ("free", True, False, SAME): True,
    ("free", True, False, ANOTHER): True,
    ("free", True, False, ""): True,
    ("free", False, True, SAME): True,  # 22 e: the number lives on, the boot does not
    ("free", False, True, ANOTHER): True,
    ("free", False, True, ""): True,
    ("free", False, False, SAME): True,
    ("free", False, False, ANOTHER): True,
    ("free", False, False, ""): True,
    ("missing", True, True, SAME): False,
    ("missing", True, True, ANOTHER): True,
    ("missing", True, True, ""): True,
    ("missing", True, False, SAME): False,  # its numbers are not ours
    ("missing", True, False, ANOTHER): False,
    ("missing", True, False, ""): False,
    ("missing", False, True, SAME): True,
    ("missing", False, True, ANOTHER): True,
    ("missing", False, True, ""): True,
    ("missing", False, False, SAME): True,
    ("missing", False, False, ANOTHER): True,
    ("missing", False, False, ""): True,
}


def sighting(lock: Lock, same_boot: bool, same_namespace: bool, started: str) -> Sighting:
    return Sighting(
        boot=OWNER.boot if same_boot else "boot-2",
        namespace=OWNER.namespace if same_namespace else "ns-2",
        lock=lock,
        started=started,
    )


# rule: ledger.owner-gone
@pytest.mark.parametrize("seen", PROVEN, ids=str)
def test_an_owner_is_gone_only_when_it_is_proven(seen: tuple[Lock, bool, bool, str]) -> None:
    """3, 22: a long run is no dead one, a reused number no live one, a lost file no proof."""
    assert is_gone(OWNER, sighting(*seen)) == PROVEN[seen]


# rule: ledger.owner-gone
def test_every_sighting_is_in_the_table() -> None:
    """A control: no combination is left to chance."""
    assert len(PROVEN) == 3 * 2 * 2 * 3


# rule: ledger.owner-gone
@pytest.mark.parametrize(
    ("changed", "seen"),
    [({"started": ""}, {"started": "5000"}), ({"namespace": ""}, {"namespace": "", "started": ""})],
    ids=["no start on record", "no namespace to be known"],
)
@pytest.mark.parametrize("lock", ["missing", "free"])
def test_what_is_not_known_of_an_owner_proves_nothing(
    changed: dict[str, str], seen: dict[str, str], lock: Lock
) -> None:
    """Where /proc tells nothing, only the lock is left to prove it."""
    facts = {"boot": OWNER.boot, "namespace": OWNER.namespace, "started": ANOTHER} | seen
    assert is_gone(OWNER, Sighting(OWNER.boot, OWNER.namespace, lock, ANOTHER))

    owner = msgspec.structs.replace(OWNER, **changed)

    assert is_gone(owner, Sighting(lock=lock, **facts)) == (lock == "free")


# rule: ledger.crash
def test_an_attempt_whose_executor_is_gone_is_settled_by_its_last_durable_word() -> None:
    """Reserved: nothing was started. Dispatching: it may have happened."""
    reserved = recover(attempt("a-1", "reserved"), lambda _: True, NOW)
    assert (reserved.state, reserved.code) == ("released", "EXECUTOR_GONE_BEFORE_START")

    dispatching = recover(attempt("a-1", "dispatching"), lambda _: True, NOW)
    assert (dispatching.state, dispatching.code) == ("unresolved", "EXECUTOR_GONE")

    for one in (reserved, dispatching):
        assert (one.settled, one.decided_by) == (NOW, "recovery")
        assert one.code in OWN_CODES - PROVES_NOTHING_RAN
    assert "may have happened" in (dispatching.because or "")


# rule: ledger.crash
@pytest.mark.parametrize("state", ["delivered", "released", "unresolved"])
def test_what_has_its_end_is_not_recovered(state: Any) -> None:
    """A dead executor's word is still its word."""
    ended = attempt("a-1", state)

    assert recover(ended, lambda _: True, NOW) == ended


# rule: ledger.owner-gone
@pytest.mark.parametrize("state", ["reserved", "dispatching"])
@given(seconds=st.integers(0, 10**9), reboot=st.booleans(), set_by=st.integers(-(10**8), 10**8))
def test_no_time_takes_an_attempt_from_an_executor_that_may_live(
    state: Any, seconds: int, reboot: bool, set_by: int
) -> None:
    """22 a and c: a run of 90 seconds outlives any lease, and a clock that jumps two hours."""
    running = attempt("a-1", state)
    now = rebooted(seconds + set_by) if reboot else later(seconds, step=set_by)
    assert recover(running, lambda _: True, now) != running

    assert recover(running, lambda _: False, now) == running


# rule: ledger.owner-gone
def test_it_is_the_attempt_s_own_executor_that_is_asked_about() -> None:
    """The end of one must not free another's."""
    assert recover(attempt("a-1", owner=OTHER), lambda owner: owner == OTHER, NOW).settled == NOW

    assert recover(attempt("a-1"), lambda owner: owner == OTHER, NOW).settled is None
