"""Ledger: may this happen, or did it already? A state machine over the attempts at one action.

    claim           dispatch              settle
    ------> reserved ------> dispatching ------> delivered | released | unresolved
                \\                  \\                                        |
                 `-> released        `-> unresolved                   decide |
                 (given up, or its executor is gone)       delivered | released

It knows no database and no clock: the attempts on record and the moment come as arguments.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from executor.attempt import Attempt, DecidedBy, Earlier, Moment, Note, Owner, Settlement
from executor.manifest import Manifest
from executor.refusal import Refused
from executor.rules.outcomes import PROVES_NOTHING_RAN, Verdict

DEFAULT_WINDOW_S = 15 * 60.0
Lock = Literal["held", "free", "missing"]
Obstacle = Literal["in-flight", "delivered", "unresolved"]
DECISIONS: frozenset[DecidedBy | None] = frozenset({"person", "evidence"})
"""Who can settle what a run left open; what contradicts them later is an alarm."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a request and its tool say about duplicates.

    Args:
        window: seconds for which a delivery blocks; 0 for not at all.
        resend_window: seconds from the first dispatch for which the provider knows a key again.
        beside: the attempt that the request names as known.
    """

    window: float = DEFAULT_WINDOW_S
    resend_window: float = 0.0
    beside: str | None = None


@dataclass(frozen=True, slots=True)
class Sighting:
    """What can be seen of an attempt's owner, and from where.

    ``lock`` is the state of the file that an open executor keeps locked; ``started`` is the start
    of the process that has the owner's number here, or nothing.
    """

    boot: str
    namespace: str
    lock: Lock
    started: str


Gone = Callable[[Owner], bool]


def window(manifest: Manifest, configured: float, forced: float | None) -> float:
    """Give the seconds for which a delivery blocks: forced, of the tool's own, or configured."""
    if forced is not None:
        return forced
    return configured if manifest.ledger.window is None else manifest.ledger.window


# -- time -----------------------------------------------------------------------------------------


def elapsed(since: Moment, now: Moment) -> float:
    """Give the seconds between two moments, 0 when the clock was set back.

    Within one boot nobody's setting of a clock counts. Across boots there is only the wall's.
    """
    if since.boot == now.boot:
        return max(0, now.ticks - since.ticks) / 1000
    return max(0, now.wall - since.wall) / 1000


# -- claim ----------------------------------------------------------------------------------------


def claim(wanted: Attempt, earlier: Sequence[Attempt], terms: Terms, now: Moment) -> Attempt:
    """Reserve ``wanted``, unless an earlier attempt stands in its way.

    Args:
        earlier: every attempt on record with its fingerprint, in the order of their claims.
    Raises:
        Refused: ``ledger.in-flight``, ``ledger.delivered``, ``ledger.unresolved``, or
            ``ledger.override-beside`` for a `beside` that is no attempt at this action.
    """
    resend = _check_nothing_in_the_way(wanted, earlier, terms, now, asked=now)
    if terms.beside is not None and all(attempt.id != terms.beside for attempt in earlier):
        raise Refused(
            "ledger.override-beside",
            "UNKNOWN_ATTEMPT",
            because=f"The request says `allow_duplicate: {terms.beside}`, but the ledger has no "
            "such attempt at this action.",
            todo="Leave it out; if the action is refused as a duplicate, name the attempt that the "
            "refusal names.",
        )
    return msgspec.structs.replace(wanted, state="reserved", beside=terms.beside, resend=resend)


