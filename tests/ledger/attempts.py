"""Attempts: owners, moments and attempts in a line, for the tests of this family."""

from typing import Any

import msgspec

from executor import units
from executor.attempt import Attempt, Moment, Owner, Settlement, State
from executor.manifest import Manifest

MINUTE = 60.0
OWNER = Owner(id="owner-1", boot="boot-1", namespace="ns-1", pid=100, started="5000")
OTHER = Owner(id="owner-2", boot="boot-1", namespace="ns-1", pid=200, started="6000")
START = Moment(wall=1_700_000_000_000, ticks=1_000_000, boot="boot-1")
FINGERPRINT = "f" * 64
WINDOW_S = 15 * MINUTE


def later(seconds: float, since: Moment = START, *, step: float = 0) -> Moment:
    """Give the moment some seconds on, in one boot.

    Args:
        step: seconds by which the wall's clock was set meanwhile, back when below 0.
    """
    return Moment(
        since.wall + round((seconds + step) * 1000), since.ticks + round(seconds * 1000), since.boot
    )


def rebooted(wall_seconds: float, since: Moment = START, *, boot: str = "boot-2") -> Moment:
    """Give a moment after a reboot: the ticks begin again, and only the wall's clock goes on."""
    return Moment(since.wall + round(wall_seconds * 1000), 5_000, boot)


def attempt(name: str = "a-1", state: State = "reserved", **changes: Any) -> Attempt:
    """Give an attempt as it is on record in a state: claimed and dispatched at the start.

    It was settled at the start too, by its run; an unresolved one says ``OUTCOME_UNKNOWN``.
    """
    given: dict[str, Any] = {
        "id": name,
        "fingerprint": FINGERPRINT,
        "account": "ana",
        "tool": "mail.send",
        "action": "d" * 64,
        "owner": OWNER,
        "claimed": START,
        "window_ms": round(WINDOW_S * 1000),
        "number": int(name.rpartition("-")[2]) if name[-1].isdigit() else 1,
        "state": state,
    }
    if state != "reserved":
        given["dispatched"] = START
    if state in ("delivered", "released", "unresolved"):
        given |= {"settled": START, "decided_by": "run", "because": "It ended."}
        given["code"] = {"released": "NOTHING_SENT", "unresolved": "OUTCOME_UNKNOWN"}.get(state)
    if state == "delivered":
        given["result_id"] = "m-7"
    return Attempt(**(given | changes))


def wanted(name: str = "new", **changes: Any) -> Attempt:
    """Give an attempt that is not in the ledger yet."""
    return attempt(name, **({"number": 0, "claimed": later(MINUTE)} | changes))


def said(state: Any, code: str | None = None, by: Any = "run", **changes: Any) -> Settlement:
    """Give what somebody says became of an attempt."""
    given = {"because": "It ended.", "by": by} | changes
    return Settlement(state, code, **given)


def manifest(**changes: Any) -> Manifest:
    """Give a small manifest: exit 0 delivers, exit 64 proves that nothing was sent."""
    given: dict[str, Any] = {
        "executor": "manifest/1",
        "tool": "mail.send",
        "summary": "Send it.",
        "command": "send",
        "argv": [],
        "capabilities": [{"name": "mail:send"}],
        "outcomes": [
            {"when": {"exit": 0}, "is": "delivered"},
            {"when": {"exit": 64}, "is": "undelivered", "code": "NOTHING_SENT"},
        ],
    }
    made: Manifest = msgspec.convert(given | changes, Manifest, dec_hook=units.parse)
    return made
