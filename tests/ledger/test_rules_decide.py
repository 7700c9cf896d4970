"""Decide: a person's word and a `verify` command's answer about an unresolved attempt."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.attempt import STATES
from executor.refusal import Refused
from executor.rules.ledger import (
    check_settled,
    decide,
    evidence,
    in_doubt,
    no_verify_command,
    settle,
    unknown_attempt,
)
from executor.rules.outcomes import PROVES_NOTHING_RAN, Verdict
from tests.ledger.attempts import attempt, later, manifest, said

NOW = later(60)


def refusal(state: Any, by: Any, came: Any = "delivered") -> Refused:
    with pytest.raises(Refused) as no:
        decide(attempt("a-1", state), "a-1", said(came, by=by), NOW)
    return no.value


# rule: ledger.unresolved
@pytest.mark.parametrize("by", ["person", "evidence"])
@pytest.mark.parametrize("came", ["delivered", "released"])
def test_an_unresolved_attempt_is_settled_by_who_found_out(came: Any, by: Any) -> None:
    """Only they end it; the record says who did."""
    before = attempt("a-1", "unresolved")

    after = decide(before, "a-1", said(came, by=by, result_id="m-9"), NOW)

    assert (after.state, after.decided_by, after.settled) == (came, by, NOW)
    assert after.result_id == "m-9"


# rule: ledger.unresolved
@pytest.mark.parametrize("state", ["reserved", "dispatching", "delivered", "released"])
def test_a_person_decides_only_what_is_unresolved(state: Any) -> None:
    """A word about what still runs, or has its end, would be overtaken or overrule a fact."""
    assert decide(attempt("a-1", "unresolved"), "a-1", said("released", by="person"), NOW)

    no = refusal(state, "person")

    assert (no.rule, no.code) == ("ledger.unresolved", "NOT_UNRESOLVED")
    assert state in no.because


# rule: ledger.unresolved
@pytest.mark.parametrize("state", ["reserved", "dispatching"])
def test_evidence_says_nothing_about_what_is_still_on_its_way(state: Any) -> None:
    """Not there yet is not undelivered."""
    assert refusal(state, "evidence").code == "NOT_UNRESOLVED"
    with pytest.raises(Refused) as no:
        check_settled(attempt("a-1", state))
    assert no.value.code == "NOT_UNRESOLVED"


# rule: ledger.evidence
@pytest.mark.parametrize("state", sorted(set(STATES) - {"reserved", "dispatching"}))
def test_evidence_can_be_asked_for_of_whatever_has_ended(state: Any) -> None:
    """Also of a delivery: a person may want to see it with another's eyes."""
    check_settled(attempt("a-1", state))


# rule: ledger.by-attempt
@pytest.mark.parametrize("by", ["person", "evidence"])
def test_a_name_that_stands_for_no_attempt_is_refused(by: Any) -> None:
    """A slip in an id must not be a silent success."""
    assert decide(attempt("a-1", "unresolved"), "a-1", said("released", by=by), NOW)

    with pytest.raises(Refused) as no:
        decide(None, "a-l", said("released", by=by), NOW)

    assert (no.value.rule, no.value.code) == ("ledger.by-attempt", "UNKNOWN_ATTEMPT")
    assert "'a-l'" in no.value.because
    assert str(unknown_attempt("a-l")) == str(no.value)


# rule: ledger.late-result
@pytest.mark.parametrize(
    ("decided", "came"), [("released", "delivered"), ("delivered", "released")]
)
def test_evidence_against_a_decision_puts_it_in_doubt(decided: Any, came: Any) -> None:
    """It may be the person who was wrong, or the run; neither is dropped."""
    before = attempt("a-1", decided, decided_by="person")
    assert decide(before, "a-1", said(decided, by="evidence"), NOW) == before

    after = decide(before, "a-1", said(came, by="evidence"), NOW)

    assert (after.state, after.decided_by) == ("unresolved", "late-result")
    assert after.alarm is not None


