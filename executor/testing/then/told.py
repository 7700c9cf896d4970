"""What the caller was told last: the keys of a result that are written here."""

from collections.abc import Iterator
from typing import Any

from executor.testing.matching import Mismatch, compare
from executor.testing.scene import Scene

Value = dict[str, Any]
NAMED = True


async def act(scene: Scene, value: Value) -> Iterator[Mismatch]:
    """Compare."""
    return compare(value, scene.last_answer(), exact=False)
