"""Let go of what a `hold` step holds, by its name."""

from executor.testing.scene import Scene
from executor.testing.target import Broken

Value = str


async def act(scene: Scene, value: Value, name: str) -> None:  # noqa: ARG001
    """Let go of it."""
    let_go = scene.notes.pop(f"hold {value}", None)
    if let_go is None:
        raise Broken(f"{scene.case.where}: nothing is held as {value!r}")
    let_go()
