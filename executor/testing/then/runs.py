"""How often the fakes were started: a number for all of them, or one for each command."""

from collections.abc import Iterator
from typing import Any

from executor.testing.matching import Mismatch, compare, is_about_number
from executor.testing.scene import Scene
from executor.testing.target import Broken

Value = int | dict[str, Any]


async def act(scene: Scene, value: Value) -> Iterator[Mismatch]:
    """Count their records."""
    if not isinstance(value, dict) or is_about_number(value):
        return compare(value, len(scene.house.recorded()))
    for name in value:
        if not scene.house.has(name):
            raise Broken(f"no command {name!r} could have been started")
    return compare(value, {name: len(scene.house.recorded(name)) for name in value})
