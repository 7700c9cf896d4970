"""Recognising: is a file a spec, is this a CI service?  Asking costs next to nothing.

Imports nothing of ours.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

SUFFIXES = (".yaml", ".yml")
_SPEC = re.compile(
    rb"""^(?:\xef\xbb\xbf)?\{?["']?executor["']?[ \t]*:[ \t]*["']?spec/""", re.MULTILINE
)


def is_spec(path: Path) -> bool:
    """Say whether a file calls itself a spec, in whatever line and however it is quoted.

    Raises:
        OSError: it cannot be read, so that nobody knows.
    """
    if path.suffix not in SUFFIXES:
        return False
    if path.exists() and not path.is_file():  # opening a FIFO would wait for somebody who writes
        return False
    return _SPEC.search(path.read_bytes()) is not None


def specs_below(directory: Path) -> Iterator[Path]:
    """Give the specs below a directory, links to directories followed, in the order of names.

    Raises:
        OSError: a directory or a file cannot be read: a spec that is passed over is never seen red.
    """

    def fail(fault: OSError) -> None:
        raise fault

    seen: set[str] = set()
    for top, directories, names in os.walk(directory, onerror=fail, followlinks=True):
        real = os.path.realpath(top)
        if real in seen:
            directories.clear()
            continue
        seen.add(real)
        directories.sort()
        yield from (path for name in sorted(names) if is_spec(path := Path(top, name)))


def is_ci(environment: Mapping[str, str]) -> bool:
    """Say whether this runs where nothing may be lacking: ``CI`` is set, and does not deny it."""
    return environment.get("CI", "").lower() not in ("", "0", "false", "no", "off")
