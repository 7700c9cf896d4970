"""Texts that must be nowhere below a directory: `{"${state}": [SECRET]}`.

Looked for in the bytes of every file, in every name, and in what links lead to.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from executor.testing.matching import Mismatch, compare
from executor.testing.scene import Scene

Value = dict[str, list[str]]


async def act(scene: Scene, value: Value) -> Iterator[Mismatch]:
    """Look."""
    found = {
        name: [text for text in texts if any(_places(scene.house.root / name, text.encode()))]
        for name, texts in value.items()
    }
    return compare({name: [] for name in value}, found)


def _places(directory: Path, text: bytes) -> Iterator[bool]:
    for top, directories, names in os.walk(directory):
        for name in (*directories, *names):
            path = os.path.join(top, name)
            yield text in os.fsencode(name)
            if os.path.islink(path):
                yield text in os.fsencode(os.readlink(path))
            elif os.path.isfile(path):
                yield text in Path(path).read_bytes()
