"""Owner: be the owner of an open executor, print it, and stay until stdin ends.

Usage: owner.py DIRECTORY [fork]   With ``fork`` it has a child without an exec of its own, and
prints that child's number after itself; the child stays until it is killed.
"""

import os
import signal
import sys
from pathlib import Path

import msgspec

from executor.effects.owners import Owners

with Owners(Path(sys.argv[1])).registered() as owner:
    print(msgspec.json.encode(owner).decode(), flush=True)
    if sys.argv[2:] == ["fork"]:
        child = os.fork()
        if not child:
            signal.pause()
        print(child, flush=True)
    sys.stdin.read()
