"""Words: how attempts are told to people."""

import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from executor import units
from executor.attempt import Attempt
from executor.cli.output import printable, styled

SHORT_ID = 16
"""Characters of an id that are shown where there is little room: its time, and some chance."""
WIDE = 110
"""Columns from which on whole ids, accounts and targets are shown."""
HEAD = ("ATTEMPT", "STATE", "CLAIMED", "TOOL", "ACCOUNT", "TARGET", "RESULT")
COLORS = {"delivered": "green", "unresolved": "yellow", "dispatching": "cyan", "reserved": "cyan"}


def table(
    attempts: Sequence[Attempt], targets: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """Give lines that fit the terminal; where there is none, nothing is cut.

    Args:
        targets: by attempt, what it acted on.
    """
    width = shutil.get_terminal_size().columns if _is_terminal() else None
    narrow = width is not None and width < WIDE
    rows: list[tuple[str, ...]] = [HEAD]
    rows += [_row(one, SHORT_ID if narrow else None, targets.get(one.id)) for one in attempts]
    if narrow:
        rows = [(*row[:4], row[-1]) for row in rows]
    elif not targets:
        rows = [(*row[:5], row[-1]) for row in rows]
    if len(rows) == 1:
        return []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if width is not None:
        fixed, gaps = sum(widths[:3]), 2 * (len(widths) - 1)
        widths[3:] = _shares(widths[3:], max(width - fixed - gaps, len(widths[3:])))
    lines = []
    for number, row in enumerate(rows):
        cells = [f"{_cut(cell, room):<{room}}" for cell, room in zip(row, widths, strict=True)]
        cells[-1] = cells[-1].rstrip()
        cells[1] = styled(cells[1], COLORS[row[1]]) if row[1] in COLORS else cells[1]
        line = "  ".join(cells).rstrip()
        lines.append(line if number else styled(line, bold=True))
    return lines


def _row(attempt: Attempt, most: int | None, target: str | None) -> tuple[str, ...]:
    alarm = f"ALARM: {attempt.alarm}" if attempt.alarm else None
    result = alarm or (attempt.result_id if attempt.state == "delivered" else attempt.code)
    at = f"{attempt.claimed.at[:19]}Z"
    texts = (attempt.tool, attempt.account, target or "", result or "")
    return (attempt.id[:most], attempt.state, at, *map(printable, texts))


def _shares(wanted: Sequence[int], room: int) -> list[int]:
    """Share the room out; who needs less than an equal part leaves the rest to the others."""
    shares = list(wanted)
    left = len(shares)
    for index in sorted(range(len(shares)), key=lambda i: shares[i]):
        shares[index] = min(shares[index], room // left)
        room, left = room - shares[index], left - 1
    return shares


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: max(room - 3, 0)] + "..."[:room]


def card(
    attempt: Attempt, receipt: Path | str | None, subject: Iterable[tuple[str, str]] = ()
) -> Iterator[str]:
    """Give all that is known of an attempt, in lines.

    Args:
        receipt: its path, or why it is not known.
        subject: names and values of what it was about.
    """
    state = styled(attempt.state, COLORS.get(attempt.state), bold=True)
    yield f"Attempt {attempt.id}: {state}{in_brackets(attempt.code)}"
    if attempt.alarm:
        yield styled(f"  ALARM       {printable(attempt.alarm)}", "red", bold=True)
    owner = f"process {attempt.owner.pid}, since boot {attempt.owner.boot}"
    settled = None if attempt.settled is None else f"{attempt.settled.at} by {attempt.decided_by}"
    window = units.show_duration(attempt.window_ms / 1000)
    for name, value in (
        ("because", attempt.because),
        ("tool", attempt.tool),
        ("account", attempt.account),
        *subject,
        ("claimed", attempt.claimed.at),
        ("dispatched", None if attempt.dispatched is None else attempt.dispatched.at),
        ("settled", settled),
        ("result id", attempt.result_id),
        ("window", window if attempt.window_ms else "0: its delivery blocks nothing"),
        ("beside", attempt.beside),
        ("resend", "yes, under the same idempotency key" if attempt.resend else None),
        ("action", f"sha256:{attempt.action}"),
        ("fingerprint", attempt.fingerprint),
        ("owner", owner if attempt.state in ("reserved", "dispatching") else None),
        ("receipt", _not_yet(attempt) if receipt is None else str(receipt)),
    ):
        if value is not None:
            first, *more = value.strip().split("\n")
            yield f"  {name:<11} {printable(first)}"
            yield from (f"  {'':<11} {printable(line)}" for line in more)


def _not_yet(attempt: Attempt) -> str:
    if attempt.state in ("reserved", "dispatching"):
        return "none before its end"
    return "not in its place; if its executor was killed, the next one that opens writes it"


def what_next(attempt: Attempt, where: str, verifying: str | None = None) -> Iterator[str]:
    """Say how to find out what became of an unresolved attempt, and how to say so.

    Args:
        where: options that lead another command to the same state directory.
        verifying: options for `executor ledger verify`, if its tool can find out.
    """
    if verifying is not None:
        yield "It may have happened. Its tool can find out:"
        yield f"  executor ledger verify {attempt.id}{verifying}"
        yield "Or find out yourself, then say so, with --not-delivered if it did not happen:"
    else:
        yield "It may have happened. Find out, then say so, with --not-delivered if it did not:"
    yield f"  executor ledger resolve {attempt.id}{where} --delivered --why '...'"


def many(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count} attempts"


def in_brackets(text: str | None) -> str:
    return f" ({printable(text)})" if text else ""


def _is_terminal() -> bool:
    try:
        return sys.stdout.isatty()
    except ValueError:
        return False
