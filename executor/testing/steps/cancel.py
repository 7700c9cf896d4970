"""Have the caller of a run give it up, and wait for its end."""

from executor.testing.scene import Scene
from executor.testing.target import Broken

Value = str


async def act(scene: Scene, value: Value, name: str) -> None:  # noqa: ARG001
    """Cancel it."""
    run = scene.runs.get(value)
    if run is None or run.answer is not None:
        raise Broken(f"{scene.case.where}: no run {value!r} is under way")
    run.target.needs("cancel")
    run.held_at = None
    await run.target.call("cancel", run=value)
    await run.until_still()
