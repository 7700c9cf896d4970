"""Tasks that write at the same time share a commit, and nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest
import trio

from executor.refusal import Refused, Unverified
from executor.store.database import Database, Session
from tests.ledger.programs.stand import PATIENCE_S, Stand, commits, line, on_disk, program, standing

MANY = 16


async def together(*works: Any) -> list[Any]:
    """Run all at once; give what each gave or raised, in their order."""
    ends: list[Any] = [None] * len(works)

    async def run(turn: int, work: Any) -> None:
        try:
            ends[turn] = await work()
        except Exception as failed:
            ends[turn] = failed

    async with trio.open_nursery() as nursery:
        for turn, work in enumerate(works):
            nursery.start_soon(run, turn, work)
    return ends


def claiming(stand: Stand, *names: str, **changes: Any) -> list[Any]:
    return [lambda name=name: stand.claim(name, **changes) for name in names]


# rule: ledger.group-commit
async def test_claims_made_at_once_share_a_commit(tmp_path: Path) -> None:
    """Sixteen durable waits in a row are sixteen times as long."""
    state = tmp_path / "state"
    async with standing(state) as stand:
        for turn in range(3):
            await stand.claim(f"alone-{turn}")
        alone = commits(state)
        assert alone == 3

        ends = await together(*claiming(stand, *(f"same-{turn}" for turn in range(MANY))))

        assert [end.state for end in ends] == ["reserved"] * MANY
        assert commits(state) == alone + 2  # the first, and all that came while it was written


# rule: ledger.group-commit
async def test_each_is_told_only_when_its_claim_is_committed(tmp_path: Path) -> None:
    """Who is told starts at once, and may be killed the next instant."""
    state, seen = tmp_path / "state", {}

    async with standing(state) as stand:

        async def claim(name: str) -> None:
            await stand.claim(name)
            seen[name] = on_disk(state).get(name)  # no await between: the very instant

        await together(*(lambda name=f"n{turn}": claim(name) for turn in range(MANY)))

    assert seen == {f"n{turn}": "reserved" for turn in range(MANY)}


# rule: ledger.everywhere
# rule: ledger.group-commit
async def test_of_equal_actions_in_one_commit_one_is_claimed(tmp_path: Path) -> None:
    """What shares a commit must see what stands before it in the same commit."""
    state = tmp_path / "state"
    names = [f"try-{turn}" for turn in range(MANY)]
    async with standing(state) as stand:
        same = claiming(stand, *names, fingerprint="f" * 64)
        others = claiming(stand, *(f"other {name}" for name in names))

        ends = await together(*[work for pair in zip(same, others, strict=True) for work in pair])

        refused = [end for end in ends[::2] if isinstance(end, Refused)]
        winner = next(end for end in ends[::2] if not isinstance(end, Refused))
        assert {no.code for no in refused} == {"DUPLICATE_IN_FLIGHT"}
        assert len(refused) == MANY - 1
        assert {no.earlier and no.earlier.attempt for no in refused} == {winner.id}
        assert {end.state for end in ends[1::2]} == {"reserved"}
        assert set(on_disk(state)) == {winner.id, *(f"other {name}" for name in names)}


# rule: ledger.group-commit
@pytest.mark.parametrize("fault", [ZeroDivisionError, OSError, Unverified, MemoryError])
async def test_a_job_that_fails_takes_back_its_own_part_alone(
    tmp_path: Path, fault: type[Exception]
) -> None:
    """Strangers share a commit; the mistake of one must not cost another its claim."""
    state = tmp_path / "state"
    async with standing(state) as stand:

        def half(session: Session) -> None:
            session.run("INSERT INTO notes VALUES ('a', 'b', 'c', 'd', 'half')")
            if fault is Unverified:
                raise Unverified("ledger.sound-store", "STORE_UNAVAILABLE", because="a", todo="b")
            raise fault("in the middle")

        before, broken, after = await together(
            lambda: stand.claim("before"),
            lambda: stand.ledger.writer.write(half),
            lambda: stand.claim("after"),
        )

        assert type(broken) is fault
        assert (before.state, after.state) == ("reserved", "reserved")
        assert on_disk(state) == {"before": "reserved", "after": "reserved"}
        assert stand.ledger.notes("a") == []


# rule: ledger.group-commit
async def test_what_the_ledger_cannot_hold_fails_alone_and_not_as_an_error_of_sqlite(
    tmp_path: Path,
) -> None:
    """An id that is there already is one caller's mistake, not a store out of order."""
    async with standing(tmp_path / "state") as stand:
        await stand.claim("one")

        ends = await together(
            lambda: stand.claim("one", fingerprint="another"),
            lambda: stand.claim("two", window_ms=2**80),
            lambda: stand.claim("three"),
        )

        assert [type(end).__name__ for end in ends] == ["ValueError", "OverflowError", "Attempt"]
        assert stand.names() == {"one": "reserved", "three": "reserved"}


