"""Let the disk below the state directory be ``full``, or have room again (``roomy``).

On a disk of its own (`disk` in given) it really is full. Without one, the processes of the executor
that are there cannot write into any file from then on.
"""

import os
import resource
from pathlib import Path
from typing import Literal

from executor.testing.scene import Scene

Value = Literal["full", "roomy"]
_BLOCK = bytes(4096)


async def act(scene: Scene, value: Value, name: str) -> None:  # noqa: ARG001
    """Fill it, or make room."""
    if ballast := scene.notes.get("ballast"):
        _fill(ballast) if value == "full" else ballast.unlink(missing_ok=True)
        return
    for target in scene.targets.values():
        if not target.gone.is_set():
            _, hard = resource.prlimit(target.pids.target, resource.RLIMIT_FSIZE)
            soft = 0 if value == "full" else hard
            resource.prlimit(target.pids.target, resource.RLIMIT_FSIZE, (soft, hard))


def _fill(ballast: Path) -> None:
    descriptor = os.open(ballast, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        while os.write(descriptor, _BLOCK):
            pass
    except OSError:
        pass  # that is what it was to come to
    finally:
        os.close(descriptor)
