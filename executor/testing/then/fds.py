"""The open descriptors of the last started fake, number to what they lead to, exactly."""

from collections.abc import Iterator
from typing import Any

from executor.testing.matching import Mismatch, compare
from executor.testing.scene import Scene

Value = dict[str, Any]


async def act(scene: Scene, value: Value) -> Iterator[Mismatch]:
    """Compare."""
    return compare(value, scene.last_record()["fds"])
