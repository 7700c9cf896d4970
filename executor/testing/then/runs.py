"""How often the fakes were started: a number for all of them, or one for each command."""

from collections.abc import Iterator
from typing import Any

from executor.testing.matching import Mismatch, compare
from executor.testing.scene import Scene

Value = int | dict[str, Any]


async def act(scene: Scene, value: Value) -> Iterator[Mismatch]:
    """Count their records."""
    if not isinstance(value, dict):
        return compare(value, len(scene.house.recorded()))
    return compare(value, {name: len(scene.house.recorded(name)) for name in value})
