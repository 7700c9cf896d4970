"""The configuration: the keys of `executor.yaml`, without its first."""

from typing import Any

from executor.testing.scene import Scene

Value = dict[str, Any]


def act(scene: Scene, value: Value) -> None:
    """Have it written before anything is opened."""
    scene.config |= value
