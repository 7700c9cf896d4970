"""Freezing: copies live as long as a run needs them, then for a time, and are then really gone."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from executor import Config
from executor.effects.blobs import Blobs
from executor.manifest import SecretSource
from executor.refusal import Refused
from executor.units import Duration
from tests.freezing.shelf import BIG, TOP, Shelf
from tests.house import House

AT_ONCE, HOUR = 0.0, 3600.0


def ago(seconds: float, path: Path) -> None:
    """Let a hold have been released so long ago."""
    moment = time.time() - seconds
    os.utime(path, (moment, moment))


def hold_file(shelf: Shelf) -> Path:
    """Give the only hold."""
    (path,) = (shelf.store / "holds").iterdir()
    return path


def another(shelf: Shelf) -> Blobs:
    """Give what a second executor on the same state has."""
    return Blobs(shelf.store)


# rule: freezing.retention
async def test_a_copy_is_kept_while_a_run_holds_it_whatever_the_retention(shelf: Shelf) -> None:
    """Another executor that starts meanwhile sweeps the same store."""
    shelf.file("doc", b"needed")
    (frozen,), hold = await shelf.freeze("doc")
    copy = shelf.blobs.path(frozen.sha256)
    ago(100 * HOUR, hold_file(shelf))

    assert another(shelf).sweep(AT_ONCE) == 0
    assert copy.read_bytes() == b"needed"

    hold.release()
    assert another(shelf).sweep(AT_ONCE) == 1
    assert shelf.stored() == []


# rule: freezing.retention
async def test_a_copy_is_kept_for_the_retention_after_its_run_and_is_then_gone(
    shelf: Shelf,
) -> None:
    """Copies of other people's mail are not ours to keep; lost too early, nobody can look."""
    shelf.file("doc", b"secret of somebody")
    (frozen,), hold = await shelf.freeze("doc")
    ago(5 * HOUR, hold_file(shelf))  # a long run: its own time does not count
    hold.release()
    assert another(shelf).sweep(HOUR) == 0

    ago(HOUR - 60, hold_file(shelf))
    assert another(shelf).sweep(HOUR) == 0
    assert shelf.blobs.path(frozen.sha256).exists()

    ago(HOUR + 60, hold_file(shelf))
    assert another(shelf).sweep(HOUR) == 1
    assert all(b"secret" not in path.read_bytes() for path in shelf.store.rglob("*.*"))
    assert shelf.stored() == []
    assert another(shelf).sweep(HOUR) == 0


# rule: freezing.retention
async def test_a_copy_that_two_runs_share_is_kept_for_the_later_one_whatever_the_retention(
    shelf: Shelf,
) -> None:
    """Equal bytes are one copy; the first to end must not take it from the other."""
    shelf.file("one", b"same")
    shelf.file("two", b"same")
    shelf.file("own", b"own")
    _, first = await shelf.freeze("one", "own")
    (frozen,), second = await shelf.freeze("two")
    first.release()

    assert another(shelf).sweep(AT_ONCE) == 1
    assert shelf.blobs.path(frozen.sha256).read_bytes() == b"same"

    second.release()
    assert another(shelf).sweep(AT_ONCE) == 1
    assert shelf.stored() == []


# rule: freezing.retention
async def test_the_copies_of_every_run_are_kept_not_only_of_one_whatever_the_retention(
    shelf: Shelf,
) -> None:
    """Many runs hold at once."""
    holds = []
    for number in range(8):
        shelf.file(str(number), str(number).encode())
        holds.append((await shelf.freeze(str(number)))[1])

    assert another(shelf).sweep(AT_ONCE) == 0

    for hold in holds:
        hold.release()
    assert another(shelf).sweep(AT_ONCE) == 8


# rule: freezing.retention
async def test_a_release_twice_or_in_a_store_that_is_gone_does_no_harm_to_retention(
    shelf: Shelf,
) -> None:
    """The run is over by then; its result must not be lost over housekeeping."""
    shelf.file("doc")
    _, hold = await shelf.freeze("doc")
    descriptor = os.open(hold_file(shelf), os.O_RDONLY)
    for path in shelf.stored():
        path.unlink()

    hold.release()
    os.close(descriptor)
    other = os.open(shelf.store, os.O_RDONLY)  # takes the number that was freed
    hold.release()

    os.fstat(other)
    os.close(other)


# rule: freezing.retention
async def test_a_hold_from_the_future_is_kept_for_the_retention_from_now_not_for_years(
    shelf: Shelf,
) -> None:
    """A clock that was wrong for a moment must not keep a mail for ever."""
    shelf.file("doc")
    _, hold = await shelf.freeze("doc")
    hold.release()
    ago(-1000 * HOUR, hold_file(shelf))

    assert another(shelf).sweep(HOUR) == 0
    assert hold_file(shelf).stat().st_mtime <= time.time()

    ago(HOUR + 60, hold_file(shelf))
    assert another(shelf).sweep(HOUR) == 1


