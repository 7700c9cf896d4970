"""The content of files, by path (a relative one is below ``${root}``); null where nothing is.

Of what is no file its kind is said: ``a directory``, ``a FIFO``, ``a link to PATH``.
"""

from collections.abc import Iterator
from typing import Any

from executor.testing import files
from executor.testing.matching import Mismatch, compare
from executor.testing.scene import Scene

Value = dict[str, Any]
NAMED = True


async def act(scene: Scene, value: Value) -> Iterator[Mismatch]:
    """Read, and compare."""
    found: dict[str, Any] = {}
    for name in value:
        path = scene.house.root / name
        found[name] = (
            path.read_bytes().decode("utf-8", "surrogateescape")
            if path.is_file()
            else files.kind(path)
        )
    return compare(value, found)
