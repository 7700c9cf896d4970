"""What is left when all is over: processes of the commands, and entries below paths.

`{processes: 0, "${state}/staging": []}`: a path's value is the sorted names in it, none where
nothing is.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from executor.testing import files
from executor.testing.matching import Mismatch, compare
from executor.testing.scene import Scene

Value = dict[str, Any]
NAMED = True


async def act(scene: Scene, value: Value) -> Iterator[Mismatch]:
    """Look, and compare."""
    found: dict[str, Any] = {}
    for name in value:
        if name == "processes":
            found[name] = scene.left()
        else:
            path = scene.house.root / name
            found[name] = _names(path)
    return compare(value, found)


def _names(path: Path) -> list[str]:
    if path.is_dir():
        return sorted(os.listdir(path))
    kind = files.kind(path)
    return [] if kind is None else [f"({kind})"]
