"""What proves nothing holds: an unexplained end, a signal, a lost output, signs that disagree."""

from typing import Any

import pytest

from executor.finished import End, Finished
from executor.rules.outcomes import OWN_CODES, PROVES_NOTHING_RAN, not_recorded
from tests.outcomes.said import REJECTED, ended, exited, judged, output

SENT = {"when": {"exit": 0}, "is": "delivered"}
SENT_WITH_ID = SENT | {"result_id": {"stdout": r"id=(\S+)"}}
BY_TEXT = {"when": {"stdout": "ERROR rejected"}, "is": "undelivered", "code": "REJECTED"}


# rule: outcomes.unknown-holds
def test_an_exit_that_nothing_explains_is_unknown() -> None:
    """24 c and d: "failed, retry" after such an exit is how a message goes out twice."""
    assert judged(exited(64), SENT, REJECTED).status == "undelivered"

    for code in (1, 2, 63, 65, 70, 75, 126, 127, 128, 193, 255):
        verdict = judged(exited(code), SENT, REJECTED)

        assert (verdict.status, verdict.code) == ("unresolved", "OUTCOME_UNKNOWN")
        assert verdict.recovery == "ask"


# rule: outcomes.unknown-holds
@pytest.mark.parametrize("finished", [exited(1), ended("lost"), exited(None, "ERROR rejected")])
def test_what_nothing_maps_is_named_by_the_kind_of_send(finished: Finished) -> None:
    """A scheduled send is looked up elsewhere, and its code says so."""
    assert judged(finished, BY_TEXT).code == "OUTCOME_UNKNOWN"

    verdict = judged(finished, BY_TEXT, effect="scheduled")

    assert (verdict.status, verdict.code) == ("unresolved", "SCHEDULE_STATUS_UNKNOWN")


# rule: outcomes.unknown-holds
def test_a_scheduled_send_that_is_explained_keeps_its_own_code() -> None:
    """Only what nothing maps is unknown."""
    assert judged(exited(64), REJECTED, effect="scheduled").code == "REJECTED"
    assert judged(exited(0), SENT, effect="scheduled").status == "delivered"


# rule: outcomes.unknown-holds
def test_a_manifest_without_outcomes_explains_nothing() -> None:
    """Not even 0 is a delivery by itself: `exit 0` with `ERROR` on stdout is common."""
    assert judged(exited(0)).code == "OUTCOME_UNKNOWN"


# rule: outcomes.unknown-holds
def test_an_exit_without_a_code_is_unknown_whatever_was_said() -> None:
    """A rejection counts with the code that the command gave it, and there is none."""
    assert judged(exited(1, "ERROR rejected"), BY_TEXT).code == "REJECTED"

    assert judged(exited(None, "ERROR rejected"), BY_TEXT).code == "OUTCOME_UNKNOWN"


# rule: outcomes.signals
@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("signalled", "COMMAND_KILLED"),
        ("timed-out", "TIMED_OUT"),
        ("cancelled", "CANCELLED_WHILE_RUNNING"),
        ("fault", "EXECUTOR_FAULT"),
        ("lost", "OUTCOME_UNKNOWN"),
    ],
)
def test_an_end_by_force_is_unresolved_whatever_was_said_before(end: End, code: str) -> None:
    """17 and 24 e: the answer was lost, not the message."""
    assert judged(exited(1, "ERROR rejected\n"), BY_TEXT).code == "REJECTED"

    for left in (None, 0, 1, 64):
        verdict = judged(ended(end, exit=left, signal=11), BY_TEXT, SENT, REJECTED)

        assert (verdict.status, verdict.code, verdict.recovery) == ("unresolved", code, "ask")
        assert verdict.because.endswith("It may have happened.")


# rule: outcomes.signals
@pytest.mark.parametrize("code", [129, 137, 139, 143, 192])
def test_an_exit_that_tells_of_a_signal_is_one(code: int) -> None:
    """Without a sandbox a shell says 137 when what it ran was killed; in one the sandbox does."""
    assert judged(exited(128, "ERROR rejected\n"), BY_TEXT).code == "REJECTED"
    assert judged(exited(193, "ERROR rejected\n"), BY_TEXT).code == "REJECTED"

    verdict = judged(exited(code, "ERROR rejected\n"), BY_TEXT)

    assert (verdict.status, verdict.code) == ("unresolved", "COMMAND_KILLED")


# rule: outcomes.signals
def test_a_rejection_is_not_proven_by_an_output_that_was_cut() -> None:
    """The id of the delivery may stand in the part that nobody kept."""
    said = "x" * 50
    assert judged(exited(64, said), SENT_WITH_ID, REJECTED).code == "REJECTED"

    verdict = judged(exited(64, said, cut=10), SENT_WITH_ID, REJECTED)

    assert (verdict.status, verdict.code) == ("unresolved", "OUTPUT_LOST")
    assert "40 of 50 bytes of stdout" in verdict.because


