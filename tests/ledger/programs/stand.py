"""Stand: a ledger on a directory of its own, without gate and sandbox."""

import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from executor.attempt import Attempt, Owner
from executor.effects import clock
from executor.effects.owners import Owners
from executor.embedding import open_ledger
from executor.rules.ledger import Terms
from executor.store.ledger import Ledger
from tests.ledger.attempts import said

PATIENCE_S = 40.0  # only ever spent by a test that fails
TOP = Path(__file__).resolve().parents[3]
PROGRAMS = Path(__file__).parent
DRAFT = b'{"predicate": {}}'
STORE_FILES = ("store", "ledger.db", "ledger.db-wal", "ledger.db-shm")


@dataclass(frozen=True)
class Stand:
    """An open ledger, and an executor that is open in it."""

    ledger: Ledger
    owner: Owner

    def wanted(self, name: str, **changes: Any) -> Attempt:
        """Give an attempt at an action that has the same name, unless a fingerprint is given."""
        given: dict[str, Any] = {
            "id": name,
            "fingerprint": hashlib.sha256(name.encode()).hexdigest(),
            "account": "ana",
            "tool": "mail.send",
            "action": "d" * 64,
            "owner": self.owner,
            "claimed": clock.moment(),
            "window_ms": 900_000,
        }
        return Attempt(**(given | changes))

    async def claim(self, name: str, **changes: Any) -> Attempt:
        """Claim an action."""
        one = self.wanted(name, **changes)
        return await self.ledger.claim(one, Terms(), one.claimed, draft=DRAFT)

    async def deliver(self, name: str, **changes: Any) -> Attempt:
        """Take an action from its claim to its delivery and its receipt."""
        claimed = await self.claim(name, **changes)
        dispatched = await self.ledger.dispatch(claimed, Terms(), clock.moment())
        settled = await self.ledger.settle(
            dispatched, said("delivered"), clock.moment(), draft=DRAFT
        )
        self.ledger.recorded(name)
        return settled

    def names(self) -> dict[str, str]:
        """Give the state of every attempt, by its name, in the order of their claims."""
        return {one.id: one.state for one in reversed(self.ledger.newest(10_000))}


@asynccontextmanager
async def standing(directory: Path) -> AsyncIterator[Stand]:
    """Open a ledger and be an executor in it."""
    directory.mkdir(mode=0o700, exist_ok=True)
    async with open_ledger(state=directory) as ledger:
        with Owners(directory).registered() as owner:
            yield Stand(ledger, owner)


def commits(directory: Path) -> int:
    """Give how many commits the witness has seen."""
    return int((directory / "store").read_text().split()[2])


def on_disk(directory: Path) -> dict[str, str]:
    """Give every attempt's state as another connection sees it, past all of our own code."""
    connection = apsw.Connection(str(directory / "ledger.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        found = connection.execute("SELECT id, state FROM attempts ORDER BY number")
        return {str(name): str(state) for name, state in found}
    finally:
        connection.close()


def everything(directory: Path) -> dict[str, tuple[Any, ...]]:
    """Give all that lies in a directory, to the byte; SQLite's index of a log is no record."""
    found = {}
    for path in sorted(directory.rglob("*")):
        facts = path.lstat()
        content: bytes | str = b""
        if path.is_symlink():
            content = os.readlink(path)
        elif path.is_file() and not path.name.endswith("-shm"):
            content = path.read_bytes()
        name = str(path.relative_to(directory))
        found[name] = (facts.st_mode, facts.st_uid, facts.st_ino, content)
    return found


@contextmanager
def program(name: str, *words: object, **how: Any) -> Iterator["subprocess.Popen[str]"]:
    """Start one of the programs beside this file; end it in the end."""
    prefix = how.pop("prefix", [])
    with subprocess.Popen(
        [*prefix, sys.executable, str(PROGRAMS / f"{name}.py"), *map(str, words)],
        env=os.environ | {"PYTHONPATH": str(TOP)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **how,
    ) as process:
        end = threading.Timer(PATIENCE_S, process.kill)  # a test that fails must not hang
        end.start()
        try:
            yield process
        finally:
            end.cancel()
            process.kill()


def line(process: "subprocess.Popen[str]") -> str:
    """Wait for the next line that a program prints."""
    assert process.stdout is not None
    said = process.stdout.readline()
    assert said, f"it ended: {process.wait()}"
    return said.rstrip("\n")


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"never seen: {what}"
        time.sleep(0.002)
