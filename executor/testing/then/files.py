"""The files in the working directory of the last started fake, exactly: path to content.

A file of more than 4 KiB stands with its SHA-256 in the place of its content.
"""

from collections.abc import Iterator
from typing import Any

from executor.testing.matching import MISSING, Mismatch, compare
from executor.testing.scene import Scene

Value = dict[str, Any]


async def act(scene: Scene, value: Value) -> Iterator[Mismatch]:
    """Compare."""
    entries = scene.last_record()["files"]
    if entries is MISSING:
        return compare(value, entries)
    found = {
        one["path"]: one.get("content", one.get("sha256"))
        for one in entries
        if one["type"] == "file"
    }
    return compare(value, found)