KILLED = """
import sys, time, trio
from pathlib import Path
from executor.effects.blobs import Blobs
from executor.effects.freezer import Freezer
from executor.frozen import SlotFile
store, root, where = sys.argv[1:]
def wait(*_):
    print("there", flush=True)
    time.sleep(600)
async def main():
    freezer = Freezer(Blobs(Path(store)), [root], root)
    files = [SlotFile("doc", name, name, 2**40) for name in ("doc", "big")]
    await freezer.freeze("killed", files, wait if where == "copying" else None)
    wait()
trio.run(main)
"""


@contextmanager
def executor_in(where: str, shelf: Shelf) -> Iterator[None]:
    """Have another executor copy, or hold, and kill it when the block ends."""
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, shelf.store, shelf.root, where],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(TOP)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        try:
            yield
        finally:
            process.send_signal(signal.SIGKILL)


# rule: freezing.retention
def test_copies_of_a_killed_executor_are_swept_by_the_next_after_the_retention(
    shelf: Shelf,
) -> None:
    """How long its run took is not known: the time counts from when its end is first seen."""
    shelf.file("doc", b"small")
    shelf.file("big", b"x" * BIG)
    with executor_in("holding", shelf):
        assert another(shelf).sweep(AT_ONCE) == 0
        assert len(shelf.stored()) == 3

    assert another(shelf).sweep(HOUR) == 0
    assert len(shelf.stored()) == 3
    assert another(shelf).sweep(HOUR) == 0

    ago(HOUR + 60, hold_file(shelf))
    assert another(shelf).sweep(HOUR) == 2
    assert shelf.stored() == []


# rule: freezing.retention
def test_copies_of_a_killed_executor_are_swept_at_once_where_there_is_no_retention(
    shelf: Shelf,
) -> None:
    """No time to keep them means none."""
    shelf.file("doc", b"small")
    shelf.file("big", b"x" * BIG)
    with executor_in("holding", shelf):
        pass

    assert another(shelf).sweep(AT_ONCE) == 2
    assert shelf.stored() == []


# rule: freezing.retention
def test_half_a_copy_is_left_alone_while_it_is_made_and_swept_when_its_executor_is_killed(
    shelf: Shelf,
) -> None:
    """Before the hold is there nothing but the lock of the store protects it; no retention."""
    shelf.file("doc", b"small")
    shelf.file("big", b"x" * BIG)
    with executor_in("copying", shelf):
        making = shelf.stored()
        assert making
        assert another(shelf).sweep(AT_ONCE) == 0
        assert shelf.stored() == making

    another(shelf).sweep(HOUR)
    assert shelf.stored() == []


# rule: freezing.retention
async def test_an_executor_that_opens_meanwhile_takes_nothing_before_the_retention(
    house: House, namespaced: None
) -> None:
    """The same through whole executors: the second one starts while the first is about to run."""
    house.manifest(files={"doc": {}})
    request = house.request(files={"doc": str(house.file("body.txt", "BODY"))})
    at_once = Config(retention=Duration(0))
    async with house.open(config=at_once) as executor:
        gate = executor.gate
        frozen, hold = await gate.freeze(gate.admit("attempt", request))
        copy = gate.freezer.blobs.path(frozen.files[0].sha256)
        with hold:
            async with house.open(config=at_once):
                pass
            with await gate.verify(frozen) as verified:
                assert (await gate.spawn(verified)).exit == 0
        assert copy.exists()

        async with house.open():  # a day
            assert copy.exists()
        async with house.open(config=at_once):
            assert not copy.exists()
        with pytest.raises(Refused) as no:
            await gate.verify(frozen)

    assert no.value.code == "FROZEN_COPY_CHANGED"
    assert list((house.state / "holds").iterdir()) == []


# rule: freezing.retention
async def test_a_run_that_is_refused_holds_nothing_beyond_the_retention(
    house: House, namespaced: None
) -> None:
    """Every way out of the gate lets go."""
    house.manifest(files={"doc": {}}, secrets={"key": {"env": "KEY"}})
    house.file("body.txt", "BODY")
    request = house.request(files={"doc": str(house.root / "body.txt")})
    config = Config(
        retention=Duration(0),
        secrets={"test.fake": {"key": SecretSource(environment="NOT_SET_ANYWHERE")}},
    )
    async with house.open(config=config) as executor:
        with pytest.raises(Refused) as no:
            await executor.run(request)
        assert no.value.code == "SECRET_UNAVAILABLE"
        assert len(list((house.state / "holds").iterdir())) == 1

        assert executor.gate.freezer.blobs.sweep(AT_ONCE) == 1


# rule: freezing.retention
async def test_an_executor_that_stays_open_lets_old_copies_go(house: House) -> None:
    """Nobody restarts a service to have other people's mail forgotten."""
    house.manifest(files={"doc": {}})
    async with house.open(config=Config(retention=Duration(0))) as executor:
        await executor.run(house.request(files={"doc": str(house.file("one", "first"))}))
        (old,) = (house.state / "blobs").glob("??/*")

        await executor.run(house.request(files={"doc": str(house.file("two", "second"))}))

    (kept,) = (house.state / "blobs").glob("??/*")
    assert kept != old
