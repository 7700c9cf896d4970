"""Showing: all that is known of one attempt."""

import shlex
from collections.abc import Iterable, Iterator
from typing import Any

import click
import msgspec

from executor.attempt import Attempt, Note
from executor.cli.ledger.parts import find, from_option, json_option, resend_until, with_ledger
from executor.cli.ledger.subject import (
    parameter_lines,
    parameters_of,
    receipt_path,
    subject_of,
)
from executor.cli.ledger.words import card, table, what_next
from executor.cli.options import same_store, storing
from executor.cli.output import note, print_json, printable, say, styled
from executor.effects import clock
from executor.loading import load_tools, read_config
from executor.manifest import Manifest
from executor.refusal import Refused
from executor.store.ledger import Ledger


@click.command("show", short_help="Show all that is known of one attempt.")
@click.argument("attempt", metavar="ATTEMPT")
@json_option
@click.option(
    "--manifest",
    "manifests",
    type=click.Path(),
    multiple=True,
    help="A manifest, or a directory of them, to say what its tool can find out. May be repeated.",
)
@from_option
@storing
def show(attempt: str, as_json: bool, manifests: tuple[str, ...], **options: Any) -> int:
    """Show all that is known of one attempt, and of others at the same action.

    What it was about, its targets and files, is what its receipt says.

    \b
    Example:
      executor ledger show 0198c5d2a4be
    """

    async def look(ledger: Ledger) -> None:
        found = find(ledger, attempt)
        same = ledger.same(found.fingerprint)
        earlier = [one for one in same if one.number < found.number]
        later = [one for one in same if one.number > found.number]
        notes = ledger.notes(found.id)
        receipt = receipt_path(ledger, found.id)
        subject, parameters = subject_of(ledger, found), parameters_of(ledger, found)
        if as_json:
            print_json(
                found.facts()
                | subject.facts()
                | {
                    "parameters": parameters,
                    "notes": [msgspec.to_builtins(one) for one in notes],
                    "earlier": [one.facts() for one in earlier],
                    "later": [one.facts() for one in later],
                    "receipt": None if receipt is None else found.id,
                    "receipt_path": None if receipt is None else str(receipt),
                }
            )
            return
        about = (*subject.lines(), *parameter_lines(parameters))
        elsewhere = "not beside this copy" if options["copy"] is not None else None
        say("\n".join(card(found, receipt or elsewhere, about)))
        for title, lines in (
            ("Said about it:", _said(notes)),
            ("Earlier attempts at the same action:", table(earlier[::-1])),
            ("Later attempts at the same action:", table(later[::-1])),
        ):
            if lines:
                say("\n".join([styled(title, bold=True), *lines]))
        if found.state == "unresolved" and options["copy"] is None:
            manifest = _manifest(found.tool, options["config"], manifests)
            given = "".join(f" --manifest {shlex.quote(path)}" for path in manifests)
            if manifest is None:  # it had one when it ran
                given += " --manifest MANIFEST"
            where, asked = same_store(options), ledger.question(found.id) is not None
            lines = [*what_next(found, where, where + given if asked else None)]
            say("\n".join([*lines, *_again(manifest, found, same)]))

    with_ledger(options, look, looking=True)
    return 0


def _manifest(tool: str, config: str | None, manifests: tuple[str, ...]) -> Manifest | None:
    """Give a tool's manifest, where it is shipped or given; only its words are wanted here."""
    settings = read_config(config)
    try:
        tools = load_tools((*settings.manifests, *manifests), packs=settings.packs)
    except Refused as no:
        note(f"without the manifests: {printable(no.because)}")
        return None
    return tools[tool].manifest if tool in tools else None


def _again(manifest: Manifest | None, found: Attempt, same: list[Attempt]) -> Iterator[str]:
    until = manifest and resend_until(manifest, found, same, clock.moment())
    if until and found == same[-1]:
        yield f"Asked again just so, it goes out under the same idempotency key, until {until}."


def _said(notes: Iterable[Note]) -> list[str]:
    return [
        f"  {one.at}  {one.kind}, by {printable(one.by)}: {printable(one.text)}" for one in notes
    ]
