"""The receipts, by the name of the step: dotted paths in the receipt to values.

`{first: {predicate.result.status: delivered}}`; null where there must be none.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from executor.testing.matching import MISSING, Mismatch, compare
from executor.testing.scene import Scene

Value = dict[str, dict[str, Any] | None]
NAMED = True


async def act(scene: Scene, value: Value) -> Iterator[Mismatch]:
    """Ask the target, and compare."""
    misses: list[Mismatch] = []
    for name, expected in value.items():
        attempt = scene.answer(name).get("receipt")
        found = None if attempt is None else await scene.ask("receipt", attempt=attempt)
        if expected is None:
            misses += compare(None, found, (name,))
        else:
            for path, wanted in expected.items():
                misses += compare(wanted, _at(found, path), (name, path))
    return iter(misses)


def _at(value: Any, path: str) -> Any:
    for step in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(step, MISSING)
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return MISSING
    return value
