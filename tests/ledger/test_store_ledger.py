"""What was put into the ledger comes back as it was, and only what is over is forgotten."""

from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from executor.attempt import STATES, Attempt, Moment, Note, Owner
from executor.effects import clock
from executor.finished import printable
from executor.refusal import Refused
from executor.rules.ledger import Terms
from executor.store.ledger import BATCH, MOST_SAME
from tests.ledger.attempts import OTHER, START, attempt, later, said
from tests.ledger.programs.stand import DRAFT, Stand, on_disk, standing

DAY = 86_400.0
texts = st.text(st.characters(exclude_categories=())) | st.sampled_from(
    ["\0", "a\0b", "\ud800", "\udcff", "'; DROP TABLE attempts; --", "é", "e\u0301", "\U0010ffff"]
)
words = st.text(st.characters(exclude_categories=("Z", "C")), min_size=1)
ticks = st.integers(0, 2**62)
moments = st.builds(Moment, wall=st.integers(0, 200_000_000_000_000), ticks=ticks, boot=words)
owners = st.builds(
    Owner, id=words, boot=words, namespace=words, pid=st.integers(1, 2**22), started=words
)
attempts = st.builds(
    Attempt,
    id=st.uuids().map(str),
    fingerprint=words,
    account=texts,
    tool=texts,
    action=words,
    owner=owners,
    claimed=moments,
    window_ms=st.integers(0, 2**62),
    key=words,
    beside=st.none() | words,
    resend=st.booleans(),
    dispatched=st.none() | moments,
    settled=st.none() | moments,
    decided_by=st.none() | st.sampled_from(["run", "recovery", "person", "late-result"]),
    state=st.sampled_from(STATES),
    code=st.none() | texts,
    because=st.none() | texts,
    result_id=st.none() | texts,
    alarm=st.none() | texts,
)


def stored(one: Attempt) -> dict[str, Any]:
    """Give what must come back; half a character comes back escaped, for no record can hold it."""
    plain = msgspec.structs.asdict(one)
    return {name: printable(v) if isinstance(v, str) else v for name, v in plain.items()}


# rule: ledger.late-settle
# rule: ledger.by-attempt
@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(attempts)
@example(attempt("a-1", "delivered", result_id="\ud800\0\udcff", because="\udfff", alarm="\ud800"))
def test_every_field_of_an_attempt_comes_back_as_it_was_put_in(
    tmp_path_factory: pytest.TempPathFactory, one: Attempt
) -> None:
    """A field that is lost or bent is found out by the rule that rests on it."""

    async def put_and_get() -> Attempt | None:
        async with standing(tmp_path_factory.getbasetemp() / "fields") as stand:
            from executor.store import ledger

            add = partial(ledger._values, one)
            await stand.ledger.writer.write(
                lambda session: session.run(ledger._ADD, **add(), draft=None, question=None)
            )
            found = stand.ledger.find(one.id)
            await stand.ledger.writer.write(lambda session: session.run(ledger._REMOVE, id=one.id))
            return found

    found = trio.run(put_and_get)

    assert found is not None
    assert found.number > 0
    assert stored(found) == stored(one) | {"number": found.number}


# rule: ledger.late-settle
@pytest.mark.parametrize(
    "odd",
    ["\ud800", "\udcff and more", "\0", "a\0b", "\U0010ffff", "'"],
    ids=["half", "byte", "nul", "nul-within", "last", "quote"],
)
async def test_a_settlement_is_not_lost_over_an_odd_character(tmp_path: Path, odd: str) -> None:
    """A command prints what it likes; what it delivered was delivered all the same."""
    async with standing(tmp_path / "state") as stand:
        one = await dispatched(stand, "first")

        settled = said("delivered", result_id=odd, because=odd)
        await stand.ledger.settle(one, settled, clock.moment(), draft=DRAFT)

        found = stand.ledger.find("first")
        assert found is not None
        assert (found.state, found.result_id) == ("delivered", printable(odd))
        assert stand.ledger.find(odd) is None
        await stand.ledger.note(Note("first", found.claimed.at, "evidence", odd, odd))
        assert [note.text for note in stand.ledger.notes("first")] == [printable(odd)]


