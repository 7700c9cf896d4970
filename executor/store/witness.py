"""Witness: the file ``store`` beside a ledger, which is also the lock across processes.

It says which ledger belongs here, how many commits that has seen, and what its file looked like
after the last. A ledger that is gone, is another, or is an older copy of itself, in whole or in
pages, is found out by it.
"""

import fcntl
import os
import random
import time
from pathlib import Path
from typing import NamedTuple

from executor.refusal import Unverified
from executor.store.faults import unsound
from executor.store.ground import Shape

PATIENCE_S = 10.0
"""Seconds that a transaction waits for another process's before it gives up."""
CLOSING_PATIENCE_S = 1.0
"""Seconds that closing waits for it: a log that is left is no harm."""
_FIRST_PAUSE_S = 0.0001
_LONGEST_PAUSE_S = 0.004


class Witnessed(NamedTuple):
    """What the witness says: which store, how many commits, and the shape after the last."""

    id: str
    commits: int
    shape: Shape | None


def lock(descriptor: int, patience: float | None = None) -> None:
    """Take the lock, or give up after a time: its holder may have been stopped."""
    end = time.monotonic() + (PATIENCE_S if patience is None else patience)
    pause = _FIRST_PAUSE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise Unverified(
                    "ledger.full-disk",
                    "STORE_UNAVAILABLE",
                    because=f"Another process has been writing to the ledger for {PATIENCE_S:.0f} "
                    "seconds, and may have been stopped.",
                    todo="Let it go on, or end it; then ask again.",
                ) from None
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - so that not all ask at once
            pause = min(pause * 2, _LONGEST_PAUSE_S)
        else:
            return


def read_witness(descriptor: int) -> Witnessed | None:
    text = os.pread(descriptor, 300, 0).decode("ascii", "replace")
    if not text:
        return None
    try:
        kind, identity, commits, *shape = text.split()
        if kind != "sealed-executor":
            raise ValueError
        if not shape:  # of an earlier program
            return Witnessed(identity, int(commits), None)
        number, size, changed = map(int, shape)
        return Witnessed(identity, int(commits), (number, size, changed))
    except ValueError:
        raise unsound("The file `store` of the state directory is damaged.") from None


def check_witnessed(path: Path, found: tuple[str, int], witnessed: Witnessed) -> None:
    """Refuse another ledger than the witness saw, or an older one."""
    if found[0] != witnessed.id:
        raise unsound(f"{path} is the ledger of another state directory.")
    if found[1] < witnessed.commits:
        raise unsound(
            f"{path} is older than it should be: it has seen {found[1]} commits of "
            f"{witnessed.commits}. It was put back from a copy, or its -wal file was removed."
        )


def write_witness(descriptor: int, identity: str, commits: int, shape: Shape) -> None:
    """Write it in place, all of one length, and unsynced: it may lag behind, never run ahead."""
    numbers = " ".join(f"{number:020d}" for number in (commits, *shape))
    os.pwrite(descriptor, f"sealed-executor {identity} {numbers}\n".encode(), 0)
