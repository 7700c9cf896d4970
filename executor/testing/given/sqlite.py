"""The version of SQLite that the executor believes it has, such as `3.40.1`."""

from typing import Annotated

import msgspec

from executor.testing.scene import Scene

Value = Annotated[str, msgspec.Meta(pattern=r"^\d+\.\d+\.\d+$")]


def act(scene: Scene, value: Value) -> None:
    """Have every process told."""
    scene.notes["sqlite"] = value
