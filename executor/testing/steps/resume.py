"""Let a run that is held go on, and wait for its end.

A name that was asked for several ``times`` stands for all of them. ``background`` does not wait.
"""

import msgspec

from executor.testing.scene import Scene
from executor.testing.target import Broken


class Resumed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See the module."""

    run: str
    background: bool = False


Value = str | Resumed


async def act(scene: Scene, value: Value, name: str) -> None:  # noqa: ARG001
    """Let it go on."""
    wanted = Resumed(value) if isinstance(value, str) else value
    runs = [run for run in scene.runs_of(wanted.run) if run.held_at is not None]
    if not runs:
        raise Broken(f"{scene.case.where}: no run {wanted.run!r} is held")
    for run in runs:
        run.held_at = None
        await run.target.call("resume", run=run.name)
    if not wanted.background:
        for run in runs:
            await run.until_still()
