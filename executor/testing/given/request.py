"""The usual request, as a merge patch: by default tool `test.post`, asked by an assistant."""

from typing import Any

from executor.testing.scene import Scene

Value = dict[str, Any]


def act(scene: Scene, value: Value) -> None:
    """Keep it for the steps that run."""
    scene.request = value
