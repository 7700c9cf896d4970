"""Ledger: look at the attempts on record, and say what became of those that are in doubt."""

import shutil
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from executor import units
from executor.attempt import STATES, Attempt, Moment, Note, Settlement
from executor.cli import signals, working
from executor.cli.options import opening, same_store, state_directory, storing, user
from executor.cli.output import NOT_REPAIRED, note, print_json, printable, say, sentences, styled
from executor.config import Config
from executor.effects import clock
from executor.embedding import duplicate_window_from_environment, open_executor, open_ledger
from executor.finished import printable as storable
from executor.loading import read_config
from executor.refusal import Refused
from executor.rules import ledger as rules
from executor.rules import manifests
from executor.rules.outcomes import Verdict
from executor.store.ledger import Ledger
from executor.store.receipts import Receipts
from executor.units import Duration

IN_DOUBT = 4
UNSOUND = 3
SHORTEST_PREFIX = 8
"""Characters of an attempt's id that may stand for all of it, if no other begins so."""
MOST_CANDIDATES = 8
MOST_LISTED = 50
PAGE = 500
SHORT_ID = 16
"""Characters of an id that are shown where there is little room: its time, and some chance."""
WIDE = 110
"""Columns from which on whole ids and accounts are shown."""
_COLORS = {"delivered": "green", "unresolved": "yellow", "dispatching": "cyan", "reserved": "cyan"}


@click.group("ledger", short_help="Look at past attempts, and decide what is in doubt.")
def command() -> None:
    """Look at past attempts, and decide what is in doubt.

    The ledger is why the same action is not done twice. ATTEMPT is an attempt's id, or so many of
    its first characters, 8 at least, that no other begins so.

    \b
    Example:
      executor ledger list --in unresolved
      executor ledger show 0198c5d2a4be
      executor ledger resolve 0198c5d2a4be --delivered --why 'Bo has it'
    """


def _length(_: Any, __: Any, value: str | None) -> float | None:
    """Give the seconds of a duration such as ``2 h``."""
    if value is None:
        return None
    try:
        return float(units.parse(Duration, "0 s" if value == "0" else value))
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is no duration such as '2 h'; the units are ms, s, min, h and d."
        ) from None


