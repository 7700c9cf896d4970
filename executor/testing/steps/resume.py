"""Let a run that is held go on, and wait for its end."""

from executor.testing.scene import Scene
from executor.testing.target import Broken

Value = str


async def act(scene: Scene, value: Value, name: str) -> None:  # noqa: ARG001
    """Let it go on."""
    run = scene.runs.get(value)
    if run is None or run.held_at is None:
        raise Broken(f"{scene.case.where}: no run {value!r} is held")
    run.held_at = None
    await run.target.call("resume", run=value)
    await run.until_still()
