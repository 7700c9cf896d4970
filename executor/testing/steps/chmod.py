"""Change the mode of a path, or its owner."""

import os
from typing import Annotated

import msgspec

from executor.testing.scene import Scene
from executor.testing.target import Broken


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``mode`` is octal, as chmod takes it; ``owner`` a number."""

    file: str
    mode: Annotated[str, msgspec.Meta(pattern="^[0-7]{3,4}$")] | None = None
    owner: int | None = None


async def act(scene: Scene, value: Value, name: str) -> None:  # noqa: ARG001
    """Change it."""
    if (value.owner, value.mode) == (None, None):
        raise Broken("neither a mode nor an owner: nothing would change")
    path = scene.place(scene.fill(value.file))
    if value.owner is not None:
        os.chown(path, value.owner, -1)
    if value.mode is not None:
        path.chmod(int(value.mode, 8))
