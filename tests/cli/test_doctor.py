"""Doctor: what this machine can promise, in words and as data."""

import json
from typing import Any

import pytest

from tests.cli.call import Cli, Done


def findings(done: Done) -> dict[str, Any]:
    """Give the one JSON object."""
    assert done.out.count("\n") == 1
    found: dict[str, Any] = json.loads(done.out)
    return found


def break_bwrap(cli: Cli) -> None:
    """Put a bwrap that only says its version before the real one."""
    cli.house.install("bwrap", "import sys; sys.exit(0 if '--version' in sys.argv else 1)\n")


# rule: isolation.probed
def test_a_machine_where_the_sandbox_works_exits_with_0(cli: Cli, namespaced: None) -> None:
    """A deployment asks this once, and goes by the exit code."""
    done = cli("doctor", *cli.where, "--json")

    assert done.code == 0
    found = findings(done)
    assert found["strongest"] == "namespaced"
    assert {level["level"]: level["works"] for level in found["levels"]}["namespaced"]
    assert found["state"] == str(cli.house.state)


# rule: isolation.probed
def test_a_bwrap_that_is_there_but_does_not_work_exits_with_1(cli: Cli) -> None:
    """A program that answers `--version` proves nothing."""
    cli.house.manifest()
    break_bwrap(cli)

    done = cli("doctor", *cli.where, "--json")
    said = cli("doctor", *cli.where)

    assert (done.code, said.code) == (1, 1)
    found = findings(done)
    assert found["strongest"] == "bare"
    (level,) = (level for level in found["levels"] if level["level"] == "namespaced")
    assert not level["works"]
    assert str(cli.house.bin / "bwrap") in level["why"]
    assert "not here" in said.out
    assert "Refused here, because they require more: " in said.out
    assert "test.fake" in said.out


def test_degraded_mode_is_told(cli: Cli) -> None:
    """Whoever reads the findings must know which of them still bind."""
    break_bwrap(cli)

    said = cli("doctor", *cli.where, "--degraded")

    assert said.code == 1
    assert "Degraded mode is on" in said.out


# rule: isolation.declared
def test_without_a_sandbox_a_run_is_refused_unless_degraded(cli: Cli) -> None:
    """What doctor says has to be what happens."""
    break_bwrap(cli)

    refused = cli(*cli.fake(), "--json")
    degraded = cli(*cli.fake(), "--degraded", "--json")

    assert (refused.code, refused.result()["code"]) == (3, "ISOLATION_UNAVAILABLE")
    assert degraded.code == 0
    assert degraded.result()["isolation"]["level"] == "bare"
    assert degraded.result()["isolation"]["missing"]


def test_a_tool_whose_command_is_missing_is_named_with_what_to_do(cli: Cli) -> None:
    """The command is looked for where a run would look for it, not in PATH."""
    cli.house.manifest(tool="test.gone", command="no-such-command")
    cli.house.manifest()

    done = cli("doctor", *cli.where, "--json")
    said = cli("doctor", *cli.where)

    tools = {tool["tool"]: tool for tool in findings(done)["tools"]}
    assert tools["test.fake"]["path"] == str(cli.house.bin / "fake")
    assert tools["test.gone"]["path"] is None
    assert "COMMAND_NOT_FOUND" in tools["test.gone"]["why"]
    assert tools["test.gone"]["todo"] in said.out


@pytest.mark.parametrize(
    "shipped",
    ["file.copy", "git.push", "http.post", "mail.draft.send", "mail.schedule", "mail.send"],
)
def test_the_shipped_tools_are_told(cli: Cli, shipped: str) -> None:
    """They are loaded without any option."""
    assert shipped in cli("doctor").out
