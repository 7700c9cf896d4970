"""mail.schedule: a draft that waits for its time, with the fake mail store as its command."""

import pytest

from executor import Receipt, Request
from executor.embedding import WINDOW_VARIABLE
from tests.house import House, interpreter
from tests.packs.shipped import end, opened
from tests.packs.stores import DRAFT, FAKE, Store, on_record, refused

TOOL = "mail.schedule"
AT = "2190-05-01T09:30:00+02:00"
ID = "d1@21900501T073000Z"
SOON = {"deadline: 60 s": "deadline: 1 s"}


@pytest.fixture
def store(house: House) -> Store:
    """A mail store with one draft, and the command that knows about it."""
    house.install("mailstore", FAKE.read_text().split("\n", 1)[1])
    made = Store(house)
    made.draft()
    return made


def scheduling(store: Store, at: str = AT) -> Request:
    """Ask for the draft to be scheduled."""
    return store.request(TOOL, {"at": at})


def own(changes: dict[str, str] | None) -> dict[str, str] | None:
    """Open the tree that the interpreter of this machine needs, if any."""
    tree = interpreter()[1]
    read = {} if tree is None else {'read: ["{store}"]': f'read: ["{{store}}", "{tree}"]'}
    return {**(changes or {}), **read} or None


async def schedule(
    house: House, store: Store, at: str = AT, changes: dict[str, str] | None = None
) -> Receipt:
    """Open an executor, and schedule the draft once."""
    async with opened(house, TOOL, own(changes)) as executor:
        return await executor.run(scheduling(store, at))


# -- scheduled, and gone --------------------------------------------------------------------------


# rule: outcomes.declared
async def test_a_draft_that_is_taken_is_delivered_with_an_id(house: House, store: Store) -> None:
    """The id finds it again, to look at it or to call it back."""
    receipt = await schedule(house, store)

    assert end(receipt) == ("delivered", None)
    assert receipt.result_id == ID
    assert receipt.found == {"recipients": ["bo@example.org", "cy@example.org"]}
    assert (store.drafts, store.scheduled) == (set(), {ID})


# rule: ledger.delivered
# rule: ledger.identity
@pytest.mark.parametrize("at", [AT, "2191-01-01T00:00:00Z"], ids=["same-time", "another-time"])
async def test_a_replay_is_told_of_the_first_whatever_time_it_names(
    house: House, store: Store, at: str
) -> None:
    """Scheduled for two times, it would go out twice."""
    async with opened(house, TOOL, own(None)) as executor:
        first = await executor.run(scheduling(store))
        store.draft()
        no = await refused(executor, scheduling(store, at))

    assert no.code == "DUPLICATE_DELIVERED"
    assert no.earlier is not None
    assert (no.earlier.attempt, no.earlier.result_id) == (first.attempt, ID)
    assert store.scheduled == {ID}


