"""What is told as recorded survives a power cut, with either journal."""

import re
from pathlib import Path

import apsw
import pytest
import trio

from executor.embedding import open_ledger
from executor.refusal import Unverified
from executor.store import content
from tests.ledger.programs.stand import everything, line, on_disk, program, standing

OLD = (3, 40, 1)
"""What Debian 12 has: it can lose commits in WAL mode."""


def header_says_wal(state: Path) -> bool:
    return (state / "ledger.db").read_bytes()[18:20] == b"\x02\x02"


# rule: ledger.safe-journal
async def test_a_sqlite_that_can_lose_commits_gets_a_rollback_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ledger that forgets its last line is the fault that it is there to prevent."""
    state = tmp_path / "state"
    async with standing(state) as stand:
        await stand.deliver("first")
        assert stand.ledger.database.journal == "wal"
        assert (state / "ledger.db-wal").stat().st_size > 0
    monkeypatch.setattr(content, "sqlite_version", lambda: OLD)

    async with standing(state) as stand:
        await stand.deliver("second")

        assert stand.ledger.database.journal == "persist"
        assert not header_says_wal(state)
        assert not (state / "ledger.db-wal").exists()
        assert (state / "ledger.db-journal").read_bytes()[:8] == bytes(8)  # kept, and not valid
        assert on_disk(state) == stand.names() == {"first": "delivered", "second": "delivered"}


# rule: ledger.safe-journal
async def test_a_fixed_sqlite_takes_the_faster_journal_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an upgrade nobody should have to convert anything."""
    state = tmp_path / "state"
    with monkeypatch.context() as old:
        old.setattr(content, "sqlite_version", lambda: OLD)
        async with standing(state) as stand:
            await stand.deliver("first")
        assert not header_says_wal(state)

    async with standing(state) as stand:
        assert stand.ledger.database.journal == "wal"
        assert stand.names() == {"first": "delivered"}
    assert header_says_wal(state)


# rule: ledger.safe-journal
def test_an_unsafe_sqlite_is_refused_while_another_holds_the_log_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would have to write into the log that it can lose commits in."""
    state = tmp_path / "state"
    with program("claimer", state, "claim:first", "wait") as process:
        assert line(process) == "claim:first"
        before = everything(state)

        async def look() -> None:
            async with open_ledger(state=state):
                pass

        with monkeypatch.context() as old:
            old.setattr(content, "sqlite_version", lambda: OLD)
            with pytest.raises(Unverified) as no:
                trio.run(look)

        assert (no.value.rule, no.value.code) == ("ledger.sound-store", "STORE_UNAVAILABLE")
        assert "another program has it open" in no.value.because
        assert everything(state) == before
        assert process.communicate("\n")[0] == "wait\n"

    with program("claimer", state, "old", "claim:second") as process:
        assert line(process) == "claim:second"
        assert process.wait() == 0
    assert not header_says_wal(state)


# rule: ledger.safe-journal
async def test_an_unsafe_sqlite_stops_when_another_puts_the_log_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An executor of a newer program can open the same store at any time."""
    state = tmp_path / "state"
    with monkeypatch.context() as old:
        old.setattr(content, "sqlite_version", lambda: OLD)
        async with standing(state) as stand:
            await stand.claim("first")
            newer = apsw.Connection(str(state / "ledger.db"))
            assert newer.execute("PRAGMA journal_mode = wal").fetchall() == [("wal",)]
            assert newer.execute("SELECT COUNT(*) FROM attempts").fetchall() == [(1,)]

            with pytest.raises(Unverified) as no:
                await stand.claim("second")

            assert no.value.rule == "ledger.sound-store"
            assert newer.execute("SELECT COUNT(*) FROM attempts").fetchall() == [(1,)]
            assert newer.execute("PRAGMA journal_mode = persist").fetchall() == [("persist",)]
            newer.close()
            assert (await stand.claim("second")).state == "reserved"


# rule: ledger.full-disk
@pytest.mark.parametrize(("old", "files"), [((), "wal"), (("old",), "journal")], ids=["wal", "old"])
def test_what_is_told_was_synced_before(
    tmp_path: Path, strace: None, old: tuple[str, ...], files: str
) -> None:
    """Until the disk has it, a power cut takes it back."""
    trace, state = tmp_path / "trace", tmp_path / "state"
    calls = ["strace", "-f", "-y", "-o", str(trace), "-e", "trace=fsync,fdatasync,write,rename"]
    words = ("claim:first", "claim:second", "deliver:third")

    with program("claimer", state, *old, *words, prefix=calls) as process:
        assert process.wait() == 0

    synced: set[str] = set()
    begun: dict[str, str] = {}
    told = 0
    for call in trace.read_text().splitlines():
        thread = call.split()[0]
        if found := re.search(r"f(?:data)?sync\(\d+<([^>]*)>", call):
            begun[thread] = Path(found[1]).name
        if re.search(r"f(?:data)?sync(?:\(| resumed)", call) and call.endswith("= 0"):
            synced.add(begun.pop(thread))
        if "write(1<" in call and re.search(r"claim:|deliver:", call):
            needed = {f"ledger.db-{files}"} | ({"ledger.db"} if old else set())
            if not told:  # also the directory's entries, of the log not least
                needed |= {"state", "store"}
            assert needed <= synced, call
            synced, told = set(), told + 1
    assert told == len(words)
