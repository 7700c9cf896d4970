"""A manifest says what exit codes, patterns and fields mean; the first that matches counts."""

from typing import Any

import pytest

from executor.rules.outcomes import MAX_EXTRACT
from tests.outcomes.said import REJECTED, exited, judged, output

SENT = {"when": {"exit": 0}, "is": "delivered"}
LATER = {"when": {"exit": 75}, "is": "unresolved", "code": "ASK_THE_SERVER"}


# rule: outcomes.declared
@pytest.mark.parametrize(
    ("code", "status", "name", "recovery"),
    [
        (0, "delivered", None, None),
        (64, "undelivered", "REJECTED", "fix"),
        (75, "unresolved", "ASK_THE_SERVER", "ask"),
    ],
)
def test_a_declared_exit_code_means_what_is_declared(
    code: int, status: str, name: str | None, recovery: str | None
) -> None:
    """The author knows what this command's codes prove; nobody else does."""
    verdict = judged(exited(code), SENT, REJECTED, LATER)

    assert (verdict.status, verdict.code, verdict.recovery) == (status, name, recovery)


# rule: outcomes.declared
def test_one_of_several_declared_exit_codes_matches() -> None:
    """`exit: [6, 7]` is either of them, not both and not what lies between other pairs."""
    several = REJECTED | {"when": {"exit": [6, 8]}}

    assert judged(exited(6), several).code == "REJECTED"
    assert judged(exited(8), several).code == "REJECTED"
    assert judged(exited(7), several).code == "OUTCOME_UNKNOWN"


# rule: outcomes.declared
def test_the_first_that_matches_counts_whatever_follows() -> None:
    """The order in a manifest is its author's word on which sign weighs more."""
    refused = {"when": {"stdout": "ERROR"}, "is": "undelivered", "code": "REJECTED"}
    said = exited(0, "ERROR rejected\n")

    assert judged(said, refused, SENT).code == "REJECTED"
    assert judged(said, SENT, refused).status == "delivered"


# rule: outcomes.declared
def test_every_part_of_a_condition_must_hold() -> None:
    """A rejection declared as exit and text is not proven by one of the two."""
    both = {
        "when": {"exit": 1, "stdout": "rejected", "stderr": "550"},
        "is": "undelivered",
        "code": "REJECTED",
    }

    assert judged(exited(1, "rejected", "550 no"), both).code == "REJECTED"
    for near in (
        exited(2, "rejected", "550 no"),
        exited(1, "accepted", "550 no"),
        exited(1, "rejected", "250 ok"),
        exited(1, "550", "rejected"),
    ):
        assert judged(near, both).code == "OUTCOME_UNKNOWN"


# rule: outcomes.declared
@pytest.mark.parametrize(
    ("wanted", "right", "wrong"),
    [
        ({"sent": True}, '{"sent": true}', ['{"sent": 1}', '{"sent": "true"}', '{"sent": false}']),
        ({"code": 1}, '{"code": 1}', ['{"code": true}', '{"code": 1.0}', '{"code": "1"}']),
        ({"code": 0}, '{"code": 0}', ['{"code": false}', '{"code": null}', "{}", '{"code": ""}']),
        ({"rate": 0.5}, '{"rate": 0.5}', ['{"rate": "0.5"}', '{"rate": 1}']),
        ({"error": None}, '{"error": null}', ["{}", '{"error": ""}', '{"error": 0}', "", "null"]),
        ({"a.b": "x"}, '{"a": {"b": "x"}}', ['{"a.b": "x"}', '{"a": ["x"]}', '{"a": "b"}', "[]"]),
        (
            {"a": 1, "b": 2},
            '{"a": 1, "b": 2, "c": 3}',
            ['{"a": 1}', '{"a": 1, "b": 3}', '{"b": 2}'],
        ),
    ],
)
def test_a_declared_field_has_its_value_and_its_type(
    wanted: dict[str, Any], right: str, wrong: list[str]
) -> None:
    """Python takes true for 1; a rejection that is believed for that reason sends twice."""
    rejected = {"when": {"json": wanted}, "is": "undelivered", "code": "REJECTED"}

    assert judged(exited(1, right), rejected).code == "REJECTED"
    for near in wrong:
        assert judged(exited(1, near), rejected).code == "OUTCOME_UNKNOWN", near


