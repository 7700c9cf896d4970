#!/usr/bin/python3 -IS
"""mailstore: the part of a mail program that schedules drafts. What it does, it does really.

A store is a directory with `drafts` and `scheduled` in it, one message a file. See README.md.
"""

import json
import os
import re
import signal
import sys
from datetime import UTC, datetime
from email import message_from_binary_file, policy
from email.message import EmailMessage
from email.utils import getaddresses
from pathlib import Path
from typing import NoReturn

USAGE = 64
REFUSED = 65
NO_SUCH_DRAFT = 66
UNEXPLAINED = 75
SYNOPSIS = "recipients STORE DRAFT | schedule STORE DRAFT TIME | status STORE DRAFT"
WANTED = {"recipients": 2, "schedule": 3, "status": 2}


class Failed(Exception):
    """It did nothing, and says why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def main(words: list[str]) -> None:
    """Do what the first word says; the next two are the store and the draft's name."""
    command, *rest = words or [""]
    if len(rest) != WANTED.get(command):
        raise Failed(USAGE, SYNOPSIS)
    store, name = Path(rest[0]), rest[1]
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise Failed(USAGE, f"{name!r} is no name of a draft")
    if command == "recipients":
        print(*recipients(store, name), sep="\n")
    elif command == "schedule":
        schedule(store, name, rest[2])
    else:
        print(json.dumps(status(store, name)))


def recipients(store: Path, name: str) -> list[str]:
    """Give the addresses of a draft."""
    try:
        with (store / "drafts" / name).open("rb") as file:
            draft = message_from_binary_file(file, EmailMessage, policy=policy.default)
    except FileNotFoundError:
        raise Failed(NO_SUCH_DRAFT, f"there is no draft {name}") from None
    given = [str(text) for key in ("To", "Cc", "Bcc") for text in draft.get_all(key, [])]
    addresses = [address for _, address in getaddresses(given)]
    if not addresses or not all(re.fullmatch(r"[^\s@]+@[^\s@]+", text) for text in addresses):
        raise Failed(REFUSED, f"draft {name} has no recipients that can be read")
    return addresses


def schedule(store: Path, name: str, when: str) -> None:
    """Move a draft to where it waits for its time: it is there before it is gone from here."""
    try:
        at = datetime.fromisoformat(when).astimezone(UTC)
    except ValueError:
        raise Failed(USAGE, f"{when!r} is no time") from None
    if at <= datetime.now(UTC):
        raise Failed(REFUSED, f"{when} has passed")
    recipients(store, name)
    known = f"{name}@{at:%Y%m%dT%H%M%SZ}"
    cue(store, "before")
    if status(store, name)["state"] != "draft":
        raise Failed(REFUSED, f"draft {name} is scheduled already")
    os.link(store / "drafts" / name, store / "scheduled" / known)
    os.unlink(store / "drafts" / name)
    cue(store, "after")
    print(f"scheduled {known}")


def status(store: Path, name: str) -> dict[str, str]:
    """Say where a message is."""
    found = sorted((store / "scheduled").glob(f"{name}@*"))
    if found:
        return {"state": "scheduled", "id": found[0].name}
    return {"state": "draft" if (store / "drafts" / name).exists() else "unknown"}


def cue(store: Path, moment: str) -> None:
    """Go wrong, if the store has a file `cue` that says so: ``after hang``."""
    try:
        wanted, how = (store / "cue").read_text().split()
    except FileNotFoundError:
        return
    if wanted != moment:
        return
    if how == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "hang":
        while True:
            signal.pause()
    if how != "fail":
        raise Failed(USAGE, f"{how!r} is no cue")
    raise Failed(UNEXPLAINED, "something went wrong")


def run(words: list[str]) -> NoReturn:
    """Run as a command."""
    try:
        main(words)
        sys.stdout.flush()
    except Failed as failed:
        print(f"mailstore: {failed}", file=sys.stderr)
        sys.exit(failed.status)
    sys.exit(0)


if __name__ == "__main__":
    run(sys.argv[1:])
