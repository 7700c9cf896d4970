"""Changes to the manifest of the tool `test.post`, as a merge patch; null removes a key."""

from typing import Any

from executor.testing.scene import Scene

Value = dict[str, Any]


def act(scene: Scene, value: Value) -> None:
    """Write the manifest."""
    scene.house.declare(value)