async def dispatched(stand: Stand, name: str, **changes: Any) -> Attempt:
    claimed = await stand.claim(name, **changes)
    return await stand.ledger.dispatch(claimed, Terms(), clock.moment())


# rule: ledger.single-dispatch
async def test_the_way_of_an_attempt_is_on_record_step_by_step(tmp_path: Path) -> None:
    """Each step must be there before the next begins, and say when it was."""
    async with standing(tmp_path / "state") as stand:
        ledger = stand.ledger
        assert ledger.find("first") is None
        claimed = await stand.claim("first")
        assert ledger.find("first") == msgspec.structs.replace(claimed, number=1)
        assert ledger.unsettled() == ledger.same(claimed.fingerprint) == ledger.newest(9)

        now = clock.moment()
        sent = await ledger.dispatch(claimed, Terms(), now)
        assert sent == ledger.find("first")
        assert (sent.state, sent.dispatched) == ("dispatching", now)
        with pytest.raises(Refused) as no:
            await ledger.dispatch(claimed, Terms(), now)
        assert no.value.code == "CLAIM_LOST"
        assert ledger.find("first") == sent

        at = clock.moment()
        settled = await ledger.settle(sent, said("unresolved", "LOST"), at, draft=DRAFT)
        assert settled == ledger.find("first")
        assert (settled.state, settled.code, settled.settled) == ("unresolved", "LOST", at)
        assert ledger.counts() == {"unresolved": 1}
        assert ledger.unsettled() == [settled]

        word = said("delivered", by="person", result_id="m-9")
        decided = await ledger.decide("first", word, later(1), who="ana", why="I saw it")
        assert decided == ledger.find("first")
        assert (decided.state, decided.decided_by, decided.result_id) == (
            "delivered",
            "person",
            "m-9",
        )
        assert ledger.notes("first") == [
            Note("first", later(1).at, "resolved", "ana", "delivered (id 'm-9'): I saw it")
        ]
        assert ledger.unsettled() == []
        with pytest.raises(Refused) as no:
            await ledger.decide("other", word, later(1), who="ana", why="I saw it")
        assert no.value.code == "UNKNOWN_ATTEMPT"


# rule: ledger.late-settle
async def test_what_settles_after_it_was_pruned_is_recorded(tmp_path: Path) -> None:
    """What is known late is known."""
    async with standing(tmp_path / "state") as stand:
        sent = await dispatched(stand, "first")
        await stand.ledger.writer.write(lambda session: session.run("DELETE FROM attempts"))

        await stand.ledger.settle(sent, said("delivered"), later(5), draft=DRAFT)

        found = stand.ledger.find("first")
        assert found is not None
        assert (found.state, found.settled) == ("delivered", later(5))
        assert [note.kind for note in stand.ledger.notes("first")] == ["pruned"]


# rule: ledger.crash
async def test_what_is_recovered_while_another_asks_stays_though_that_one_is_refused(
    tmp_path: Path,
) -> None:
    """The refusal names an attempt and its receipt; both must be there."""
    async with standing(tmp_path / "state") as stand:
        sent = await dispatched(stand, "first", owner=OTHER, fingerprint="f" * 64)
        assert sent.state == "dispatching"

        with pytest.raises(Refused) as no:
            await stand.claim("second", fingerprint="f" * 64)

        assert no.value.code == "DUPLICATE_UNRESOLVED"
        assert on_disk(tmp_path / "state") == {"first": "unresolved"}
        assert [name for name, _ in stand.ledger.unrecorded()] == ["first"]
        assert [note.kind for note in stand.ledger.notes("first")] == ["recovered"]


