"""Change a database as its owner can, in one transaction: what cannot be made to happen otherwise.

A target that keeps no such database is not tested by it.
"""

import apsw
import msgspec

from executor.testing.scene import PATIENCE_S, Scene
from executor.testing.target import Unsupported


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``do`` is a statement of SQLite; ``file`` is below ``${root}``, or absolute."""

    do: str
    file: str = "${state}/ledger.db"


async def act(scene: Scene, value: Value, name: str) -> None:  # noqa: ARG001
    """Change it."""
    value = scene.fill(value)
    path = scene.place(value.file)
    if not path.is_file():
        raise Unsupported(f"there is no database {path.name}")
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(round(PATIENCE_S * 1000))  # an executor may be writing
    try:
        connection.execute(value.do)
    finally:
        connection.close()
