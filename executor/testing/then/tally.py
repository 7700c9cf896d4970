"""How many answers had each status or code: `{delivered: 1, DUPLICATE_IN_FLIGHT: 7}`.

An answer counts under its code, and without one under its status. No other may have come. Where
chance decides between several, one count is for all of them: `A or B: 7`.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from executor.testing.matching import Mismatch, compare
from executor.testing.scene import Scene

Value = dict[str, Any]
NAMED = True


async def act(scene: Scene, value: Value) -> Iterator[Mismatch]:
    """Count, and compare."""
    together = {word: words for words in value for word in words.split(" or ")}
    words = (str(one.get("code") or one.get("status")) for one in scene.answers.values())
    return compare(value, dict(Counter(together.get(word, word) for word in words)))
