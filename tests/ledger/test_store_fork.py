"""A child that is forked while a ledger is open has no part in it."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from executor.refusal import Unverified
from executor.store import database, opening, witness
from executor.store.database import Job
from executor.store.opening import open_database
from tests.ledger.programs.stand import everything, standing

ADD = "INSERT INTO notes VALUES ('a', 'b', 'c', 'd', 'e')"


@contextmanager
def forked(work: Callable[[int], object]) -> Iterator[Callable[[], str]]:
    """Run some work in a child, which may write to a pipe; give how to read all of that."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(read)
            work(write)
        except BaseException as failed:
            os.write(write, repr(failed).encode())
        finally:
            os._exit(0)
    os.close(write)

    def said() -> str:
        with os.fdopen(read) as pipe:
            return pipe.read()

    try:
        yield said
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def store(directory: Path) -> database.Database:
    directory.mkdir(mode=0o700, exist_ok=True)
    return open_database(directory, used_before=False)


def written(opened: database.Database) -> Exception | None:
    job: Job[Any] = Job(lambda session: session.run(ADD))
    opened.commit([job])
    return job.failed


def notes(session: database.Session) -> list[tuple[Any, ...]]:
    return session.rows("SELECT COUNT(*) FROM notes")


# rule: ledger.sound-store
@pytest.mark.parametrize("when", ["in a commit", "at opening"])
def test_a_child_of_a_fork_does_not_keep_the_lock_of_a_parent_that_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Nobody could write for as long as the child lives, and it may live for weeks."""
    monkeypatch.setattr(witness, "PATIENCE_S", 0.5)
    state = tmp_path / "state"
    store(state).close()

    def hold(write: int) -> None:
        """Be killed with the lock held, leaving a child that waits."""

        def leave(*_: object, **__: object) -> None:
            if not os.fork():
                os.write(write, f"{os.getpid()} ".encode())
                os.close(write)
                time.sleep(600)  # until it is killed
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)

        if when == "at opening":
            opening.check_content = leave  # type: ignore[assignment]
            store(state)
        opened = store(state)
        opened.commit([Job(leave)])

    with forked(hold) as said:
        child = int(said())
        try:
            os.kill(child, 0)
            opened = store(state)
            assert written(opened) is None
            assert opened.read(notes) == [(1,)]
            opened.close()
            os.kill(child, 0)  # it lived meanwhile
        finally:
            os.kill(child, signal.SIGKILL)


# rule: ledger.sound-store
def test_a_child_of_a_fork_cannot_use_the_ledger_of_its_parent(tmp_path: Path) -> None:
    """SQLite in two processes on one connection destroys what it writes."""
    state = tmp_path / "state"
    opened = store(state)
    assert written(opened) is None
    assert opened.read(notes) == [(1,)]
    before = everything(state)

    def use(write: int) -> None:
        os.write(write, f"{written(opened)}\n".encode())
        try:
            opened.read(notes)
        except Unverified as no:
            os.write(write, f"{no}\n".encode())
        opened.close()
        os.write(write, b"closed\n")

    with forked(use) as said:
        lines = said().splitlines()

    assert len(lines) == 3
    assert all("STORE_UNAVAILABLE" in line and "forked" in line for line in lines[:2])
    assert lines[2] == "closed"
    assert everything(state) == before
    assert written(opened) is None
    assert opened.read(notes) == [(2,)]
    opened.close()


# rule: ledger.everywhere
def test_a_child_of_a_fork_can_open_the_ledger_for_itself(tmp_path: Path) -> None:
    """Servers that fork before they serve are usual."""
    state = tmp_path / "state"
    opened = store(state)

    def use(write: int) -> None:
        own = store(state)
        os.write(write, f"{written(own)} {written(opened) is None}".encode())
        own.close()

    with forked(use) as said:
        assert said() == "None False"

    assert written(opened) is None
    assert opened.read(notes) == [(2,)]
    opened.close()

    async def look() -> dict[str, str]:
        async with standing(state) as stand:
            return stand.names()

    assert trio.run(look) == {}
