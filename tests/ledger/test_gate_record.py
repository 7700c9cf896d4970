"""On record: what the disk refuses is told as what it is, and is still owed."""

import errno
import json
import os
from pathlib import Path
from typing import Any, NoReturn

import pytest

from executor import Receipt, Refused
from executor.gate import Gate
from executor.refusal import Unverified
from executor.store import receipts
from executor.store.database import Database
from executor.store.receipts import Receipts
from tests.house import House
from tests.ledger.crash.post import Post


@pytest.fixture
def post(house: House) -> Post:
    """A tool without a sandbox, which adds nothing to what the ledger does."""
    return Post(house)


def disk_is_full(*_: Any) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def receipts_fail(*_: Any) -> NoReturn:
    raise Unverified(
        "freezing.private-store", "STORE_UNAVAILABLE", because="No room.", todo="Make some."
    )


def full_from(patched: pytest.MonkeyPatch, stage: str) -> None:
    """Let the disk be full from a stage of the gate on."""
    kept = getattr(Gate, stage)

    def full(self: Gate, *given: Any) -> Any:
        patched.setattr(Database, "_transact", disk_is_full)
        return kept(self, *given)

    patched.setattr(Gate, stage, full)


async def lost(post: Post, monkeypatch: pytest.MonkeyPatch, executor: Any, request: Any) -> Receipt:
    """Run a request whose end cannot be put on record."""
    told: list[Receipt] = []
    with monkeypatch.context() as patched:
        full_from(patched, "classify")
        receipt: Receipt = await executor.run(request, tell=told.append)
    assert told == [receipt]
    return receipt


# rule: ledger.full-disk
async def test_an_end_that_cannot_be_put_on_record_is_told_as_lost_and_settled_later(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ran, so it is no refusal; and what is not on record is not told as a fact."""
    request = post.request()
    async with post.open() as executor:
        receipt = await lost(post, monkeypatch, executor, request)
        [before] = await post.attempts()
        with pytest.raises(Refused) as no:
            await executor.run(request)

    assert (receipt.status, receipt.code, receipt.recovery) == ("unresolved", "RECORD_LOST", "ask")
    assert "'m-7'" in receipt.because
    assert receipt.result()["receipt"] is None
    assert before.state == "dispatching"
    assert no.value.code == "DUPLICATE_DELIVERED"
    assert no.value.earlier is not None
    assert (no.value.earlier.attempt, no.value.earlier.result_id) == (receipt.attempt, "m-7")
    assert post.receipts()[receipt.attempt]["result"]["status"] == "delivered"
    assert post.sent == ["to ana"]
    await post.is_all_on_record()


# rule: ledger.full-disk
async def test_an_end_that_is_owed_is_settled_when_the_executor_closes(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else may come and ask before it does."""
    async with post.open() as executor:
        receipt = await lost(post, monkeypatch, executor, post.request())

    [attempt] = await post.attempts()
    assert (attempt.id, attempt.state, attempt.result_id) == (receipt.attempt, "delivered", "m-7")
    async with post.open():
        pass
    await post.is_all_on_record()


# rule: ledger.full-disk
@pytest.mark.parametrize("stage", ["claim", "dispatch"])
async def test_a_claim_or_dispatch_that_cannot_be_made_durable_runs_nothing(
    post: Post, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    """A guard without a memory guards nothing; with room again, the same is free."""
    request = post.request()
    async with post.open() as executor:
        with monkeypatch.context() as patched:
            full_from(patched, stage)
            with pytest.raises(Refused) as no:
                await executor.run(request)

        assert (no.value.rule, no.value.code) == ("ledger.full-disk", "STORE_UNAVAILABLE")
        assert not post.started.exists()
        assert (await executor.run(request)).status == "delivered"
    assert post.sent == ["to ana"]
    async with post.open():
        pass
    await post.is_all_on_record()


# rule: ledger.crash
# rule: ledger.delivered
@pytest.mark.parametrize("by", ["who asks again", "the next executor"])
async def test_a_receipt_that_cannot_be_written_is_written_from_the_ledger(
    post: Post, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """It is on record, so the delivery is told; a receipt is named when there is one."""
    request = post.request()
    async with post.open() as executor:
        with monkeypatch.context() as patched:
            patched.setattr(Receipts, "add", receipts_fail)
            receipt = await executor.run(request)
        assert (receipt.status, receipt.filed) == ("delivered", False)
        assert receipt.result()["receipt"] is None
        assert post.receipts() == {}
        if by == "who asks again":
            with pytest.raises(Refused) as no:
                await executor.run(request)
            assert no.value.earlier is not None
            assert no.value.earlier.receipt == receipt.attempt
            assert receipt.attempt in post.receipts()
    async with post.open():
        assert post.receipts()[receipt.attempt]["result"]["result_id"] == "m-7"
    await post.is_all_on_record()


# rule: ledger.crash
async def test_a_receipt_that_another_wrote_meanwhile_is_not_written_over(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two may find the same one missing; the second finds it there, and that is no fault."""
    request = post.request()
    async with post.open() as executor:
        with monkeypatch.context() as patched:
            patched.setattr(Receipts, "add", receipts_fail)
            receipt = await executor.run(request)
        [(name, statement)] = executor.gate.ledger.unrecorded(receipt.attempt)
        path = executor.receipt_path(receipt)
        reserve = Receipts.reserve

        def overtaken(self: Receipts, wanted: str) -> Any:
            if wanted == name:
                path.write_bytes(statement)
            return reserve(self, wanted)

        with monkeypatch.context() as patched:
            patched.setattr(Receipts, "reserve", overtaken)
            executor.gate.publish(name)

        assert path.read_bytes() == statement
        await executor.gate.ledger.writer.pay()
        assert executor.gate.ledger.unrecorded(receipt.attempt) == []
    await post.is_all_on_record()


# rule: ledger.crash
def test_room_that_is_swept_before_it_is_locked_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another executor opens in that instant and takes it for a killed one's."""
    lock, sweeps = receipts.fcntl.flock, [Receipts(tmp_path).sweep]

    def late(descriptor: int, how: int) -> None:
        if sweeps:
            assert sweeps.pop()() == 1
        lock(descriptor, how)

    monkeypatch.setattr(receipts.fcntl, "flock", late)
    ours = Receipts(tmp_path)

    room = ours.reserve("a")
    ours.add("a", {"it": "lies here"}, room)

    assert json.loads(ours.path("a").read_bytes()) == {"it": "lies here"}
    assert [path.name for path in (tmp_path / "receipts").iterdir()] == ["a.json"]
