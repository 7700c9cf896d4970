"""Recording fakes in the place of commands: name to plan (fakes/README.md), as a merge patch.

The usual plan records, and appends one line to ``sent.log``; `post` prints ``id=m-1`` besides.
"""

from typing import Any

from executor.testing.scene import Scene

Value = dict[str, dict[str, Any]]


def act(scene: Scene, value: Value) -> None:
    """Install them."""
    for name, plan in value.items():
        scene.house.install(name, plan)
