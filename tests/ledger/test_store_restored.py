"""An older ledger.db that is put back under a log that stayed is found out, however large it is.

The log holds the newest page of a ledger, so that its count of commits is right; what was taken out
of the log before is old.
"""

import contextlib
import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from executor.refusal import Unverified
from executor.store import content, database, opening
from tests.ledger.programs.stand import Stand, commits, everything, standing

MANY = 40
LARGE = "x" * 3000
"""An account that fills most of a page: each attempt lies in a page of its own."""
OLD = (3, 40, 1)


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every ledger counts as large, so that opening alone looks at nothing."""
    monkeypatch.setattr(content, "SMALL_PAGES", 0)


def take_in_log(stand: Stand) -> None:
    """Take the log into the file, as a commit does by itself after a thousand pages."""
    taken = stand.ledger.database
    with taken._turn():
        _, frames, done = taken._writing.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()[0]
        assert frames == done
        taken._bear_witness(commits(taken.path.parent))


@contextlib.asynccontextmanager
async def grown(state: Path, backup: Path) -> AsyncIterator[Stand]:
    """Deliver in a ledger whose file is copied halfway; the log begins anew near the end."""
    async with standing(state) as stand:
        for turn in range(MANY):
            await stand.deliver(f"mail {turn}", account=LARGE)
            if turn == MANY // 2:
                take_in_log(stand)
                shutil.copy(stand.ledger.database.path, backup)
        take_in_log(stand)
        await stand.deliver("last")
        yield stand


async def refused(state: Path) -> Unverified:
    """Open what must be refused, and see that nothing moved."""
    before = everything(state)
    with pytest.raises(Unverified) as no:
        async with standing(state):
            pass
    assert everything(state) == before
    assert (no.value.rule, no.value.code) == ("ledger.sound-store", "STORE_UNAVAILABLE")
    return no.value


async def names(state: Path) -> dict[str, str]:
    async with standing(state) as stand:
        return stand.names()


def killed(state: Path, backup: Path) -> None:
    """Leave a ledger as a killed executor does, and its older copy."""
    child = os.fork()
    if not child:

        async def work() -> None:
            async with grown(state, backup):
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            trio.run(work)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert (state / "ledger.db-wal").stat().st_size > 0


# rule: ledger.sound-store
def test_an_older_copy_under_the_log_of_a_killed_executor_is_refused(tmp_path: Path) -> None:
    """What was delivered since the copy would be delivered again."""
    state, backup = tmp_path / "state", tmp_path / "backup.db"
    killed(state, backup)
    twin = tmp_path / "twin"
    shutil.copytree(state, twin)
    assert len(trio.run(names, twin)) == MANY + 1

    shutil.copy(backup, state / "ledger.db")

    trio.run(refused, state)


# rule: ledger.sound-store
def test_a_page_that_is_damaged_in_a_file_that_changed_is_found_however_large_it_is(
    tmp_path: Path,
) -> None:
    """Whatever wrote there may have written over an index, by which attempts are found."""
    state, db = tmp_path / "state", tmp_path / "state" / "ledger.db"

    async def work() -> None:
        async with grown(state, tmp_path / "backup.db") as stand:
            found = stand.ledger.database.read(
                lambda session: session.rows(
                    "SELECT rootpage FROM sqlite_schema WHERE name = 'attempts_by_fingerprint'"
                )
            )
            roots.append(found[0][0])

    roots: list[int] = []
    trio.run(work)
    assert len(trio.run(names, state)) == MANY + 1
    content = bytearray(db.read_bytes())

    content[(roots[0] - 1) * 4096 : roots[0] * 4096] = bytes(4096)
    db.write_bytes(content)

    trio.run(refused, state)


# rule: ledger.sound-store
@pytest.mark.parametrize("change", ["claimed", "settled", "forgotten"])
def test_one_page_that_is_older_than_the_others_is_found_out(tmp_path: Path, change: str) -> None:
    """The pages that belong to one change can all be old together, and look sound."""
    state, db = tmp_path / "state", tmp_path / "state" / "ledger.db"

    async def work() -> None:
        async with standing(state) as stand:
            await stand.deliver("first")
            await stand.ledger.writer.pay()
        shutil.copy(db, tmp_path / "backup.db")
        statement = {
            "claimed": "INSERT INTO attempts SELECT 9, 'b', 'b', state, account, tool, action,"
            " idempotency, beside, resend, window_ms, level, owner, claimed, dispatched, settled,"
            " decided_by, code, because, result_id, alarm, draft, question FROM attempts",
            "settled": "UPDATE attempts SET state = 'released'",
            "forgotten": "DELETE FROM attempts",
        }[change]
        async with standing(state) as stand:
            await stand.ledger.writer.write(lambda session: session.run(statement))
            take_in_log(stand)
            # The last commit alone, which touches no attempt, is in the log.
            note = "INSERT INTO notes VALUES ('first', 'b', 'recovered', 'd', 'e')"
            await stand.ledger.writer.write(lambda session: session.run(note))
            shutil.copytree(state, tmp_path / "twin")
            shutil.copytree(state, tmp_path / "killed")

    trio.run(work)
    expected = {"claimed": 2, "settled": 1, "forgotten": 0}[change]
    assert len(trio.run(names, tmp_path / "twin")) == expected

    shutil.copy(tmp_path / "backup.db", tmp_path / "killed" / "ledger.db")

    assert "parts of it are older" in trio.run(refused, tmp_path / "killed").because


# rule: ledger.sound-store
async def test_an_older_copy_that_comes_while_it_is_in_use_stops_everything(
    tmp_path: Path,
) -> None:
    """A copy over the file keeps its number, and the pages in memory look right."""
    state, backup = tmp_path / "state", tmp_path / "backup.db"
    async with grown(state, backup) as stand:
        assert (await stand.claim("one more")).state == "reserved"
        newest = (state / "ledger.db").read_bytes()

        shutil.copy(backup, state / "ledger.db")

        before = everything(state)
        for _ in range(2):
            with pytest.raises(Unverified) as no:
                await stand.claim("again", fingerprint=stand.wanted(f"mail {MANY - 1}").fingerprint)
            assert (no.value.rule, no.value.code) == ("ledger.sound-store", "STORE_UNAVAILABLE")
            assert everything(state) == before
    assert (state / "ledger.db").read_bytes() == backup.read_bytes()  # and closing took nothing in
    assert (state / "ledger.db-wal").stat().st_size > 0
    await refused(state)

    (state / "ledger.db").write_bytes(newest)
    assert (await names(state))[f"mail {MANY - 1}"] == "delivered"


# rule: ledger.sound-store
async def test_an_older_copy_whose_log_was_taken_in_is_found_out_past_the_pages_in_memory(
    tmp_path: Path,
) -> None:
    """An open executor remembers the newest page, and would not look at the one in the file."""
    state, backup = tmp_path / "state", tmp_path / "backup.db"
    async with grown(state, backup) as stand:
        take_in_log(stand)
        assert (await stand.claim("one more")).state == "reserved"
        take_in_log(stand)

        shutil.copy(backup, state / "ledger.db")

        with pytest.raises(Unverified) as no:
            await stand.claim("again")
        assert no.value.rule == "ledger.sound-store"


# rule: ledger.sound-store
def test_a_file_that_changed_and_is_right_opens_after_all_of_it_was_read(tmp_path: Path) -> None:
    """An executor that is killed between its file and its witness leaves them so."""
    state = tmp_path / "state"
    killed(state, tmp_path / "backup.db")
    os.utime(state / "ledger.db", ns=(1, 1))
    stale = (state / "store").read_bytes()

    async def look() -> None:
        async with standing(state) as stand:
            assert (state / "store").read_bytes() != stale  # the next need not read it all
            assert len(stand.names()) == MANY + 1
            os.utime(state / "ledger.db", ns=(2, 2))
            stale_again = (state / "store").read_bytes()
            seen = commits(state)
            with pytest.raises(ZeroDivisionError):
                await stand.ledger.writer.write(_refuse)
            assert (state / "store").read_bytes() != stale_again
            assert commits(state) == seen
            assert (await stand.claim("one more")).state == "reserved"

    trio.run(look)
    assert len(trio.run(names, state)) == MANY + 2


def _refuse(_: object) -> None:
    raise ZeroDivisionError


# rule: ledger.sound-store
def test_a_file_that_is_as_it_was_left_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening a large ledger, and each commit, must not take as long as reading it."""
    state, whole = tmp_path / "state", []
    check = database.check_content

    def watched(*given: object, **how: bool) -> None:
        whole.append(how["whole"])
        check(*given, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(database, "check_content", watched)
    monkeypatch.setattr(opening, "check_content", watched)

    async def work() -> None:
        async with standing(state) as stand:
            await stand.deliver("first")
            take_in_log(stand)
            await stand.deliver("second")
        async with standing(state) as stand:
            await stand.deliver("third")
            async with standing(state) as beside:
                await beside.deliver("fourth")
            await stand.deliver("fifth")
        async with standing(state):
            pass

    trio.run(work)

    assert whole == [True, False, False, False]  # there is not much to read in a new one


# rule: ledger.sound-store
def test_a_state_directory_that_is_copied_whole_opens(tmp_path: Path) -> None:
    """A backup that cannot be used is none."""
    state, copy = tmp_path / "state", tmp_path / "copy"
    killed(state, tmp_path / "backup.db")

    shutil.copytree(state, copy)

    assert trio.run(names, copy) == trio.run(names, state)
    assert len(trio.run(names, copy)) == MANY + 1


# rule: ledger.sound-store
def test_a_witness_of_an_earlier_program_has_all_of_it_read(tmp_path: Path) -> None:
    """It does not say what the file looked like."""
    state, backup = tmp_path / "state", tmp_path / "backup.db"
    killed(state, backup)
    store = state / "store"
    store.write_text(" ".join(store.read_text().split()[:3]) + "\n")
    twin = tmp_path / "twin"
    shutil.copytree(state, twin)
    assert len(trio.run(names, twin)) == MANY + 1

    shutil.copy(backup, state / "ledger.db")

    trio.run(refused, state)


# rule: ledger.sound-store
# rule: ledger.safe-journal
def test_an_older_copy_is_found_out_with_a_rollback_journal_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There all is in the one file; the pages in memory are still the newest."""
    monkeypatch.setattr(content, "sqlite_version", lambda: OLD)
    state, backup = tmp_path / "state", tmp_path / "backup.db"

    async def work() -> None:
        async with standing(state) as stand:
            await stand.deliver("first")
            shutil.copy(state / "ledger.db", backup)
            await stand.deliver("second")
            assert (await stand.claim("third")).state == "reserved"

            shutil.copy(backup, state / "ledger.db")

            with pytest.raises(Unverified) as no:
                await stand.claim("fourth")
            assert no.value.rule == "ledger.sound-store"

    trio.run(work)
    assert "older than it should be" in trio.run(refused, state).because


# rule: ledger.sound-store
async def test_a_part_that_is_taken_back_counts_for_nothing(tmp_path: Path) -> None:
    """What the attempts come to would no longer be true, and lock everybody out."""
    state = tmp_path / "state"

    def broken(session: database.Session) -> None:
        session.run("UPDATE attempts SET state = 'unresolved'")
        raise ZeroDivisionError

    async with standing(state) as stand:
        await stand.deliver("first")
        stand.ledger.writer.owe(broken)
        await stand.deliver("second")
    os.utime(state / "ledger.db", ns=(1, 1))

    assert await names(state) == {"first": "delivered", "second": "delivered"}


# rule: ledger.sound-store
async def test_doctor_finds_a_change_that_went_past_the_ledger(tmp_path: Path) -> None:
    """It reads all of it, and must not call sound what would be refused."""
    state = tmp_path / "state"
    async with standing(state) as stand:
        await stand.deliver("first")
        assert stand.ledger.database.check() is None

        stand.ledger.database._writing.execute("UPDATE store SET content = content + 1")

        assert "lacks changes" in (stand.ledger.database.check() or "")
