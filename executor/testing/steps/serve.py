"""Listen on this machine from now on: true. ``${server}`` is the host:port; nothing is answered."""

import socket
from typing import Literal

from executor.testing.scene import Scene

Value = Literal[True]


async def act(scene: Scene, value: Value, name: str) -> None:  # noqa: ARG001
    """Listen until the end of the case; the kernel takes the calls."""
    server = socket.create_server(("127.0.0.1", 0))
    scene.undo.callback(server.close)
    host, port = server.getsockname()
    scene.notes["server"] = f"{host}:{port}"
