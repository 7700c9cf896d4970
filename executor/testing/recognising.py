"""Recognising: is a file a spec?  Imports nothing of ours, so that asking costs next to nothing."""

from pathlib import Path


def is_spec(path: Path) -> bool:
    """Say whether a file begins as a spec does; comments may come before."""
    try:
        if not path.is_file():  # opening a FIFO would wait for somebody who writes
            return False
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            lines = (line for line in file if line.strip() and not line.startswith(("#", "---")))
            return next(lines, "").replace(" ", "").startswith("executor:spec/")
    except OSError:
        return False
