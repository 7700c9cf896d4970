"""A guard without a memory guards nothing: what cannot be made durable does not happen."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from executor.effects import clock
from executor.effects.owners import Owners
from executor.embedding import open_ledger
from executor.refusal import Unverified
from executor.rules.ledger import Terms
from executor.store import database
from tests.conftest import lacking
from tests.ledger.attempts import said
from tests.ledger.programs.stand import DRAFT, Stand, on_disk, standing


class Disk:
    """A small disk of its own, with a state directory on it."""

    def __init__(self, place: Path) -> None:
        self.state = place / "state"
        self._ballast = place / "ballast"

    def fill(self) -> None:
        """Take all the room that is left."""
        with open(self._ballast, "ab", buffering=0) as ballast:
            try:
                while ballast.write(bytes(4096)):
                    pass
            except OSError:
                pass

    def make_room(self) -> None:
        """Give it back."""
        self._ballast.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A disk of 2 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", place]
    if os.geteuid() != 0 or subprocess.call(mount):
        lacking("only root can mount a disk")
    yield Disk(place)
    subprocess.run(["umount", "-l", place], check=True)


async def ends_of(stand: Stand, *names: str, **changes: Any) -> list[Any]:
    """Claim all at once; give what came of each."""
    ends: dict[str, Any] = {}

    async def claim(name: str) -> None:
        try:
            ends[name] = await stand.claim(name, **changes)
        except Unverified as no:
            ends[name] = no

    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(claim, name)
    return [ends[name] for name in names]


# rule: ledger.full-disk
# rule: ledger.group-commit
async def test_on_a_full_disk_no_claim_is_told_and_none_is_left_to_block(disk: Disk) -> None:
    """Once there is room the same action must be able to go out."""
    async with standing(disk.state) as stand:
        await stand.deliver("first")
        disk.fill()

        ends = await ends_of(stand, "one", "two", "three", "four")

        assert [(no.rule, no.code) for no in ends] == [
            ("ledger.full-disk", "STORE_UNAVAILABLE")
        ] * 4
        assert len({id(no) for no in ends}) == 4  # each caller puts its own receipt to its own
        assert "Make room" in ends[0].todo
        assert on_disk(disk.state) == {"first": "delivered"}

        disk.make_room()
        assert [end.state for end in await ends_of(stand, "one", "two")] == ["reserved"] * 2
        assert stand.names() == {"first": "delivered", "one": "reserved", "two": "reserved"}


# rule: ledger.full-disk
async def test_on_a_full_disk_no_dispatch_is_told(disk: Disk) -> None:
    """A command that started without it would look like one that never did."""
    async with standing(disk.state) as stand:
        claimed = await stand.claim("first")
        disk.fill()

        with pytest.raises(Unverified) as no:
            await stand.ledger.dispatch(claimed, Terms(), clock.moment())

        assert (no.value.rule, no.value.code) == ("ledger.full-disk", "STORE_UNAVAILABLE")
        assert on_disk(disk.state) == {"first": "reserved"}
        disk.make_room()
        dispatched = await stand.ledger.dispatch(claimed, Terms(), clock.moment())
        assert dispatched.state == "dispatching"


# rule: ledger.full-disk
@pytest.mark.parametrize("how", ["with-the-next-write", "at-the-end"])
async def test_a_settlement_that_finds_no_room_is_owed_and_comes_later(
    disk: Disk, how: str
) -> None:
    """It happened; that the disk was full at that moment must not make it unknown for ever."""
    async with standing(disk.state) as stand:
        claimed = await stand.claim("first")
        dispatched = await stand.ledger.dispatch(claimed, Terms(), clock.moment())
        disk.fill()

        with pytest.raises(Unverified) as no:
            await stand.ledger.settle(
                dispatched,
                said("delivered", result_id="m-1"),
                clock.moment(),
                draft=DRAFT,
            )

        assert (no.value.rule, no.value.code) == ("ledger.full-disk", "STORE_UNAVAILABLE")
        assert on_disk(disk.state) == {"first": "dispatching"}
        disk.make_room()
        if how == "with-the-next-write":
            await stand.claim("second")
            assert on_disk(disk.state) == {"first": "delivered", "second": "reserved"}

    async with open_ledger(state=disk.state) as ledger:
        found = ledger.find("first")
        assert found is not None
        assert (found.state, found.result_id, found.decided_by) == ("delivered", "m-1", "run")
        assert ledger.notes("first") == []


# rule: ledger.full-disk
async def test_a_claim_that_reached_the_disk_untold_is_withdrawn_with_the_next_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a sync fails nobody knows what the disk has; an untold claim must not block."""

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    async with standing(tmp_path / "state") as stand:
        transact = database.Database._transact
        with monkeypatch.context() as faulty:
            faulty.setattr(
                database.Database, "_transact", lambda *given: (transact(*given), fail())
            )
            with pytest.raises(Unverified):
                await stand.claim("first", fingerprint="f" * 64)
            assert on_disk(tmp_path / "state") == {"first": "reserved"}

        second = await stand.claim("second", fingerprint="f" * 64)

        assert second.state == "reserved"
        assert stand.names() == {"first": "released", "second": "reserved"}


# rule: ledger.full-disk
async def test_a_witness_that_cannot_be_written_takes_nothing_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is durable is told as that; the witness may lag behind."""

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async with standing(tmp_path / "state") as stand:
        await stand.claim("first")
        with monkeypatch.context() as full:
            full.setattr(database, "write_witness", fail)
            assert (await stand.claim("second")).state == "reserved"

        assert (await stand.claim("third")).state == "reserved"
        assert stand.names() == dict.fromkeys(("first", "second", "third"), "reserved")


# rule: ledger.full-disk
def test_an_executor_that_cannot_make_its_lock_is_refused(tmp_path: Path) -> None:
    """The reason must be told in words that say what to do."""
    owners = Owners(tmp_path)
    with owners.registered() as owner:
        assert not owners.is_gone(owner)
    (tmp_path / "owners").rmdir()

    with pytest.raises(Unverified) as no, owners.registered():
        pass

    assert (no.value.rule, no.value.code) == ("ledger.full-disk", "STORE_UNAVAILABLE")


# rule: ledger.full-disk
async def test_a_full_disk_makes_no_store(disk: Disk) -> None:
    """Half a store would be taken for one that was lost."""
    disk.state.mkdir(mode=0o700)
    for part in ("receipts", "owners"):
        (disk.state / part).mkdir()
    disk.fill()

    with pytest.raises(Unverified) as no:
        async with open_ledger(state=disk.state):
            pass

    assert (no.value.rule, no.value.code) == ("ledger.full-disk", "STORE_UNAVAILABLE")
    disk.make_room()
    async with standing(disk.state) as stand:
        assert (await stand.claim("first")).state == "reserved"
