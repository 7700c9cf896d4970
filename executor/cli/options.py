"""Options: what the commands that open an executor have in common."""

from collections.abc import Callable
from typing import Any

import click

_OPTIONS = (
    click.option(
        "--config",
        type=click.Path(dir_okay=False),
        envvar="EXECUTOR_CONFIG",
        show_envvar=True,
        help="A configuration file. None is looked for by itself.",
    ),
    click.option(
        "--state",
        type=click.Path(),
        help="The private directory of copies and receipts.  "
        "[default: $XDG_STATE_HOME/sealed-executor, or below ~/.local/state]",
    ),
    click.option(
        "--manifest",
        "manifests",
        type=click.Path(),
        multiple=True,
        help="A manifest, or a directory of them. May be repeated.",
    ),
    click.option(
        "--root",
        "roots",
        type=click.Path(),
        multiple=True,
        help="A directory below which files may be frozen; by default the current one.",
    ),
    click.option(
        "--trusted",
        type=click.Path(),
        multiple=True,
        help="A directory of commands beside the system's own.",
    ),
    click.option(
        "--degraded",
        is_flag=True,
        default=None,
        help="Accept weaker isolation than a manifest requires. The receipt says what was missing.",
    ),
)


def opening(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `executor.open_executor`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
