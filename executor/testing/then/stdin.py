"""What the last started fake read from its stdin."""

from collections.abc import Iterator
from typing import Any

from executor.testing.matching import Mismatch, compare
from executor.testing.scene import Scene

Value = str | dict[str, Any]


async def act(scene: Scene, value: Value) -> Iterator[Mismatch]:
    """Compare."""
    return compare(value, scene.last_record()["stdin"])
