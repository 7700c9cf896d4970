"""Fixtures of the tests of freezing."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.freezing.shelf import Shelf, lacking


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    """A freezer with its root and its store."""
    return Shelf(tmp_path / "shelf")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A private directory on a disk of its own, of 256 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        lacking("mounting is not permitted here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)
