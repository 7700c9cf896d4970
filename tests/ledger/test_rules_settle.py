"""Settle: what a verdict makes of an attempt, and what comes of it when it comes late."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from executor.attempt import STATES
from executor.rules.ledger import (
    bail_out,
    notes_of,
    releasing_codes,
    settle,
    settlement,
    verdict_on_fault,
)
from executor.rules.outcomes import OWN_CODES, PROVES_NOTHING_RAN, Verdict, unknown
from tests.ledger.attempts import START, attempt, later, manifest, said

NOW = later(60)
DECLARED = manifest(
    outcomes=[
        {"when": {"exit": 0}, "is": "delivered"},
        {"when": {"exit": 64}, "is": "undelivered", "code": "NOTHING_SENT"},
        {"when": {"exit": 75}, "is": "unresolved", "code": "PERHAPS_LATER"},
    ]
)
RELEASING = PROVES_NOTHING_RAN | {"NOTHING_SENT"}
codes = st.none() | st.sampled_from(sorted(OWN_CODES | {"NOTHING_SENT", "PERHAPS_LATER"}))
codes |= st.from_regex(r"[A-Z][A-Z0-9_]{0,15}", fullmatch=True) | st.text(max_size=8)


def verdict(status: Any, code: str | None, result_id: str | None = None) -> Verdict:
    return Verdict(status, code, "It ended.", None, result_id)


# -- what releases --------------------------------------------------------------------------------


# rule: ledger.release-allowlist
@example("undelivered", "TIMED_OUT")
@example("undelivered", None)
@example("undelivered", "")
@example("unresolved", "NOTHING_SENT")
@example("unresolved", "CANCELLED")
@given(st.sampled_from(["delivered", "undelivered", "unresolved"]), codes)
def test_only_a_code_on_the_allowlist_releases(status: Any, code: str | None) -> None:
    """A list of what holds forgets the next failure; this one forgets into holding."""
    came = settlement(DECLARED, verdict(status, code))

    assert (came.state == "released") == (status == "undelivered" and code in RELEASING)
    assert (came.state == "delivered") == (status == "delivered")


# rule: ledger.release-allowlist
def test_the_codes_that_release_are_these_and_those_that_a_manifest_declares() -> None:
    """Adding one is a decision about what proves that nothing was delivered."""
    assert {
        *("CANCELLED", "FAULT_BEFORE_START", "SANDBOX_FAILED", "SPAWN_FAILED")
    } == PROVES_NOTHING_RAN
    assert releasing_codes(DECLARED) == RELEASING
    assert releasing_codes(manifest(outcomes=[])) == PROVES_NOTHING_RAN


# rule: ledger.release-allowlist
def test_what_is_declared_for_one_tool_releases_no_other() -> None:
    """24 g: exit 64 means "nothing sent" only where it says so."""
    assert settlement(DECLARED, verdict("undelivered", "NOTHING_SENT")).state == "released"

    other = manifest(outcomes=[])
    assert settlement(other, verdict("undelivered", "NOTHING_SENT")).state == "unresolved"


# rule: ledger.release-allowlist
@given(codes)
def test_a_fault_releases_only_where_it_proves_that_nothing_ran(code: Any) -> None:
    """17: a deadline, a lost answer and a code never seen before all hold."""
    came = verdict_on_fault(unknown(code, "It ended."))

    assert came.state == ("released" if code in PROVES_NOTHING_RAN else "unresolved")


# rule: ledger.delivered
def test_a_delivery_keeps_its_id() -> None:
    """The id is the answer that a caller asks for again."""
    came = settlement(DECLARED, verdict("delivered", None, "m-9"))
    settled = settle(attempt("a-1", "dispatching"), came, NOW)

    assert (settled.state, settled.result_id, settled.settled) == ("delivered", "m-9", NOW)
    assert settled.decided_by == "run"


# -- by the last durable word ---------------------------------------------------------------------


# rule: ledger.single-dispatch
@pytest.mark.parametrize("came", ["delivered", "unresolved"])
def test_what_was_never_dispatched_is_never_delivered(came: Any) -> None:
    """Nothing was started that is on record; whatever it is, a person must look."""
    dispatching = settle(attempt("a-1", "dispatching"), said(came), NOW)
    assert dispatching.state == came

    assert settle(attempt("a-1", "reserved"), said(came), NOW).state == "unresolved"


# rule: ledger.bail-out-releases
def test_what_was_given_up_before_its_dispatch_is_released() -> None:
    """What provably did not happen may be asked again."""
    given_up = bail_out("INVALID_PARAMETERS", "No.")

    settled = settle(attempt("a-1", "reserved"), given_up, NOW)

    assert (settled.state, settled.code) == ("released", "INVALID_PARAMETERS")
    assert settled.settled == NOW


# -- late -----------------------------------------------------------------------------------------


# rule: ledger.late-settle
@pytest.mark.parametrize("came", ["delivered", "released", "unresolved"])
def test_a_result_that_comes_after_recovery_refines_it(came: Any) -> None:
    """Recovery knew only that the executor was gone; what is known late is known."""
    recovered = attempt("a-1", "unresolved", decided_by="recovery", code="EXECUTOR_GONE")

    settled = settle(recovered, said(came, "CODE", result_id="m-9"), NOW)

    assert (settled.state, settled.code, settled.result_id) == (came, "CODE", "m-9")
    assert (settled.settled, settled.decided_by, settled.alarm) == (NOW, "run", None)


# rule: ledger.late-result
@pytest.mark.parametrize("by", ["person", "evidence", "run", "resend", "late-result", "recovery"])
@pytest.mark.parametrize(
    ("decided", "came"), [("released", "delivered"), ("delivered", "released")]
)
def test_a_result_that_contradicts_a_decision_puts_it_in_doubt_with_an_alarm(
    decided: Any, came: Any, by: Any
) -> None:
    """Somebody was wrong: it may be on its way twice, or not at all."""
    before = attempt("a-1", decided, decided_by=by)
    assert settle(before, said(decided), NOW) == before

    after = settle(before, said(came, result_id="m-9"), NOW)

    assert (after.state, after.code) == ("unresolved", "LATE_RESULT")
    assert (after.decided_by, after.settled, after.result_id) == ("late-result", NOW, "m-9")
    assert after.alarm is not None
    for word in (decided, by, came):
        assert word in after.alarm
        assert word in (after.because or "")


# rule: ledger.late-result
@pytest.mark.parametrize("by", ["person", "evidence"])
@pytest.mark.parametrize("decided", ["delivered", "released"])
@pytest.mark.parametrize("agrees", [True, False])
def test_a_result_that_agrees_or_is_unclear_moves_nothing(
    decided: Any, by: Any, agrees: bool
) -> None:
    """An unclear end is no contradiction, and must not undo what a person found out."""
    before = attempt("a-1", decided, decided_by=by)
    contradiction = "released" if decided == "delivered" else "delivered"
    assert settle(before, said(contradiction), NOW) != before

    assert settle(before, said(decided if agrees else "unresolved", "TIMED_OUT"), NOW) == before


# rule: ledger.late-result
def test_a_contradiction_keeps_the_id_that_was_known() -> None:
    """It is the one thing by which a person can look for it."""
    before = attempt("a-1", "delivered", decided_by="person", result_id="m-7")

    assert settle(before, said("released", "NOTHING_SENT"), NOW).result_id == "m-7"


# rule: ledger.late-result
@pytest.mark.parametrize("came", ["delivered", "released"])
def test_an_attempt_in_doubt_is_not_settled_by_one_more_result(came: Any) -> None:
    """Two words against each other are not decided by the third of the same kind."""
    doubted = attempt("a-1", "unresolved", decided_by="late-result", alarm="released, delivered")

    after = settle(doubted, said(came), NOW)

    assert after.state == "unresolved"
    assert after.alarm is not None


# rule: ledger.late-result
# rule: ledger.late-settle
@given(
    st.sampled_from(STATES),
    st.sampled_from([None, "run", "recovery", "person", "evidence", "resend", "late-result"]),
    st.sampled_from(["delivered", "released", "unresolved"]),
)
def test_whatever_comes_an_attempt_is_settled_or_stays_as_it_is(
    state: Any, by: Any, came: Any
) -> None:
    """No pair of states may leave one open, or change whose attempt it is."""
    before = attempt("a-1", state, decided_by=by)

    after = settle(before, said(came), NOW)

    assert after == before or after.settled == NOW
    assert after.state not in ("reserved", "dispatching")
    for fact in ("id", "fingerprint", "number", "owner", "claimed", "beside", "key", "dispatched"):
        assert getattr(after, fact) == getattr(before, fact)


# -- notes ----------------------------------------------------------------------------------------


# rule: ledger.late-result
# rule: ledger.late-settle
@pytest.mark.parametrize("state", ["delivered", "released", "unresolved"])
def test_what_comes_late_is_noted_whatever_it_changes(state: Any) -> None:
    """The record shows what was said, by whom and when, also where it did not win."""
    came = said("delivered", result_id="m-9")
    open_one = attempt("a-1", "dispatching")
    assert list(notes_of(open_one, settle(open_one, came, NOW), came, NOW.at)) == []

    before = attempt("a-1", state, decided_by="person")
    (note,) = notes_of(before, settle(before, came, NOW), came, NOW.at)

    assert (note.attempt, note.kind, note.by, note.at) == ("a-1", "late-result", "run", NOW.at)
    assert "delivered" in note.text
    assert "m-9" in note.text


# rule: ledger.late-settle
def test_what_comes_after_pruning_is_noted_and_dated_when_it_settled() -> None:
    """Forgotten is not unhappened: its delivery blocks again from when it was known."""
    known, came = attempt("a-1", "dispatching"), said("delivered")

    after = settle(known, came, NOW)
    (note,) = notes_of(None, after, came, NOW.at)

    assert after.settled == NOW != START
    assert (note.attempt, note.kind) == ("a-1", "pruned")


# rule: ledger.late-result
@pytest.mark.parametrize("by", ["person", "evidence"])
def test_a_decision_has_the_note_of_whoever_made_it_and_no_second(by: Any) -> None:
    """It would look as if a result had come."""
    before, came = attempt("a-1", "unresolved"), said("delivered", by=by)

    assert list(notes_of(before, settle(before, came, NOW), came, NOW.at)) == []
    assert list(notes_of(before, before, said("delivered"), NOW.at)) != []
