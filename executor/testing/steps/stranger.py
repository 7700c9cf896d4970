"""Start a process that has nothing to do with anything; it is ended with the case.

Its number and start (the tick since the boot) are known as ``${NAME.pid}`` and ``${NAME.started}``.
"""

import subprocess

import msgspec

from executor.effects import processes
from executor.testing.scene import Scene


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``as`` names it."""

    as_: str | None = msgspec.field(default=None, name="as")


async def act(scene: Scene, value: Value, name: str) -> None:  # noqa: ARG001
    """Start it."""
    # It lives as long as we hold its stdin: whatever ends us ends it.
    made = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    scene.undo.callback(made.__exit__, None, None, None)
    scene.undo.callback(made.kill)
    scene.notes |= {
        f"{name}.pid": made.pid,
        f"{name}.started": processes.started(made.pid),
        f"stranger {name}": made,
    }
