"""Freezing: the state directory is its owner's alone, and a full disk stops everything."""

import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from executor import Executor, Receipt
from executor.refusal import Refused, Unverified
from executor.store import state
from tests.freezing.shelf import Shelf, lacking, python
from tests.house import House, interpreter

CODE = ("freezing.private-store", "STORE_UNAVAILABLE")


def refused(directory: Path) -> Unverified:
    """Open a state directory that must be refused, and give the refusal."""
    with pytest.raises(Unverified) as no:
        state.open_directory(directory)
    assert (no.value.rule, no.value.code) == CODE
    assert no.value.recovery == "fix"
    assert "0700" in no.value.todo
    return no.value


# rule: freezing.private-store
@pytest.mark.parametrize("mode", [0o701, 0o702, 0o704, 0o710, 0o720, 0o740, 0o755, 0o777, 0o1777])
def test_a_directory_open_to_others_is_no_private_store(tmp_path: Path, mode: int) -> None:
    """Frozen mail can be read there, and what others can write proves nothing."""
    directory = tmp_path / "state"
    directory.mkdir()
    directory.chmod(mode)

    assert f"{mode & 0o777:04o}" in refused(directory).because

    assert directory.stat().st_mode & 0o7777 == mode  # nobody's directory is changed unasked
    assert list(directory.iterdir()) == []
    directory.chmod(0o700)
    assert state.open_directory(directory) == directory


# rule: freezing.private-store
def test_a_directory_of_another_user_is_no_private_store(tmp_path: Path) -> None:
    """Its owner can let anybody in, at any time."""
    directory = tmp_path / "state"
    directory.mkdir(mode=0o700)
    try:
        os.chown(directory, 65534, -1)
    except PermissionError:
        lacking("giving a directory to another user is not permitted here")

    assert "65534" in refused(directory).because

    os.chown(directory, os.geteuid(), -1)
    assert state.open_directory(directory) == directory


# rule: freezing.private-store
def test_a_directory_that_cannot_be_written_is_no_private_store(small_disk: Path) -> None:
    """An executor that cannot record must not act."""
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)

    assert "cannot be written" in refused(small_disk).because

    subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
    assert state.open_directory(small_disk) == small_disk


OPEN = """
import json, sys
from pathlib import Path
from executor.refusal import Unverified
from executor.store import state
try:
    print(json.dumps(str(state.open_directory(Path(sys.argv[1])))))
except Unverified as no:
    print(json.dumps(no.because))
"""


# rule: freezing.private-store
def test_a_directory_closed_to_its_own_user_is_no_private_store(tmp_path: Path) -> None:
    """The reason must be the directory's, not a traceback later on."""
    directory = tmp_path / "state"
    directory.mkdir(mode=0o500)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)

    assert "cannot be written" in python(OPEN, directory, powerless=True)
    assert "Permission denied" in python(OPEN, closed / "state", powerless=True)

    directory.chmod(0o700)
    closed.chmod(0o700)
    assert python(OPEN, directory, powerless=True) == str(directory)
    assert python(OPEN, closed / "state", powerless=True) == str(closed / "state")


# rule: freezing.private-store
@pytest.mark.parametrize("kind", ["file", "below-a-file", "dangling-link", "loop"])
def test_what_is_no_directory_is_no_private_store(tmp_path: Path, kind: str) -> None:
    """Nothing is overwritten to make room for the state."""
    path = tmp_path / "state"
    if kind in ("file", "below-a-file"):
        path.write_text("mine")
    elif kind == "dangling-link":
        path.symlink_to("nowhere")
    else:
        path.symlink_to("state")

    refused(path / "deeper" if kind == "below-a-file" else path)

    assert not (tmp_path / "nowhere").exists()
    assert path.is_symlink() or path.read_text() == "mine"


# rule: freezing.private-store
def test_a_missing_directory_is_made_as_a_private_store_whatever_the_umask(
    tmp_path: Path,
) -> None:
    """The first start must not leave a door open."""
    old = os.umask(0)
    try:
        made = state.open_directory(tmp_path / "a" / "state")
    finally:
        os.umask(old)

    assert made == tmp_path / "a" / "state"
    assert made.stat().st_mode & 0o777 == 0o700
    (tmp_path / "link").symlink_to(made)
    assert state.open_directory(tmp_path / "link") == made


# rule: freezing.private-store
async def test_an_executor_does_not_open_on_what_is_no_private_store(house: House) -> None:
    """The library says the same as the part."""
    async with house.open():
        pass
    house.state.chmod(0o750)

    with pytest.raises(Refused) as no:
        async with house.open():
            pass

    assert (no.value.rule, no.value.code) == CODE


@pytest.fixture
def crowded(house: House, small_disk: Path) -> House:
    """A house whose state lies on a disk of 256 KiB, and whose tool says when it ran."""
    house.state.rmdir()
    house.state.symlink_to(small_disk)
    tree = interpreter()[1]
    isolation = {"write": [str(house.root)], "read": [] if tree is None else [tree]}
    house.manifest(files={"doc": {"many": True}}, isolation=isolation)
    house.file("small", b"s" * 1000)
    house.file("large", b"l" * 512 * 1024)
    return house


