"""Database: one SQLite file that is sound, or refused; one transaction for many jobs.

Beside it lies ``store``: the lock across processes, and a witness of which database belongs here,
how many commits it has seen and what its file looked like after the last. A database that is gone,
is another, or is an older copy of itself, in whole or in pages, is found out by it; none is ever
started afresh in its place.
"""

import contextlib
import copy
import ctypes
import fcntl
import hashlib
import logging
import os
import random
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar, cast

import apsw

from executor.finished import printable
from executor.refusal import Refused, Unverified
from executor.rules import stores

T = TypeVar("T")
log = logging.getLogger(__name__)

APPLICATION_ID = 0x5EA1ED01
PATIENCE_S = 10.0
"""Seconds that a transaction waits for another process's before it gives up."""
_CLOSING_PATIENCE_S = 1.0
"""Seconds that closing waits for it: a log that is left is no harm."""
_FIRST_PAUSE_S = 0.0001
_LONGEST_PAUSE_S = 0.004
SMALL_PAGES = 4096
"""A database of up to so many pages is checked whole when it is opened; a larger one by doctor, and
when its file is not as the last commit left it."""
_LIBC = ctypes.CDLL(None, use_errno=True)
_NO_CHECKPOINT = apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE
_NOT_OURS_TO_WRITE = (
    PermissionError,
    apsw.CantOpenError,
    apsw.PermissionsError,
    apsw.ReadOnlyError,
)
_OF_A_JOB = (apsw.ConstraintError, apsw.TooBigError)
"""Errors of SQLite that are about the values of a job, and not about the store."""
_CONTENTS = 2**63

Shape = tuple[int, int, int]
"""What a file looks like from outside: its number, its bytes, its last change in nanoseconds."""


