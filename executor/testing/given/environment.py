"""The environment of the executor's own process, and nothing else in it but a PATH."""

import os

from executor.testing.scene import Scene

Value = dict[str, str]


def act(scene: Scene, value: Value) -> None:
    """Have every process started with it."""
    scene.environment = {"PATH": os.environ.get("PATH", os.defpath)} | value
