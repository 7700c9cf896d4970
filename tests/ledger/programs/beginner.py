"""Beginner: make a store and be killed at each line of that in turn; each time it opens afterwards.

Usage: beginner.py DIRECTORY   Prints how many lines it was killed at, and which files it left.
"""

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from executor.store import content, database, ground, opening, witness
from executor.store.database import Job
from executor.store.opening import open_database

STEPS: set[CodeType] = {
    function.__code__
    for function in (
        open_database,
        opening._open,
        opening._create,
        content.upgrade,
        content.set_journal,
        witness.write_witness,
        ground.sync_directory,
        database.Database.__init__,
    )
}


def killed_at(turn: int, directory: Path) -> bool:
    """Open it in a process of its own that is killed at one of its lines."""
    child = os.fork()
    if not child:
        left = turn

        def count(frame: FrameType, event: str, argument: object) -> Any:
            nonlocal left
            if frame.f_code not in STEPS:
                return None
            if event == "line":
                left -= 1
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)
            return count

        sys.settrace(count)
        open_database(directory, used_before=False)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def main() -> None:
    directory = Path(sys.argv[1])
    turn, left = 1, set()
    directory.mkdir(mode=0o700)
    while killed_at(turn, directory):
        left.add(" ".join(sorted(os.listdir(directory))))
        opened = open_database(directory, used_before=False)
        job = Job(lambda session: session.run("INSERT INTO notes VALUES ('a', 'b', 'c', 'd', 'e')"))
        opened.commit([job])
        job.result()
        opened.close()
        opened = open_database(directory, used_before=True)
        assert opened.read(lambda session: session.rows("SELECT COUNT(*) FROM notes")) == [(1,)]
        opened.close()
        shutil.rmtree(directory)
        directory.mkdir(mode=0o700)
        turn += 1
    print(json.dumps({"lines": turn - 1, "left": sorted(left)}))


main()
