"""Keeping: forget what is old, and see whether all the rest is sound."""

from collections import Counter
from typing import Any

import click

from executor import units
from executor.attempt import STATES, Attempt, Moment
from executor.cli import signals
from executor.cli.ledger.parts import duration, every, json_option, with_ledger
from executor.cli.ledger.words import many
from executor.cli.options import storing
from executor.cli.output import NOT_REPAIRED, print_json, printable, say, sentences, styled
from executor.effects import clock
from executor.embedding import duplicate_window_from_environment
from executor.loading import load_tools, read_config
from executor.refusal import Refused
from executor.rules import ledger as rules
from executor.rules.ledger import elapsed
from executor.rules.manifests import Tool
from executor.store.ledger import Ledger

UNSOUND = 3
WHY_KEPT = {
    "on-its-way": "on its way",
    "unresolved": "unresolved, until somebody decides",
    "inside-its-window": "inside its window",
    "young": "settled less than {keep} ago",
    "needed": "of an action that is still open, or without a receipt in its place",
}


@click.command("prune", short_help="Forget settled attempts that are old.")
@click.option(
    "--older-than",
    callback=duration,
    metavar="DURATION",
    help="Settled so long ago ('30 d').  [default: `ledger.keep` of the configuration, else 90 d]",
)
@click.option(
    "--manifest",
    "manifests",
    type=click.Path(),
    multiple=True,
    help="Manifests, beside the shipped and the configured ones: their windows count.",
)
@json_option
@storing
def prune(
    older_than: float | None, manifests: tuple[str, ...], as_json: bool, **options: Any
) -> int:
    """Forget settled attempts that are old and block nothing any more; receipts stay.

    What is on its way or unresolved is never forgotten, and nothing inside its window: its own, or
    the longer one that its manifest, the configuration or EXECUTOR_DUPLICATE_WINDOW says now. What
    has no manifest here stays for `ledger.keep`, whatever is said. It goes on by itself, a little
    at a time, whenever an executor opens; this does all of it.

    \b
    Example:
      executor ledger prune --older-than '30 d' --manifest tools
    """
    settings = read_config(options["config"])
    tools: dict[str, Tool] = {}
    forced = duplicate_window_from_environment()
    least = settings.ledger.keep if older_than is None else older_than

    def window(tool: str) -> float:
        if tool not in tools:
            return settings.ledger.keep
        manifest = tools[tool].manifest
        known = 0.0 if manifest.idempotency is None else manifest.idempotency.window
        return max(known, rules.window(manifest, settings.ledger.window, forced))

    def keep(tool: str) -> float:
        return max(least, window(tool))

    told: dict[str, Any] = {}

    async def forget(ledger: Ledger) -> None:
        tools.update(load_tools((*settings.manifests, *manifests), packs=settings.packs))
        now = clock.moment()
        gone = await ledger.prune(keep, now)
        why = Counter(
            _why_kept(one, keep(one.tool), window(one.tool), now) for one in every(ledger)
        )
        told.update(pruned=gone, kept=_counted(ledger), why={one: why[one] for one in WHY_KEPT})

    with_ledger(options, forget)
    if as_json:
        print_json(told)
    else:
        kept = sum(told["kept"].values())
        say(f"{many(told['pruned'])} forgotten, {kept} kept{':' if kept else '.'}")
        for one, count in told["why"].items():
            if count:
                say(f"  {count:>6}  {WHY_KEPT[one].format(keep=units.show_duration(least))}")
    return 0


@click.command("check", short_help="Read the whole store, and say whether it is sound.")
@json_option
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
            found["counts"] = _counted(ledger)

    try:
        with_ledger(options, look, looking=True)
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
        say(f"{many(sum(counts.values()))}{_by_state(counts)}.")
    else:
        say(styled("The ledger is NOT sound.", "red", bold=True))
        say("\n".join(sentences(found["found"], found.get("todo") or NOT_REPAIRED)))
    return code


def _why_kept(attempt: Attempt, keep: float, window: float, now: Moment) -> str:
    if attempt.state == "unresolved":
        return "unresolved"
    if attempt.settled is None or attempt.state not in ("delivered", "released"):
        return "on-its-way"
    gone = elapsed(attempt.settled, now)
    if gone < max(window, attempt.window_ms / 1000):
        return "inside-its-window"
    return "young" if gone < keep else "needed"


def _counted(ledger: Ledger) -> dict[str, int]:
    counts = ledger.counts()
    return {state: counts.get(state, 0) for state in STATES}


def _by_state(counts: dict[str, int]) -> str:
    there = [f"{count} {state}" for state, count in counts.items() if count]
    return f" ({', '.join(there)})" if there else ""
