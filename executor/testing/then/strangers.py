"""Whether the processes that `stranger` steps started are alive still: `{NAME: true}`."""

from collections.abc import Iterator

from executor.testing.matching import Mismatch, compare
from executor.testing.scene import Scene

Value = dict[str, bool]
NAMED = True


async def act(scene: Scene, value: Value) -> Iterator[Mismatch]:
    """Look, and compare."""
    return compare(value, {name: scene.notes[f"stranger {name}"].poll() is None for name in value})
