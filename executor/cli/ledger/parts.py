"""Parts: what the commands of the ledger share: options, the open ledger, the attempt meant."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from executor import units
from executor.attempt import Attempt, Moment
from executor.cli import working
from executor.cli.options import state_directory, user
from executor.config import Config
from executor.effects import clock
from executor.embedding import open_ledger
from executor.finished import printable as storable
from executor.loading import read_config
from executor.refusal import Refused
from executor.rules import ledger as rules
from executor.store.ledger import Ledger
from executor.store.receipts import Receipts
from executor.units import Duration

SHORTEST_PREFIX = 8
"""Characters of an attempt's id that may stand for all of it, if no other begins so."""
MOST_CANDIDATES = 8


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
        Refused: ``ledger.by-attempt``: several begin so.
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
        raise rules.unknown_attempt(text)
    return found


def _named(ledger: Ledger, text: str) -> Attempt | None:
    name = storable(text)
    if (found := ledger.find(name)) is not None:
        return found
    if len(name) < SHORTEST_PREFIX:
        return None
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


def with_ledger(options: dict[str, Any], work: Callable[[Ledger], Awaitable[None]]) -> None:
    settings = read_config(options["config"])
    check_there(settings, options["state"])

    async def open_it() -> None:
        async with open_ledger(settings, state=options["state"]) as ledger:
            await work(ledger)

    working.run(open_it)


def check_there(settings: Config, state: str | None) -> None:
    """Begin no ledger only to find it empty: a slip in a path would look like "all is well"."""
    directory = state_directory(settings, state)
    if not any((directory / name).exists() for name in ("ledger.db", "store", "receipts")):
        raise click.UsageError(
            f"There is no ledger in {directory}: no executor was ever opened there."
        )


def receipt_path(ledger: Ledger, attempt: Attempt) -> Path | None:
    path = Receipts(ledger.database.path.parent).path(attempt.id)
    return path if path.exists() else None


def whom(who: str | None) -> str:
    return who or storable(user() or "somebody without a name")
