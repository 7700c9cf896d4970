"""Clock: the time, and who asks for it. What it decides is decided in the rules."""

import secrets
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from executor.attempt import Moment

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_OFFSETS = Path("/proc/self/timens_offsets")


def now() -> str:
    """Give the time, UTC, RFC 3339 with microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def new_id() -> str:
    """Give a new id: it sorts by time, and nobody can guess the next one."""
    moment = int(datetime.now(UTC).timestamp() * 1000)
    return f"{moment:012x}{secrets.token_hex(8)}"


def moment() -> Moment:
    """Give the time by the wall's clock and by the one that nobody sets."""
    ticks = (time.clock_gettime_ns(time.CLOCK_BOOTTIME) - boottime_offset()) // 1_000_000
    return Moment(time.time_ns() // 1_000_000, ticks, boot())


@cache
def boot() -> str:
    """Give the id of the boot; it is another one after each."""
    return _BOOT.read_text().strip()


@cache
def boottime_offset() -> int:
    """Give by how many nanoseconds a time namespace has set the clock since the boot ahead.

    Source: time_namespaces(7); nothing on a kernel without them.
    """
    try:
        for line in _OFFSETS.read_text().splitlines():
            clock, seconds, nanoseconds = line.split()
            if clock == "boottime":
                return int(seconds) * 1_000_000_000 + int(nanoseconds)
    except (OSError, ValueError):
        pass
    return 0
