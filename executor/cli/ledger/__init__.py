"""Ledger: look at the attempts on record, and say what became of those that are in doubt."""

import click

from executor.cli.ledger import deciding, keeping, listing, showing


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


for _one in (
    listing.list_,
    showing.show,
    deciding.resolve,
    deciding.verify,
    keeping.prune,
    listing.doubt,
    keeping.check,
):
    command.add_command(_one)