def _since(_: Any, __: Any, value: str | None) -> str | None:
    """Give a point in time as RFC 3339, UTC, with milliseconds; a duration counts back from now."""
    if value is None:
        return None
    if value[4:5] != "-":
        now = clock.moment()
        ago = round((_length(_, __, value) or 0) * 1000)
        return Moment(max(0, now.wall - ago), 0, "").at
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            raise click.BadParameter(f"{value!r} has no zone: add Z, or one like +02:00.")
        at = moment.astimezone(UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{value!r} is no time such as 2026-07-12T14:03:05Z.") from None
    return at.replace("+00:00", "Z")


def _text(_: Any, __: Any, value: str | None) -> str | None:
    """Give a text that says something, and can be stored."""
    if value is not None and not value.strip():
        raise click.BadParameter("it is empty.")
    return None if value is None else storable(value)


_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else.")
_who = click.option(
    "--as",
    "who",
    callback=_text,
    metavar="WHO",
    help="Who says so; goes on record.  [default: the system's name of the user]",
)


# -- list, show -----------------------------------------------------------------------------------


@command.command("list", short_help="List attempts, the newest first.")
@click.option("--in", "in_state", type=click.Choice(STATES), help="Only those in this state.")
@click.option("--tool", callback=_text, metavar="TOOL", help="Only those of this tool.")
@click.option(
    "--account", callback=_text, metavar="TEXT", help="Only those on behalf of this account."
)
@click.option(
    "--since",
    callback=_since,
    metavar="TIME",
    help="Only those claimed since then: RFC 3339, or a duration before now ('2 h').",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"At most so many.  [default: {MOST_LISTED}; with --json all]",
)
@_as_json
@storing
def list_(
    in_state: str | None,
    tool: str | None,
    account: str | None,
    since: str | None,
    limit: int | None,
    as_json: bool,
    **options: Any,
) -> int:
    """List attempts, the newest first; with --json one object a line.

    At a narrow terminal ids and long texts are cut short; a pipe gets them whole.

    \b
    Example:
      executor ledger list --in unresolved
      executor ledger list --tool mail.send --since '2 h'
      executor ledger list --json | jq -r 'select(.alarm) | .attempt'
    """
    wanted: dict[str, Any] = {"state": in_state, "tool": tool, "account": account}
    wanted["since"] = since

    async def look(ledger: Ledger) -> None:
        if as_json:
            for attempt in _every(ledger, limit, wanted):
                print_json(attempt.facts())
            return
        most = limit or MOST_LISTED
        found = ledger.newest(most + 1, **wanted)
        say("\n".join(_table(found[:most])) if found else "No attempts.")
        if len(found) > most:
            note(f"these are the newest {most}; --limit shows more.")

    _with_ledger(options, look)
    return 0


@command.command("show", short_help="Show all that is known of one attempt.")
@click.argument("attempt", metavar="ATTEMPT")
@_as_json
@storing
def show(attempt: str, as_json: bool, **options: Any) -> int:
    """Show all that is known of one attempt, and of others at the same action.

    \b
    Example:
      executor ledger show 0198c5d2a4be
    """

    async def look(ledger: Ledger) -> None:
        found = _find(ledger, attempt)
        same = [one for one in ledger.same(found.fingerprint) if one.id != found.id]
        earlier = [one for one in same if one.number < found.number]
        later = [one for one in same if one.number > found.number]
        notes = ledger.notes(found.id)
        receipt = _receipt(ledger, found)
        if as_json:
            print_json(
                found.facts()
                | {
                    "notes": [msgspec.to_builtins(one) for one in notes],
                    "earlier": [one.facts() for one in earlier],
                    "later": [one.facts() for one in later],
                    "receipt": None if receipt is None else str(receipt),
                }
            )
            return
        say("\n".join(_card(found, receipt)))
        for title, lines in (
            ("Said about it:", _said(notes)),
            ("Earlier attempts at the same action:", _table(earlier[::-1])),
            ("Later attempts at the same action:", _table(later[::-1])),
        ):
            if lines:
                say("\n".join([styled(title, bold=True), *lines]))
        if found.state == "unresolved":
            asked = ledger.question(found.id) is not None
            say("\n".join(_what_next(found, same_store(options), verifiable=asked)))

    _with_ledger(options, look)
    return 0


# -- decide ---------------------------------------------------------------------------------------


@command.command("resolve", short_help="Say what became of an unresolved attempt.")
@click.argument("attempt", metavar="ATTEMPT")
@click.option("--delivered", is_flag=True, help="It happened: the same stays refused for a time.")
@click.option("--not-delivered", is_flag=True, help="It did not: the same may be asked again.")
@click.option(
    "--result-id",
    callback=_text,
    metavar="ID",
    help="With --delivered: the id that the other side gave it.",
)
@click.option(
    "--why",
    callback=_text,
    required=True,
    metavar="TEXT",
    help="How that is known; goes on record.",
)
@_who
@_as_json
@storing
def resolve(
    attempt: str,
    delivered: bool,
    not_delivered: bool,
    result_id: str | None,
    why: str,
    who: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Say what became of an unresolved attempt, after you found out. It counts as decided then.

    Say --not-delivered only if you know it: the same action can be done again at once.

    \b
    Example:
      executor ledger resolve 0198c5d2a4be --delivered --result-id 4bX2 \\
          --why 'the server has it in its log'
      executor ledger resolve 0198c5d2a4be --not-delivered --why 'asked Bo'
    """
    if delivered == not_delivered:
        raise click.UsageError("Say one of --delivered and --not-delivered.")
    if result_id is not None and not delivered:
        raise click.UsageError("--result-id goes with --delivered.")
    said = Settlement(
        "delivered" if delivered else "released", None, why, by="person", result_id=result_id
    )
    decided: list[Attempt] = []

    async def decide(ledger: Ledger) -> None:
        found = _find(ledger, attempt)
        if not as_json:
            say("\n".join(_card(found, _receipt(ledger, found))))
        decided.append(await ledger.decide(found.id, said, clock.moment(), who=_by(who), why=why))
        signals.settle(0)

    try:
        _with_ledger(options, decide)
    except signals.Interrupted:
        if not decided:
            raise
    if as_json:
        print_json(decided[0].facts())
    else:
        then = "it happened" if delivered else "it did not happen: the same may be asked again"
        say(f"By word of {printable(_by(who))}, {then}.")
    return 0


@command.command("verify", short_help="Let the tool's own verify command find out.")
@click.argument("attempt", metavar="ATTEMPT")
@_who
@_as_json
@opening
def verify(attempt: str, who: str | None, as_json: bool, **options: Any) -> int:
    """Let the read-only `verify` command of the attempt's tool find out whether it happened.

    A clear answer goes on record and decides an unresolved attempt; any other changes nothing.
    Exits with 0 after a clear answer, with 4 when there was none or the attempt is in doubt all the
    same.

    \b
    Example:
      executor ledger verify 0198c5d2a4be --manifest tools
    """
    answers: list[tuple[Attempt, Verdict, bool]] = []
    _check_there(read_config(options["config"]), options["state"])

    async def ask() -> None:
        async with open_executor(**options) as executor:
            found = _find(executor.gate.ledger, attempt)
            after, answer = await executor.gate.find_out(found.id, _by(who))
            asked = manifests.verify_of(executor.tools[found.tool].manifest)
            clear = asked is not None and rules.evidence(asked, answer) is not None
            answers.append((after, answer, clear))

    try:
        working.run(ask)
    except signals.Interrupted:
        if not answers:
            raise
    after, answer, clear = answers[0]
    code = 0 if clear and after.state != "unresolved" else IN_DOUBT
    signals.settle(code)
    if as_json:
        print_json(_answer(answer) | {"clear": clear, "attempt": after.facts()})
        return code
    clear_words = "it happened" if answer.status == "delivered" else "it did not happen"
    said = clear_words if clear else "no clear answer"
    say(f"The answer of {printable(after.tool)}: {said}{_in_brackets(answer.code)}.")
    say(f"  {printable(answer.because)}")
    if answer.result_id:
        say(f"  result id   {printable(answer.result_id)}")
    say(f"Attempt {after.id} is {styled(after.state, _COLORS.get(after.state))}.")
    if after.alarm:
        say(styled(f"ALARM: {printable(after.alarm)}.", "red", bold=True))
    if after.state == "unresolved":
        say("\n".join(_what_next(after, same_store(options), verifiable=False)))
    return code


# -- prune, doubt, check --------------------------------------------------------------------------


@command.command("prune", short_help="Forget settled attempts that are old.")
@click.option(
    "--older-than",
    callback=_length,
    metavar="DURATION",
    help="Settled so long ago ('30 d').  [default: `ledger.keep` of the configuration, else 90 d]",
)
@_as_json
@storing
def prune(older_than: float | None, as_json: bool, **options: Any) -> int:
    """Forget settled attempts that are old and block nothing any more; receipts stay.

    What is on its way or unresolved is never forgotten, nor what was delivered inside the window.
    It goes on by itself, a little at a time, whenever an executor opens; this does all of it.

    \b
    Example:
      executor ledger prune --older-than '30 d'
    """
    settings = read_config(options["config"])
    keep = settings.ledger.keep if older_than is None else older_than
    keep = max(keep, settings.ledger.window, duplicate_window_from_environment() or 0.0)
    told: dict[str, Any] = {}

    async def forget(ledger: Ledger) -> None:
        gone = await ledger.prune(keep, clock.moment())
        told.update(pruned=gone, kept=_counts(ledger))

    _with_ledger(options, forget)
    if as_json:
        print_json(told)
    else:
        kept = sum(told["kept"].values())
        say(f"{_many(told['pruned'])} forgotten, {kept} kept{_by_state(told['kept'])}.")
    return 0


@command.command("doubt", short_help="List what is unresolved, alarms first; for monitoring.")
@click.option(
    "--fail-if-any", is_flag=True, help=f"Exit with {IN_DOUBT} when there is anything in doubt."
)
@_as_json
@storing
def doubt(fail_if_any: bool, as_json: bool, **options: Any) -> int:
    """List what a person has to look at: unresolved attempts, those with an alarm first.

    An alarm says that a result contradicts what was decided before. With --fail-if-any the exit
    code is 0 when there is nothing in doubt, 4 when there is, and another when that could not be
    found out (2: no ledger there, 3: it is not sound). A monitor should take every code but 0 for
    a reason to call somebody.

    \b
    Example:
      executor ledger doubt --fail-if-any
    """
    found: list[Attempt] = []

    async def look(ledger: Ledger) -> None:
        found.extend(rules.in_doubt(ledger.unsettled()))

    _with_ledger(options, look)
    code = IN_DOUBT if fail_if_any and found else 0
    signals.settle(code)
    if as_json:
        for attempt in found:
            print_json(attempt.facts())
    else:
        alarms = sum(attempt.alarm is not None for attempt in found)
        with_alarm = f", {alarms} with an alarm" if alarms else ""
        say(f"{_many(len(found))} in doubt{with_alarm}{':' if found else '.'}")
        if found:
            say("\n".join(_table(found)))
    return code


@command.command("check", short_help="Read the whole store, and say whether it is sound.")
@_as_json
@storing
def check(as_json: bool, **options: Any) -> int:
    """Read the whole store, and say whether it is sound; nothing is repaired.

    Exits with 0 when it is, else with 3.

    \b
    Example:
      executor ledger check
    """
    found: dict[str, Any] = {}

    async def look(ledger: Ledger) -> None:
        found.update(path=str(ledger.database.path), found=ledger.database.check())
        if found["found"] is None:
            found["counts"] = _counts(ledger)

    try:
        _with_ledger(options, look)
    except Refused as no:
        if no.rule != "ledger.sound-store":
            raise
        found.update(found=no.because, todo=no.todo)
    sound = found["found"] is None
    code = 0 if sound else UNSOUND
    signals.settle(code)
    if as_json:
        nothing = dict.fromkeys(("path", "found", "todo", "counts"))
        print_json({"sound": sound} | nothing | found)
    elif sound:
        counts = found["counts"]
        say(styled("The ledger is sound: ", "green") + printable(found["path"]))
        say(f"{_many(sum(counts.values()))}{_by_state(counts)}.")
    else:
        say(styled("The ledger is NOT sound.", "red", bold=True))
        say("\n".join(sentences(found["found"], found.get("todo") or NOT_REPAIRED)))
    return code


# -- which attempt --------------------------------------------------------------------------------


def whole_id(ledger: Ledger, text: str) -> str:
    """Give the id that ``text`` begins, or ``text`` itself where none does.

    Raises:
        Refused: ``ledger.by-attempt``: several begin so.
    """
    found = _named(ledger, text)
    return text if found is None else found.id


def _find(ledger: Ledger, text: str) -> Attempt:
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


# -- parts ----------------------------------------------------------------------------------------


def _with_ledger(options: dict[str, Any], work: Callable[[Ledger], Awaitable[None]]) -> None:
    settings = read_config(options["config"])
    _check_there(settings, options["state"])

    async def open_it() -> None:
        async with open_ledger(settings, state=options["state"]) as ledger:
            await work(ledger)

    working.run(open_it)


def _check_there(settings: Config, state: str | None) -> None:
    """Begin no ledger only to find it empty: a slip in a path would look like "all is well"."""
    directory = state_directory(settings, state)
    if not any((directory / name).exists() for name in ("ledger.db", "store", "receipts")):
        raise click.UsageError(
            f"There is no ledger in {directory}: no executor was ever opened there."
        )


def _every(ledger: Ledger, limit: int | None, wanted: dict[str, Any]) -> Iterator[Attempt]:
    left, before = limit, None
    while left is None or left > 0:
        page = ledger.newest(PAGE if left is None else min(PAGE, left), before=before, **wanted)
        if not page:
            return
        yield from page
        before, left = page[-1].number, None if left is None else left - len(page)


def _receipt(ledger: Ledger, attempt: Attempt) -> Path | None:
    path = Receipts(ledger.database.path.parent).path(attempt.id)
    return path if path.exists() else None


def _by(who: str | None) -> str:
    return who or storable(user() or "somebody without a name")


def _counts(ledger: Ledger) -> dict[str, int]:
    counts = ledger.counts()
    return {state: counts.get(state, 0) for state in STATES}


def _answer(verdict: Verdict) -> dict[str, Any]:
    return {
        "answer": verdict.status,
        "code": verdict.code,
        "because": verdict.because,
        "result_id": verdict.result_id,
        "reply": verdict.reply,
    }


# -- words ----------------------------------------------------------------------------------------


def _table(attempts: Sequence[Attempt]) -> list[str]:
    """Give lines that fit the terminal; where there is none, nothing is cut."""
    width = shutil.get_terminal_size().columns if _is_terminal() else None
    narrow = width is not None and width < WIDE
    rows: list[tuple[str, ...]] = [("ATTEMPT", "STATE", "CLAIMED", "TOOL", "ACCOUNT", "RESULT")]
    rows += [_row(attempt, SHORT_ID if narrow else None) for attempt in attempts]
    if narrow:
        rows = [(*row[:4], row[5]) for row in rows]
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
        cells[1] = styled(cells[1], _COLORS[row[1]]) if row[1] in _COLORS else cells[1]
        line = "  ".join(cells).rstrip()
        lines.append(line if number else styled(line, bold=True))
    return lines


def _row(attempt: Attempt, most: int | None) -> tuple[str, ...]:
    alarm = f"ALARM: {attempt.alarm}" if attempt.alarm else None
    result = alarm or (attempt.result_id if attempt.state == "delivered" else attempt.code)
    at = f"{attempt.claimed.at[:19]}Z"
    texts = (attempt.tool, attempt.account, result or "")
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


def _card(attempt: Attempt, receipt: Path | None) -> Iterator[str]:
    state = styled(attempt.state, _COLORS.get(attempt.state), bold=True)
    yield f"Attempt {attempt.id}: {state}{_in_brackets(attempt.code)}"
    if attempt.alarm:
        yield styled(f"  ALARM       {printable(attempt.alarm)}", "red", bold=True)
    owner = f"process {attempt.owner.pid}, since boot {attempt.owner.boot}"
    settled = None if attempt.settled is None else f"{attempt.settled.at} by {attempt.decided_by}"
    window = units.show_duration(attempt.window_ms / 1000)
    for name, value in (
        ("because", attempt.because),
        ("tool", attempt.tool),
        ("account", attempt.account),
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


def _said(notes: Iterable[Note]) -> list[str]:
    return [
        f"  {one.at}  {one.kind}, by {printable(one.by)}: {printable(one.text)}" for one in notes
    ]


def _what_next(attempt: Attempt, where: str, *, verifiable: bool) -> Iterator[str]:
    if verifiable:
        yield "It may have happened. Its tool can find out (with the options of its run):"
        yield f"  executor ledger verify {attempt.id}{where}"
        yield "Or find out yourself, then say so, with --not-delivered if it did not happen:"
    else:
        yield "It may have happened. Find out, then say so, with --not-delivered if it did not:"
    yield f"  executor ledger resolve {attempt.id}{where} --delivered --why '...'"


def _many(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count} attempts"


def _by_state(counts: dict[str, int]) -> str:
    there = [f"{count} {state}" for state, count in counts.items() if count]
    return f" ({', '.join(there)})" if there else ""


def _in_brackets(text: str | None) -> str:
    return f" ({printable(text)})" if text else ""


def _is_terminal() -> bool:
    try:
        return sys.stdout.isatty()
    except ValueError:
        return False
