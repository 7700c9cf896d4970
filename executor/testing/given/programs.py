"""Programs in the trusted directory, by name: `{python: SCRIPT}`, or a file as in `files`."""

from typing import Any

import msgspec

from executor.testing import files
from executor.testing.scene import Scene

Value = dict[str, dict[str, Any]]


def act(scene: Scene, value: Value) -> None:
    """Put them there, executable unless a mode says otherwise."""
    for name, given in value.items():
        if set(given) == {"python"}:
            scene.house.program(name, given["python"])
        else:
            path = scene.house.bin / name
            path.unlink(missing_ok=True)
            files.put(path, msgspec.convert({"mode": "755"} | given, files.File))
