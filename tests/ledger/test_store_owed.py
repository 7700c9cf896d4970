"""What the store failed to take is tried again, though nobody asks this executor for anything."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from executor.attempt import Attempt
from executor.effects import clock
from executor.refusal import Unverified
from executor.rules.ledger import Terms
from executor.store import writer as writers
from executor.store.database import Database, Job
from tests.ledger.attempts import said
from tests.ledger.programs.stand import DRAFT, PATIENCE_S, Stand, on_disk, standing


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "AGAIN_EVERY_S", 0.01)


class Faulty:
    """A database whose disk can fail, before a commit or after it."""

    def __init__(self, stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fails = ""
        self.tries = 0
        sound = stand.ledger.database._transact

        def transact(jobs: Sequence[Job[Any]]) -> None:
            self.tries += 1
            if self.fails != "before":
                sound(jobs)
            if self.fails:
                raise OSError(28, "No space left on device")

        monkeypatch.setattr(stand.ledger.database, "_transact", transact)


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition."""
    with trio.move_on_after(PATIENCE_S):
        while not condition():
            await trio.sleep(0.002)
    assert condition(), f"never seen: {what}"


async def until_on_disk(directory: Path, states: dict[str, str]) -> None:
    await until(lambda: on_disk(directory) == states, str(states))


async def dispatched(stand: Stand, name: str) -> Attempt:
    claimed = await stand.claim(name)
    return await stand.ledger.dispatch(claimed, Terms(), clock.moment())


async def settle(stand: Stand, attempt: Attempt) -> None:
    await stand.ledger.settle(attempt, said("delivered"), clock.moment(), draft=DRAFT)


# rule: ledger.full-disk
async def test_a_settlement_that_found_no_room_is_written_though_nobody_asks_for_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others would be told for as long as this executor is idle that it is still under way."""
    state = tmp_path / "state"
    async with standing(state) as stand:
        first = await dispatched(stand, "first")
        faulty = Faulty(stand, monkeypatch)
        faulty.fails = "before"
        with pytest.raises(Unverified):
            await settle(stand, first)
        await until(lambda: faulty.tries > 3, "another try")
        assert on_disk(state) == {"first": "dispatching"}

        faulty.fails = ""

        await until_on_disk(state, {"first": "delivered"})


# rule: ledger.full-disk
async def test_a_claim_that_reached_the_disk_untold_is_withdrawn_though_nobody_asks_for_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An action that nobody may do would block the same action."""
    state = tmp_path / "state"
    async with standing(state) as stand:
        faulty = Faulty(stand, monkeypatch)
        faulty.fails = "after"
        with pytest.raises(Unverified):
            await stand.claim("first")
        assert on_disk(state) == {"first": "reserved"}

        faulty.fails = ""

        await until_on_disk(state, {"first": "released"})


# rule: ledger.full-disk
async def test_what_is_paid_or_only_rides_along_is_not_tried_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle executor must not keep a disk awake."""
    state = tmp_path / "state"
    async with standing(state) as stand:
        writer = stand.ledger.writer
        await stand.deliver("first")  # owes only that its receipt lies in its file
        assert writer._owed
        assert writer._trying is None

        second = await dispatched(stand, "second")
        faulty = Faulty(stand, monkeypatch)
        faulty.fails = "before"
        with pytest.raises(Unverified):
            await settle(stand, second)
        trying = writer._trying
        assert trying is not None
        faulty.fails = ""
        await until(trying.ended.is_set, "its end")
        assert on_disk(state) == {"first": "delivered", "second": "delivered"}
        assert writer._trying is None

        third = await dispatched(stand, "third")  # and it can begin anew
        faulty.fails = "before"
        with pytest.raises(Unverified):
            await settle(stand, third)
        faulty.fails = ""
        await until_on_disk(state, dict.fromkeys(("first", "second", "third"), "delivered"))


# rule: ledger.full-disk
async def test_closing_ends_what_is_tried_by_itself_before_the_store_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A try after that would write into whatever has the numbers of its files by then."""
    state, closed = tmp_path / "state", Database.close
    trying: list[bool] = []
    async with standing(state) as stand:
        writer = stand.ledger.writer
        first = await dispatched(stand, "first")
        faulty = Faulty(stand, monkeypatch)
        faulty.fails = "before"
        with pytest.raises(Unverified):
            await settle(stand, first)
        task = writer._trying
        assert task is not None
        assert not task.ended.is_set()

        def close(database: Database) -> None:
            trying.append(task.ended.is_set())
            closed(database)

        monkeypatch.setattr(Database, "close", close)

    assert trying == [True]
    with pytest.raises(Unverified):
        await settle(stand, first)  # a late one
    assert writer._trying is None
    assert on_disk(state) == {"first": "dispatching"}
