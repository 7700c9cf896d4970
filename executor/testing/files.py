"""Files: what a scenario puts on disk, and how it gets there."""

import base64
import os
import socket
from pathlib import Path
from typing import Annotated

import msgspec


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One entry of a directory; exactly one of the first eight says what it is.

    ``text``; ``base64`` for bytes; ``repeat`` a text so that there are ``bytes`` of it; ``sparse``
    bytes that take no room; a symbolic ``link`` to a path; a ``hard-link`` to a file; ``fifo``,
    ``socket`` or ``directory``. ``mode`` is octal, as chmod takes it.
    """

    text: str | None = None
    base64: str | None = None
    repeat: str | None = None
    sparse: Annotated[int, msgspec.Meta(ge=0)] | None = None
    link: str | None = None
    hard_link: str | None = msgspec.field(default=None, name="hard-link")
    fifo: bool = False
    socket: bool = False
    directory: bool = False
    bytes: Annotated[int, msgspec.Meta(ge=0, le=2**30)] | None = None
    mode: Annotated[str, msgspec.Meta(pattern="^[0-7]{3,4}$")] | None = None

    def __post_init__(self) -> None:
        """See that it is one thing."""
        kinds = (self.text, self.base64, self.repeat, self.sparse, self.link, self.hard_link)
        count = sum(one is not None for one in kinds)
        count += self.fifo + self.socket + self.directory
        if count != 1:
            raise ValueError(f"it is {count} things: say one of what it is")
        if self.repeat is not None and not (self.repeat and self.bytes is not None):
            raise ValueError("repeat takes a text, and bytes: how many there are")
        if self.base64 is not None:
            base64.b64decode(self.base64, validate=True)


Content = str | File
"""A text, or whatever else a path can hold."""


def content(given: Content) -> bytes | None:
    """Give the bytes of a regular file; ``None`` for what is none."""
    if isinstance(given, str):
        return given.encode("utf-8", "surrogateescape")
    if given.text is not None:
        return given.text.encode("utf-8", "surrogateescape")
    if given.base64 is not None:
        return base64.b64decode(given.base64, validate=True)
    if given.repeat is not None:
        pattern, count = given.repeat.encode(), given.bytes or 0
        return (pattern * (count // max(1, len(pattern)) + 1))[:count]
    return None


def kind(path: Path) -> str | None:
    """Say what stands at a path, without following it; ``None`` where nothing does."""
    if path.is_symlink():
        return f"a link to {os.readlink(path)}"
    if not path.exists():
        return None
    kinds = {"a file": path.is_file, "a directory": path.is_dir, "a FIFO": path.is_fifo}
    return next((name for name, holds in kinds.items() if holds()), "something else")


def put(path: Path, given: Content) -> None:
    """Make what is given at ``path``, where nothing is yet; directories above it are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content(given)
    if data is not None:
        path.write_bytes(data)
    elif isinstance(given, File):
        _put_other(path, given)
    if isinstance(given, File) and given.mode is not None:
        path.chmod(int(given.mode, 8))


def _put_other(path: Path, given: File) -> None:
    if given.link is not None:
        path.symlink_to(given.link)
    elif given.hard_link is not None:
        path.hardlink_to(given.hard_link)
    elif given.fifo:
        os.mkfifo(path)
    elif given.directory:
        path.mkdir(exist_ok=True)
    elif given.socket:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    elif given.sparse is not None:
        with path.open("wb") as file:
            file.truncate(given.sparse)
    else:
        path.touch()