def _check_nothing_in_the_way(
    wanted: Attempt, earlier: Sequence[Attempt], terms: Terms, now: Moment, *, asked: Moment
) -> bool:
    """Refuse what an earlier attempt stands in the way of; say whether it is a resend.

    Args:
        asked: when it was asked for; what was delivered after that was meant by it.
    """
    in_the_way = [
        (attempt, found)
        for attempt in earlier
        if (found := obstacle(attempt, terms.window, asked)) is not None
    ]
    for attempt, found in in_the_way:
        if found == "in-flight":
            raise duplicate(attempt, found, terms.beside)
    known = next((a.number for a in earlier if a.id == terms.beside), None)
    resend = False
    for attempt, found in reversed(in_the_way):
        if known is not None and attempt.number <= known:
            continue
        if not _may_resend(wanted, attempt, earlier, terms, now):
            raise duplicate(attempt, found, terms.beside)
        resend = True
    return resend


def obstacle(attempt: Attempt, window: float, now: Moment) -> Obstacle | None:
    """Say why an attempt on record stands in the way of the same action, if it does."""
    match attempt.state:
        case "released":
            return None
        case "delivered" if attempt.settled is not None:
            return "delivered" if elapsed(attempt.settled, now) < window else None
        case "reserved" | "dispatching":
            return "in-flight"
        case _:
            return "unresolved"


def _may_resend(
    wanted: Attempt, attempt: Attempt, earlier: Iterable[Attempt], terms: Terms, now: Moment
) -> bool:
    """Whether the provider will know the key again, and so take it for the same."""
    if attempt.state != "unresolved" or not wanted.key or attempt.key != wanted.key:
        return False
    if attempt.action != wanted.action:
        return False  # another manifest, or command: the key may have gone out in another way
    if attempt.alarm is not None:
        return False
    first = next((a.dispatched for a in earlier if a.key == wanted.key and a.dispatched), None)
    return first is not None and _surely_within(terms.resend_window, first, now)


def _surely_within(window: float, since: Moment, now: Moment) -> bool:
    """Whether less than ``window`` seconds went by, for certain: no clock set back makes it so."""
    if since.boot != now.boot or now.ticks < since.ticks:
        return False
    return max(now.ticks - since.ticks, now.wall - since.wall) / 1000 < window


def duplicate(attempt: Attempt, found: Obstacle, beside: str | None = None) -> Refused:
    """Give the refusal of an action that ``attempt`` stands in the way of.

    Args:
        beside: the attempt that the request names as known, and that this one came after.
    """
    earlier, name = Earlier.of(attempt), attempt.id
    after = "" if beside is None else f" It is not attempt {beside}, which the request allows for."
    if found == "in-flight":
        return Refused(
            "ledger.in-flight",
            "DUPLICATE_IN_FLIGHT",
            because=f"The same action is on its way: attempt {name}, {attempt.state} since "
            f"{attempt.claimed.at}.{after} How it ends is not known yet.",
            todo=f"Wait for its end (`executor ledger show {name}`).",
            earlier=earlier,
        )
    if found == "delivered":
        at = "an unknown time" if attempt.settled is None else attempt.settled.at
        named = f" (id {attempt.result_id!r})" if attempt.result_id else ""
        return Refused(
            "ledger.delivered",
            "DUPLICATE_DELIVERED",
            because=f"The same action was delivered already: attempt {name}, at {at}{named}."
            f"{after}",
            # Who named one already may be a program that would name each in turn.
            todo="Take that for the answer."
            if beside is not None
            else "Take that for the answer. To deliver it once more on purpose, say "
            f"`allow_duplicate: {name}`.",
            earlier=earlier,
        )
    return Refused(
        "ledger.unresolved",
        "DUPLICATE_UNRESOLVED",
        because=f"The same action was started already, and may have happened: attempt {name}, "
        f"{attempt.code or attempt.state}.{after}",
        todo=f"Let a person look (`executor ledger show {name}`), and say what is so: `executor "
        f"ledger resolve {name}` with `--delivered` or `--not-delivered`, and `--why`.",
        earlier=earlier,
    )


# -- dispatch -------------------------------------------------------------------------------------


