"""A store that cannot be relied on is refused, and nothing in it is written, made or repaired."""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest
import trio

from executor import open_executor
from executor.embedding import open_ledger
from executor.refusal import Unverified
from tests.conftest import lacking
from tests.house import House
from tests.ledger.programs.stand import STORE_FILES, commits, everything, line, program, standing

Harm = Callable[[Path], object]
NAMES = {"first": "delivered", "second": "delivered", "third": "delivered"}


async def use(state: Path) -> None:
    async with standing(state) as stand:
        await stand.deliver("first")
        await stand.deliver("second")
        (state / "older.db").write_bytes(b"")
    shutil.copy(state / "ledger.db", state / "older.db")
    async with standing(state) as stand:
        await stand.deliver("third")
    (state / "receipts" / "first.json").write_text("{}")


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """A state directory whose ledger was used and closed; ``older.db`` is a copy of before."""
    trio.run(use, tmp_path / "state")
    return tmp_path / "state"


def bare(state: Path) -> Path:
    """Make a state directory that never had a ledger."""
    for part in (state, state / "receipts", state / "owners"):
        part.mkdir(mode=0o700)
    return state


async def names(state: Path) -> dict[str, str]:
    async with standing(state) as stand:
        return stand.names()


async def refused(state: Path) -> Unverified:
    """Open a ledger that must be refused, and see that nothing moved."""
    before = everything(state)
    with pytest.raises(Unverified) as no:
        async with open_ledger(state=state):
            pass
    assert everything(state) == before
    assert (no.value.rule, no.value.code) == ("ledger.sound-store", "STORE_UNAVAILABLE")
    assert "begin a new state directory" in no.value.todo
    assert "ledger.db" in no.value.todo
    return no.value


def alter(*statements: str) -> Harm:
    def harm(state: Path) -> None:
        connection = apsw.Connection(str(state / "ledger.db"))
        for statement in statements:
            connection.execute(statement)
        connection.close()

    return harm


def cut(state: Path) -> None:
    os.truncate(state / "ledger.db", (state / "ledger.db").stat().st_size - 4096)


def remove(*files: str) -> Harm:
    return lambda state: [(state / name).unlink() for name in files]


def write(name: str, content: bytes) -> Harm:
    return lambda state: (state / name).write_bytes(content)


def put_back(state: Path) -> None:
    shutil.copy(state / "older.db", state / "ledger.db")


def of_another(state: Path) -> None:
    other = state.with_name("other")
    trio.run(use, other)
    shutil.copy(other / "ledger.db", state / "ledger.db")


def foreign(*statements: str) -> Harm:
    def harm(state: Path) -> None:
        (state / "ledger.db").unlink()
        alter(*statements, "CREATE TABLE attempts (id)", "INSERT INTO attempts VALUES (1)")(state)

    return harm


def link(name: str) -> Harm:
    def harm(state: Path) -> None:
        (state / name).rename(state / "elsewhere")
        (state / name).symlink_to(state / "elsewhere")

    return harm


def instead(name: str, make: Callable[[Path], object]) -> Harm:
    def harm(state: Path) -> None:
        (state / name).unlink()
        make(state / name)

    return harm


