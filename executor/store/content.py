"""Content: is this file a ledger of ours, whole, and of a version that is known here?"""

import contextlib
import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import apsw

from executor.rules import stores
from executor.store import witness
from executor.store.faults import unsound

APPLICATION_ID = 0x5EA1ED01
SMALL_PAGES = 4096
"""A database of up to so many pages is checked whole when it is opened; a larger one by doctor, and
when its file is not as the last commit left it."""
NO_CHECKPOINT = apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE
CONTENTS = 2**63


def connect(path: Path, flags: int) -> apsw.Connection:
    """Open it in such a way that closing it again changes nothing."""
    connection = apsw.Connection(str(path), flags=flags | apsw.SQLITE_OPEN_NOFOLLOW)
    try:
        connection.config(NO_CHECKPOINT, 1)
        connection.set_busy_timeout(int(witness.PATIENCE_S * 1000))
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
    except BaseException:
        connection.close()
        raise
    return connection


def set_journal(path: Path, connection: apsw.Connection) -> str:
    """Put it into the journal mode that this SQLite can be trusted with; it is ours by now."""
    wanted = "wal" if stores.has_wal_reset_fix(sqlite_version()) else "persist"
    with contextlib.suppress(apsw.BusyError):
        connection.execute(f"PRAGMA journal_mode = {wanted}")
    found = str(connection.execute("PRAGMA journal_mode").fetchall()[0][0])
    if found != wanted:
        raise unsound(
            f"{path} is in journal mode {found} and cannot be put into {wanted}, which this SQLite "
            f"({apsw.sqlite_lib_version()}) needs: another program has it open."
        )
    return found


def check_content(path: Path, connection: apsw.Connection, *, whole: bool = False) -> None:
    """Refuse what is no ledger of ours, is damaged, or is of a later version.

    Args:
        whole: read all of it, however large, and see that no page of it is older than the rest.
    """
    application = _number(connection, "application_id")
    if application != APPLICATION_ID:
        raise unsound(f"{path} is no ledger of sealed-executor (application id {application}).")
    version = check_version(path, connection)
    if whole or _number(connection, "page_count") <= SMALL_PAGES:
        found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(1)")]
        if found != ["ok"]:
            raise unsound(f"{path} is damaged: {found[0]}.")
    if _schema(connection) != _expected_schema(version):
        raise unsound(f"{path} has tables that are not those of a ledger.")
    if whole:
        store_of(path, connection)
        with connection:  # one look, whoever writes meanwhile
            said = content_of(connection)
            rows = connection.execute("SELECT number, fingerprint, state FROM attempts")
            if weights(rows) != said:
                raise unsound(
                    f"{path} lacks changes that its newest page says it has: parts of it are "
                    "older than others. It was put back from a copy while its -wal file stayed."
                )


def check_version(path: Path, connection: apsw.Connection) -> int:
    version, newest = _number(connection, "user_version"), len(migrations())
    if version > newest:
        raise unsound(
            f"{path} has schema version {version}; this program knows them up to {newest}."
        )
    return version


def upgrade(path: Path, connection: apsw.Connection) -> None:
    migrate(connection, _number(connection, "user_version"))
    if _schema(connection) != _expected_schema(len(migrations())):
        raise unsound(f"{path} could not be brought to the schema of this program.")


def migrate(connection: apsw.Connection, version: int, upto: int | None = None) -> None:
    for number, script in enumerate(migrations()[version:upto], version + 1):
        with connection:
            connection.execute(script)
            connection.execute(f"PRAGMA user_version = {number}")


@cache
def migrations() -> list[str]:
    scripts = files("executor.store").joinpath("migrations").iterdir()
    return [one.read_text() for one in sorted(scripts, key=lambda one: one.name)]


def _expected_schema(version: int) -> list[tuple[Any, ...]]:
    model = apsw.Connection(":memory:")
    try:
        migrate(model, 0, version)
        return _schema(model)
    finally:
        model.close()


def _schema(connection: apsw.Connection) -> list[tuple[Any, ...]]:
    return connection.execute(
        # An underscore stands for any character in LIKE, and not in GLOB.
        "SELECT type, name, sql FROM sqlite_schema WHERE name NOT GLOB 'sqlite_*' ORDER BY name"
    ).fetchall()


def store_of(path: Path, connection: apsw.Connection) -> tuple[str, int]:
    """Give which store this is, and how many commits it has seen."""
    rows = connection.execute("SELECT id, commits FROM store").fetchall()
    if len(rows) != 1:
        raise unsound(f"{path} does not say which store it is.")
    return str(rows[0][0]), int(str(rows[0][1]))


def content_of(connection: apsw.Connection) -> int:
    """Give what the attempts come to, as the last commit says."""
    return int(str(connection.execute("SELECT content FROM store").fetchall()[0][0]))


def weights(rows: Iterable[tuple[Any, ...]]) -> int:
    """Give what attempts come to: a sum, so that a change of one needs no look at the others."""
    return sum(_weight(*row) for row in rows) % CONTENTS


def _weight(number: object, fingerprint: object, state: object) -> int:
    text = f"{number} {fingerprint} {state}".encode("utf-8", "backslashreplace")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def _number(connection: apsw.Connection, pragma: str) -> int:
    return int(str(connection.execute(f"PRAGMA {pragma}").fetchall()[0][0]))


def sqlite_version() -> stores.Version:
    major, minor, patch = (int(part) for part in apsw.sqlite_lib_version().split(".")[:3])
    return major, minor, patch
