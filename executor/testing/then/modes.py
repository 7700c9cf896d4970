"""The modes of paths (a relative one is in ``${root}``): four octal digits; null for nothing."""

import os
import stat
from collections.abc import Iterator
from typing import Any

from executor.testing.matching import Mismatch, compare
from executor.testing.scene import Scene

Value = dict[str, Any]
NAMED = True


async def act(scene: Scene, value: Value) -> Iterator[Mismatch]:
    """Look, and compare."""
    found: dict[str, Any] = {}
    for name in value:
        path = scene.house.root / name
        found[name] = (
            f"{stat.S_IMODE(os.lstat(path).st_mode):04o}" if os.path.lexists(path) else None
        )
    return compare(value, found)