def bind(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the whole path may be too long for a socket
    try:
        with socket.socket(socket.AF_UNIX) as unheard:
            unheard.bind(path.name)
    finally:
        os.chdir(here)


def open_to_others(name: str, mode: int) -> Harm:
    def harm(state: Path) -> None:
        (state / name).touch()
        (state / name).chmod(mode)

    return harm


HARMS: dict[str, tuple[Harm, str]] = {
    "cut-short": (cut, "is damaged"),
    "emptied": (write("ledger.db", b""), "is empty"),
    "garbage": (write("ledger.db", b"x" * 8192), "damaged"),
    "gone": (remove("ledger.db"), "is gone"),
    "gone-with-its-witness": (remove("ledger.db", "store"), "is gone"),
    "older-copy": (put_back, "older than it should be"),
    "of-another-state": (of_another, "another state directory"),
    "foreign": (foreign(), "no ledger of sealed-executor"),
    "foreign-in-wal-mode": (foreign("PRAGMA journal_mode = wal"), "no ledger of sealed-executor"),
    "later-version": (alter("PRAGMA user_version = 99"), "schema version 99"),
    "no-version": (alter("PRAGMA user_version = 0"), "tables that are not those"),
    "no-index": (alter("DROP INDEX attempts_by_fingerprint"), "tables that are not those"),
    "other-table": (alter("CREATE TABLE more (a)"), "tables that are not those"),
    "table-of-a-system-like-name": (alter("CREATE TABLE sqlitemore (a)"), "not those"),
    "trigger": (
        alter(
            "CREATE TRIGGER forget AFTER UPDATE ON attempts BEGIN DELETE FROM attempts; END",
        ),
        "tables that are not those",
    ),
    "no-identity": (alter("DELETE FROM store"), "does not say which store"),
    "two-identities": (alter("INSERT INTO store VALUES ('x', 99, 0)"), "does not say which store"),
    "witness-gone": (remove("store"), "store is gone"),
    "witness-emptied": (write("store", b""), "store is empty"),
    "witness-garbage": (write("store", b"\xff" * 70), "`store` of the state directory is damaged"),
    "witness-of-another-program": (write("store", b"other-program abc 1"), "is damaged"),
    "db-behind-a-symlink": (link("ledger.db"), "no regular file"),
    "witness-behind-a-symlink": (link("store"), "no regular file"),
    "db-is-a-pipe": (instead("ledger.db", os.mkfifo), "no regular file"),
    "witness-is-a-pipe": (instead("store", os.mkfifo), "no regular file"),
    "db-is-a-directory": (instead("ledger.db", Path.mkdir), "no regular file"),
    "witness-is-a-directory": (instead("store", Path.mkdir), "no regular file"),
    "db-is-a-socket": (instead("ledger.db", bind), "no regular file"),
    "group-writes-db": (open_to_others("ledger.db", 0o620), "can be changed by others"),
    "others-write-db": (open_to_others("ledger.db", 0o602), "can be changed by others"),
    "others-write-witness": (open_to_others("store", 0o602), "can be changed by others"),
    "others-write-wal": (open_to_others("ledger.db-wal", 0o602), "can be changed by others"),
    "others-write-shm": (open_to_others("ledger.db-shm", 0o602), "can be changed by others"),
    "nobody-writes-db": (open_to_others("ledger.db", 0o400), "or not by its user"),
    "nobody-writes-shm": (open_to_others("ledger.db-shm", 0o400), "or not by its user"),
    "others-write-journal": (open_to_others("ledger.db-journal", 0o602), "changed by others"),
}


# rule: ledger.sound-store
@pytest.mark.parametrize("name", HARMS)
def test_a_harmed_store_is_refused_and_left_as_it_is(used: Path, name: str) -> None:
    """An empty or older ledger lets everything happen again, so none is begun or mended."""
    assert trio.run(names, used) == NAMES
    harm, because = HARMS[name]

    harm(used)

    assert because in trio.run(refused, used).because


# rule: ledger.sound-store
def test_a_log_without_its_database_shows_that_there_was_one(tmp_path: Path) -> None:
    """SQLite would play the log of the lost ledger into the new one."""
    for name in ("wal", "journal"):
        state = bare(tmp_path / name)
        (state / f"ledger.db-{name}").write_bytes(b"")
        assert "is gone" in trio.run(refused, state).because

        (state / f"ledger.db-{name}").unlink()

        assert trio.run(names, state) == {}


# rule: ledger.sound-store
def test_receipts_without_a_ledger_show_that_there_was_one(tmp_path: Path) -> None:
    """Whoever deletes the ledger to get through would get through."""
    state = bare(tmp_path / "state")
    receipt = state / "receipts" / "a.json"
    receipt.write_text("{}")
    assert "is gone" in trio.run(refused, state).because

    receipt.unlink()

    assert trio.run(names, state) == {}


# rule: ledger.sound-store
def test_a_page_that_was_overwritten_is_found_wherever_it_lies(used: Path) -> None:
    """Disks lose single sectors, and the rest of the ledger would look sound."""
    db = used / "ledger.db"
    sound = db.read_bytes()
    assert trio.run(names, used) == NAMES

    for page in range(len(sound) // 4096):
        db.write_bytes(sound[: page * 4096] + b"\xff" * 512 + sound[page * 4096 + 512 :])
        trio.run(refused, used)

    db.write_bytes(sound)
    assert trio.run(names, used) == NAMES


# rule: ledger.sound-store
def test_a_file_of_another_user_is_refused(used: Path) -> None:
    """Its owner can change it at any time, whatever its mode says."""
    if os.geteuid() != 0:
        lacking("only root can give a file away")
    for name in ("ledger.db", "store"):
        os.chown(used / name, 12345, -1)
        assert "belongs to user 12345" in trio.run(refused, used).because
        os.chown(used / name, 0, -1)
    assert trio.run(names, used) == NAMES


# rule: ledger.sound-store
async def test_an_executor_opens_only_on_a_sound_store(house: House, tmp_path: Path) -> None:
    """The refusal must come before anything can be asked for, in words of ours."""
    async with house.open(degraded=True):
        pass
    (house.state / "ledger.db").unlink()
    before = everything(house.state)

    with pytest.raises(Unverified) as no:
        async with open_executor(state=house.state):
            pass

    assert no.value.rule == "ledger.sound-store"
    assert no.value.stage == "load"
    assert everything(house.state) == before


# -- killed with commits in the log ---------------------------------------------------------------


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A state directory whose executor was killed; what it did lies in the log alone."""
    state = tmp_path / "state"
    with program("claimer", state, "deliver:first", "deliver:second", "kill") as process:
        assert process.wait() == -signal.SIGKILL
    assert (state / "ledger.db-wal").stat().st_size > 0
    return state


def halve_log(state: Path) -> None:
    log = state / "ledger.db-wal"
    os.truncate(log, log.stat().st_size // 2)


def damage_log(state: Path) -> None:
    log = state / "ledger.db-wal"
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)


LOG_HARMS: dict[str, Harm] = {
    "removed": remove("ledger.db-wal"),
    "removed-with-its-index": remove("ledger.db-wal", "ledger.db-shm"),
    "emptied": write("ledger.db-wal", b""),
    "halved": halve_log,
    "damaged": damage_log,
}


# rule: ledger.sound-store
@pytest.mark.parametrize("name", LOG_HARMS)
def test_a_log_that_lost_commits_is_found_out(killed: Path, tmp_path: Path, name: str) -> None:
    """SQLite itself takes a log without its end for a shorter one."""
    twin = tmp_path / "twin"
    shutil.copytree(killed, twin)
    (twin / "ledger.db-shm").unlink()  # it is made again from the log
    assert trio.run(names, twin) == {"first": "delivered", "second": "delivered"}

    LOG_HARMS[name](killed)

    assert "older than it should be" in trio.run(refused, killed).because


# -- while it is in use ---------------------------------------------------------------------------


# rule: ledger.sound-store
@pytest.mark.parametrize("name", STORE_FILES)
async def test_a_file_that_goes_while_it_is_in_use_stops_everything(
    tmp_path: Path, name: str
) -> None:
    """What is written into a file without a name is found by nobody."""
    state, aside = tmp_path / "state", tmp_path / "aside"
    async with standing(state) as stand:
        await stand.claim("first")
        (state / name).rename(aside)
        before = everything(state)

        for copied in (False, True):
            if copied:
                shutil.copy(aside, state / name)
                before = everything(state)
            with pytest.raises(Unverified) as no:
                await stand.claim("second")
            assert no.value.rule == "ledger.sound-store"
            assert "removed or replaced" in no.value.because
            with pytest.raises(Unverified) as no:
                stand.ledger.find("first")
            assert no.value.rule == "ledger.sound-store"
            assert everything(state) == before

        aside.rename(state / name)
        assert (await stand.claim("second")).state == "reserved"
        assert list(stand.names()) == ["first", "second"]


# rule: ledger.sound-store
@pytest.mark.parametrize("content", [b"", b"garbage\n"], ids=["emptied", "garbage"])
async def test_a_witness_that_changes_while_it_is_in_use_stops_everything(
    tmp_path: Path, content: bytes
) -> None:
    """Without it an older ledger cannot be told from the newest."""
    async with standing(tmp_path / "state") as stand:
        await stand.claim("first")
        store = tmp_path / "state" / "store"
        sound = store.read_bytes()
        store.write_bytes(content)

        with pytest.raises(Unverified) as no:
            await stand.claim("second")

        assert no.value.rule == "ledger.sound-store"
        store.write_bytes(sound)
        assert (await stand.claim("second")).state == "reserved"


# rule: ledger.sound-store
async def test_a_later_version_that_comes_while_it_is_in_use_stops_everything(
    tmp_path: Path,
) -> None:
    """A newer executor may have moved what this one would write over."""
    async with standing(tmp_path / "state") as stand:
        await stand.claim("first")
        alter("PRAGMA user_version = 99")(tmp_path / "state")

        with pytest.raises(Unverified) as no:
            await stand.claim("second")

        assert no.value.rule == "ledger.sound-store"
        assert "schema version 99" in no.value.because
        assert list(stand.names()) == ["first"]
        alter("PRAGMA user_version = 1")(tmp_path / "state")
        assert (await stand.claim("second")).state == "reserved"


# rule: ledger.sound-store
async def test_a_ledger_that_went_back_while_it_is_in_use_stops_everything(
    tmp_path: Path,
) -> None:
    """Another program may write into the file; the witness knows how far it had come."""
    state = tmp_path / "state"
    async with standing(state) as stand:
        await stand.claim("first")
        alter("UPDATE store SET commits = commits - 1")(state)

        with pytest.raises(Unverified) as no:
            await stand.claim("second")

        assert "older than it should be" in no.value.because
        alter("UPDATE store SET commits = commits + 1")(state)
        assert (await stand.claim("second")).state == "reserved"


# rule: ledger.sound-store
async def test_closing_leaves_a_log_that_took_the_place_of_its_own(tmp_path: Path) -> None:
    """SQLite removes the log by its name, whosever it is by then."""
    state, log = tmp_path / "state", tmp_path / "state" / "ledger.db-wal"
    async with standing(state) as stand:
        await stand.claim("first")
        log.rename(tmp_path / "aside-wal")
        log.write_bytes(b"of another")
    assert log.read_bytes() == b"of another"

    async with standing(tmp_path / "twin") as stand:
        await stand.claim("first")
    assert not (tmp_path / "twin" / "ledger.db-wal").exists()


# rule: ledger.sound-store
async def test_a_row_that_cannot_be_read_is_told_in_words_of_ours(tmp_path: Path) -> None:
    """A caller knows what to do about a refusal, and nothing about a fault in a parser."""
    async with standing(tmp_path / "state") as stand:
        await stand.claim("first")
        alter("UPDATE attempts SET claimed = 'yesterday'")(tmp_path / "state")

        for ask in (lambda: stand.ledger.find("first"), lambda: stand.ledger.newest(1)):
            with pytest.raises(Unverified) as no:
                ask()
            assert no.value.rule == "ledger.sound-store"
        with pytest.raises(Unverified) as no:
            await stand.claim("first")
        assert no.value.rule == "ledger.sound-store"

        assert (await stand.claim("second")).state == "reserved"


# rule: ledger.sound-store
async def test_a_large_ledger_is_looked_through_when_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening must not take minutes; what lies in a page that is not touched is doctor's work."""
    await use(tmp_path / "state")
    async with open_ledger(state=tmp_path / "state") as ledger:
        assert ledger.database.check() is None
    monkeypatch.setattr("executor.store.content.SMALL_PAGES", 1)
    db = tmp_path / "state" / "ledger.db"
    connection = apsw.Connection(str(db))
    root = connection.execute(
        "SELECT rootpage FROM sqlite_schema WHERE name = 'notes_by_attempt'"
    ).fetchall()[0][0]
    connection.close()
    async with open_ledger(state=tmp_path / "state"):
        pass
    content, facts = bytearray(db.read_bytes()), db.stat()
    content[(root - 1) * 4096 : (root - 1) * 4096 + 512] = b"\xff" * 512
    db.write_bytes(content)
    os.utime(db, ns=(facts.st_atime_ns, facts.st_mtime_ns))  # a disk that loses it tells nobody

    async with open_ledger(state=tmp_path / "state") as ledger:
        try:
            found = ledger.database.check()
        except Unverified as no:
            found = no.because
        assert found


# -- the ground -----------------------------------------------------------------------------------


@pytest.fixture
def ramfs(tmp_path: Path) -> Iterator[Path]:
    """A real file system that is not on the list."""
    place = tmp_path / "ground"
    place.mkdir()
    if os.geteuid() != 0 or subprocess.call(["mount", "-t", "ramfs", "none", place]):
        lacking("only root can mount a file system")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


# rule: ledger.sound-store
async def test_a_file_system_that_is_not_known_is_refused(ramfs: Path, tmp_path: Path) -> None:
    """Locks and syncs that are only said to work are found out by a delivery too many."""
    assert await names(tmp_path / "state") == {}

    no = await refused(bare(ramfs / "state"))

    assert "0x858458f6" in no.because


# rule: ledger.sound-store
async def test_a_closed_store_is_no_store(tmp_path: Path) -> None:
    """The number of its lock's descriptor may be another file's by then."""
    async with standing(tmp_path / "state") as stand:
        await stand.claim("first")
    seen = commits(tmp_path / "state")

    with pytest.raises(Unverified):
        await stand.claim("second")

    assert commits(tmp_path / "state") == seen
    assert await names(tmp_path / "state") == {"first": "released"}


# rule: ledger.sound-store
def test_an_executor_beside_it_is_no_harm(tmp_path: Path) -> None:
    """What comes and goes while several have it open must not look like damage."""
    state = tmp_path / "state"

    async def beside() -> None:
        for turn in range(3):
            async with standing(state) as stand:
                await stand.claim(f"mine {turn}")

    with program("claimer", state, "claim:theirs", "wait", "deliver:more") as process:
        assert line(process) == "claim:theirs"
        trio.run(beside)
        assert process.communicate("\n")[0] == "wait\ndeliver:more\n"
        assert process.wait() == 0
    assert list(trio.run(names, state)) == ["theirs", "mine 0", "mine 1", "mine 2", "more"]
