"""A disk of its own for the state directory: a tmpfs of this size. It needs root."""

import subprocess
from pathlib import Path

from executor.testing.scene import Scene
from executor.units import Size

Value = Size


def act(scene: Scene, value: Value) -> None:
    """Mount it; it is unmounted with the end of the case."""
    state = scene.house.state
    options = f"size={int(value)},mode=700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", state], check=True)
    scene.undo.callback(_unmount, state)
    scene.notes["ballast"] = state / "ballast"


def _unmount(place: Path) -> None:
    subprocess.run(["umount", "-l", place], check=True)
