"""Options: what the commands that open an executor have in common."""

import getpass
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from executor.config import Config
from executor.store.state import default_directory

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
        type=click.Path(readable=False),  # whose it is, is told when it is opened
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


_STORE = _OPTIONS[:2]
"""Those that say which state directory is meant."""


def opening(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `executor.open_executor`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def storing(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `executor.embedding.open_ledger`."""
    for option in reversed(_STORE):
        command = option(command)
    return command


def state_directory(settings: Config, state: str | None) -> Path:
    """Give the state directory that is meant, whether it is there or not."""
    return Path(state or settings.state or default_directory())


def same_store(options: Mapping[str, Any]) -> str:
    """Give the options that lead another command to the same state directory, for a shell."""
    given = (("--config", options["config"]), ("--state", options["state"]))
    return "".join(f" {name} {shlex.quote(path)}" for name, path in given if path is not None)


def same_opening(options: Mapping[str, Any]) -> str:
    """Give the options that open the same executor in another command, for a shell."""
    several = (("--manifest", "manifests"), ("--root", "roots"), ("--trusted", "trusted"))
    words = [f" {name} {shlex.quote(path)}" for name, key in several for path in options[key]]
    degraded = " --degraded" if options["degraded"] else ""
    return same_store(options) + "".join(words) + degraded


def user() -> str | None:
    """Name the user of this process, if the system knows a name."""
    try:
        return getpass.getuser() or None
    except (KeyError, OSError):
        return None