def dispatch(
    attempt: Attempt | None, owner: Owner, earlier: Sequence[Attempt], terms: Terms, now: Moment
) -> Attempt:
    """Mark an attempt as about to start: once, and by its own executor only.

    What stood not in its way at the claim may do so now: a late result came, or the time is over
    in which the provider would have known its key again.

    Args:
        attempt: what is on record of it.
        earlier: the other attempts at the same action.
    Raises:
        Refused: ``ledger.single-dispatch``, or what refuses a claim.
    """
    if attempt is None or attempt.state != "reserved" or attempt.owner != owner:
        found = "it is not in the ledger" if attempt is None else f"it is {attempt.state}"
        raise Refused(
            "ledger.single-dispatch",
            "CLAIM_LOST",
            because=f"This attempt is not reserved for this executor any more: {found}.",
            todo="Look at it (`executor ledger list`) before you ask again.",
        )
    _check_nothing_in_the_way(attempt, earlier, terms, now, asked=attempt.claimed)
    return msgspec.structs.replace(attempt, state="dispatching", dispatched=now)


# -- settle ---------------------------------------------------------------------------------------


def settlement(manifest: Manifest, verdict: Verdict) -> Settlement:
    """Say what a verdict makes of an attempt: only codes that prove it release."""
    state: Literal["delivered", "released", "unresolved"]
    if verdict.status == "delivered":
        state = "delivered"
    elif verdict.status == "undelivered" and verdict.code in releasing_codes(manifest):
        state = "released"
    else:
        state = "unresolved"
    return Settlement(state, verdict.code, verdict.because, result_id=verdict.result_id)


def releasing_codes(manifest: Manifest) -> frozenset[str | None]:
    """Give every code that proves that nothing was delivered."""
    declared = {o.code for o in manifest.outcomes if o.status == "undelivered"}
    return PROVES_NOTHING_RAN | (declared - {None})


def bail_out(code: str, because: str) -> Settlement:
    """Give the settlement of an attempt that was given up before its dispatch."""
    return Settlement("released", code, because)


def verdict_on_fault(verdict: Verdict) -> Settlement:
    """Give the settlement of an attempt that ended without an outcome of its command."""
    state: Literal["released", "unresolved"]
    state = "released" if verdict.code in PROVES_NOTHING_RAN else "unresolved"
    return Settlement(state, verdict.code, verdict.because)


def settle(attempt: Attempt, said: Settlement, now: Moment) -> Attempt:
    """Take in what became of an attempt, whatever is on record of it by now.

    A reserved attempt can only be released: nothing was started. What comes late refines what
    recovery had to leave open. What contradicts a person or evidence puts it in doubt again.
    """
    match attempt.state:
        case "reserved" if said.state != "released":
            return _settled(attempt, _never_dispatched(said), now)
        case "reserved" | "dispatching":
            return _settled(attempt, said, now)
        case "unresolved" if attempt.decided_by == "recovery":
            return _settled(attempt, said, now)
        case _:
            return _late(attempt, said, now)


def _never_dispatched(said: Settlement) -> Settlement:
    return msgspec.structs.replace(said, state="unresolved")


def _settled(attempt: Attempt, said: Settlement, now: Moment) -> Attempt:
    return msgspec.structs.replace(
        attempt,
        state=said.state,
        settled=now,
        decided_by=said.by,
        code=said.code,
        because=said.because,
        result_id=said.result_id,
        alarm=None,
    )


def _late(attempt: Attempt, said: Settlement, now: Moment) -> Attempt:
    """Weigh a result that comes after the decision: it neither wins nor is dropped."""
    if said.state in (attempt.state, "unresolved"):
        return attempt
    told = f"{said.state} ({said.code or said.result_id or said.by})"
    return msgspec.structs.replace(
        attempt,
        state="unresolved",
        settled=now,
        decided_by="late-result",
        code="LATE_RESULT",
        because=f"It was {attempt.state} by word of {attempt.decided_by}; later it came back as "
        f"{told}.",
        result_id=said.result_id or attempt.result_id,
        alarm=f"{attempt.state} by {attempt.decided_by}, then {told}",
    )


