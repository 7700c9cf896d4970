"""Shelf: a freezer with its root and its store, and values to freeze, for the tests of freezing."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from executor.effects.blobs import Blobs, Hold
from executor.effects.freezer import Freezer, Progress
from executor.frozen import FrozenFile, SlotFile

TOP = Path(__file__).parent.parent.parent
BIG = 24 * 2**20
"""Bytes that take three steps to copy: there is a middle to act in."""


@dataclass
class Shelf:
    """``root`` holds files to freeze, ``outside`` files that must not be, ``store`` the copies."""

    home: Path

    def __post_init__(self) -> None:
        for path in (self.root, self.outside):
            path.mkdir(parents=True)
        self.store.mkdir(mode=0o700)
        self.blobs = Blobs(self.store)

    @property
    def root(self) -> Path:
        return self.home / "root"

    @property
    def outside(self) -> Path:
        return self.home / "outside"

    @property
    def store(self) -> Path:
        return self.home / "store"

    def file(self, name: str, content: bytes = b"content\n") -> Path:
        """Write a file below the root."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def freezer(self, *roots: Path | str) -> Freezer:
        """Give a freezer for some roots; without any, for ``root``."""
        given = roots or (self.root,)
        return Freezer(self.blobs, [os.fspath(root) for root in given], base=str(self.root))

    async def freeze(
        self,
        *paths: Path | str,
        roots: Sequence[Path | str] = (),
        progress: Progress | None = None,
        max_bytes: int = 2**40,
    ) -> tuple[tuple[FrozenFile, ...], Hold]:
        """Freeze files, each under a name of its own."""
        files = [
            SlotFile("doc", os.fspath(path), f"file{index}", max_bytes)
            for index, path in enumerate(paths)
        ]
        return await self.freezer(*roots).freeze(os.urandom(8).hex(), files, progress)

    async def frozen(self, *paths: Path | str, **options: Any) -> bytes:
        """Freeze, let go, and give the bytes of the first copy."""
        files, hold = await self.freeze(*paths, **options)
        hold.release()
        return self.blobs.path(files[0].sha256).read_bytes()

    def stored(self) -> list[Path]:
        """Give every file in the store that is a copy, is to become one, or keeps one."""
        kept = [self.store / name for name in ("blobs", "incoming", "holds")]
        return [path for top in kept for path in top.rglob("*") if not path.is_dir()]

    def incoming(self) -> Path:
        """Give the one copy that is being made."""
        (found,) = (self.store / "incoming").iterdir()
        return found


def python(script: str, *words: object, powerless: bool = False, **given: Any) -> Any:
    """Run a script in a process of its own and give the JSON that it prints.

    Args:
        powerless: without the capabilities of root: its own files can be closed to it.
    """
    command = [sys.executable, "-c", script, *map(str, words)]
    if powerless and os.geteuid() == 0:
        command = ["setpriv", "--inh-caps=-all", "--bounding-set=-all", *command]
    environment = os.environ | {"PYTHONPATH": str(TOP)} | given.pop("env", {})
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, **given
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def lacking(reason: str) -> None:
    """Skip, or fail where nothing may be lacking."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
