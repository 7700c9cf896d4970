"""What was sent, whatever anybody says: the number of lines in ``sent.log``, or the lines."""

from collections.abc import Iterator
from typing import Any

from executor.testing.matching import Mismatch, compare, is_about_number
from executor.testing.scene import Scene

Value = int | list[Any] | dict[str, Any]


async def act(scene: Scene, value: Value) -> Iterator[Mismatch]:
    """Read the log."""
    lines = scene.house.sent()
    return compare(value, len(lines) if is_about_number(value) else lines)
