"""Outcomes: what a finished command means. Only what is recognised releases; the rest holds."""

import json
import re
from dataclasses import dataclass
from typing import Any, Literal

from executor.finished import Finished, Output
from executor.manifest import Condition, Extract, Manifest, Outcome
from executor.refusal import Recovery

Status = Literal["delivered", "undelivered", "unresolved"]
MAX_EXTRACT = 500
"""Characters of a result id or reply that are kept."""

PROVES_NOTHING_RAN = frozenset({"CANCELLED", "SANDBOX_FAILED", "SPAWN_FAILED"})
"""Our own codes that release. Beside them only what a manifest declares undelivered does."""
OWN_CODES = PROVES_NOTHING_RAN | {
    "CANCELLED_WHILE_RUNNING",
    "COMMAND_KILLED",
    "EXECUTOR_FAULT",
    "OUTCOME_CONFLICT",
    "OUTCOME_UNKNOWN",
    "OUTPUT_LOST",
    "RECORD_LOST",
    "SCHEDULE_STATUS_UNKNOWN",
    "TIMED_OUT",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What happened: a status, its code, and what a caller can do."""

    status: Status
    code: str | None
    because: str
    recovery: Recovery | None
    result_id: str | None = None
    reply: str | None = None


def classify(manifest: Manifest, finished: Finished) -> Verdict:
    """Say what a finished command means."""
    match finished.end:
        case "not-started":
            return _nothing_ran("SPAWN_FAILED", f"The command was not started: {finished.detail}")
        case "sandbox-failed":
            return _nothing_ran("SANDBOX_FAILED", f"The sandbox did not start: {finished.detail}")
        case "given-up":
            return cancelled_before_start()
        case "exited":
            return _by_declaration(manifest, finished)
        case "timed-out":
            return unknown("TIMED_OUT", "It was still running at its deadline and was ended.")
        case "cancelled":
            return unknown("CANCELLED_WHILE_RUNNING", "It was ended while it ran.")
        case "signalled":
            return unknown("COMMAND_KILLED", f"Signal {finished.signal} ended it.")
        case "fault":
            return unknown("EXECUTOR_FAULT", f"The executor itself failed: {finished.detail}.")
        case _:
            return unknown("OUTCOME_UNKNOWN", finished.detail or "Its sandbox was ended.")


def unknown(code: str, because: str) -> Verdict:
    """Give the verdict of a run that may have had its effect."""
    return Verdict("unresolved", code, f"{because} It may have happened.", "ask")


def cancelled_before_start() -> Verdict:
    """Give the verdict of a run that was given up before anything was started."""
    return _nothing_ran("CANCELLED", "It was given up before the command started.")


def not_recorded(verdict: Verdict, why: str) -> Verdict:
    """Give what can be told of a run whose end could not be put on record."""
    named = f" (id {verdict.result_id!r})" if verdict.result_id else ""
    return Verdict(
        "unresolved",
        "RECORD_LOST",
        f"It ended as {verdict.status}{named}, but that could not be put on record. {why}",
        "ask",
    )


def _nothing_ran(code: str, because: str) -> Verdict:
    return Verdict("undelivered", code, f"{because} Nothing ran.", "retry")


def _by_declaration(manifest: Manifest, finished: Finished) -> Verdict:
    declared = next((o for o in manifest.outcomes if _holds(o.when, finished)), None)
    if declared is None:
        code = "SCHEDULE_STATUS_UNKNOWN" if manifest.effect == "scheduled" else "OUTCOME_UNKNOWN"
        return unknown(
            code, f"It exited with {finished.exit}, which its manifest does not explain."
        )
    if declared.status == "undelivered" and (doubt := _doubt(manifest, finished)):
        return doubt
    reply = _extract(declared.reply, finished)
    because = f"It exited with {finished.exit}." if reply is None else f"It said: {reply}"
    return Verdict(
        status=declared.status,
        code=declared.code,
        because=because,
        recovery={"delivered": None, "undelivered": "fix", "unresolved": "ask"}[declared.status],
        result_id=_extract(declared.result_id, finished),
        reply=reply,
    )


def _doubt(manifest: Manifest, finished: Finished) -> Verdict | None:
    """Say why a declared rejection proves nothing after all."""
    deliveries = [o for o in manifest.outcomes if o.status == "delivered"]
    for outcome in deliveries:
        if (result_id := _extract(outcome.result_id, finished)) is not None:
            return unknown(
                "OUTCOME_CONFLICT", f"It exited with {finished.exit} but told the id {result_id!r}."
            )
    for stream in ("stdout", "stderr"):
        output: Output = getattr(finished, stream)
        if output.truncated and any(_reads(outcome, stream) for outcome in deliveries):
            return unknown(
                "OUTPUT_LOST",
                f"Only {len(output.kept)} of {output.total} bytes of {stream} were kept, and the "
                "sign of a delivery may stand in the rest.",
            )
    return None


def _reads(outcome: Outcome, stream: str) -> bool:
    places = (outcome.when, outcome.result_id)
    return any(
        place is not None
        and (getattr(place, stream) is not None or (stream == "stdout" and place.json is not None))
        for place in places
    )


def _holds(when: Condition, finished: Finished) -> bool:
    if when.exit is not None:
        exits = (when.exit,) if isinstance(when.exit, int) else when.exit
        if finished.exit not in exits:
            return False
    for pattern, output in ((when.stdout, finished.stdout), (when.stderr, finished.stderr)):
        if pattern is not None and not re.search(pattern, output.text):
            return False
    if when.json is not None:
        fields = _json(finished.stdout)
        return all(
            type(found := _field(fields, path)) is type(value) and found == value
            for path, value in when.json.items()
        )
    return True


def _extract(extract: Extract | None, finished: Finished) -> str | None:
    if extract is None:
        return None
    if extract.json is not None:
        found = _field(_json(finished.stdout), extract.json)
        return str(found)[:MAX_EXTRACT] if isinstance(found, str | int | float) else None
    for pattern, output in ((extract.stdout, finished.stdout), (extract.stderr, finished.stderr)):
        if pattern is not None and (match := re.search(pattern, output.text)):
            return str(match[1] if match.re.groups else match[0]).strip()[:MAX_EXTRACT] or None
    return None


def _json(output: Output) -> Any:
    try:
        return None if output.truncated else json.loads(output.kept)
    except (ValueError, RecursionError):
        return None


_ABSENT = object()


def _field(value: Any, path: str) -> Any:
    for step in path.split("."):
        if not isinstance(value, dict) or step not in value:
            return _ABSENT
        value = value[step]
    return value
