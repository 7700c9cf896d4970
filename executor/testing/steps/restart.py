"""Close the executor properly; the next step that needs one starts another process."""

import msgspec

from executor.testing.scene import MAIN, Scene


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``process`` names which."""

    process: str = MAIN


async def act(scene: Scene, value: Value, name: str) -> None:  # noqa: ARG001
    """Close it, and wait until it is gone."""
    target = await scene.process(value.process)
    await target.call("close")
    await target.gone.wait()
