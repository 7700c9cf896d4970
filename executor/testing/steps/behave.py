"""Have a fake behave otherwise from now on; its bytes stay the same."""

from typing import Any

import msgspec

from executor.testing.scene import Scene


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``plan`` is a patch on the usual plan, as in `commands`."""

    plan: dict[str, Any]
    command: str = "post"


async def act(scene: Scene, value: Value, name: str) -> None:  # noqa: ARG001
    """Give it another plan."""
    scene.house.plan(value.command, scene.fill(value.plan))
