"""Interrupted: have several tasks claim at once while Ctrl-C comes, and say what came of it.

Usage: interrupted.py DIRECTORY MOMENT   ``before``: it is pending when the main task begins to
write for all; ``waiting``: it comes while the main task waits for another's commit.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import trio
import trio.testing

from executor.store.database import Database, Job
from tests.ledger.programs.stand import Stand, on_disk, standing

commit = Database.commit
all_wait = threading.Event()


def interrupted_commit(self: Database, jobs: Sequence[Job[Any]]) -> None:
    """Let Ctrl-C come, and arrive, while others wait for this commit."""
    all_wait.wait()
    Database.commit = commit  # type: ignore[method-assign]
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(3):
        trio.from_thread.run_sync(int)
    commit(self, jobs)


async def all_at_once(stand: Stand, moment: str, told: list[str]) -> None:
    async def claim(name: str) -> None:
        await stand.claim(name)
        told.append(name)

    async def say_when_all_wait() -> None:
        await trio.testing.wait_all_tasks_blocked()
        all_wait.set()

    async with trio.open_nursery() as others:
        if moment == "waiting":
            Database.commit = interrupted_commit  # type: ignore[method-assign]
            others.start_soon(claim, "other-0")
            await trio.testing.wait_all_tasks_blocked()
            others.start_soon(claim, "other-1")
            others.start_soon(say_when_all_wait)
        await main_claims(stand, moment, told)


@trio.lowlevel.enable_ki_protection
async def main_claims(stand: Stand, moment: str, told: list[str]) -> None:
    if moment == "before":
        signal.raise_signal(signal.SIGINT)
    await stand.claim("main")
    told.append("main")
    await trio.sleep_forever()


async def main() -> None:
    directory, moment = Path(sys.argv[1]), sys.argv[2]
    told: list[str] = []
    async with standing(directory) as stand:
        try:
            await all_at_once(stand, moment, told)
        except* KeyboardInterrupt:
            print(json.dumps({"told": sorted(told), "on disk": sorted(on_disk(directory))}))


trio.run(main)
