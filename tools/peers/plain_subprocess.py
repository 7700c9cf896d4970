"""Plain subprocess: the script as most people write it, `subprocess.run` and the exit code.

Usage: executor verify --target 'python tools/peers/plain_subprocess.py'
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tools.peers import naive


def wrap(command: naive.Command) -> tuple[list[str], dict[str, str]]:
    """Start it as it is, in our own environment and what the manifest adds."""
    return command.argv, dict(os.environ) | command.environment


if __name__ == "__main__":
    naive.serve("plain subprocess", wrap)
