"""Looking: a ledger that is only read: a copy of one, or one on a disk that has no room left.

Whoever opens a ledger makes the index of its log, and that needs room. Read as a file that nobody
changes it needs none; then nobody may change it meanwhile.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import apsw

from executor.receipt import recovered
from executor.refusal import Unverified
from executor.store.content import check_content, store_of
from executor.store.database import Database, Job, Session
from executor.store.faults import unavailable, unsound
from executor.store.ground import shape_of
from executor.store.ledger import Ledger
from executor.store.witness import check_witnessed, lock, read_witness
from executor.store.writer import Writer

T = TypeVar("T")
Turn = Callable[[], AbstractContextManager[None]]


class Look(Database):
    """A database that is only read; what is to be written is refused.

    Args:
        turn: keeps all others from writing for the time of a block.
    """

    def __init__(self, path: Path, turn: Turn = contextlib.nullcontext) -> None:
        self.path = path
        self._turn_of_others = turn
        with self._connection() as connection:
            check_content(path, connection)
            self.id, self.commits = store_of(path, connection)
            self.journal = str(connection.execute("PRAGMA journal_mode").fetchall()[0][0])

    def commit(self, jobs: Sequence[Job[Any]]) -> None:
        """Refuse all jobs."""
        for job in jobs:
            job.fail(
                Unverified(
                    "ledger.full-disk",
                    "STORE_UNAVAILABLE",
                    because=f"{self.path} can only be looked at.",
                    todo="Make room on the disk of the state directory; then ask again.",
                )
            )

    def read(self, look: Callable[[Session], T]) -> T:
        """Look at what is committed.

        Raises:
            Unverified: ``ledger.sound-store``.
        """
        with self._connection() as connection:
            connection.execute("BEGIN")
            return look(Session(connection))

    def close(self) -> None:
        """Give it back: nothing is open between two looks."""

    @contextlib.contextmanager
    def _connection(self) -> Iterator[apsw.Connection]:
        try:
            with contextlib.ExitStack() as stack:
                fixed = self._is_whole()
                if fixed:
                    stack.enter_context(self._turn_of_others())
                    fixed = self._is_whole()  # somebody may have written while we waited
                # The words of a URI: a path may hold its signs.
                name = f"file:{quote(os.path.abspath(self.path))}?mode=ro"
                flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
                connection = apsw.Connection(name + "&immutable=1" * fixed, flags=flags)
                stack.callback(connection.close)
                connection.set_busy_timeout(1000)
                yield connection
        except (apsw.Error, OSError) as failed:
            raise unavailable(failed) from failed

    def _is_whole(self) -> bool:
        """Say whether all of it is in the one file, and no log beside it has more."""
        beside = [self.path.with_name(f"{self.path.name}-{kind}") for kind in ("wal", "journal")]
        return not any(_size(file) for file in beside)


def look_at_copy(path: Path) -> Ledger:
    """Give a copy of a ledger to look at. No witness says whether it is the newest.

    Raises:
        Unverified: ``ledger.sound-store``: it is damaged, or no ledger.
    """
    look = Look(path)
    return Ledger(look, Writer(look), lambda _: False, recovered)


def look_without_room(directory: Path) -> Database:
    """Give the database of a state directory to look at, when opening it found no room.

    Raises:
        Unverified: ``ledger.sound-store``, as for one that is opened.
    """
    path, store = directory / "ledger.db", directory / "store"

    @contextlib.contextmanager
    def turn() -> Iterator[None]:
        with open(store, "rb") as witness:
            lock(witness.fileno())
            yield  # closing it gives the lock back

    try:
        with open(store, "rb") as witness:
            witnessed = read_witness(witness.fileno())
    except OSError as failed:
        raise unavailable(failed) from failed
    look = Look(path, turn)
    if witnessed is not None:
        check_witnessed(path, (look.id, look.commits), witnessed)
    elif look.commits:
        raise unsound(f"{store} is empty, and the ledger is not new.")
    if witnessed is not None and witnessed.shape != shape_of(path) and (wrong := look.check()):
        raise unsound(f"{path} is damaged, or parts of it are older than others: {wrong}.")
    return look


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