class Witnessed(NamedTuple):
    """What the witness says: which store, how many commits, and the shape after the last."""

    id: str
    commits: int
    shape: Shape | None


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
        self.id = _store(path, connection)[0]
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
            self._content = _content(connection)
            before = connection.total_changes()
            for job in jobs:
                job.failed = None  # what is owed may have failed before
                self._do(job)
            if connection.total_changes() == before:
                connection.execute("ROLLBACK")
                return
            connection.execute(
                "UPDATE store SET commits = :commits, content = :content",
                {"commits": commits + 1, "content": self._content % _CONTENTS},
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
            connection = _connect(self.path, apsw.SQLITE_OPEN_READONLY)
            try:
                connection.execute("BEGIN")
                self._check_id(_store(self.path, connection)[0])
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
            held = _weights(session.rows("SELECT number, fingerprint, state FROM attempts"))
            return None if said == [(held,)] else "it lacks changes that it says it has"

        return self.read(look)

    @property
    def file_system(self) -> str | None:
        """Name the file system that it lies on, where it is one that is known."""
        return stores.file_system(_file_system_magic(self.path.parent))

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
                    self._writing.config(_NO_CHECKPOINT, 0)
                self._writing.close()
                if witnessed is not None:
                    self._bear_witness(witnessed.commits)
        finally:
            _OPEN_HERE.pop(self._witness, None)
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
        _lock(self._witness)
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
        return {name: _identity(file) for name, file in self._files.items()}

    def _check_id(self, found: str) -> None:
        if found != self.id:
            raise unsound(f"{self.path} is the ledger of another state directory.")

    def _check_file(self) -> Witnessed:
        """Read all of it if its file is not as our last commit left it; give the witness."""
        witnessed = _read_witness(self._witness)
        if witnessed is None:
            raise unsound(f"{self._files['store']} was emptied while it was in use.")
        if witnessed.shape != _shape(self.path):
            # A connection of its own: the pages that ours remembers may not be those in the file.
            connection = _connect(self.path, apsw.SQLITE_OPEN_READWRITE)
            try:
                _check_content(self.path, connection, whole=True)
                _compare(self.path, _store(self.path, connection), witnessed)
            finally:
                connection.close()
            self._bear_witness(witnessed.commits)
        return witnessed

    def _check_witness(self, witnessed: Witnessed) -> int:
        found, commits = _store(self.path, self._writing)
        self._check_id(found)
        _check_version(self.path, self._writing)
        _compare(self.path, (found, commits), witnessed)
        return commits

    def _is_as_left(self) -> Witnessed | None:
        """Take the lock for good, and give the witness if the files are as it says.

        Else the log is another's, or belongs to another file than lies there.
        """
        try:
            _lock(self._witness, _CLOSING_PATIENCE_S)
            witnessed = _read_witness(self._witness)
            if witnessed is None or witnessed.shape != _shape(self.path):
                return None
        except (Unverified, OSError):
            return None
        return witnessed if self._identify() == self._identities else None

    def _bear_witness(self, commits: int) -> None:
        try:
            _write_witness(self._witness, self.id, commits, _shape(self.path))
        except OSError as failed:  # what it would tell is durable, and it may lag behind
            log.warning("%s: %s", self._files["store"], failed)


# -- forks ----------------------------------------------------------------------------------------

_OPEN_HERE: dict[int, Database | None] = {}
"""The witnesses that this very process has open, by descriptor, and their databases."""


def _leave_to_parent() -> None:
    """Let go, in a child without an exec of its own: it would hold its parent's locks."""
    for descriptor, database in _OPEN_HERE.items():
        os.close(descriptor)
        if database is not None:
            database.leave_to_parent()
    _OPEN_HERE.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


# -- opening --------------------------------------------------------------------------------------


def open_database(directory: Path, *, used_before: bool) -> Database:
    """Open the database of a state directory; make one only where there never was any.

    Args:
        directory: private, of mode 0700.
        used_before: something else shows that this state directory has had a ledger.
    Raises:
        Unverified: ``ledger.sound-store``.
    """
    path, store = directory / "ledger.db", directory / "store"
    try:
        _check_ground(directory)
        for name in ("store", "ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.db-journal"):
            _check_file(directory / name)
        if _was_there(path, used_before=used_before) and not store.exists():
            raise unsound(f"{store} is gone, and this state directory has been used before.")
        witness = os.open(store, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        _OPEN_HERE[witness] = None
        try:
            _lock(witness)
            database = _open(path, witness, used_before=used_before)
            _OPEN_HERE[witness] = database
            fcntl.flock(witness, fcntl.LOCK_UN)
        except BaseException:
            del _OPEN_HERE[witness]
            os.close(witness)
            raise
    except (apsw.Error, OSError) as failed:
        raise unavailable(failed) from failed
    return database


def _was_there(path: Path, *, used_before: bool) -> bool:
    # SQLite would take a log that is left for one of the new database.
    logs = (path.with_name(f"ledger.db-{kind}") for kind in ("wal", "journal"))
    return used_before or path.exists() or any(log.exists() for log in logs)


def _open(path: Path, witness: int, *, used_before: bool) -> Database:
    witnessed = _read_witness(witness)
    if not path.exists():
        if witnessed is not None or _was_there(path, used_before=used_before):
            raise unsound(f"{path} is gone, and this state directory has been used before.")
        _create(path)
    elif not path.stat().st_size:
        raise unsound(f"{path} is empty, and this state directory has been used before.")
    logs = (path.with_name("ledger.db-wal"), path.with_name("ledger.db-shm"))
    with contextlib.ExitStack() as undo:
        undo.callback(_remove, [log for log in logs if not log.exists()])
        as_left = witnessed is not None and witnessed.shape == _shape(path)
        connection = _connect(path, apsw.SQLITE_OPEN_READWRITE)
        undo.callback(connection.close)
        _check_content(path, connection, whole=not as_left)
        found = _store(path, connection)
        if witnessed is not None:
            _compare(path, found, witnessed)
        elif found[1]:
            raise unsound(f"{path.with_name('store')} is empty, and the ledger is not new.")
        _upgrade(path, connection)
        database = Database(path, witness, connection, _set_journal(path, connection))
        if witnessed is None or witnessed.shape != _shape(path):
            _write_witness(witness, *found, _shape(path))
        if witnessed is None:
            os.fsync(witness)
        _sync_directory(path.parent)
        undo.pop_all()
    return database


def _remove(logs: Sequence[Path]) -> None:
    """Remove the log and its index that came with a look; nobody else has it open."""
    for log in logs:
        if log.exists() and (log.name.endswith("-shm") or not log.stat().st_size):
            log.unlink()


def _create(path: Path) -> None:
    """Make a whole database under another name first: one that is there is complete."""
    unfinished = path.with_name("ledger.new")
    for left in path.parent.glob("ledger.new*"):
        left.unlink()
    os.close(os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = apsw.Connection(str(unfinished), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA synchronous = EXTRA")
        _migrate(connection, 0)
        connection.execute(
            "INSERT INTO store (id, commits, content) VALUES (:id, 0, 0)",
            {"id": os.urandom(16).hex()},
        )
    finally:
        connection.close()
    unfinished.rename(path)
    _sync_directory(path.parent)


def _connect(path: Path, flags: int) -> apsw.Connection:
    """Open it in such a way that closing it again changes nothing."""
    connection = apsw.Connection(str(path), flags=flags | apsw.SQLITE_OPEN_NOFOLLOW)
    try:
        connection.config(_NO_CHECKPOINT, 1)
        connection.set_busy_timeout(int(PATIENCE_S * 1000))
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
    except BaseException:
        connection.close()
        raise
    return connection


def _set_journal(path: Path, connection: apsw.Connection) -> str:
    """Put it into the journal mode that this SQLite can be trusted with; it is ours by now."""
    wanted = "wal" if stores.has_wal_reset_fix(_sqlite_version()) else "persist"
    with contextlib.suppress(apsw.BusyError):
        connection.execute(f"PRAGMA journal_mode = {wanted}")
    found = str(connection.execute("PRAGMA journal_mode").fetchall()[0][0])
    if found != wanted:
        raise unsound(
            f"{path} is in journal mode {found} and cannot be put into {wanted}, which this SQLite "
            f"({apsw.sqlite_lib_version()}) needs: another program has it open."
        )
    return found


def _check_content(path: Path, connection: apsw.Connection, *, whole: bool = False) -> None:
    """Refuse what is no ledger of ours, is damaged, or is of a later version.

    Args:
        whole: read all of it, however large, and see that no page of it is older than the rest.
    """
    application = _number(connection, "application_id")
    if application != APPLICATION_ID:
        raise unsound(f"{path} is no ledger of sealed-executor (application id {application}).")
    version = _check_version(path, connection)
    if whole or _number(connection, "page_count") <= SMALL_PAGES:
        found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(1)")]
        if found != ["ok"]:
            raise unsound(f"{path} is damaged: {found[0]}.")
    if _schema(connection) != _expected_schema(version):
        raise unsound(f"{path} has tables that are not those of a ledger.")
    if whole:
        _store(path, connection)
        with connection:  # one look, whoever writes meanwhile
            said = _content(connection)
            rows = connection.execute("SELECT number, fingerprint, state FROM attempts")
            if _weights(rows) != said:
                raise unsound(
                    f"{path} lacks changes that its newest page says it has: parts of it are "
                    "older than others. It was put back from a copy while its -wal file stayed."
                )


def _check_version(path: Path, connection: apsw.Connection) -> int:
    version, newest = _number(connection, "user_version"), len(_migrations())
    if version > newest:
        raise unsound(
            f"{path} has schema version {version}; this program knows them up to {newest}."
        )
    return version


def _upgrade(path: Path, connection: apsw.Connection) -> None:
    _migrate(connection, _number(connection, "user_version"))
    if _schema(connection) != _expected_schema(len(_migrations())):
        raise unsound(f"{path} could not be brought to the schema of this program.")


def _migrate(connection: apsw.Connection, version: int, upto: int | None = None) -> None:
    for number, script in enumerate(_migrations()[version:upto], version + 1):
        with connection:
            connection.execute(script)
            connection.execute(f"PRAGMA user_version = {number}")


@cache
def _migrations() -> list[str]:
    scripts = files("executor.store").joinpath("migrations").iterdir()
    return [one.read_text() for one in sorted(scripts, key=lambda one: one.name)]


def _expected_schema(version: int) -> list[tuple[Any, ...]]:
    model = apsw.Connection(":memory:")
    try:
        _migrate(model, 0, version)
        return _schema(model)
    finally:
        model.close()


def _schema(connection: apsw.Connection) -> list[tuple[Any, ...]]:
    return connection.execute(
        # An underscore stands for any character in LIKE, and not in GLOB.
        "SELECT type, name, sql FROM sqlite_schema WHERE name NOT GLOB 'sqlite_*' ORDER BY name"
    ).fetchall()


def _store(path: Path, connection: apsw.Connection) -> tuple[str, int]:
    """Give which store this is, and how many commits it has seen."""
    rows = connection.execute("SELECT id, commits FROM store").fetchall()
    if len(rows) != 1:
        raise unsound(f"{path} does not say which store it is.")
    return str(rows[0][0]), int(str(rows[0][1]))


def _content(connection: apsw.Connection) -> int:
    """Give what the attempts come to, as the last commit says."""
    return int(str(connection.execute("SELECT content FROM store").fetchall()[0][0]))


def _weights(rows: Iterable[tuple[Any, ...]]) -> int:
    """Give what attempts come to: a sum, so that a change of one needs no look at the others."""
    return sum(_weight(*row) for row in rows) % _CONTENTS


def _weight(number: object, fingerprint: object, state: object) -> int:
    text = f"{number} {fingerprint} {state}".encode("utf-8", "backslashreplace")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def _number(connection: apsw.Connection, pragma: str) -> int:
    return int(str(connection.execute(f"PRAGMA {pragma}").fetchall()[0][0]))


def _sqlite_version() -> stores.Version:
    major, minor, patch = (int(part) for part in apsw.sqlite_lib_version().split(".")[:3])
    return major, minor, patch


# -- files ----------------------------------------------------------------------------------------


def _check_ground(directory: Path) -> None:
    magic = _file_system_magic(directory)
    if stores.file_system(magic) is None:
        raise unsound(
            f"{directory} lies on a file system whose locks and syncs cannot be relied on (statfs "
            f"says {magic:#x}): a network's, one in user space, or one that is not known."
        )


def _file_system_magic(directory: Path) -> int:
    """Give ``f_type`` of statfs(2), its first word; `os.statvfs` leaves it out."""
    facts = (ctypes.c_long * 64)()
    if _LIBC.statfs(os.fsencode(directory), facts) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return int(facts[0]) & 0xFFFFFFFF


def _check_file(path: Path) -> None:
    try:
        # Never open it here: closing any descriptor of a database drops SQLite's locks on it.
        facts = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(facts.st_mode):
        raise unsound(f"{path} is no regular file.")
    if not stores.is_private(facts.st_mode, facts.st_uid, os.geteuid()):
        raise unsound(
            f"{path} can be changed by others, or not by its user: it belongs to user "
            f"{facts.st_uid} and has mode {stat.S_IMODE(facts.st_mode):04o}, not 0600."
        )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        facts = os.lstat(path)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def _shape(path: Path) -> Shape:
    facts = os.lstat(path)
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


def _lock(descriptor: int, patience: float | None = None) -> None:
    """Take the lock, or give up after a time: its holder may have been stopped."""
    end = time.monotonic() + (PATIENCE_S if patience is None else patience)
    pause = _FIRST_PAUSE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise Unverified(
                    "ledger.full-disk",
                    "STORE_UNAVAILABLE",
                    because=f"Another process has been writing to the ledger for {PATIENCE_S:.0f} "
                    "seconds, and may have been stopped.",
                    todo="Let it go on, or end it; then ask again.",
                ) from None
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - so that not all ask at once
            pause = min(pause * 2, _LONGEST_PAUSE_S)
        else:
            return


def _read_witness(descriptor: int) -> Witnessed | None:
    text = os.pread(descriptor, 300, 0).decode("ascii", "replace")
    if not text:
        return None
    try:
        kind, identity, commits, *shape = text.split()
        if kind != "sealed-executor":
            raise ValueError
        if not shape:  # of an earlier program
            return Witnessed(identity, int(commits), None)
        number, size, changed = map(int, shape)
        return Witnessed(identity, int(commits), (number, size, changed))
    except ValueError:
        raise unsound("The file `store` of the state directory is damaged.") from None


def _compare(path: Path, found: tuple[str, int], witnessed: Witnessed) -> None:
    """Refuse another ledger than the witness saw, or an older one."""
    if found[0] != witnessed.id:
        raise unsound(f"{path} is the ledger of another state directory.")
    if found[1] < witnessed.commits:
        raise unsound(
            f"{path} is older than it should be: it has seen {found[1]} commits of "
            f"{witnessed.commits}. It was put back from a copy, or its -wal file was removed."
        )


def _write_witness(descriptor: int, identity: str, commits: int, shape: Shape) -> None:
    """Write it in place, all of one length, and unsynced: it may lag behind, never run ahead."""
    numbers = " ".join(f"{number:020d}" for number in (commits, *shape))
    os.pwrite(descriptor, f"sealed-executor {identity} {numbers}\n".encode(), 0)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# -- errors ---------------------------------------------------------------------------------------


def unsound(because: str) -> Unverified:
    """Give the refusal of a store that cannot be relied on."""
    return Unverified(
        "ledger.sound-store",
        "STORE_UNAVAILABLE",
        because=because,
        todo="Nothing was repaired, and nothing runs. Put the ledger back as it was (store, "
        "ledger.db and ledger.db-wal), on a local disk and for this user alone; or begin a new "
        "state directory, which knows nothing of what was delivered before.",
    )


def unavailable(failed: Exception) -> Refused:
    """Give the refusal of a store that could not be used."""
    if isinstance(failed, apsw.CorruptError | apsw.NotADBError | apsw.FormatError | apsw.SQLError):
        return unsound(f"The ledger is damaged: {failed}.")
    found = getattr(failed, "strerror", None) or str(failed) or type(failed).__name__
    if isinstance(failed, _NOT_OURS_TO_WRITE):
        because = f"The ledger cannot be written: {found}."
        todo = (
            "Let the state directory (mode 0700), and ledger.db, ledger.db-wal, ledger.db-shm and "
            "store in it (0600), be this user's to write; then ask again."
        )
    else:
        because = f"The ledger could not be made durable: {found}."
        todo = (
            "Make room on the disk of the state directory, and make sure that nothing else keeps "
            "ledger.db locked; then ask again."
        )
    return Unverified("ledger.full-disk", "STORE_UNAVAILABLE", because=because, todo=todo)
