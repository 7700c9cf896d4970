"""A disk of its own for the state directory, in memory. It needs root."""

import subprocess
from pathlib import Path
from typing import Literal

import msgspec

from executor.testing.scene import Scene
from executor.units import Size


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``type`` is its file system; a tmpfs has a ``size``."""

    size: Size
    type: Literal["tmpfs", "ramfs"] = "tmpfs"


def act(scene: Scene, value: Value) -> None:
    """Mount it; it is unmounted with the end of the case."""
    state = scene.house.state
    options = f"size={int(value.size)},mode=700"
    subprocess.run(["mount", "-t", value.type, "-o", options, "none", state], check=True)
    scene.undo.callback(_unmount, state)
    scene.notes["ballast"] = state / "ballast"


def _unmount(place: Path) -> None:
    subprocess.run(["umount", "-l", place], check=True)
