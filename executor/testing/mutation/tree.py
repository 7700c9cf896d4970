"""Tree: copies of a project to break. The project itself is only ever read."""

import compileall
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

_NEVER = frozenset(
    {".git", ".hg", ".venv", "venv", "__pycache__", "node_modules", ".tox", ".nox", ".hypothesis",
     ".mypy_cache", ".pytest_cache", ".ruff_cache", ".import_linter_cache"}
)  # fmt: skip
"""What is no part of a project: history, environments, caches."""


def copy(top: Path, into: Path, leave_out: Iterable[str] = ()) -> None:
    """Copy the working tree as it is, and compile it, so that importing it is quick."""
    for name in files(top, leave_out):
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(top / name, into / name, follow_symlinks=False)
    compileall.compile_dir(into, quiet=2, workers=1)


def files(top: Path, leave_out: Iterable[str] = ()) -> Iterator[str]:
    """Give the files and links of a project, by their paths in it.

    Args:
        leave_out: names, or paths from the top, that are no part of it.
    """
    never = _NEVER | set(leave_out)
    for directory, below, names in os.walk(top):
        here = os.path.relpath(directory, top)

        def is_part(name: str, here: str = here) -> bool:
            return name not in never and os.path.normpath(os.path.join(here, name)) not in never

        links = [name for name in below if os.path.islink(os.path.join(directory, name))]
        below[:] = sorted(name for name in below if name not in links and is_part(name))
        for name in sorted((*names, *links)):
            path = os.path.join(directory, name)
            if is_part(name) and (os.path.islink(path) or os.path.isfile(path)):
                yield os.path.normpath(os.path.join(here, name))


def forget_compiled(file: Path) -> None:
    """Remove what Python made of a file that is about to change.

    It tells a stale one by the file's size and the second of its last change: too little here.
    """
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        compiled.unlink(missing_ok=True)
