"""Texts that must be nowhere in a file, or below a directory: `{"${state}": [SECRET]}`.

Looked for in the bytes of every file, in every name, and in what links lead to.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from executor.testing.matching import Mismatch, compare
from executor.testing.scene import Scene
from executor.testing.target import Broken

Value = dict[str, list[str]]
NAMED = True


async def act(scene: Scene, value: Value) -> Iterator[Mismatch]:
    """Look."""
    found: dict[str, list[str]] = {}
    for name, texts in value.items():
        path = scene.house.root / name
        if not os.path.lexists(path):
            raise Broken(f"there is no {name} in which anything could be")
        found[name] = [text for text in texts if any(_places(path, text.encode()))]
    return compare({name: [] for name in value}, found)


def _places(path: Path, text: bytes) -> Iterator[bool]:
    yield from _place(path, text)
    for top, directories, names in os.walk(path):
        for name in (*directories, *names):
            yield text in os.fsencode(name)
            yield from _place(Path(top, name), text)


def _place(path: Path, text: bytes) -> Iterator[bool]:
    if path.is_symlink():
        yield text in os.fsencode(os.readlink(path))
    elif path.is_file():
        yield text in path.read_bytes()