# rule: outcomes.signals
@pytest.mark.parametrize(
    "sign",
    [
        SENT | {"result_id": {"json": "id"}},
        SENT | {"when": {"exit": 64, "stdout": "sent"}},
        SENT | {"when": {"json": {"sent": True}}},
        {"when": {"exit": 64, "stdout": "queue"}, "is": "unresolved", "code": "IN_DOUBT"},
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_rejection_is_not_proven_where_any_other_sign_was_cut(
    sign: dict[str, Any], *, first: bool
) -> None:
    """Whatever the manifest would have read there could have said otherwise."""
    outcomes = (sign, REJECTED) if first else (REJECTED, sign)
    counts = first or sign["is"] == "delivered"  # what is unresolved counts only in its turn
    assert judged(exited(64, "x" * 50), *outcomes).code == "REJECTED"

    verdict = judged(exited(64, "x" * 50, cut=10), *outcomes)

    assert verdict.code == ("OUTPUT_LOST" if counts else "REJECTED")


# rule: outcomes.signals
@pytest.mark.parametrize("pattern", ["rejected$", r"^(?![\s\S]*sent)[\s\S]*rejected", "rejected"])
def test_a_rejection_by_text_is_not_proven_by_a_part_of_the_text(pattern: str) -> None:
    """ "rejected" at the cut may go on as "rejected by one of two, sent by the other"."""
    by_text = BY_TEXT | {"when": {"stdout": pattern}}
    assert judged(exited(1, "rejected"), by_text).code == "REJECTED"

    said = "rejected by the first server, sent by the second"
    verdict = judged(exited(1, said, cut=len(said) - len("rejected")), by_text)

    assert (verdict.status, verdict.code) == ("unresolved", "OUTPUT_LOST")


# rule: outcomes.signals
def test_a_delivery_is_not_proven_where_an_earlier_rejection_was_cut() -> None:
    """24 f, with so much output before it that `ERROR rejected` was not kept."""
    said = "x" * 100 + "ERROR rejected"
    assert judged(exited(0, said), BY_TEXT, SENT).code == "REJECTED"

    verdict = judged(exited(0, said, cut=14), BY_TEXT, SENT)

    assert (verdict.status, verdict.code) == ("unresolved", "OUTPUT_LOST")


# rule: outcomes.signals
def test_a_json_document_that_was_cut_is_none() -> None:
    """What was kept may be a whole document by chance, and say the opposite of the next line."""
    said = '{"sent": true}\n{"sent": false}'
    sent = {"when": {"json": {"sent": True}}, "is": "delivered"}
    assert judged(exited(0, said[:14]), sent).status == "delivered"

    assert judged(exited(0, said, cut=len(said) - 14), sent).code == "OUTCOME_UNKNOWN"


# rule: outcomes.signals
def test_output_that_decides_nothing_may_be_cut() -> None:
    """04: a chatty command that succeeds is delivered, and one that is refused is refused."""
    assert judged(exited(0, "x" * 50, cut=10), SENT_WITH_ID, BY_TEXT).status == "delivered"
    assert judged(exited(64, "x" * 50, cut=10), SENT, REJECTED).code == "REJECTED"
    by_exit = BY_TEXT | {"when": {"exit": 1, "stdout": "ERROR"}}  # no exit 1, whatever was cut
    assert judged(exited(0, "x" * 50, cut=10), by_exit, SENT).status == "delivered"
    other = BY_TEXT | {"code": "OTHER"}  # a rejection too
    assert judged(exited(64, "x" * 50, cut=10), other, REJECTED).code == "REJECTED"
    by_stderr = SENT | {"result_id": {"stderr": "id"}}
    assert judged(exited(64, "x" * 50, cut=10), by_stderr, REJECTED).code == "REJECTED"


# rule: outcomes.conflict
@pytest.mark.parametrize(
    ("extract", "with_id", "without"),
    [
        ({"stdout": r"id=(\S+)"}, exited(64, "id=m-7"), exited(64, "id:m-7")),
        ({"stderr": r"id=(\S+)"}, exited(64, "", "id=m-7"), exited(64, "id=m-7")),
        ({"json": "id"}, exited(64, '{"id": "m-7"}'), exited(64, '{"id": null}')),
        ({"json": "id"}, exited(64, '{"id": 7}'), exited(64, '{"id": ""}')),
        ({"json": "id"}, exited(64, '{"id": 0}'), exited(64, '{"id": false}')),
        ({"stdout": r"id=(\S+)|refused"}, exited(64, "id=None"), exited(64, "refused")),
        ({"stdout": r"id=(\S*)"}, exited(64, "id=\nid=7"), exited(64, "id=\n")),
    ],
)
def test_a_rejection_that_comes_with_an_id_is_in_conflict(
    extract: dict[str, str], with_id: Finished, without: Finished
) -> None:
    """A server that gave the message a number has it, whatever the client made of the rest."""
    sent = SENT | {"result_id": extract}
    assert judged(without, sent, REJECTED).code == "REJECTED"

    verdict = judged(with_id, sent, REJECTED)

    assert (verdict.status, verdict.code) == ("unresolved", "OUTCOME_CONFLICT")
    assert verdict.recovery == "ask"


# rule: outcomes.conflict
def test_the_id_of_any_declared_delivery_is_in_conflict() -> None:
    """Also of one that stands after the rejection."""
    other = {"when": {"exit": 3}, "is": "delivered", "result_id": {"stdout": r"job (\d+)"}}
    finished = exited(64, "job 12")

    assert judged(finished, SENT, REJECTED).code == "REJECTED"
    assert judged(finished, SENT, REJECTED, other).code == "OUTCOME_CONFLICT"


# rule: outcomes.conflict
def test_an_id_without_the_words_of_a_delivery_is_only_an_id() -> None:
    """Many an API numbers its refusals."""
    sent = SENT_WITH_ID | {"when": {"exit": 0, "stderr": "http=2"}}
    refused = {"when": {"exit": 0, "stderr": "http=404"}, "is": "undelivered", "code": "REJECTED"}

    assert judged(exited(0, "id=7", "http=404"), sent, refused).code == "REJECTED"
    assert judged(exited(64, "id=7", "http=201"), sent, REJECTED).code == "OUTCOME_CONFLICT"


# rule: outcomes.conflict
def test_the_text_of_a_rejection_is_in_no_conflict() -> None:
    """An error number in a reply is no sign of a delivery."""
    refused = REJECTED | {"result_id": {"stdout": r"ref (\d+)"}, "reply": {"stdout": ".+"}}

    verdict = judged(exited(64, "ref 12"), SENT_WITH_ID, refused)

    assert (verdict.code, verdict.result_id, verdict.reply) == ("REJECTED", "12", "ref 12")


# rule: outcomes.proven-kept
def test_a_declared_rejection_keeps_its_own_code_and_releases() -> None:
    """24 g: the caller is told what to mend, and may ask again."""
    verdict = judged(exited(64), SENT_WITH_ID, REJECTED)

    assert (verdict.status, verdict.code, verdict.recovery) == ("undelivered", "REJECTED", "fix")


# rule: outcomes.proven-kept
@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("not-started", "SPAWN_FAILED"),
        ("sandbox-failed", "SANDBOX_FAILED"),
        ("given-up", "CANCELLED"),
    ],
)
def test_an_end_before_the_start_proves_that_nothing_ran(end: End, code: str) -> None:
    """24 a, b and h: these alone are ours to release."""
    verdict = judged(ended(end, detail="no such file"), SENT, BY_TEXT)

    assert (verdict.status, verdict.code, verdict.recovery) == ("undelivered", code, "retry")
    assert verdict.because.endswith(". Nothing ran.")


