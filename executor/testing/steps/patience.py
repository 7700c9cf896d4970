"""From now on the executor waits no longer than this for whoever writes to its store."""

from executor.testing.scene import MAIN, Scene
from executor.units import Duration

Value = Duration


async def act(scene: Scene, value: Value, name: str) -> None:  # noqa: ARG001
    """Tell it."""
    target = await scene.process(MAIN)
    target.needs("patience")
    await target.call("patience", ms=round(float(value) * 1000))
