"""Ledgers: `executor ledger` at the command line, and runs that fill it."""

import json
from typing import Any

from tests.cli.call import Cli, Done

SENT = {"stdout": "id=A1\n"}
UNCLEAR: dict[str, Any] = {"then": {"exit": 9}}
NOT_SENT: dict[str, Any] = {"then": {"exit": 64}}
OUTCOMES = [
    {"when": {"exit": 0}, "is": "delivered", "result_id": {"stdout": r"id=(\S+)"}},
    {"when": {"exit": 64}, "is": "undelivered", "code": "NOTHING_SENT"},
]


def ledger(cli: Cli, *words: str, **how: Any) -> Done:
    """Run `executor ledger` on the house's state directory."""
    return cli("ledger", *words, "--state", str(cli.house.state), **how)


def listed(cli: Cli, *words: str) -> list[dict[str, Any]]:
    """Give what `list` has, by its JSON Lines."""
    done = ledger(cli, "list", "--json", *words)
    assert (done.code, done.err) == (0, "")
    return [json.loads(line) for line in done.out.splitlines()]


def states(cli: Cli) -> list[str]:
    """Give the state of every attempt, the oldest first."""
    return [entry["state"] for entry in reversed(listed(cli))]


def run(cli: Cli, plan: dict[str, Any]) -> str:
    """Run another action, and give its attempt."""
    attempt: str = cli(*cli.fake(plan), "--json").result()["attempt"]
    return attempt


def verifying(cli: Cli, plan: dict[str, Any]) -> None:
    """Let the fake's manifest have a `verify` command that answers so."""
    written = json.dumps(plan).replace("{", "{{").replace("}", "}}")
    cli.house.manifest(verify={"argv": [["--plan-json", written]], "outcomes": OUTCOMES})


def verify(cli: Cli, attempt: str, *words: str) -> Done:
    return cli("ledger", "verify", attempt, *words, *cli.where)
