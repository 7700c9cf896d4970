"""Looking: before an action for what it is about, after it for whether it happened."""

import json
from typing import Any

import pytest
import trio

from executor import Receipt, Refused
from executor.attempt import Settlement
from executor.effects import clock
from tests.house import House
from tests.ledger.crash.post import Post, until

SENDS_TO = {"stdout": r"to=(\S+)"}
ASKED = [
    {"when": {"exit": 0}, "is": "delivered", "result_id": {"stdout": r"found=(\S+)"}},
    {"when": {"exit": 3}, "is": "undelivered", "code": "NOT_THERE"},
]


@pytest.fixture
def post(house: House) -> Post:
    """A tool without a sandbox, which adds nothing to what the ledger does."""
    return Post(house)


def look_up(post: Post, finds: dict[str, Any], **changes: Any) -> None:
    post.declare(
        preflight={"argv": [*post.plan("look"), "--"], "when": {"exit": 0}, "finds": finds},
        **changes,
    )


# -- before it ------------------------------------------------------------------------------------


# rule: ledger.better-known
async def test_what_a_look_up_found_is_in_the_receipt(post: Post) -> None:
    """Who the recipients of a draft are is not in the request, and belongs on record."""
    look_up(post, {"recipients": SENDS_TO, "cc": {"stdout": r"cc=(\S+)"}})
    post.does("look", stdout="to=ana\nto=bo\n")

    async with post.open() as executor:
        receipt = await executor.run(post.request())

    assert receipt.status == "delivered"
    assert receipt.found == {"recipients": ["ana", "bo"], "cc": []}
    assert post.receipts()[receipt.attempt]["found"] == receipt.found
    assert len(post.receipts()) == 1  # looking is no action


# rule: ledger.better-known
async def test_a_look_up_sees_the_frozen_files_and_can_write_nowhere(
    house: House, namespaced: None
) -> None:
    """It only looks: what it could write would happen whatever became of the action."""
    post = Post(house, "namespaced")
    look_up(post, {"said": {"stdout": r"(?s)\A.*\Z"}}, files={"draft": {}})
    inside = str(post.out / "by-the-look-up")
    post.does("look", **{"record": "stdout", "try": [{"write": inside}]})
    post.does(**{"record": "stderr", "try": [{"write": str(post.out / "by-the-command")}]})
    draft = house.file("draft.txt", "to: ana\n")

    async with post.open() as executor:
        receipt = await executor.run(post.request(files={"draft": str(draft)}))

    assert receipt.status == "delivered"
    assert receipt.found is not None
    record = json.loads(receipt.found["said"][0])
    assert [(one["path"], one["content"]) for one in record["files"] if "content" in one] == [
        ("draft.txt", "to: ana\n")
    ]
    assert record["try"][0]["ok"] is False
    assert sorted(path.name for path in post.out.iterdir()) == [
        "by-the-command",
        "sent.log",
        "started",
    ]


