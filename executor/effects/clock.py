"""Clock: wall time for the record. Nothing is decided by it."""

import secrets
from datetime import UTC, datetime


def now() -> str:
    """Give the time, UTC, RFC 3339 with microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def new_id() -> str:
    """Give a new id: it sorts by time, and nobody can guess the next one."""
    moment = int(datetime.now(UTC).timestamp() * 1000)
    return f"{moment:012x}{secrets.token_hex(8)}"
