"""State: the private directory that everything durable lies in."""

import os
import stat
from pathlib import Path

from executor.refusal import Unverified


def default_directory() -> Path:
    """Give ``$XDG_STATE_HOME/sealed-executor``, or its place below the home directory.

    A relative one is not taken, as the XDG specification says: each working directory would have a
    ledger of its own.

    Raises:
        Unverified: ``freezing.private-store``: no home directory is known either.
    """
    for base in (os.environ.get("XDG_STATE_HOME", ""), os.path.expanduser("~/.local/state")):
        if os.path.isabs(base):
            return Path(base) / "sealed-executor"
    raise _unavailable("$XDG_STATE_HOME and $HOME say nothing, or no absolute path.")


def open_directory(directory: Path) -> Path:
    """Make the directory if it is not there, and give its real path.

    Raises:
        Unverified: ``freezing.private-store``: it cannot be made, or others can reach into it.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        real = directory.resolve()
        facts = real.stat()
    except OSError as failed:
        raise _unavailable(f"{directory} cannot be used: {failed.strerror}.") from failed
    if facts.st_uid != os.geteuid():
        raise _unavailable(f"{real} belongs to user {facts.st_uid}, not to {os.geteuid()}.")
    if facts.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise _unavailable(f"{real} is open to others (mode {facts.st_mode & 0o777:04o}).")
    if not os.access(real, os.W_OK):
        raise _unavailable(f"{real} cannot be written.")
    return real


def _unavailable(because: str) -> Unverified:
    return Unverified(
        "freezing.private-store",
        "STORE_UNAVAILABLE",
        because=because,
        todo="Give a state directory of mode 0700 that this user owns (`--state`, or `state:` in "
        "the configuration).",
    )
