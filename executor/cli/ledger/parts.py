"""Parts: what the commands of the ledger share: options, the open ledger, the attempt meant."""

import contextlib
import os
import pwd
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from executor import units
from executor.attempt import Attempt, Moment
from executor.cli import working
from executor.cli.ledger.subject import not_in_the_ledger
from executor.cli.options import state_directory, user
from executor.cli.output import note, printable
from executor.config import Config
from executor.effects import clock
from executor.embedding import open_ledger
from executor.finished import printable as storable
from executor.loading import read_config
from executor.manifest import Manifest
from executor.refusal import Refused
from executor.rules import ledger as rules
from executor.store.ledger import Ledger
from executor.store.looking import look_at_copy
from executor.units import Duration

SHORTEST_PREFIX = 8
"""Characters of an attempt's id that may stand for all of it, if no other begins so."""
MOST_CANDIDATES = 8
PAGE = 500


def duration(_: Any, __: Any, value: str | None) -> float | None:
    """Give the seconds of a duration such as ``2 h``."""
    if value is None:
        return None
    try:
        return float(units.parse(Duration, "0 s" if value == "0" else value))
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is no duration such as '2 h'; the units are ms, s, min, h and d."
        ) from None


def point_in_time(_: Any, __: Any, value: str | None) -> str | None:
    """Give a point in time as RFC 3339, UTC, with milliseconds; a duration counts back from now."""
    if value is None:
        return None
    if value[4:5] != "-":
        now = clock.moment()
        ago = round((duration(_, __, value) or 0) * 1000)
        return Moment(max(0, now.wall - ago), 0, "").at
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            raise click.BadParameter(f"{value!r} has no zone: add Z, or one like +02:00.")
        at = moment.astimezone(UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{value!r} is no time such as 2026-07-12T14:03:05Z.") from None
    return at.replace("+00:00", "Z")


def some_text(_: Any, __: Any, value: str | None) -> str | None:
    """Give a text that says something, and can be stored."""
    if value is not None and not value.strip():
        raise click.BadParameter("it is empty.")
    return None if value is None else storable(value)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else.")
from_option = click.option(
    "--from",
    "copy",
    type=click.Path(exists=True, dir_okay=False),
    metavar="COPY",
    help="Look at a copy of a ledger.db, such as a backup. Nothing in it is changed.",
)
who_option = click.option(
    "--as",
    "who",
    callback=some_text,
    metavar="WHO",
    help="Who says so; goes on record.  [default: the system's name of the user]",
)


def whole_id(ledger: Ledger, text: str) -> str:
    """Give the id that ``text`` begins, or ``text`` itself where none does.

    Raises:
        Refused: ``ledger.by-attempt``: it is too short, or several begin so.
    """
    found = _named(ledger, text)
    return text if found is None else found.id


def find(ledger: Ledger, text: str) -> Attempt:
    """Give the attempt with this id, or whose id alone begins so.

    Raises:
        Refused: ``ledger.by-attempt``.
    """
    found = _named(ledger, text)
    if found is None:
        raise not_in_the_ledger(ledger, text) or rules.unknown_attempt(text)
    return found


def _named(ledger: Ledger, text: str) -> Attempt | None:
    name = storable(text)
    if (found := ledger.find(name)) is not None:
        return found
    if len(name) < SHORTEST_PREFIX:
        raise Refused(
            "ledger.by-attempt",
            "UNKNOWN_ATTEMPT",
            because=f"{text!r} is too short to stand for an attempt.",
            todo=f"Give {SHORTEST_PREFIX} characters of its id at least.",
        )
    found_ones = ledger.beginning(name, MOST_CANDIDATES + 1)
    if len(found_ones) > 1:
        names = [one.id for one in found_ones[:MOST_CANDIDATES]]
        more = " and more" if len(found_ones) > MOST_CANDIDATES else ""
        raise Refused(
            "ledger.by-attempt",
            "UNKNOWN_ATTEMPT",
            because=f"Several attempts begin with {text!r}:\n" + "\n".join(names) + more,
            todo="Give more of the one that you mean.",
        )
    return found_ones[0] if found_ones else None


def with_ledger(
    options: Mapping[str, Any],
    work: Callable[[Ledger], Awaitable[None]],
    *,
    looking: bool = False,
) -> None:
    """Open the ledger that the options mean, and work with it.

    Args:
        looking: nothing is to be written, so that a full disk is no hindrance.
    """
    if options.get("copy") is not None:
        _with_copy(options, work)
        return
    settings = read_config(options["config"])
    check_there(settings, options["state"])

    async def open_it() -> None:
        async with open_ledger(settings, state=options["state"], looking=looking) as ledger:
            await work(ledger)

    working.run(open_it)


def _with_copy(options: Mapping[str, Any], work: Callable[[Ledger], Awaitable[None]]) -> None:
    if options["state"] is not None:
        raise click.UsageError("Say one of --from and --state.")
    note(f"this is a copy, {printable(options['copy'])}: it knows nothing of what came after it.")

    async def open_it() -> None:
        await work(look_at_copy(Path(options["copy"])))

    working.run(open_it)


def check_there(settings: Config, state: str | None) -> None:
    """Begin no ledger only to find it empty: a slip in a path would look like "all is well"."""
    directory = state_directory(settings, state)
    try:
        there = any((directory / name).exists() for name in ("ledger.db", "store", "receipts"))
        ours = not there or directory.stat().st_uid == os.geteuid()
    except PermissionError:
        ours = False
    if not ours:
        raise _not_ours(directory)
    if not there:
        raise click.UsageError(
            f"There is no ledger in {directory}: no executor was ever opened there."
        )


def _not_ours(directory: Path) -> Refused:
    """Say whose a directory is that this user may not use."""
    whole = directory.absolute()
    place, owner = whole, 0
    for place in (whole, *whole.parents):
        with contextlib.suppress(OSError):  # what lies in a closed directory is not to be seen
            owner = place.stat().st_uid
            break
    lies = "" if place == whole else f" lies in {place}, which"
    return Refused(
        "freezing.private-store",
        "STORE_UNAVAILABLE",
        because=f"The state directory {whole}{lies} belongs to user {_name(owner)}, and this is "
        f"user {_name(os.geteuid())}.",
        todo="Ask as its user: a ledger is for the one user that its executors run as.",
    )


def _name(number: int) -> str:
    try:
        return f"{pwd.getpwuid(number).pw_name} ({number})"
    except KeyError:
        return str(number)


def whom(who: str | None) -> str:
    return who or storable(user() or "somebody without a name")


def resend_until(
    manifest: Manifest, attempt: Attempt, same: Sequence[Attempt], now: Moment
) -> str | None:
    """Say until when an unresolved action goes out again under its key, if it does.

    Args:
        same: every attempt at the same action, in the order of their claims.
    """
    if attempt.state != "unresolved" or not attempt.key or attempt.alarm is not None:
        return None
    under = (one.dispatched for one in same if one.key == attempt.key and one.dispatched)
    first = next(under, None)
    if manifest.idempotency is None or first is None or first.boot != now.boot:
        return None
    gone = max(now.ticks - first.ticks, now.wall - first.wall)
    left = round(manifest.idempotency.window * 1000) - gone
    return None if left <= 0 else Moment(now.wall + left, 0, "").at


def every(ledger: Ledger, limit: int | None = None, **wanted: Any) -> Iterator[Attempt]:
    """Give attempts, the newest first, without holding them all at once."""
    left, before = limit, None
    while left is None or left > 0:
        page = ledger.newest(PAGE if left is None else min(PAGE, left), before=before, **wanted)
        if not page:
            return
        yield from page
        before, left = page[-1].number, None if left is None else left - len(page)
