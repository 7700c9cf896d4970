"""Database: an open ledger's file; the jobs of many in one transaction, each durable or undone."""

import contextlib
import copy
import ctypes
import fcntl
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import apsw

from executor.finished import printable
from executor.refusal import Unverified
from executor.rules import stores
from executor.store.content import (
    CONTENTS,
    NO_CHECKPOINT,
    _weight,
    check_content,
    check_version,
    connect,
    content_of,
    store_of,
    weights,
)
from executor.store.faults import unavailable, unsound
from executor.store.ground import file_system_magic, identity_of, shape_of
from executor.store.witness import (
    CLOSING_PATIENCE_S,
    Witnessed,
    check_witnessed,
    lock,
    read_witness,
    write_witness,
)

T = TypeVar("T")
log = logging.getLogger(__name__)
_OF_A_JOB = (apsw.ConstraintError, apsw.TooBigError)
"""Errors of SQLite that are about the values of a job, and not about the store."""


class Session:
    """One transaction, for the statements of a job. Every value goes in by name."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, /, **values: Any) -> list[tuple[Any, ...]]:
        """Run a statement and give its rows."""
        try:
            return list(self._connection.execute(statement, values))
        except UnicodeEncodeError:  # half a character, in what a command printed or a person typed
            texts = {name: printable(v) for name, v in values.items() if isinstance(v, str)}
            return list(self._connection.execute(statement, values | texts))

    def run(self, statement: str, /, **values: Any) -> None:
        """Run a statement that gives no rows."""
        self.rows(statement, **values)


@dataclass(slots=True, eq=False)
class Job(Generic[T]):
    """Work for a transaction: all of it is in the commit, or none of it.

    ``done`` says that its end is known: it is durable, or failed by itself. Otherwise the store
    failed it, or it was not tried.
    """

    work: Callable[[Session], T]
    value: T | None = None
    failed: Exception | None = None
    done: bool = False

    def fail(self, failed: Exception) -> None:
        """Take note that the store could not do it."""
        fault = failed if isinstance(failed, Unverified) else unavailable(failed)
        self.failed = copy.copy(fault)  # each caller adds to its own
        self.failed.__cause__ = failed

    def result(self) -> T:
        """Give what the work gave, once it is durable.

        Raises:
            Exception: what it raised, or why it could not be made durable.
        """
        if self.failed is not None:
            raise self.failed
        if not self.done:
            raise unavailable(RuntimeError("it was not tried"))
        return cast(T, self.value)


class Database:
    """An open database. Get one from `open_database`."""

    def __init__(self, path: Path, witness: int, connection: apsw.Connection, journal: str) -> None:
        self.path = path
        self.journal = journal
        """The journal mode in use: ``wal`` or ``persist``."""
        self._witness = witness
        self._writing = connection
        self._content = 0
        self._of_parent = False
        connection.preupdate_hook(self._follow)
        self.id = store_of(path, connection)[0]
        # In WAL mode the last two are there, and stay, for as long as anybody has it open.
        names = ("store", "ledger.db", "ledger.db-wal", "ledger.db-shm")
        self._files = {name: str(path.with_name(name)) for name in names}
        self._identities = self._identify()

    # -- one transaction for many jobs ------------------------------------------------------------

    def commit(self, jobs: Sequence[Job[Any]]) -> None:
        """Do all jobs in one transaction, and make it durable before any of them has an end.

        Nothing is raised: each job has its value or its failure.
        """
        try:
            self._check_process()
            with self._turn():
                self._transact(jobs)
        except Exception as failed:
            for job in jobs:  # a refusal too may rest on what is not durable now
                job.fail(failed)
        else:
            for job in jobs:
                job.done = True

    def _transact(self, jobs: Sequence[Job[Any]]) -> None:
        connection = self._writing
        self._check_place()
        witnessed = self._check_file()
        connection.execute("BEGIN IMMEDIATE")
        try:
            commits = self._check_witness(witnessed)
            self._content = content_of(connection)
            before = connection.total_changes()
            for job in jobs:
                job.failed = None  # what is owed may have failed before
                self._do(job)
            if connection.total_changes() == before:
                connection.execute("ROLLBACK")
                return
            connection.execute(
                "UPDATE store SET commits = :commits, content = :content",
                {"commits": commits + 1, "content": self._content % CONTENTS},
            )
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self._bear_witness(commits + 1)

    def _do(self, job: Job[Any]) -> None:
        connection, before = self._writing, self._content
        connection.execute("SAVEPOINT job")
        try:
            job.value = job.work(Session(connection))
        except Exception as failed:
            if isinstance(failed, apsw.Error) and not isinstance(failed, _OF_A_JOB):
                raise  # the store's own fault, and so every job's
            own = isinstance(failed, _OF_A_JOB)
            job.failed = ValueError(f"the ledger cannot hold it: {failed}") if own else failed
            connection.execute("ROLLBACK TO job")
            self._content = before
        connection.execute("RELEASE job")

    def _follow(self, change: apsw.PreUpdate) -> None:
        """Keep account of what the attempts come to, with each change of one."""
        if change.table_name == "attempts":
            for row, sign in ((change.old, -1), (change.new, 1)):
                if row is not None:
                    number, _, fingerprint, state = row[:4]
                    self._content += sign * _weight(number, fingerprint, state)

    def read(self, look: Callable[[Session], T]) -> T:
        """Look at what is committed, beside any writer.

        Raises:
            Unverified: ``ledger.sound-store``.
        """
        self._check_process()
        try:
            self._check_place()
            connection = connect(self.path, apsw.SQLITE_OPEN_READONLY)
            try:
                connection.execute("BEGIN")
                self._check_id(store_of(self.path, connection)[0])
                return look(Session(connection))
            finally:
                connection.close()
        except (apsw.Error, OSError) as failed:
            raise unavailable(failed) from failed

    def check(self) -> str | None:
        """Read all of it, and say what is wrong with it, if anything."""

        def look(session: Session) -> str | None:
            found = [str(row[0]) for row in session.rows("PRAGMA integrity_check(3)")]
            if found != ["ok"]:
                return "; ".join(found)
            said = session.rows("SELECT content FROM store")
            held = weights(session.rows("SELECT number, fingerprint, state FROM attempts"))
            return None if said == [(held,)] else "it lacks changes that it says it has"

        return self.read(look)

    @property
    def file_system(self) -> str | None:
        """Name the file system that it lies on, where it is one that is known."""
        return stores.file_system(file_system_magic(self.path.parent))

    @property
    def sqlite_version(self) -> str:
        """Name the SQLite in use."""
        return str(apsw.sqlite_lib_version())

    def close(self) -> None:
        """Give it back."""
        if self._of_parent:
            return
        try:
            with contextlib.suppress(apsw.Error):
                witnessed = self._is_as_left()
                if witnessed is not None:
                    self._writing.config(NO_CHECKPOINT, 0)
                self._writing.close()
                if witnessed is not None:
                    self._bear_witness(witnessed.commits)
        finally:
            OPEN_HERE.pop(self._witness, None)
            os.close(self._witness)
            self._witness = -1  # the number may be another file's soon

    def leave_to_parent(self) -> None:
        """Never touch it again, in a child without an exec of its own: it is the parent's."""
        self._of_parent = True
        # SQLite in two processes on one connection is undefined, and to close it may wait for a
        # thread that is only in the parent.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._writing))

    # -- the witness ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        lock(self._witness)
        try:
            yield
        finally:
            fcntl.flock(self._witness, fcntl.LOCK_UN)

    def _check_process(self) -> None:
        if self._of_parent:
            raise Unverified(
                "ledger.full-disk",
                "STORE_UNAVAILABLE",
                because="The ledger was opened by the process that this one was forked from.",
                todo="Open an executor in this process too; or ask in the one that opened it.",
            )

    def _check_place(self) -> None:
        """Refuse to go on in a file that others do not find any more."""
        now = self._identify()
        for name, identity in self._identities.items():
            if now[name] != identity:
                raise unsound(
                    f"{self._files[name]} was removed or replaced while the ledger was in use."
                )

    def _identify(self) -> dict[str, tuple[int, int] | None]:
        return {name: identity_of(file) for name, file in self._files.items()}

    def _check_id(self, found: str) -> None:
        if found != self.id:
            raise unsound(f"{self.path} is the ledger of another state directory.")

    def _check_file(self) -> Witnessed:
        """Read all of it if its file is not as our last commit left it; give the witness."""
        witnessed = read_witness(self._witness)
        if witnessed is None:
            raise unsound(f"{self._files['store']} was emptied while it was in use.")
        if witnessed.shape != shape_of(self.path):
            # A connection of its own: the pages that ours remembers may not be those in the file.
            connection = connect(self.path, apsw.SQLITE_OPEN_READWRITE)
            try:
                check_content(self.path, connection, whole=True)
                check_witnessed(self.path, store_of(self.path, connection), witnessed)
            finally:
                connection.close()
            self._bear_witness(witnessed.commits)
        return witnessed

    def _check_witness(self, witnessed: Witnessed) -> int:
        found, commits = store_of(self.path, self._writing)
        self._check_id(found)
        check_version(self.path, self._writing)
        check_witnessed(self.path, (found, commits), witnessed)
        return commits

    def _is_as_left(self) -> Witnessed | None:
        """Take the lock for good, and give the witness if the files are as it says.

        Else the log is another's, or belongs to another file than lies there.
        """
        try:
            lock(self._witness, CLOSING_PATIENCE_S)
            witnessed = read_witness(self._witness)
            if witnessed is None or witnessed.shape != shape_of(self.path):
                return None
        except (Unverified, OSError):
            return None
        return witnessed if self._identify() == self._identities else None

    def _bear_witness(self, commits: int) -> None:
        try:
            write_witness(self._witness, self.id, commits, shape_of(self.path))
        except OSError as failed:  # what it would tell is durable, and it may lag behind
            log.warning("%s: %s", self._files["store"], failed)


OPEN_HERE: dict[int, Database | None] = {}
"""The witnesses that this very process has open, by descriptor, and their databases."""


def _leave_to_parent() -> None:
    """Let go, in a child without an exec of its own: it would hold its parent's locks."""
    for descriptor, database in OPEN_HERE.items():
        os.close(descriptor)
        if database is not None:
            database.leave_to_parent()
    OPEN_HERE.clear()


os.register_at_fork(after_in_child=_leave_to_parent)