# rule: ledger.group-commit
async def test_what_is_owed_rides_with_the_next_commit(tmp_path: Path) -> None:
    """A mark that need not be durable by itself must not cost a wait of its own."""
    state = tmp_path / "state"
    async with standing(state) as stand:
        await stand.deliver("first")
        before = commits(state)
        note = "INSERT INTO notes VALUES ('first', 'b', 'recovered', 'd', :text)"
        stand.ledger.writer.owe(lambda session: session.run(note, text="owed"))
        assert (commits(state), stand.ledger.notes("first")) == (before, [])

        await stand.claim("second")

        assert commits(state) == before + 1
        assert [one.text for one in stand.ledger.notes("first")] == ["owed"]
        await stand.claim("third")
        assert [one.text for one in stand.ledger.notes("first")] == ["owed"]
        stand.ledger.writer.owe(lambda session: session.run(note, text="at the end"))

    async with standing(state) as stand:
        assert [one.text for one in stand.ledger.notes("first")] == ["owed", "at the end"]


# rule: ledger.full-disk
async def test_what_is_owed_waits_until_the_store_can_take_it(tmp_path: Path) -> None:
    """A store that fails twice must not cost what it failed to take."""
    state = tmp_path / "state"
    async with standing(state) as stand:
        await stand.deliver("first")
        note = "INSERT INTO notes VALUES ('first', 'b', 'recovered', 'd', 'owed')"
        stand.ledger.writer.owe(lambda session: session.run(note))
        (state / "ledger.db").rename(tmp_path / "aside")

        for _ in range(2):
            ends = await together(*claiming(stand, "second", "third", "fourth"))
            assert {no.rule for no in ends} == {"ledger.sound-store"}
            assert len({id(no) for no in ends}) == 3  # each caller puts its own receipt to its own

        (tmp_path / "aside").rename(state / "ledger.db")
        await stand.claim("second")
        assert [one.text for one in stand.ledger.notes("first")] == ["owed"]


# rule: ledger.group-commit
async def test_what_is_owed_and_cannot_be_done_fails_alone_and_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It would be tried for ever, and say so for ever."""
    async with standing(tmp_path / "state") as stand:

        def broken(session: Session) -> None:
            raise ZeroDivisionError("never")

        stand.ledger.writer.owe(broken)

        assert (await stand.claim("first")).state == "reserved"
        assert (await stand.claim("second")).state == "reserved"

        assert caplog.text.count("ZeroDivisionError('never')") == 1


# rule: ledger.group-commit
async def test_a_batch_that_changes_nothing_makes_no_commit(tmp_path: Path) -> None:
    """A refusal rests on what is durable already; waiting for the disk would buy nothing."""
    state = tmp_path / "state"
    async with standing(state) as stand:
        await stand.claim("first", fingerprint="f" * 64)
        before = commits(state)

        ends = await together(*claiming(stand, "second", "third", fingerprint="f" * 64))

        assert [end.code for end in ends] == ["DUPLICATE_IN_FLIGHT"] * 2
        assert commits(state) == before


# rule: ledger.group-commit
async def test_a_claim_that_is_cancelled_while_it_waits_is_neither_lost_nor_doubled(
    tmp_path: Path,
) -> None:
    """Its task must know whether it has a claim to release."""
    state = tmp_path / "state"
    async with standing(state) as stand:
        told = []

        async def claim(name: str) -> None:
            await stand.claim(name)
            told.append(name)

        async with trio.open_nursery() as nursery:
            for turn in range(MANY):
                nursery.start_soon(claim, f"n{turn}")
            await trio.lowlevel.cancel_shielded_checkpoint()
            nursery.cancel_scope.cancel()

        assert sorted(told) == sorted(on_disk(state))
        with trio.fail_after(PATIENCE_S):
            assert (await stand.claim("afterwards")).state == "reserved"


# rule: ledger.group-commit
@pytest.mark.parametrize(
    ("moment", "names"),
    [("before", ["main"]), ("waiting", ["main", "other-0", "other-1"])],
    ids=["before", "waiting"],
)
def test_an_interrupt_while_it_waits_neither_loses_nor_doubles_a_claim(
    tmp_path: Path, moment: str, names: list[str]
) -> None:
    """Ctrl-C comes to the main task, which may be the one that writes for all."""
    with program("interrupted", tmp_path / "state", moment) as process:
        found = json.loads(line(process))

        assert process.wait() == 0
    assert found == {"told": names, "on disk": names}


# rule: ledger.group-commit
async def test_without_a_thread_to_write_in_nobody_is_told_that_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that wait for the one that writes cannot see that it never began."""

    def none_left(*_: Any, **__: Any) -> None:
        raise RuntimeError("can't start new thread")

    state = tmp_path / "state"
    async with standing(state) as stand:
        assert (await stand.claim("first")).state == "reserved"
        with monkeypatch.context() as crowded:
            crowded.setattr(trio.to_thread, "run_sync", none_left)

            ends = await together(*claiming(stand, "second", "third"))

            assert [end.code for end in ends] == ["STORE_UNAVAILABLE"] * 2
            assert "can't start new thread" in ends[0].because
        assert list(on_disk(state)) == ["first"]
        assert (await stand.claim("second")).state == "reserved"


# rule: ledger.group-commit
async def test_a_fault_in_our_own_code_around_the_commit_tells_nobody_that_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nobody thought of must come out as a no."""

    def broken(*_: Any) -> None:
        raise ZeroDivisionError("around the commit")

    state = tmp_path / "state"
    async with standing(state) as stand:
        await stand.claim("first")
        with monkeypatch.context() as fault:
            fault.setattr(Database, "_check_witness", broken)

            ends = await together(*claiming(stand, "second", "third"))

            assert [end.code for end in ends] == ["STORE_UNAVAILABLE"] * 2
        assert list(on_disk(state)) == ["first"]
        assert (await stand.claim("second")).state == "reserved"
