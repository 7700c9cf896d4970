"""Let the read-only `verify` command of a tool find out what became of an attempt."""

import msgspec

from executor.testing.scene import Scene


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``attempt`` is its id, as a rule ``${NAME.attempt}``."""

    attempt: str
    as_: str | None = msgspec.field(default=None, name="as")


async def act(scene: Scene, value: Value, name: str) -> None:
    """Ask."""
    answer = await scene.ask("find-out", attempt=scene.fill(value.attempt), who="ana")
    scene.told(name, answer)
