"""Owner: be the owner of an open executor, print it, and stay until stdin ends.

Usage: owner.py DIRECTORY [fork | fork-that-ends]   With ``fork`` it has a child without an exec of
its own, and prints that child's number after itself; the child stays until it is killed. With
``fork-that-ends`` the child says what it thinks of its parent, and leaves.
"""

import os
import signal
import sys
from pathlib import Path

import msgspec

from executor.effects.owners import Owners

owners = Owners(Path(sys.argv[1]))
with owners.registered() as owner:
    print(msgspec.json.encode(owner).decode(), flush=True)
    if sys.argv[2:] == ["fork"]:
        child = os.fork()
        if not child:
            signal.pause()
        print(child, flush=True)
    if sys.argv[2:] == ["fork-that-ends"]:
        child = os.fork()
        if not child:
            print(f"the child sees it as gone: {owners.is_gone(owner)}", end="")
            sys.exit()
        os.waitpid(child, 0)
        print(flush=True)
    sys.stdin.read()
