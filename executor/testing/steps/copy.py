"""Copy a file, bytes and mode; what is there under the other name is replaced."""

import os
import shutil

import msgspec

from executor.testing.scene import Scene
from executor.testing.target import Unsupported


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Paths, below ``${root}`` or absolute. Without such a file the target is not tested by it."""

    file: str
    to: str


async def act(scene: Scene, value: Value, name: str) -> None:  # noqa: ARG001
    """Copy it."""
    value = scene.fill(value)
    path, other = scene.house.root / value.file, scene.place(value.to)
    if not path.exists():
        raise Unsupported(f"there is no {path.name} to copy")
    draft = other.with_name(f".{other.name}.new")
    shutil.copy2(path, draft)
    os.rename(draft, other)