# rule: ledger.crash
async def test_what_killed_executors_left_is_settled_in_one_go(tmp_path: Path) -> None:
    """Each is settled by its own last word; those that live keep theirs."""
    async with standing(tmp_path / "state") as stand:
        await stand.claim("reserved", owner=OTHER)
        await dispatched(stand, "dispatching", owner=OTHER)
        await stand.claim("living")

        found = await stand.ledger.recover(clock.moment())

        assert [(one.id, one.code) for one in found] == [
            ("reserved", "EXECUTOR_GONE_BEFORE_START"),
            ("dispatching", "EXECUTOR_GONE"),
        ]
        assert stand.names() == {
            "reserved": "released",
            "dispatching": "unresolved",
            "living": "reserved",
        }
        assert await stand.ledger.recover(clock.moment()) == []
        assert {name for name, _ in stand.ledger.unrecorded()} == {"reserved", "dispatching"}

        stand.ledger.recorded("reserved")
        await stand.ledger.writer.pay()

        assert [name for name, _ in stand.ledger.unrecorded()] == ["dispatching"]


# rule: ledger.by-attempt
async def test_attempts_are_found_by_what_is_asked_for(tmp_path: Path) -> None:
    """A person in doubt asks by tool, account, state and time, the newest first."""
    async with standing(tmp_path / "state") as stand:
        await stand.deliver("a-1", tool="one", account="ana", claimed=START)
        await stand.deliver("a-2", tool="two", account="ben", claimed=later(60))
        await stand.claim("b-3", tool="two", account="ana", claimed=later(120))
        newest = stand.ledger.newest

        def ids(**asked: Any) -> list[str]:
            return [one.id for one in newest(asked.pop("most", 9), **asked)]

        assert ids() == ["b-3", "a-2", "a-1"]
        assert ids(most=1) == ["b-3"]
        assert ids(tool="two") == ["b-3", "a-2"]
        assert ids(account="ana") == ["b-3", "a-1"]
        assert ids(state="delivered") == ["a-2", "a-1"]
        assert ids(since=later(60).at) == ["b-3", "a-2"]
        assert ids(before=newest(1)[0].number) == ["a-2", "a-1"]
        assert [one.id for one in stand.ledger.beginning("a-", 9)] == ["a-1", "a-2"]
        assert stand.ledger.counts() == {"delivered": 2, "reserved": 1}


# rule: ledger.evidence
async def test_what_is_asked_about_an_attempt_is_kept_with_it(tmp_path: Path) -> None:
    """The question is asked long after the request is forgotten."""
    async with standing(tmp_path / "state") as stand:
        one = stand.wanted("first")
        await stand.ledger.claim(
            one, Terms(), one.claimed, draft=DRAFT, question=b'{"to": "\xc3\xa9"}'
        )
        await stand.claim("second")

        assert stand.ledger.question("first") == b'{"to": "\xc3\xa9"}'
        assert stand.ledger.question("second") is None
        assert stand.ledger.question("third") is None


# -- pruning --------------------------------------------------------------------------------------


# rule: ledger.pruning
async def test_only_what_is_over_and_recorded_is_forgotten(tmp_path: Path) -> None:
    """Forgetting must not be a way to do it twice, nor to lose what is still to be written."""
    async with standing(tmp_path / "state") as stand:
        await stand.deliver("old")
        await stand.ledger.note(Note("old", "2026", "evidence", "ana", "it is there"))
        await stand.deliver("with a long window", window_ms=round(9 * DAY * 1000))
        await stand.claim("reserved")
        await dispatched(stand, "dispatching")
        one = await dispatched(stand, "unresolved")
        await stand.ledger.settle(one, said("unresolved", "LOST"), clock.moment(), draft=DRAFT)
        one = await dispatched(stand, "its receipt is not written")
        await stand.ledger.settle(one, said("delivered"), clock.moment(), draft=DRAFT)
        before = stand.names()
        assert await stand.ledger.prune(lambda _: DAY, later(DAY / 2, clock.moment())) == 0
        assert stand.names() == before

        assert await stand.ledger.prune(lambda _: DAY, later(2 * DAY, clock.moment())) == 1

        del before["old"]
        assert stand.names() == before
        assert stand.ledger.notes("old") == []