# rule: outcomes.declared
@pytest.mark.parametrize(
    "broken",
    [
        b'{"sent": false',
        b'{"sent": false} trailing',
        b'note\n{"sent": false}',
        b'{"sent": false, "by": "\xff"}',
        b"[" * 100_000,
        b"9" * 10_000,
        b"",
    ],
)
def test_a_stdout_that_is_no_json_document_has_no_fields(broken: bytes) -> None:
    """A parser that stumbles must neither stop the gate nor be taken for an answer."""
    rejected = {"when": {"json": {"sent": False}}, "is": "undelivered", "code": "REJECTED"}

    assert judged(exited(1, b'{"sent": false}\n'), rejected).code == "REJECTED"
    assert judged(exited(1, broken), rejected).code == "OUTCOME_UNKNOWN"


# rule: outcomes.declared
@pytest.mark.parametrize(
    ("extract", "finished", "found"),
    [
        ({"stdout": r"id=(\S+)"}, exited(0, "ok id=m-7 done"), "m-7"),
        ({"stderr": r"queued as (\S+)"}, exited(0, "", "250 queued as A1"), "A1"),
        ({"stdout": r"m-\d+"}, exited(0, "is m-7."), "m-7"),
        ({"stdout": r"id=(\S*)"}, exited(0, "id= none, id=m-7"), "m-7"),
        ({"stdout": r"id=(\S+)|accepted"}, exited(0, "accepted"), None),
        ({"stdout": r"id=(\s*)"}, exited(0, "id=   "), None),
        ({"stderr": r"id=(\S+)"}, exited(0, "id=m-7"), None),
        ({"json": "data.id"}, exited(0, '{"data": {"id": "m-7"}}'), "m-7"),
        ({"json": "id"}, exited(0, '{"id": 7}'), "7"),
        ({"json": "id"}, exited(0, '{"id": 0}'), "0"),
        ({"json": "id"}, exited(0, '{"id": true}'), None),
        ({"json": "id"}, exited(0, '{"id": ""}'), None),
        ({"json": "id"}, exited(0, '{"id": null}'), None),
        ({"json": "id"}, exited(0, '{"id": {"a": 1}}'), None),
        ({"json": "id"}, exited(0, '["id"]'), None),
        ({"json": "id"}, exited(0, "id: 7"), None),
    ],
)
def test_an_id_is_taken_from_where_it_is_declared(
    extract: dict[str, str], finished: Any, found: str | None
) -> None:
    """The id is what a person uses to look the action up; a made-up one is worse than none."""
    for key in ("result_id", "reply"):
        verdict = judged(finished, SENT | {key: extract})

        assert verdict.status == "delivered"
        assert getattr(verdict, key) == found


# rule: outcomes.declared
def test_a_reply_is_what_the_verdict_says() -> None:
    """The command's own words say more than its exit code."""
    with_reply = REJECTED | {"reply": {"stderr": "550 .*"}}

    told = judged(exited(64, "", "x\n550 no such user\n"), with_reply)
    silent = judged(exited(64), with_reply)

    assert (told.reply, told.because) == ("550 no such user", "It said: 550 no such user")
    assert (silent.reply, silent.because) == (None, "It exited with 64.")


# rule: outcomes.declared
def test_an_endless_id_is_cut() -> None:
    """A command cannot make a record as long as it likes."""
    verdict = judged(exited(0, "id=" + "x" * 10_000), SENT | {"result_id": {"stdout": r"id=(\S+)"}})

    assert verdict.result_id == "x" * MAX_EXTRACT


# rule: outcomes.declared
def test_bytes_that_are_not_utf8_can_be_matched_and_stay_readable_in_an_id() -> None:
    """Such an id, kept as it came, could be neither recorded nor printed: the end was lost."""
    sent = SENT | {"when": {"stdout": "caf\udce9 \udcff"}, "result_id": {"stdout": r"id=(\S+)"}}

    verdict = judged(exited(0, b"caf\xe9 \xff id=\xfe7\n"), sent)

    assert verdict.status == "delivered"
    assert verdict.result_id == r"\xfe7"


# rule: outcomes.declared
def test_half_a_surrogate_pair_in_json_stays_readable_in_an_id() -> None:
    """JSON can spell what no UTF-8 can."""
    verdict = judged(exited(0, r'{"id": "\ud800x"}'), SENT | {"result_id": {"json": "id"}})

    assert verdict.result_id == r"\ud800x"


# rule: outcomes.declared
def test_kept_bytes_become_text_and_back_without_a_loss() -> None:
    """What is shown, matched and hashed is what the command wrote."""
    every = bytes(range(256)) + b"\xed\xb3\xbf \xf0\x9f\x90\x9f"

    text = output(every).text

    assert text.encode("utf-8", "surrogateescape") == every
