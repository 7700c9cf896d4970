"""The attempts in the ledger, in the order of their claims: each its state, or some of its keys."""

from collections.abc import Iterator
from typing import Any

from executor.testing.matching import Mismatch, compare
from executor.testing.scene import Scene
from executor.testing.target import Unsupported

Value = list[Any] | dict[str, Any]


async def act(scene: Scene, value: Value) -> Iterator[Mismatch]:
    """Ask the target, and compare."""
    said = await scene.ask("ledger")
    if "attempts" not in said:
        raise Unsupported(f"the ledger cannot be looked at: {said.get('code')}")
    attempts = said["attempts"]
    if not isinstance(value, list):
        return compare(value, [one["state"] for one in attempts])
    if len(value) != len(attempts):
        return compare(value, [one["state"] for one in attempts])
    return (
        miss
        for index, (expected, attempt) in enumerate(zip(value, attempts, strict=True))
        for miss in compare(
            expected,
            attempt["state"] if isinstance(expected, str) else attempt,
            (index,),
            exact=False,
        )
    )
