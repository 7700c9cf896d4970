"""Exchange a path with something else, there and back, again and again, until all is over.

For what looks twice: whoever asks first what a path is, and then opens it, gets the wrong one.
"""

import ctypes
import os
from pathlib import Path

import msgspec
import trio

from executor.testing import files
from executor.testing.scene import Scene
from executor.testing.target import Broken

_LIBC = ctypes.CDLL(None, use_errno=True)
_HERE, _RENAME_EXCHANGE = -100, 2  # fcntl.h, renameat2(2)
_AT_ONCE = 20


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``by`` is what takes the place of ``file`` for moments."""

    file: str
    by: files.Content


async def act(scene: Scene, value: Value, name: str) -> None:  # noqa: ARG001
    """Begin, and go on beside the steps to come."""
    value = scene.fill(value)
    path = scene.place(value.file)
    other = path.with_name(f".{path.name}.other")
    files.put(other, value.by)
    await scene.opened()

    async def exchange() -> None:
        while not all(target.gone.is_set() for target in scene.targets.values()):
            for _ in range(_AT_ONCE):
                _exchange(path, other)
                _exchange(other, path)
            await trio.lowlevel.checkpoint()

    _exchange(path, other)  # once by itself: where that cannot be done, it is said here
    scene.beside(exchange)


def _exchange(one: Path, other: Path) -> None:
    """In one step: there is no moment in which nothing is there."""
    words = (_HERE, os.fsencode(one), _HERE, os.fsencode(other), _RENAME_EXCHANGE)
    if _LIBC.renameat2(*words) != 0:
        raise Broken(f"{one} cannot be exchanged: {os.strerror(ctypes.get_errno())}")