# rule: outcomes.proven-kept
def test_our_own_releasing_codes_are_these_four() -> None:
    """Adding one is a decision about what proves that nothing was delivered."""
    ours = {"CANCELLED", "FAULT_BEFORE_START", "SANDBOX_FAILED", "SPAWN_FAILED"}
    assert ours == PROVES_NOTHING_RAN
    assert PROVES_NOTHING_RAN < OWN_CODES


# rule: outcomes.unknown-holds
@pytest.mark.parametrize(
    "delivered", [judged(exited(0, "id=m-7"), SENT_WITH_ID), judged(exited(64), REJECTED)]
)
def test_an_end_that_is_not_on_record_is_unresolved_and_still_told(delivered: Any) -> None:
    """What nobody can look up again is no fact; the person who must look gets all there is."""
    verdict = not_recorded(delivered, "The disk is full.")

    assert (verdict.status, verdict.code, verdict.recovery) == ("unresolved", "RECORD_LOST", "ask")
    assert f"It ended as {delivered.status}" in verdict.because
    assert (delivered.result_id or "") in verdict.because
    assert verdict.because.endswith("The disk is full.")


# rule: outcomes.unknown-holds
@pytest.mark.parametrize("detail", ["", "bwrap ended with 1", "Signal 9 ended it.", "caf\udce9"])
@pytest.mark.parametrize("end", ["not-started", "sandbox-failed", "fault", "lost", "signalled"])
def test_what_is_told_is_whole_sentences_that_can_be_printed(end: End, detail: str) -> None:
    """The facts come from the system and from other programs, full stop or not."""
    told = judged(ended(end, detail=detail, signal=9)).because

    told.encode()
    assert told.endswith(".")
    assert ".." not in told
    assert ": ." not in told
    assert detail.rstrip(".").encode("ascii", "ignore").decode() in told or end == "signalled"


def test_the_helper_cuts_as_the_spawner_does() -> None:
    """A control for all tests here that speak of cut output."""
    assert (output("abc", cut=1).kept, output("abc", cut=1).total) == (b"ab", 3)
    assert output("abc", cut=1).truncated
    assert not output("abc").truncated
