"""A file that every process of the executor has open as descriptor 3, which a child inherits."""

from executor.testing.scene import Scene

Value = str


def act(scene: Scene, value: Value) -> None:
    """Have it opened with each start: by then it is there."""
    scene.notes["descriptor"] = scene.house.root / value
