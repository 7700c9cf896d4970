"""Case 59: many processes, one database, and no error of locks for anybody."""

import json
import os
import signal
from collections import Counter
from pathlib import Path

import apsw
import pytest

from executor.effects import processes
from executor.refusal import Unverified
from executor.store import witness
from tests.ledger.programs.stand import commits, line, on_disk, program, standing, until

PROCESSES, CLAIMS = 32, 50


# rule: ledger.everywhere
@pytest.mark.parametrize("reading", [False, True], ids=["alone", "while-a-reader-looks"])
def test_59_of_equal_claims_of_many_processes_each_has_one_winner(
    tmp_path: Path, reading: bool
) -> None:
    """A transaction that reads first and then writes fails at once, whatever the patience."""
    state = tmp_path / "state"
    with program("claimer", state, "claim:before") as first:
        assert first.wait() == 0
    reader = apsw.Connection(str(state / "ledger.db"), flags=apsw.SQLITE_OPEN_READONLY)
    if reading:
        reader.execute("BEGIN")
        assert reader.execute("SELECT COUNT(*) FROM attempts").fetchall() == [(1,)]

    with program("crowd", state, PROCESSES, CLAIMS) as crowd:
        ends = json.loads(line(crowd))
        there = on_disk(state)
        crowd.wait()

    assert len(ends) == PROCESSES
    assert Counter(code for found in ends for code in found.values()) == {
        "won": PROCESSES * CLAIMS // 2 + CLAIMS // 2,
        "DUPLICATE_IN_FLIGHT": (PROCESSES - 1) * CLAIMS // 2,
    }
    winners = Counter(name for found in ends for name, code in found.items() if code == "won")
    assert set(winners.values()) == {1}
    assert Counter(name.split(" by ")[0] for name in there) - Counter({"before": 1}) == winners
    if reading:
        assert reader.execute("SELECT COUNT(*) FROM attempts").fetchall() == [(1,)]
    reader.close()


# rule: ledger.everywhere
# rule: ledger.full-disk
async def test_59_a_writer_stopped_in_its_transaction_is_waited_for_and_then_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting for ever blocks everybody; going on without the lock lets both happen."""
    state = tmp_path / "state"
    async with standing(state) as stand:
        await stand.claim("first")
        with program("claimer", state, "claim:theirs", "stop:stopped", "wait") as process:
            assert line(process) == "claim:theirs"
            until(lambda: processes.state(process.pid) == "T", "the stopped writer")
            before = commits(state)
            with monkeypatch.context() as hurry:
                hurry.setattr(witness, "PATIENCE_S", 0.2)

                with pytest.raises(Unverified) as no:
                    await stand.claim("second")

            assert (no.value.rule, no.value.code) == ("ledger.full-disk", "STORE_UNAVAILABLE")
            assert "may have been stopped" in no.value.because
            assert commits(state) == before
            assert on_disk(state) == {"first": "reserved", "theirs": "reserved"}

            os.kill(process.pid, signal.SIGCONT)
            assert line(process) == "stop:stopped"
            assert (await stand.claim("second")).state == "reserved"
            assert list(on_disk(state)) == ["first", "theirs", "stopped", "second"]


def locked_out(pid: int) -> bool:
    """Say whether a process has the store's lock file open, and so asks for the lock."""
    links = Path(f"/proc/{pid}/fd")
    try:
        return any(os.readlink(link).endswith("/store") for link in links.iterdir())
    except OSError:  # it came or went meanwhile
        return False


# rule: ledger.everywhere
async def test_59_a_claim_waits_for_a_writer_that_goes_on_in_time(tmp_path: Path) -> None:
    """Plain load is no fault: whoever comes second has to be told nothing of it."""
    state = tmp_path / "state"
    async with standing(state) as stand:
        with program("claimer", state, "stop:stopped", "wait") as process:
            until(lambda: processes.state(process.pid) == "T", "the stopped writer")
            with program("claimer", state, "claim:second") as waiting:
                until(lambda: locked_out(waiting.pid), "a second one that waits")
                os.kill(process.pid, signal.SIGCONT)
                assert line(waiting) == "claim:second"
            assert {"stopped", "second"} <= set(stand.names())


# rule: ledger.full-disk
async def test_a_lock_that_another_program_holds_is_waited_for_and_then_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person who looks with sqlite3 can forget an open transaction."""
    state = tmp_path / "state"
    monkeypatch.setattr(witness, "PATIENCE_S", 0.2)
    async with standing(state) as stand:
        await stand.claim("first")
        other = apsw.Connection(str(state / "ledger.db"))
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(Unverified) as no:
            await stand.claim("second")

        assert (no.value.rule, no.value.code) == ("ledger.full-disk", "STORE_UNAVAILABLE")
        assert "locked" in no.value.because
        other.execute("ROLLBACK")
        assert (await stand.claim("second")).state == "reserved"
        other.close()


# rule: ledger.everywhere
async def test_a_killed_writer_leaves_neither_its_lock_nor_half_a_claim(tmp_path: Path) -> None:
    """The kernel frees what a dead process held; the next one rolls its half back."""
    state = tmp_path / "state"
    async with standing(state) as stand:
        with program("claimer", state, "claim:theirs", "stop:stopped") as process:
            assert line(process) == "claim:theirs"
            until(lambda: processes.state(process.pid) == "T", "the stopped writer")
            process.kill()
            process.wait()

        assert (await stand.claim("stopped")).state == "reserved"
        assert on_disk(state) == {"theirs": "reserved", "stopped": "reserved"}
