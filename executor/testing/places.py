"""Places: where what is shipped beside the package lies, installed or in a checkout."""

from pathlib import Path

import executor

_PACKAGE = Path(executor.__file__).parent


def shipped(name: str) -> Path:
    """Give the directory ``specs``, ``fakes`` or ``mutants``, in the package or beside it."""
    inside = _PACKAGE / "testing" / "shipped" / name
    return inside if inside.is_dir() else _PACKAGE.parent / name
