"""Put something else in the place of a path: another file, a link, a FIFO, a directory; or nothing.

The new thing is made beside it and takes its name, as a hostile program would do it.
"""

import os
import shutil

import msgspec

from executor.testing import files
from executor.testing.scene import Scene


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``by`` is what comes; without it the path is deleted. ``keep`` is where the old one goes."""

    file: str
    by: files.Content | None = None
    keep: str | None = None


async def act(scene: Scene, value: Value, name: str) -> None:  # noqa: ARG001
    """Replace it."""
    value = scene.fill(value)
    path = scene.place(value.file)
    if value.keep is not None:
        path.rename(scene.place(value.keep))
    if value.by is None:
        _delete(path)
        return
    draft = path.with_name(f".{path.name}.new")
    files.put(draft, value.by)
    if draft.is_dir() or path.is_dir():
        _delete(path)
    os.rename(draft, path)


def _delete(path: os.PathLike[str]) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
