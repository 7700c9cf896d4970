"""Decide, as a person does, what became of an unresolved attempt."""

import msgspec

from executor.testing.scene import Scene


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``attempt`` is its id, as a rule ``${NAME.attempt}``."""

    attempt: str
    delivered: bool
    as_: str | None = msgspec.field(default=None, name="as")
    result_id: str | None = msgspec.field(default=None, name="result-id")
    why: str = "somebody looked"


async def act(scene: Scene, value: Value, name: str) -> None:
    """Decide."""
    answer = await scene.ask(
        "resolve",
        attempt=scene.fill(value.attempt),
        delivered=value.delivered,
        result_id=value.result_id,
        who="ana",
        why=value.why,
    )
    scene.told(name, answer)
