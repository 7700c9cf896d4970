"""Files, by path; a relative one is below ``${root}``. A text, or what it is."""

from executor.testing import files
from executor.testing.scene import Scene

Value = dict[str, files.Content]


def act(scene: Scene, value: Value) -> None:
    """Make them."""
    for name, given in value.items():
        files.put(scene.place(name), given)
