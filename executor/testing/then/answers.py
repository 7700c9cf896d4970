"""What the caller was told, by the name of the step: of each result the keys written here."""

from collections.abc import Iterator
from typing import Any

from executor.testing.matching import Mismatch, compare
from executor.testing.scene import Scene

Value = dict[str, dict[str, Any]]
NAMED = True


async def act(scene: Scene, value: Value) -> Iterator[Mismatch]:
    """Compare."""
    return (
        miss
        for name, expected in value.items()
        for miss in compare(expected, scene.answer(name), (name,), exact=False)
    )
