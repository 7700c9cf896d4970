"""Help: every command says what it does, with an example, and names no option without words."""

import re
from importlib.metadata import version

import pytest

from tests.cli.call import Cli

COMMANDS = [
    [],
    ["run"],
    ["ledger"],
    ["ledger", "list"],
    ["ledger", "show"],
    ["ledger", "resolve"],
    ["ledger", "verify"],
    ["ledger", "prune"],
    ["ledger", "doubt"],
    ["ledger", "check"],
    ["doctor"],
    ["manifest"],
    ["manifest", "check"],
    ["manifest", "schema"],
    ["verify"],
    ["demo"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_help_has_an_example(cli: Cli, command: list[str]) -> None:
    """People copy the example first, and read later."""
    done = cli(*command, "--help")

    assert (done.code, done.err) == (0, "")
    assert re.search(rf"\n  Example:\n    executor {' '.join(command)}", done.out)
    assert max(map(len, done.out.splitlines())) <= 80


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_option_is_explained(cli: Cli, command: list[str]) -> None:
    """An option without words is a riddle."""
    options = cli(*command, "--help").out.partition("\nOptions:\n")[2].partition("\n\n")[0]

    for entry in re.split(r"\n  (?=-)", options):
        assert len(entry.split()) > 3, entry


def test_the_short_option_is_the_same(cli: Cli) -> None:
    """`-h` is what fingers type."""
    assert cli("run", "-h").out == cli("run", "--help").out


def test_the_exit_codes_stand_in_the_help(cli: Cli) -> None:
    """Scripts are written with the help beside them."""
    text = cli("--help").out

    for code in (0, 2, 3, 4, 5, 6, 70):
        assert re.search(rf"^ +{code} +\w", text, re.MULTILINE), code


def test_the_version_is_told(cli: Cli) -> None:
    """The first line of every report of a fault."""
    assert cli("--version").out == f"executor, version {version('sealed-executor')}\n"


def test_without_arguments_the_help_is_shown(cli: Cli) -> None:
    """Nothing was asked, so nothing was done: that is no success."""
    done = cli()

    assert done.code == 2
    assert "Example:" in done.err
