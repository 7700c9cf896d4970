"""Kill a process of the executor with SIGKILL; the next step that needs one starts another."""

import msgspec

from executor.testing.scene import MAIN, Scene


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``process`` names which."""

    process: str = MAIN


async def act(scene: Scene, value: Value, name: str) -> None:  # noqa: ARG001
    """Kill it; the runs in it end as `gone`."""
    target = await scene.process(value.process)
    await target.kill()
    for run in scene.runs.values():
        if run.target is target:
            run.held_at = None
            await run.until_still()