# rule: ledger.better-known
async def test_a_failed_look_up_is_told_as_what_the_ledger_knows_of_it(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A draft that its first send consumed is not found by the second; that is no fault."""
    look_up(post, {})
    post.does("look")
    request, never_sent = post.request(), post.request()
    monkeypatch.setenv("EXECUTOR_DUPLICATE_WINDOW", "0")
    async with post.open() as executor:
        first = await executor.run(request)
        assert (await executor.run(request)).status == "delivered"  # the window is no reason

        post.does("look", stderr="no such draft\n", then={"exit": 1})
        with pytest.raises(Refused) as replay:
            await executor.run(request)
        with pytest.raises(Refused) as unknown:
            await executor.run(never_sent)

    assert replay.value.code == "DUPLICATE_DELIVERED"
    assert replay.value.earlier is not None
    assert replay.value.earlier.result_id == first.result_id == "m-7"
    assert (unknown.value.rule, unknown.value.code) == ("ledger.better-known", "LOOKUP_FAILED")
    assert "no such draft" in unknown.value.because
    assert post.sent == ["to ana"] * 2
    assert [one.state for one in await post.attempts()] == ["delivered"] * 2 + ["released"] * 2
    await post.is_all_on_record()


# rule: ledger.better-known
async def test_a_failed_look_up_beside_an_unresolved_attempt_is_told_as_that(post: Post) -> None:
    """It may be gone because it went out."""
    look_up(post, {})
    post.does("look")
    post.does(then={"exit": 1})
    request = post.request()
    async with post.open() as executor:
        first = await executor.run(request)
        post.does("look", then={"exit": 1})
        known = post.request(parameters=request.parameters, allow_duplicate=first.attempt)

        with pytest.raises(Refused) as no:
            await executor.run(known)

    assert no.value.code == "DUPLICATE_UNRESOLVED"
    assert no.value.earlier is not None
    assert no.value.earlier.attempt == first.attempt
    assert post.sent == ["to ana"]


# -- after it -------------------------------------------------------------------------------------


async def in_doubt(post: Post, executor: Any, request: Any) -> Receipt:
    """Send, and never learn what became of it."""
    post.does(then={"exit": 1})
    receipt: Receipt = await executor.run(request)
    assert receipt.status == "unresolved"
    post.does()
    return receipt


def verifiable(post: Post, **changes: Any) -> None:
    verify = {"argv": [*post.plan("verify"), "--", "{to}"], "outcomes": ASKED}
    post.declare(**({"verify": verify} | changes))


# rule: ledger.evidence
async def test_evidence_that_it_happened_settles_it_with_the_id(post: Post) -> None:
    """A machine can look for a person where there is something to look at."""
    verifiable(post)
    post.does("verify", stdout="found=m-9\n")
    request = post.request()
    async with post.open() as executor:
        first = await in_doubt(post, executor, request)

        attempt, verdict = await executor.gate.find_out(first.attempt, "ana")

        with pytest.raises(Refused) as no:
            await executor.run(request)
        [note] = executor.gate.ledger.notes(first.attempt)
    assert (attempt.state, attempt.decided_by, attempt.result_id) == (
        "delivered",
        "evidence",
        "m-9",
    )
    assert verdict.status == "delivered"
    assert (note.kind, note.by) == ("evidence", "ana")
    assert no.value.code == "DUPLICATE_DELIVERED"
    assert no.value.earlier is not None
    assert no.value.earlier.result_id == "m-9"
    assert post.sent == ["to ana"]
    assert len(await post.attempts()) == 1  # asking is no action


# rule: ledger.evidence
async def test_evidence_that_it_did_not_happen_frees_the_action(post: Post) -> None:
    """The author of the manifest says which answer proves that."""
    verifiable(post)
    post.does("verify", then={"exit": 3})
    request = post.request()
    async with post.open() as executor:
        first = await in_doubt(post, executor, request)

        attempt, _ = await executor.gate.find_out(first.attempt, "ana")

        assert (attempt.state, attempt.decided_by, attempt.code) == (
            "released",
            "evidence",
            "NOT_THERE",
        )
        assert (await executor.run(request)).status == "delivered"


# rule: ledger.evidence
@pytest.mark.parametrize("unclear", [{"exit": 9}, {"signal": 11}, "not started"])
async def test_an_unclear_answer_is_recorded_and_changes_nothing(post: Post, unclear: Any) -> None:
    """That the question failed, or was never put, says nothing about the action."""
    verifiable(post)
    if unclear == "not started":
        broken = post.house.bin / "broken"
        broken.write_bytes(b"\x7fELF is all that is right about it")
        broken.chmod(0o755)
        argv = [*post.plan("verify"), "--", "{to}"]
        verifiable(post, verify={"argv": argv, "outcomes": ASKED, "command": "broken"})
    else:
        post.does("verify", then=unclear)
    request = post.request()
    async with post.open() as executor:
        first = await in_doubt(post, executor, request)
        [before] = await post.attempts()

        attempt, _ = await executor.gate.find_out(first.attempt, "ana")

        [note] = executor.gate.ledger.notes(first.attempt)
        with pytest.raises(Refused) as no:
            await executor.run(request)
    assert [attempt] == await post.attempts() == [before]
    assert "No clear answer" in note.text
    assert no.value.code == "DUPLICATE_UNRESOLVED"


# rule: ledger.late-result
async def test_evidence_against_a_persons_word_puts_it_in_doubt_again_with_an_alarm(
    post: Post,
) -> None:
    """Somebody was wrong; neither may win without a person."""
    verifiable(post)
    post.does("verify", stdout="found=m-9\n")
    request = post.request()
    async with post.open() as executor:
        ledger = executor.gate.ledger
        first = await in_doubt(post, executor, request)
        said = Settlement("released", None, "I looked.", by="person")
        await ledger.decide(first.attempt, said, clock.moment(), who="bo", why="I looked.")

        attempt, _ = await executor.gate.find_out(first.attempt, "ana")

        with pytest.raises(Refused) as no:
            await executor.run(request)
        notes = [(note.kind, note.by) for note in ledger.notes(first.attempt)]
    assert (attempt.state, attempt.code, attempt.result_id) == ("unresolved", "LATE_RESULT", "m-9")
    assert attempt.alarm is not None
    assert "released by person" in attempt.alarm
    assert notes == [("resolved", "bo"), ("evidence", "ana")]
    assert no.value.code == "DUPLICATE_UNRESOLVED"
    assert post.sent == ["to ana"]


# rule: ledger.evidence
# rule: ledger.by-attempt
# rule: ledger.unresolved
async def test_nothing_is_asked_where_nothing_can_be_answered(post: Post) -> None:
    """Without a declared command, of an attempt that still runs, or of none at all."""
    request = post.request()
    async with post.open() as executor:
        first = await in_doubt(post, executor, request)
        with pytest.raises(Refused) as undeclared:
            await executor.gate.find_out(first.attempt, "ana")
        with pytest.raises(Refused) as nobody:
            await executor.gate.find_out("01a22e08d3796bc414f9212b568c", "ana")
    verifiable(post)
    async with post.open() as executor:
        with pytest.raises(Refused) as too_late:  # its question was not kept
            await executor.gate.find_out(first.attempt, "ana")
        post.stop.touch()
        post.started.unlink()
        running = post.request()
        with post.process(running):
            await trio.to_thread.run_sync(until, post.started.exists, "the start")
            *_, under_way = await post.attempts()
            with pytest.raises(Refused) as not_yet:
                await executor.gate.find_out(under_way.id, "ana")

    codes = [no.value.code for no in (undeclared, nobody, too_late, not_yet)]
    assert codes == ["NO_VERIFY_COMMAND", "UNKNOWN_ATTEMPT", "NO_VERIFY_COMMAND", "NOT_UNRESOLVED"]
