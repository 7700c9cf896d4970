"""Claimer: be an executor with a ledger, and do what the words say, one after the other.

Usage: claimer.py DIRECTORY [old] WORD...   Each word is printed once it is done.

``claim:NAME``, ``deliver:NAME``, ``wait`` (for a line on stdin), ``kill`` (SIGKILL, of itself),
``stop:NAME`` (SIGSTOP in the middle of the transaction that claims it). With ``old`` it takes its
SQLite for one without the fix.
"""

import os
import signal
import sys
import threading
from pathlib import Path

import trio

from executor.rules.ledger import Terms
from executor.store import content, ledger
from tests.ledger.programs.stand import DRAFT, Stand, standing


def stop_in_the_middle() -> None:
    add = ledger._values

    def stopped(attempt: object) -> object:
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # this thread, at once
        return add(attempt)  # type: ignore[arg-type]

    ledger._values = stopped  # type: ignore[assignment]


async def do(stand: Stand, word: str) -> None:
    what, _, name = word.partition(":")
    if what == "claim":
        await stand.claim(name)
    elif what == "deliver":
        await stand.deliver(name)
    elif what == "stop":
        stop_in_the_middle()
        one = stand.wanted(name)
        await stand.ledger.claim(one, Terms(), one.claimed, draft=DRAFT)
    elif what == "wait":
        sys.stdin.readline()
    elif what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)


async def main() -> None:
    directory, *words = sys.argv[1:]
    if words[0] == "old":
        content.sqlite_version = lambda: (3, 40, 1)
        words = words[1:]
    async with standing(Path(directory)) as stand:
        for word in words:
            await do(stand, word)
            print(word, flush=True)


trio.run(main)
