"""Doctor: what this machine can promise, proven by a probe."""

import shutil
from typing import Any

import click
import trio

from executor.cli.options import opening
from executor.cli.output import print_json, printable, writing
from executor.embedding import open_executor
from executor.rules.isolation import strongest

_COMMANDS = {"curl": "mail.send, http.post", "git": "git.push", "cp": "file.copy"}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as one JSON object.")
@opening
def command(as_json: bool, **options: Any) -> int:
    """Say which isolation levels work here, what is missing, and how to get it.

    Each level is tried with a real command. Exits with 0 when namespaced isolation works, else
    with 1.

    \b
    Example:
      executor doctor
    """
    found: dict[str, Any] = {}

    async def look() -> None:
        async with open_executor(**options) as executor:
            found["state"] = str(executor.state)
            found["tools"] = sorted(executor.tools)
            found["levels"] = executor.levels

    trio.run(look)
    levels = found["levels"]
    best = strongest(levels)
    found["strongest"] = best.level
    found["commands"] = {name: shutil.which(name) for name in _COMMANDS}
    if as_json:
        shown = [
            {"level": e.level, "works": e.works, "why": e.why, "missing": list(e.missing)}
            for e in levels
        ]
        print_json(found | {"levels": shown})
    else:
        with writing():
            click.echo("\n".join(_lines(found)))
    return 0 if best.level == "namespaced" else 1


def _lines(found: dict[str, Any]) -> list[str]:
    lines = ["Isolation, each level tried with a real command:"]
    for entry in found["levels"]:
        sign = (
            click.style("works ", fg="green") if entry.works else click.style("not here", fg="red")
        )
        lines.append(f"  {entry.level:<11} {sign}  {printable(entry.why)}")
        lines += [f"  {'':<11}   missing: {missing}" for missing in entry.missing]
    lines.append(f"Actions run as {found['strongest']}, the strongest that works.")
    if found["strongest"] == "bare":
        lines.append("Tools that require more are refused, unless --degraded accepts it.")
    lines.append("Commands of the shipped tools:")
    for name, path in found["commands"].items():
        lines.append(f"  {name:<11} {path or 'not installed'} ({_COMMANDS[name]})")
    lines.append(f"State directory: {found['state']}")
    return lines