def resent(
    attempt: Attempt, others: Iterable[Attempt], said: Settlement, now: Moment
) -> Iterator[Attempt]:
    """Settle what was open under the same key: to the provider it is one delivery."""
    if not attempt.resend or attempt.state != "delivered":
        return
    for other in others:
        if other.state == "unresolved" and other.key == attempt.key and other.alarm is None:
            because = f"Attempt {attempt.id} was delivered under the same key."
            taken = Settlement("delivered", None, because, "resend", said.result_id)
            yield _settled(other, taken, now)


# -- decide: a person, or evidence ----------------------------------------------------------------


def decide(attempt: Attempt | None, name: str, said: Settlement, now: Moment) -> Attempt:
    """Let a person or evidence settle an unresolved attempt.

    Raises:
        Refused: ``ledger.by-attempt``: there is none; ``ledger.unresolved``: it is not unresolved.
    """
    if attempt is None:
        raise unknown_attempt(name)
    if said.by == "evidence" and attempt.state in ("delivered", "released"):
        return _late(attempt, said, now)
    if said.by == "evidence" and said.state == "released" and _may_live_on(attempt):
        return attempt
    if said.by == "evidence" and attempt.alarm is not None:
        return attempt  # somebody was wrong, perhaps the evidence: only a person can find out
    if attempt.state != "unresolved":
        raise _not_unresolved(attempt)
    return _settled(attempt, said, now)


def _may_live_on(attempt: Attempt) -> bool:
    """Whether the command may outlive its executor, and act after somebody looked."""
    return attempt.code == "EXECUTOR_GONE" and attempt.level == "bare"


def last_delivered(attempts: Sequence[Attempt]) -> str | None:
    """Give the attempt at an action that was delivered last, if any was."""
    return next((one.id for one in reversed(attempts) if one.state == "delivered"), None)


def evidence(manifest: Manifest, verdict: Verdict) -> Settlement | None:
    """Give what a `verify` command's answer settles; only a clear one does.

    Args:
        manifest: of the `verify` command.
    """
    said = settlement(manifest, verdict)
    if said.state == "unresolved" or verdict.code in PROVES_NOTHING_RAN:
        return None  # that the question was not asked proves nothing
    return msgspec.structs.replace(said, by="evidence")


def check_settled(attempt: Attempt) -> None:
    """Refuse to look for evidence while an attempt is still on its way.

    Raises:
        Refused: ``ledger.unresolved``.
    """
    if attempt.state in ("reserved", "dispatching"):
        raise _not_unresolved(attempt)


def no_verify_command(attempt: Attempt) -> Refused:
    """Give the refusal of a question that nothing declared can answer."""
    return Refused(
        "ledger.evidence",
        "NO_VERIFY_COMMAND",
        because=f"{attempt.tool} declares no `verify` command, or did not when attempt "
        f"{attempt.id} was made.",
        todo="Find out by hand, and say so with `executor ledger resolve`.",
    )


def _not_unresolved(attempt: Attempt) -> Refused:
    return Refused(
        "ledger.unresolved",
        "NOT_UNRESOLVED",
        because=f"Attempt {attempt.id} is {attempt.state}; only an unresolved one can be decided.",
        todo="Nothing needs to be decided."
        if attempt.state in ("delivered", "released")
        else "Wait for its end, or end the executor that it belongs to (process "
        f"{attempt.owner.pid}).",
    )


def unknown_attempt(name: str) -> Refused:
    """Give the refusal of a name that stands for no attempt."""
    return Refused(
        "ledger.by-attempt",
        "UNKNOWN_ATTEMPT",
        because=f"The ledger has no attempt {name!r}.",
        todo="`executor ledger list` shows those it has; settled ones are pruned after a time.",
    )


# -- recovery -------------------------------------------------------------------------------------


