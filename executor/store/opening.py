"""Opening: find a sound ledger, make one where there never was any, or refuse.

Nothing is written before everything was looked at, and none is ever begun afresh in the place of
another.
"""

import contextlib
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

import apsw

from executor.store.content import (
    APPLICATION_ID,
    check_content,
    connect,
    migrate,
    set_journal,
    store_of,
    upgrade,
)
from executor.store.database import OPEN_HERE, Database
from executor.store.faults import unavailable, unsound
from executor.store.ground import check_file, check_ground, shape_of, sync_directory
from executor.store.witness import check_witnessed, lock, read_witness, write_witness


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
        check_ground(directory)
        for name in ("store", "ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.db-journal"):
            check_file(directory / name)
        if _was_there(path, used_before=used_before) and not store.exists():
            raise unsound(f"{store} is gone, and this state directory has been used before.")
        witness = os.open(store, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        OPEN_HERE[witness] = None
        try:
            lock(witness)
            database = _open(path, witness, used_before=used_before)
            OPEN_HERE[witness] = database
            fcntl.flock(witness, fcntl.LOCK_UN)
        except BaseException:
            del OPEN_HERE[witness]
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
    witnessed = read_witness(witness)
    if not path.exists():
        if witnessed is not None or _was_there(path, used_before=used_before):
            raise unsound(f"{path} is gone, and this state directory has been used before.")
        _create(path)
    elif not path.stat().st_size:
        raise unsound(f"{path} is empty, and this state directory has been used before.")
    logs = (path.with_name("ledger.db-wal"), path.with_name("ledger.db-shm"))
    with contextlib.ExitStack() as undo:
        undo.callback(_remove, [log for log in logs if not log.exists()])
        as_left = witnessed is not None and witnessed.shape == shape_of(path)
        connection = connect(path, apsw.SQLITE_OPEN_READWRITE)
        undo.callback(connection.close)
        check_content(path, connection, whole=not as_left)
        found = store_of(path, connection)
        if witnessed is not None:
            check_witnessed(path, found, witnessed)
        elif found[1]:
            raise unsound(f"{path.with_name('store')} is empty, and the ledger is not new.")
        upgrade(path, connection)
        database = Database(path, witness, connection, set_journal(path, connection))
        if witnessed is None or witnessed.shape != shape_of(path):
            write_witness(witness, *found, shape_of(path))
        if witnessed is None:
            os.fsync(witness)
        sync_directory(path.parent)
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
        migrate(connection, 0)
        connection.execute(
            "INSERT INTO store (id, commits, content) VALUES (:id, 0, 0)",
            {"id": os.urandom(16).hex()},
        )
    finally:
        connection.close()
    unfinished.rename(path)
    sync_directory(path.parent)
