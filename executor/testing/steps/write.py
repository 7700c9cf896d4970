"""Write into a file in place: other bytes, more of them (``append``), fewer (``truncate``).

A path that is not there is made. ``force`` writes into a file that is read-only.
"""

import os
from typing import Annotated

import msgspec

from executor.testing import files
from executor.testing.scene import Scene
from executor.testing.target import Broken


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``truncate`` is the size that is left, in bytes."""

    file: str
    content: files.Content | None = None
    append: str | None = None
    truncate: Annotated[int, msgspec.Meta(ge=0)] | None = None
    force: bool = False


async def act(scene: Scene, value: Value, name: str) -> None:  # noqa: ARG001
    """Write."""
    value = scene.fill(value)
    path = scene.place(value.file)
    if path.exists() and (value.content, value.append, value.truncate) == (None,) * 3:
        raise Broken(f"{value.file} is there, and nothing of it would change")
    if not path.exists():
        files.put(path, value.content or value.append or "")
        return
    if value.force:
        path.chmod(0o600)
    if value.append is not None:
        with path.open("ab") as file:
            file.write(value.append.encode())
    if value.truncate is not None:
        os.truncate(path, value.truncate)
    if value.content is not None:
        with path.open("r+b") as file:
            file.truncate(0)
            file.write(files.content(value.content) or b"")
