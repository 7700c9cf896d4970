"""Send a signal to a process of the executor, and to it alone."""

import signal
from typing import Literal

import msgspec

from executor.testing.scene import MAIN, Scene


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``send`` is the signal's name. ``STOP`` lets it stand still until ``CONT``."""

    send: Literal["STOP", "CONT", "TERM", "INT", "HUP", "USR1"]
    process: str = MAIN


async def act(scene: Scene, value: Value, name: str) -> None:  # noqa: ARG001
    """Send it; a process that is stopped is seen to be."""
    target = await scene.process(value.process)
    target.signal(signal.Signals[f"SIG{value.send}"])
    if value.send == "STOP":
        await scene.until(target.is_stopped, f"process {value.process} stands still")