# rule: ledger.pruning
async def test_many_are_forgotten_in_batches_and_claims_come_in_between(tmp_path: Path) -> None:
    """A claim must not wait until a million attempts are forgotten."""
    async with standing(tmp_path / "state") as stand:

        def fill(session: Any) -> None:
            from executor.store import ledger

            for turn in range(2 * BATCH + 1):
                one = attempt("a-0", "delivered", id=f"old {turn}", settled=clock.moment())
                session.run(ledger._ADD, **ledger._values(one), draft=None, question=None)

        await stand.ledger.writer.write(fill)
        left: list[int] = []

        async def claim() -> None:
            await stand.claim("between")
            left.append(len(stand.names()) - 1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stand.ledger.prune, lambda _: DAY, later(2 * DAY, clock.moment()))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(claim)

        assert 0 < left[0] < 2 * BATCH + 1
        assert list(stand.names()) == ["between"]


# rule: ledger.pruning
async def test_a_claim_forgets_the_oldest_of_very_many_at_the_same_action(tmp_path: Path) -> None:
    """Each claim reads them all, and everybody waits for it: with 10^5 that is seconds."""
    async with standing(tmp_path / "state") as stand:
        now = clock.moment()

        def fill(session: Any) -> None:
            from executor.store import ledger

            for turn in range(MOST_SAME + 1):
                one = attempt("a-0", "delivered", id=f"old {turn}", settled=now, window_ms=0)
                session.run(ledger._ADD, **ledger._values(one), draft=None, question=None)

        await stand.ledger.writer.write(fill)
        same = stand.ledger.same(attempt().fingerprint)
        assert len(same) == MOST_SAME + 1
        wanted = attempt("a-9", owner=stand.owner, claimed=now, number=0)

        await stand.ledger.claim(wanted, Terms(window=0), now, draft=b"{}")

        left = [one.id for one in stand.ledger.same(wanted.fingerprint)]
        assert left == [one.id for one in same[-(MOST_SAME // 2) :]] + ["a-9"]


# rule: ledger.pruning
async def test_the_oldest_are_forgotten_first_when_only_some_are_looked_at(tmp_path: Path) -> None:
    """An executor that opens must not take a minute; it forgets a part, and always the same end."""
    async with standing(tmp_path / "state") as stand:

        def fill(session: Any) -> None:
            from executor.store import ledger

            for turn in range(BATCH + 5):
                one = attempt("a-0", "delivered", id=f"old {turn}", settled=clock.moment())
                session.run(ledger._ADD, **ledger._values(one), draft=None, question=None)

        await stand.ledger.writer.write(fill)

        gone = await stand.ledger.prune(lambda _: DAY, later(2 * DAY, clock.moment()), most=BATCH)

        assert gone == BATCH
        assert list(stand.names()) == [f"old {BATCH + turn}" for turn in range(5)]


# rule: ledger.pruning
async def test_what_changed_since_it_was_looked_at_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A late result puts an attempt in doubt again at any moment."""
    async with standing(tmp_path / "state") as stand:
        for name in ("in doubt", "goes", "later"):
            await stand.deliver(name)
        await stand.ledger.writer.pay()
        now = later(2 * DAY, clock.moment())
        doubt = "UPDATE attempts SET state = 'unresolved' WHERE id = 'in doubt'"
        again = "UPDATE attempts SET settled = :now WHERE id = 'later'"
        stand.ledger.writer.owe(lambda session: session.run(doubt))  # just before the pruning
        stand.ledger.writer.owe(lambda session: session.run(again, now=str(now)))

        assert await stand.ledger.prune(lambda _: DAY, now) == 1

        assert stand.names() == {"in doubt": "unresolved", "later": "delivered"}
