"""Plain bwrap: the same script with the sandbox that most people put around it.

Usage: executor verify --target 'python tools/peers/plain_bwrap.py'
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tools.peers import naive

KEPT = ("PATH", "HOME", "LANG")
"""Variables that commands do not get along without."""


def wrap(command: naive.Command) -> tuple[list[str], dict[str, str]]:
    """Start it in namespaces of its own, with all of the system read-only."""
    words = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for path in (str(command.directory), *command.write):
        words += ["--bind", path, path]
    words += ["--unshare-all", "--die-with-parent", "--clearenv"]
    if command.network:
        words.append("--share-net")
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    for name, value in (kept | command.environment).items():
        words += ["--setenv", name, value]
    return [*words, *command.argv], dict(os.environ)


if __name__ == "__main__":
    naive.serve("plain bwrap", wrap)