def is_gone(owner: Owner, seen: Sighting) -> bool:
    """Whether an owner is proven to be gone. Time proves nothing; a long run is no dead one."""
    if seen.lock == "held":
        return False
    if owner.boot != seen.boot:
        return True  # the kernel that it ran under is gone, and with it every process
    if owner.started and owner.namespace and owner.namespace == seen.namespace:
        return seen.started != owner.started
    return seen.lock == "free"


def recover(attempt: Attempt, gone: Gone, now: Moment) -> Attempt:
    """Settle an attempt whose executor is gone, by its last durable word."""
    if attempt.state not in ("reserved", "dispatching") or not gone(attempt.owner):
        return attempt
    if attempt.state == "reserved":
        because = "Its executor ended before the start. Nothing ran."
        said = Settlement("released", "EXECUTOR_GONE_BEFORE_START", because, "recovery")
    else:
        because = "Its executor ended while it ran. It may have happened."
        said = Settlement("unresolved", "EXECUTOR_GONE", because, "recovery")
    return _settled(attempt, said, now)


# -- pruning --------------------------------------------------------------------------------------


def prunable(attempt: Attempt, keep: float, now: Moment) -> bool:
    """Whether an attempt may be forgotten: it is settled, and blocks nothing any more.

    Args:
        keep: seconds that settled attempts stay, if their own window is not longer.
    """
    if attempt.state not in ("delivered", "released") or attempt.settled is None:
        return False
    return elapsed(attempt.settled, now) >= max(keep, attempt.window_ms / 1000)


# -- a look-up that failed ------------------------------------------------------------------------


def look_up_failed(name: str, attempts: Sequence[Attempt], why: str, *, answered: bool) -> Refused:
    """Give the refusal of an attempt whose look-up failed, by what the ledger knows better.

    A draft that its first send consumed is not found by the second; that is no fault of the
    look-up, even when the window is over.

    Args:
        name: the attempt whose look-up it was; a delivery that it stands beside explains nothing.
        attempts: every attempt at the same action.
        answered: it came to its end, so that what it looked for is not there.
    """
    beside = next((one.beside for one in attempts if one.id == name), None)
    known = next((one.number for one in attempts if one.id == beside), None)
    for attempt in reversed(attempts) if answered else ():
        meant = known is not None and attempt.number <= known
        if attempt.id != name and attempt.state == "unresolved":
            return duplicate(attempt, "unresolved")
        if attempt.id != name and attempt.state == "delivered" and not meant:
            return duplicate(attempt, "delivered")
    if answered:
        return Refused(
            "ledger.better-known",
            "LOOKUP_FAILED",
            because=f"The look-up before the action failed. {why}",
            todo="Correct what it looked for, then ask again; nothing was started.",
        )
    return Refused(
        "ledger.better-known",
        "LOOKUP_UNFINISHED",
        because=f"The look-up before the action gave no answer. {why}",
        todo="Ask again; nothing was started.",
    )


# -- doubt ----------------------------------------------------------------------------------------


def notes_of(before: Attempt | None, after: Attempt, said: Settlement, at: str) -> Iterator[Note]:
    """Say what goes beside the state of an attempt that was settled late, or by another."""
    if said.by in DECISIONS:
        return
    if before is not None and (before.state, before.decided_by) == (said.state, said.by):
        return  # said once more: the store was not sure that it had taken it
    if before is None:
        yield Note(after.id, at, "pruned", said.by, f"It settled as {said.state} after that.")
    elif before.state not in ("reserved", "dispatching"):
        text = f"{said.state} {said.code or ''} {said.result_id or ''}".strip()
        yield Note(after.id, at, "late-result", said.by, f"It came back as {text}.")


def in_doubt(attempts: Collection[Attempt]) -> list[Attempt]:
    """Give the attempts that a person has to look at, those with an alarm first."""
    open_ones = [attempt for attempt in attempts if attempt.state == "unresolved"]
    return sorted(open_ones, key=lambda attempt: (attempt.alarm is None, attempt.number))