# rule: ledger.better-known
async def test_after_the_window_the_look_up_fails_and_the_ledger_knows_better(
    house: House, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The draft is not lost: it waits for its time."""
    monkeypatch.setenv(WINDOW_VARIABLE, "0")
    async with opened(house, TOOL, own(None)) as executor:
        first = await executor.run(scheduling(store))
        no = await refused(executor, scheduling(store))
        replay = on_record(executor, no)

    assert no.code == "DUPLICATE_DELIVERED"
    assert no.earlier is not None
    assert no.earlier.attempt == first.attempt
    assert replay.state == "released"  # the window did not block it: it came as far as the look-up


# rule: ledger.better-known
@pytest.mark.parametrize(
    "draft", [None, DRAFT.replace(b"example.org", b"")], ids=["none", "nobody"]
)
async def test_a_draft_that_is_not_there_or_for_nobody_is_not_scheduled(
    house: House, store: Store, draft: bytes | None
) -> None:
    """The ledger knows of nothing, so the look-up has the word; nothing stays that blocks."""
    store.consume()
    if draft is not None:
        store.draft(draft)
    async with opened(house, TOOL, own(None)) as executor:
        no = await refused(executor, scheduling(store))
        assert (no.code, store.scheduled) == ("LOOKUP_FAILED", set())
        store.draft()

        assert end(await executor.run(scheduling(store))) == ("delivered", None)


# -- proven: it was not scheduled -----------------------------------------------------------------


# rule: outcomes.proven-kept
# rule: ledger.release-allowlist
async def test_a_time_that_has_passed_is_refused_by_the_store_and_another_may_be_asked(
    house: House, store: Store
) -> None:
    """The store's own no proves that it did nothing."""
    async with opened(house, TOOL, own(None)) as executor:
        no = await executor.run(scheduling(store, "2001-01-01T00:00:00Z"))

        assert end(no) == ("undelivered", "SCHEDULE_REFUSED")
        assert no.reply == "2001-01-01T00:00:00Z has passed"
        assert (store.drafts, store.scheduled) == ({"d1"}, set())
        assert end(await executor.run(scheduling(store))) == ("delivered", None)


# -- unknown --------------------------------------------------------------------------------------


# rule: outcomes.unknown-holds
# rule: ledger.unresolved
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_an_end_that_nothing_explains_is_unknown_and_so_is_every_replay(
    house: House, store: Store, moment: str
) -> None:
    """The same words, and the same exit, whether the draft was taken or not."""
    store.cue(f"{moment} fail")
    async with opened(house, TOOL, own(None)) as executor:
        first = await executor.run(scheduling(store))
        store.cue(None)
        no = await refused(executor, scheduling(store))

    assert end(first) == ("unresolved", "SCHEDULE_STATUS_UNKNOWN")
    assert first.recovery == "ask"
    assert no.code == "DUPLICATE_UNRESOLVED"
    assert no.earlier is not None
    assert (no.earlier.attempt, no.earlier.code) == (first.attempt, "SCHEDULE_STATUS_UNKNOWN")
    assert store.scheduled == ({ID} if moment == "after" else set())


# rule: outcomes.signals
@pytest.mark.parametrize(("how", "code"), [("hang", "TIMED_OUT"), ("crash", "COMMAND_KILLED")])
async def test_an_end_without_a_word_is_unresolved(
    house: House, store: Store, how: str, code: str
) -> None:
    """It was taken, and nobody heard of it."""
    store.cue(f"after {how}")
    receipt = await schedule(house, store, changes=SOON if how == "hang" else None)

    assert end(receipt) == ("unresolved", code)
    assert store.scheduled == {ID}


# -- finding out ----------------------------------------------------------------------------------


# rule: ledger.evidence
async def test_a_message_that_the_store_has_is_evidence_that_it_is_scheduled(
    house: House, store: Store
) -> None:
    """The store has the answer that was lost, id included."""
    store.cue("after crash")
    async with opened(house, TOOL, own(None)) as executor:
        first = await executor.run(scheduling(store))
        assert first.status == "unresolved"

        found, answer = await executor.gate.find_out(first.attempt, "ana")
        no = await refused(executor, scheduling(store))

    assert (answer.status, answer.result_id) == ("delivered", ID)
    assert (found.state, found.decided_by, found.result_id) == ("delivered", "evidence", ID)
    assert no.code == "DUPLICATE_DELIVERED"
    assert no.earlier is not None
    assert no.earlier.result_id == ID


# rule: ledger.evidence
async def test_a_draft_that_the_store_still_has_is_evidence_that_it_is_not(
    house: House, store: Store
) -> None:
    """It moves the draft in one step, and what might still have done so is gone."""
    store.cue("before crash")
    async with opened(house, TOOL, own(None)) as executor:
        first = await executor.run(scheduling(store))
        assert first.status == "unresolved"
        store.cue(None)

        found, answer = await executor.gate.find_out(first.attempt, "ana")

        assert (answer.status, answer.code) == ("undelivered", "STILL_A_DRAFT")
        assert (found.state, found.decided_by) == ("released", "evidence")
        assert end(await executor.run(scheduling(store))) == ("delivered", None)
    assert store.scheduled == {ID}


# rule: ledger.evidence
async def test_a_message_that_is_nowhere_is_evidence_of_nothing(house: House, store: Store) -> None:
    """It may have gone out at its time."""
    store.cue("after crash")
    async with opened(house, TOOL, own(None)) as executor:
        first = await executor.run(scheduling(store))
        (store.path / "scheduled" / ID).unlink()

        found, answer = await executor.gate.find_out(first.attempt, "ana")
        no = await refused(executor, scheduling(store))

    assert (answer.status, found.state) == ("unresolved", "unresolved")
    assert no.code == "DUPLICATE_UNRESOLVED"
