"""Hold a lock, a database's transaction or a file, as a program does that was stopped in its midst.

It is held until `let-go`, or the end of the case. A target that keeps no such file is not tested
by it.
"""

import fcntl
import os
from collections.abc import Callable
from typing import Literal

import apsw
import msgspec

from executor.testing.scene import Scene
from executor.testing.target import Unsupported


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``by``: an exclusive ``lock`` (flock); a transaction that ``writes`` or ``reads``; or having
    it ``open`` for writing, so that the kernel calls it busy."""

    file: str
    by: Literal["lock", "writes", "reads", "open"] = "lock"


async def act(scene: Scene, value: Value, name: str) -> None:
    """Hold it."""
    path = str(scene.house.root / scene.fill(value.file))
    if not os.path.isfile(path):
        raise Unsupported(f"there is no {os.path.basename(path)} to hold")
    if value.by in ("lock", "open"):
        let_go = _file(path, locked=value.by == "lock")
    else:
        let_go = _transaction(path, value.by)
    scene.held.callback(let_go)
    scene.notes[f"hold {name}"] = let_go


def _file(path: str, *, locked: bool) -> Callable[[], None]:
    descriptor = os.open(path, (os.O_RDONLY if locked else os.O_RDWR) | os.O_CLOEXEC)
    if locked:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    held = [descriptor]

    def let_go() -> None:
        while held:
            os.close(held.pop())

    return let_go


def _transaction(path: str, kind: str) -> Callable[[], None]:
    connection = apsw.Connection(path)
    connection.execute("BEGIN IMMEDIATE" if kind == "writes" else "BEGIN")
    connection.execute("SELECT COUNT(*) FROM sqlite_schema").fetchall()
    return connection.close
