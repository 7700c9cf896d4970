"""Wait until the world outside has come so far: lines in ``sent.log``, started fakes, a file.

``left`` waits until no more than so many processes of the commands are there.
"""

from pathlib import Path

import msgspec

from executor.testing.scene import Scene
from executor.testing.target import Broken


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``sent`` lines, ``recorded`` starts of a fake, a ``file`` that is there: each given."""

    sent: int = 0
    recorded: int = 0
    file: str | None = None
    left: int | None = None


async def act(scene: Scene, value: Value, name: str) -> None:  # noqa: ARG001
    """Wait."""
    if value == Value():
        raise Broken("nothing is waited for")
    house, value = scene.house, scene.fill(value)

    def so_far() -> bool:
        return (
            len(house.sent()) >= value.sent
            and len(house.recorded()) >= value.recorded
            and (value.file is None or Path(value.file).exists())
            and (value.left is None or scene.left() <= value.left)
        )

    await scene.until(so_far, f"{value}")