# rule: ledger.late-result
@pytest.mark.parametrize("came", ["delivered", "released"])
def test_an_alarm_is_ended_by_a_person_only(came: Any) -> None:
    """Evidence may be what was contradicted; it cannot clear itself."""
    before = settle(attempt("a-1", "released", decided_by="evidence"), said("delivered"), NOW)
    assert before.alarm is not None

    assert decide(before, "a-1", said(came, by="evidence"), NOW) == before

    after = decide(before, "a-1", said(came, by="person"), NOW)
    assert (after.state, after.alarm, after.decided_by) == (came, None, "person")


# -- the answer of a `verify` command -------------------------------------------------------------

ASKS = manifest(
    outcomes=[
        {"when": {"exit": 0}, "is": "delivered"},
        {"when": {"exit": 1}, "is": "undelivered", "code": "NOT_THERE"},
        {"when": {"exit": 2}, "is": "unresolved", "code": "STILL_QUEUED"},
    ]
)


# rule: ledger.evidence
def test_a_clear_answer_settles() -> None:
    """A machine can look for a person where there is something to look at."""
    found = evidence(ASKS, Verdict("delivered", None, "It is there.", None, "m-9"))
    missing = evidence(ASKS, Verdict("undelivered", "NOT_THERE", "It is not.", None))

    assert found is not None
    assert (found.state, found.by, found.result_id) == ("delivered", "evidence", "m-9")
    assert missing is not None
    assert (missing.state, missing.by) == ("released", "evidence")


# rule: ledger.evidence
@pytest.mark.parametrize("code", sorted(PROVES_NOTHING_RAN))
def test_that_the_question_was_not_asked_proves_nothing_about_the_action(code: str) -> None:
    """ "Nothing ran" is said of the look, not of what is looked for."""
    assert evidence(ASKS, Verdict("undelivered", "NOT_THERE", "It is not.", None)) is not None

    assert evidence(ASKS, Verdict("undelivered", code, "Nothing ran.", None)) is None


# rule: ledger.evidence
@given(
    st.sampled_from(["undelivered", "unresolved"]),
    st.none() | st.text(max_size=12) | st.sampled_from(["STILL_QUEUED", "TIMED_OUT", "NOT_THERE"]),
)
def test_no_answer_but_a_declared_one_settles(status: Any, code: Any) -> None:
    """A broken look-up is not evidence that nothing was delivered."""
    found = evidence(ASKS, Verdict(status, code, "It ended.", None))

    assert (found is not None) == ((status, code) == ("undelivered", "NOT_THERE"))


# rule: ledger.evidence
def test_a_tool_without_a_verify_command_says_so() -> None:
    """The person who asks must look by hand."""
    no = no_verify_command(attempt("a-1", "unresolved"))

    assert (no.rule, no.code, no.recovery) == ("ledger.evidence", "NO_VERIFY_COMMAND", "ask")
    assert "mail.send" in no.because


# rule: ledger.late-result
def test_what_a_person_has_to_look_at_begins_with_the_alarms() -> None:
    """An alarm may be a second delivery under way; an open one waits."""
    alarmed = attempt("a-4", "unresolved", alarm="released, then delivered")
    plain = attempt("a-2", "unresolved")
    older = attempt("a-1", "unresolved")
    settled = [attempt("a-3", "delivered"), attempt("a-5", "released")]
    running = [attempt("a-6", "reserved"), attempt("a-7", "dispatching")]

    assert in_doubt([*running, plain, *settled, older, alarmed]) == [alarmed, older, plain]


# rule: ledger.evidence
def test_evidence_that_nothing_happened_does_not_free_what_may_live_on() -> None:
    """Without a sandbox a command outlives its executor, and acts after somebody looked."""
    gone = attempt("a-1", "unresolved", code="EXECUTOR_GONE", level="namespaced")
    assert decide(gone, "a-1", said("released", by="evidence"), NOW).state == "released"

    bare = attempt("a-1", "unresolved", code="EXECUTOR_GONE", level="bare")

    assert decide(bare, "a-1", said("released", by="evidence"), NOW) == bare
    assert decide(bare, "a-1", said("delivered", by="evidence"), NOW).state == "delivered"
    assert decide(bare, "a-1", said("released", by="person"), NOW).state == "released"
