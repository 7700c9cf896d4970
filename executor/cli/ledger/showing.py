"""Showing: all that is known of one attempt."""

from collections.abc import Iterable
from typing import Any

import click
import msgspec

from executor.attempt import Note
from executor.cli.ledger.parts import find, json_option, receipt_path, with_ledger
from executor.cli.ledger.words import card, table, what_next
from executor.cli.options import same_store, storing
from executor.cli.output import print_json, printable, say, styled
from executor.store.ledger import Ledger


@click.command("show", short_help="Show all that is known of one attempt.")
@click.argument("attempt", metavar="ATTEMPT")
@json_option
@storing
def show(attempt: str, as_json: bool, **options: Any) -> int:
    """Show all that is known of one attempt, and of others at the same action.

    \b
    Example:
      executor ledger show 0198c5d2a4be
    """

    async def look(ledger: Ledger) -> None:
        found = find(ledger, attempt)
        same = [one for one in ledger.same(found.fingerprint) if one.id != found.id]
        earlier = [one for one in same if one.number < found.number]
        later = [one for one in same if one.number > found.number]
        notes = ledger.notes(found.id)
        receipt = receipt_path(ledger, found)
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
        say("\n".join(card(found, receipt)))
        for title, lines in (
            ("Said about it:", _said(notes)),
            ("Earlier attempts at the same action:", table(earlier[::-1])),
            ("Later attempts at the same action:", table(later[::-1])),
        ):
            if lines:
                say("\n".join([styled(title, bold=True), *lines]))
        if found.state == "unresolved":
            asked = ledger.question(found.id) is not None
            say("\n".join(what_next(found, same_store(options), verifiable=asked)))

    with_ledger(options, look)
    return 0


def _said(notes: Iterable[Note]) -> list[str]:
    return [
        f"  {one.at}  {one.kind}, by {printable(one.by)}: {printable(one.text)}" for one in notes
    ]
