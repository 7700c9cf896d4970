"""Move the clock that the executor reads: time passes, somebody sets it, the machine reboots."""

from typing import Annotated

import msgspec

from executor.testing.scene import Scene
from executor.testing.target import Broken
from executor.units import Duration


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``passes``: so much time goes by. ``ahead`` or ``back``: the wall's clock is set by so much.
    ``reboots``: this often the machine was started anew."""

    passes: Duration | None = None
    ahead: Duration | None = None
    back: Duration | None = None
    reboots: Annotated[int, msgspec.Meta(ge=0, le=100)] = 0


async def act(scene: Scene, value: Value, name: str) -> None:  # noqa: ARG001
    """Move it, for every process that is there and for those to come."""
    if value == Value():
        raise Broken("the clock would stay as it is")
    scene.clock["passed_ms"] += _ms(value.passes)
    scene.clock["wall_ms"] += _ms(value.ahead) - _ms(value.back)
    scene.clock["boots"] += value.reboots
    for target in scene.targets.values():
        if not target.gone.is_set():
            target.needs("clock")
            await target.call("clock", **scene.clock)


def _ms(duration: Duration | None) -> int:
    return 0 if duration is None else round(float(duration) * 1000)
