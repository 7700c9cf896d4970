"""Outcomes: what a finished command means. Only what is recognised releases; the rest holds."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from executor.finished import Finished, Output, printable
from executor.manifest import Condition, Extract, Lookup, Manifest, Outcome
from executor.refusal import Recovery, Stage

Status = Literal["delivered", "undelivered", "unresolved"]
MAX_EXTRACT = 500
"""Characters of a result id or reply that are kept."""
SIGNAL_EXITS = range(129, 193)
"""128 + n: a shell says so that signal n ended what it ran, and bwrap does of its command."""

PROVES_NOTHING_RAN = frozenset(
    {"CANCELLED", "FAULT_BEFORE_START", "SANDBOX_FAILED", "SPAWN_FAILED"}
)
"""Our own codes that release. Beside them only what a manifest declares undelivered does."""
SETTLED_BY_THE_SPAWN = PROVES_NOTHING_RAN | {
    "CANCELLED_WHILE_RUNNING",
    "COMMAND_KILLED",
    "EXECUTOR_FAULT",
    "TIMED_OUT",
}
OWN_CODES = PROVES_NOTHING_RAN | {
    "CANCELLED_WHILE_RUNNING",
    "COMMAND_KILLED",
    "EXECUTOR_FAULT",
    "EXECUTOR_GONE",
    "EXECUTOR_GONE_BEFORE_START",
    "LATE_RESULT",
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
            return _nothing_ran("SPAWN_FAILED", _facts("The command was not started", finished))
        case "sandbox-failed":
            return _nothing_ran("SANDBOX_FAILED", _facts("The sandbox did not start", finished))
        case "given-up":
            return cancelled_before_start()
        case "exited" if finished.exit in SIGNAL_EXITS:
            return unknown(
                "COMMAND_KILLED", f"It exited with {finished.exit}, as after a signal's end."
            )
        case "exited" if finished.exit is not None:
            return _by_declaration(manifest, finished)
        case "timed-out":
            return unknown("TIMED_OUT", "It was still running at its deadline and was ended.")
        case "cancelled":
            return unknown("CANCELLED_WHILE_RUNNING", "It was ended while it ran.")
        case "signalled":
            return unknown("COMMAND_KILLED", f"Signal {finished.signal} ended it.")
        case "fault":
            return unknown("EXECUTOR_FAULT", _facts("The executor itself failed", finished))
        case _:
            return _unexplained(manifest, _facts("How it ended is not known", finished))


def stage_of(verdict: Verdict) -> Stage | None:
    """Name the stage at which it was settled that this was no delivery."""
    if verdict.status == "delivered":
        return None
    if verdict.code == "RECORD_LOST":
        return "record"
    return "spawn" if verdict.code in SETTLED_BY_THE_SPAWN else "classify"


def unknown(code: str, because: str) -> Verdict:
    """Give the verdict of a run that may have had its effect."""
    return Verdict("unresolved", code, f"{because} It may have happened.", "ask")


def cancelled_before_start() -> Verdict:
    """Give the verdict of a run that was given up before anything was started."""
    return _nothing_ran("CANCELLED", "It was given up before the command started.")


def fault_before_start(fault: BaseException) -> Verdict:
    """Give the verdict of a run that a fault of ours, or an interrupt, ended before its start."""
    return _nothing_ran(
        "FAULT_BEFORE_START", f"The executor was cut short ({type(fault).__name__})."
    )


def fault_after_dispatch(fault: BaseException) -> Verdict:
    """Give the verdict of a run that a fault of ours cut off from its outcome."""
    return unknown("EXECUTOR_FAULT", f"The executor itself failed ({type(fault).__name__}).")


def found(lookup: Lookup, finished: Finished) -> dict[str, list[str]] | None:
    """Give what a look-up found, each name with a list of texts, or nothing when it failed."""
    if finished.end != "exited" or not _holds(lookup.when, finished):
        return None
    if finished.stdout.truncated or finished.stderr.truncated:
        return None
    return {
        name: [printable(str(place)).strip() for place in _every(extract, finished)]
        for name, extract in lookup.finds.items()
    }


def not_found(lookup: Lookup, finished: Finished) -> str:
    """Say why a look-up counts as failed."""
    if finished.end != "exited":
        return _facts(f"It ended as {finished.end}", finished)
    if finished.exit is not None and _holds(lookup.when, finished):
        return "It said more than was kept of it."
    said = printable(finished.stderr.text or finished.stdout.text).strip().splitlines()
    return (
        f"It exited with {finished.exit}{f' and said: {said[-1][:MAX_EXTRACT]}' if said else ''}."
    )


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


def _unexplained(manifest: Manifest, because: str) -> Verdict:
    scheduled = manifest.effect == "scheduled"
    return unknown("SCHEDULE_STATUS_UNKNOWN" if scheduled else "OUTCOME_UNKNOWN", because)


def _facts(what: str, finished: Finished) -> str:
    detail = printable(finished.detail).rstrip(". ")
    return f"{what}: {detail}." if detail else f"{what}."


def _by_declaration(manifest: Manifest, finished: Finished) -> Verdict:
    declared = next((o for o in manifest.outcomes if _holds(o.when, finished)), None)
    if declared is None:
        return _unexplained(
            manifest, f"It exited with {finished.exit}, which its manifest does not explain."
        )
    if doubt := _doubt(manifest, declared, finished):
        return doubt
    reply = _extract(declared.reply, finished)
    because = f"It exited with {finished.exit}." if reply is None else f"It said: {reply}"
    if declared.status == "unresolved":
        because += " It may have happened."
    return Verdict(
        status=declared.status,
        code=declared.code,
        because=because,
        recovery={"delivered": None, "undelivered": "fix", "unresolved": "ask"}[declared.status],
        result_id=_extract(declared.result_id, finished),
        reply=reply,
    )


def _doubt(manifest: Manifest, declared: Outcome, finished: Finished) -> Verdict | None:
    """Say why what is declared of this end is not proven by it after all."""
    if declared.status == "undelivered":
        for outcome in _deliveries(manifest):
            # With another exit code the same words would be a delivery: that is the conflict. An
            # id in an answer that has none of its words is only an id.
            if not _holds(msgspec.structs.replace(outcome.when, exit=None), finished):
                continue
            if (result_id := _extract(outcome.result_id, finished)) is not None:
                return unknown(
                    "OUTCOME_CONFLICT",
                    f"It exited with {finished.exit} but told the id {result_id!r}.",
                )
    if declared.status != "unresolved":
        for place in _decisive(manifest, declared, finished):
            for name, output in (("stdout", finished.stdout), ("stderr", finished.stderr)):
                if output.truncated and _reads(place, name):
                    return unknown(
                        "OUTPUT_LOST",
                        f"Only {len(output.kept)} of {output.total} bytes of {name} were kept, "
                        "and what decides may stand in the rest.",
                    )
    return None


def _decisive(
    manifest: Manifest, declared: Outcome, finished: Finished
) -> Iterator[Condition | Extract]:
    """Give what might have said something else, had all of the output been kept."""
    earlier = True
    for outcome in manifest.outcomes:
        if outcome is declared:
            earlier = False
        counts = earlier or outcome.status == "delivered"
        differs = outcome.status != declared.status
        if counts and differs and _holds(outcome.when, finished, cut_may_hold=True):
            yield outcome.when
    if declared.status == "undelivered":
        yield declared.when  # "...$" and "(?!...)" also hold of what was cut
        yield from (o.result_id for o in _deliveries(manifest) if o.result_id is not None)


def _deliveries(manifest: Manifest) -> Iterator[Outcome]:
    return (outcome for outcome in manifest.outcomes if outcome.status == "delivered")


def _reads(place: Condition | Extract, stream: str) -> bool:
    return getattr(place, stream) is not None or (stream == "stdout" and place.json is not None)


def _holds(when: Condition, finished: Finished, *, cut_may_hold: bool = False) -> bool:
    """Say whether a condition holds, or whether it might have of streams that were cut."""
    if when.exit is not None:
        exits = (when.exit,) if isinstance(when.exit, int) else when.exit
        if finished.exit not in exits:
            return False
    for pattern, output in ((when.stdout, finished.stdout), (when.stderr, finished.stderr)):
        unseen = cut_may_hold and output.truncated
        if pattern is not None and not unseen and not re.search(pattern, output.text):
            return False
    if when.json is not None and not (cut_may_hold and finished.stdout.truncated):
        fields = _json(finished.stdout)
        return all(
            type(found := _field(fields, path)) is type(value) and found == value
            for path, value in when.json.items()
        )
    return True


def _extract(extract: Extract | None, finished: Finished) -> str | None:
    """Find a text in the output; nothing but blanks is no text, and neither is true or false."""
    for found in _places(extract, finished) if extract is not None else ():
        told = isinstance(found, str | int | float) and not isinstance(found, bool)
        if told and (text := printable(str(found)).strip()):
            return text[:MAX_EXTRACT]
    return None


def _places(extract: Extract, finished: Finished) -> Iterator[Any]:
    if extract.json is not None:
        yield _field(_json(finished.stdout), extract.json)
    for pattern, output in ((extract.stdout, finished.stdout), (extract.stderr, finished.stderr)):
        if pattern is not None:
            for match in re.finditer(pattern, output.text):
                yield match[1] if match.re.groups else match[0]


def _every(extract: Extract, finished: Finished) -> Iterator[Any]:
    for place in _places(extract, finished):
        if isinstance(place, list):
            yield from (item for item in place if isinstance(item, str | int | float))
        elif isinstance(place, str | int | float):
            yield place


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
