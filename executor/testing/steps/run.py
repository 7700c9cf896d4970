"""Ask for an action, and wait for its end, or until it is held before a stage of the gate.

``parameters``, ``files`` and ``request`` are merge patches on the usual request. ``pause`` names
the stage it is held before; `resume` lets it go on. ``times`` asks for the same so often at once,
as NAME-1, NAME-2 ...; ``apart`` does so from as many processes. ``process`` names another process
than the usual one. ``background`` does not wait.
"""

from typing import Annotated, Any

import msgspec

from executor.testing.scene import MAIN, Deviated, Scene


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See the module."""

    as_: str | None = msgspec.field(default=None, name="as")
    parameters: dict[str, Any] = {}
    files: dict[str, Any] = {}
    request: dict[str, Any] = {}
    pause: str | None = None
    times: Annotated[int, msgspec.Meta(ge=1, le=200)] = 1
    apart: bool = False
    process: str = MAIN
    background: bool = False


async def act(scene: Scene, value: Value, name: str) -> None:
    """Ask."""
    patch = {"parameters": value.parameters, "files": value.files, **value.request}
    names = [name] if value.times == 1 else [f"{name}-{n + 1}" for n in range(value.times)]
    processes = dict.fromkeys(names, value.process)
    if value.apart:
        processes = {one: one for one in names}
        for one in names:
            await scene.opened(one)
    runs = [await scene.start(one, patch, value.pause, processes[one]) for one in names]
    if not value.background:
        for run in runs:
            await run.until_still()
            if value.pause is not None and run.held_at is None:
                raise Deviated("pause", f"held before {value.pause}", run.answer)