def ask(house: House, *names: str) -> Any:
    """Ask for the run that leaves a line."""
    plan = {"sent": str(house.root / "sent.log"), "sent_text": "ran"}
    return house.request(plan, files={"doc": tuple(str(house.root / name) for name in names)})


def sent(house: House) -> int:
    """Say how often the command ran."""
    log = house.root / "sent.log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def kept(house: House) -> list[str]:
    """Name every file of a copy."""
    return [
        str(path.relative_to(house.state.resolve()))
        for name in ("blobs", "incoming", "holds", "staging")
        for path in (house.state.resolve() / name).rglob("*")
        if not path.is_dir()
    ]


def fill(disk: Path) -> Path:
    """Leave no room, and give the file that takes it."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"f" * 4096)
    return filler


async def run(executor: Executor, house: House, *names: str) -> Receipt:
    """Run it."""
    return await executor.run(ask(house, *names))


# rule: freezing.private-store
async def test_with_a_full_disk_nothing_runs_and_nothing_is_left_in_the_private_store(
    crowded: House, namespaced: None
) -> None:
    """What cannot be kept cannot be shown; and a refusal must not fill the disk further."""
    async with crowded.open() as executor:
        assert (await run(executor, crowded, "small")).status == "delivered"
        executor.gate.freezer.blobs.sweep(0)
        assert kept(crowded) == []

        with pytest.raises(Unverified) as no:
            await run(executor, crowded, "small", "large")

        assert (no.value.rule, no.value.code) == CODE
        assert "No space left" in no.value.because
        assert sent(crowded) == 1
        assert kept(crowded) == []
        subprocess.run(["mount", "-o", "remount,size=4m", crowded.state.resolve()], check=True)
        assert (await run(executor, crowded, "small", "large")).status == "delivered"
        assert sent(crowded) == 2


# rule: freezing.private-store
@pytest.mark.parametrize("pages", [0, 1])
async def test_with_no_room_for_the_hold_nothing_is_left_in_the_private_store(
    shelf: Shelf, small_disk: Path, pages: int
) -> None:
    """The copy fits and the note that keeps it does not: a copy that the next sweep takes."""
    crowded = Shelf(small_disk / "shelf")
    shelf.file("doc", b"x" * 1000)
    roots = [shelf.root]
    assert await crowded.frozen(shelf.root / "doc", roots=roots) == b"x" * 1000
    crowded.blobs.sweep(0)
    filler = fill(small_disk)
    os.truncate(filler, filler.stat().st_size - pages * 4096)

    with pytest.raises(Unverified) as no:
        await crowded.freeze(shelf.root / "doc", roots=roots)

    assert (no.value.rule, no.value.code) == CODE
    assert crowded.stored() == []
    filler.unlink()
    assert await crowded.frozen(shelf.root / "doc", roots=roots) == b"x" * 1000


# rule: freezing.private-store
async def test_a_refusal_for_want_of_room_is_told_even_if_the_private_store_cannot_record_it(
    crowded: House, namespaced: None
) -> None:
    """A full disk stops the record too; the caller hears no all the same."""
    async with crowded.open() as executor:
        filler = fill(crowded.state)

        with pytest.raises(Unverified) as no:
            await run(executor, crowded, "small")

        assert no.value.code == "STORE_UNAVAILABLE"
        assert no.value.receipt is None
        assert sent(crowded) == 0
        filler.unlink()
        assert (await run(executor, crowded, "small")).status == "delivered"


# rule: freezing.private-store
async def test_a_record_in_the_private_store_names_the_code_of_a_refusal(
    house: House,
) -> None:
    """Refusals are on record as well, without what was in the file."""
    house.manifest(files={"doc": {}})
    async with house.open() as executor:
        with pytest.raises(Refused) as no:
            await executor.run(house.request(files={"doc": str(house.root / "missing")}))

    receipt = no.value.receipt
    assert receipt is not None
    record = json.loads((house.state / "receipts" / f"{receipt.attempt}.json").read_text())
    assert record["predicate"]["result"]["code"] == "FILE_NOT_READABLE"


# rule: freezing.private-store
def test_a_relative_state_home_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each working directory would have a ledger of its own, and let the same happen again."""
    monkeypatch.setenv("HOME", "/home/ana")
    monkeypatch.setenv("XDG_STATE_HOME", "/var/state")
    assert state.default_directory() == Path("/var/state/sealed-executor")

    monkeypatch.setenv("XDG_STATE_HOME", "state")
    assert state.default_directory() == Path("/home/ana/.local/state/sealed-executor")

    monkeypatch.setenv("HOME", ".")
    with pytest.raises(Unverified) as no:
        state.default_directory()
    assert (no.value.rule, no.value.code) == ("freezing.private-store", "STORE_UNAVAILABLE")
