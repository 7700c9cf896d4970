"""A controlling terminal for every process of the executor: true. What it is sent, nobody reads."""

import os
from typing import Literal

from executor.testing.scene import Scene

Value = Literal[True]


def act(scene: Scene, value: Value) -> None:  # noqa: ARG001
    """Make one; it lasts for the case."""
    near, far = os.openpty()
    scene.undo.callback(os.close, near)
    scene.undo.callback(os.close, far)
    scene.notes["terminal"] = os.ttyname(far)
