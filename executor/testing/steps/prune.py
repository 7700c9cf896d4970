"""Forget settled attempts that are older than they need to be."""

import msgspec

from executor.testing.scene import Scene
from executor.units import Duration


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``keep``: younger ones stay."""

    keep: Duration
    as_: str | None = msgspec.field(default=None, name="as")


async def act(scene: Scene, value: Value, name: str) -> None:
    """Prune."""
    scene.told(name, await scene.ask("prune", keep_s=float(value.keep)))
