"""Listing: what is on record, and what of it is in doubt."""

from typing import Any

import click

from executor.attempt import STATES, Attempt
from executor.cli import signals
from executor.cli.ledger.parts import (
    every,
    from_option,
    json_option,
    point_in_time,
    some_text,
    with_ledger,
)
from executor.cli.ledger.subject import first_targets
from executor.cli.ledger.words import many, table
from executor.cli.options import storing
from executor.cli.output import note, print_json, say
from executor.effects import clock
from executor.rules import ledger as rules
from executor.store.ledger import Ledger

IN_DOUBT = 4
MOST_LISTED = 50


@click.command("list", short_help="List attempts, the newest first.")
@click.option("--in", "in_state", type=click.Choice(STATES), help="Only those in this state.")
@click.option("--tool", callback=some_text, metavar="TOOL", help="Only those of this tool.")
@click.option(
    "--account", callback=some_text, metavar="TEXT", help="Only those on behalf of this account."
)
@click.option(
    "--since",
    callback=point_in_time,
    metavar="TIME",
    help="Only those claimed since then: RFC 3339, or a duration before now ('2 h').",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"At most so many.  [default: {MOST_LISTED}; with --json all]",
)
@json_option
@from_option
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
      executor ledger list --from backup.db
    """
    wanted: dict[str, Any] = {"state": in_state, "tool": tool, "account": account}
    wanted["since"] = since

    async def look(ledger: Ledger) -> None:
        if as_json:
            for attempt in every(ledger, limit, **wanted):
                print_json(attempt.facts())
            return
        most = limit or MOST_LISTED
        found = ledger.newest(most + 1, **wanted)
        targets = first_targets(ledger, found[:most])
        say("\n".join(table(found[:most], targets)) if found else "No attempts.")
        if len(found) > most:
            note(f"these are the newest {most}; --limit shows more.")

    with_ledger(options, look, looking=True)
    return 0


@click.command("doubt", short_help="List what is unresolved, alarms first; for monitoring.")
@click.option(
    "--fail-if-any", is_flag=True, help=f"Exit with {IN_DOUBT} when there is anything in doubt."
)
@json_option
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
    targets: dict[str, str] = {}

    async def look(ledger: Ledger) -> None:
        # On a full disk what killed executors left is not settled, and in doubt all the same.
        now = clock.moment()
        unsettled = [rules.recover(one, ledger.gone, now) for one in ledger.unsettled()]
        found.extend(rules.in_doubt(unsettled))
        targets.update(first_targets(ledger, found))

    with_ledger(options, look, looking=True)
    code = IN_DOUBT if fail_if_any and found else 0
    signals.settle(code)
    if as_json:
        for attempt in found:
            print_json(attempt.facts())
    else:
        alarms = sum(attempt.alarm is not None for attempt in found)
        with_alarm = f", {alarms} with an alarm" if alarms else ""
        say(f"{many(len(found))} in doubt{with_alarm}{':' if found else '.'}")
        if found:
            say("\n".join(table(found, targets)))
    return code
