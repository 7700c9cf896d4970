"""Doctor: what this machine can promise, proven by a probe."""

from collections.abc import Iterable
from typing import Any

import click

from executor.cli import signals, working
from executor.cli.options import opening
from executor.cli.output import print_json, printable, say, styled
from executor.embedding import Executor, open_executor
from executor.refusal import Refused
from executor.rules.isolation import strongest


@click.command("doctor", short_help="Say what this machine can promise, and what is missing.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as one JSON object.")
@opening
def command(as_json: bool, **options: Any) -> int:
    """Say which isolation levels work here, what is missing, and how to get it.

    Each level is tried with a real command: finding a program proves nothing. Beside that it says
    for every loaded tool whether its command is there. Exits with 0 when namespaced isolation
    works, else with 1.

    \b
    Example:
      executor doctor
      executor doctor --json --manifest tools
    """
    found: dict[str, Any] = {}

    async def look() -> None:
        async with open_executor(**options) as executor:
            found.update(_look(executor))

    working.run(look)
    code = 0 if found["strongest"] == "namespaced" else 1
    signals.settle(code)
    if as_json:
        print_json(found)
    else:
        say("\n".join(_lines(found)))
    return code


def _look(executor: Executor) -> dict[str, Any]:
    tools = executor.tools
    return {
        "strongest": strongest(executor.levels).level,
        "degraded": executor.gate.degraded,
        "levels": [
            {"level": e.level, "works": e.works, "why": e.why, "missing": list(e.missing)}
            for e in executor.levels
        ],
        "tools": [{"tool": name, **_command(executor, name)} for name in sorted(tools)],
        "trusted": list(executor.gate.commands.trusted),
        "state": str(executor.state),
    }


def _command(executor: Executor, tool: str) -> dict[str, Any]:
    manifest = executor.tools[tool].manifest
    facts: dict[str, Any] = {
        "command": manifest.command,
        "requires": manifest.isolation.level,
        "path": None,
        "why": None,
        "todo": None,
    }
    try:
        return facts | {"path": executor.gate.commands.pin(manifest.command).argv(())[-1]}
    except Refused as no:
        return facts | {"why": f"{no.code}: {no.because}", "todo": no.todo}


def _lines(found: dict[str, Any]) -> Iterable[str]:
    yield "Isolation, each level tried with a real command:"
    for level in found["levels"]:
        sign, color = ("works", "green") if level["works"] else ("not here", "red")
        yield f"  {level['level']:<11} {styled(f'{sign:<8}', color)}  {printable(level['why'])}"
        for missing in level["missing"]:
            yield f"  {'':<11} {'':<8}  missing: {printable(missing)}"
    yield f"Actions run as {found['strongest']}, the strongest that works."
    lacking = [tool["tool"] for tool in found["tools"] if tool["requires"] == "namespaced"]
    if found["strongest"] == "bare" and lacking:
        if found["degraded"]:
            yield "Degraded mode is on: tools that require more run all the same, and say so."
        else:
            yield f"Refused here, because they require more: {', '.join(lacking)}."
            yield "  (--degraded, or `degraded: true` in the configuration, would accept it.)"
    yield "Tools, and the commands behind them:"
    width = max((len(tool["tool"]) for tool in found["tools"]), default=0)
    for tool in found["tools"]:
        name = f"{tool['tool']:<{width}}"
        if tool["path"] is not None:
            yield f"  {name}  {printable(tool['path'])}"
        else:
            yield f"  {name}  {styled('not here', 'red')}  {printable(tool['why'])}"
            yield f"  {'':<{width}}            {printable(tool['todo'])}"
    yield f"State directory: {printable(found['state'])}"
