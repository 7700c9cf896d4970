"""Doctor: what this machine can promise, proven by a probe."""

import tempfile
from collections.abc import Iterable
from typing import Any

import click

from executor import units
from executor.cli import signals, working
from executor.cli.options import opening, state_directory
from executor.cli.output import NOT_REPAIRED, print_json, printable, say, sentences, styled
from executor.embedding import WINDOW_VARIABLE, Executor, open_executor
from executor.loading import read_config
from executor.refusal import Refused
from executor.rules import ledger as rules
from executor.rules.isolation import strongest

IN_MEMORY = ("tmpfs",)


@click.command("doctor", short_help="Say what this machine can promise, and what is missing.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as one JSON object.")
@opening
def command(as_json: bool, **options: Any) -> int:
    """Say which isolation levels work here, what is missing, and how to get it.

    Each level is tried with a real command: finding a program proves nothing. Beside that it says
    for every loaded tool whether its command is there, and reads the whole ledger. Exits with 0
    when namespaced isolation works and the ledger is sound, else with 1.

    \b
    Example:
      executor doctor
      executor doctor --json --manifest tools
    """
    found: dict[str, Any] = {}

    async def look() -> None:
        try:
            async with open_executor(**options) as executor:
                found.update(_look(executor))
        except Refused as no:
            if no.rule not in ("ledger.sound-store", "ledger.full-disk"):
                raise
            unsound = no
        else:
            return
        with tempfile.TemporaryDirectory(prefix="executor-doctor-") as elsewhere:
            async with open_executor(**options | {"state": elsewhere}) as executor:
                found.update(_look(executor))
        state = state_directory(read_config(options["config"]), options["state"])
        found.update(state=str(state), ledger=_unsound(found["ledger"], unsound))

    working.run(look)
    healthy = found["strongest"] == "namespaced" and found["ledger"]["sound"]
    code = 0 if healthy else 1
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
        "ledger": _ledger(executor),
    }


def _ledger(executor: Executor) -> dict[str, Any]:
    gate = executor.gate
    database, in_doubt = gate.ledger.database, rules.in_doubt(gate.ledger.unsettled())
    try:
        wrong, todo = database.check(), None
    except Refused as no:
        wrong, todo = no.because, no.todo
    windows = {
        name: rules.window(tool.manifest, gate.window, gate.forced_window)
        for name, tool in executor.tools.items()
    }
    usual = gate.window if gate.forced_window is None else gate.forced_window
    return {
        "sound": wrong is None,
        "wrong": wrong,
        "todo": todo,
        "path": str(database.path),
        "sqlite": database.sqlite_version,
        "journal": database.journal,
        "file_system": database.file_system,
        "wal_reset_fix": database.journal == "wal",
        "window_ms": round(usual * 1000),
        "window_forced": gate.forced_window is not None,
        "other_windows_ms": {
            name: round(window * 1000)
            for name, window in sorted(windows.items())
            if window != usual
        },
        "counts": gate.ledger.counts(),
        "in_doubt": len(in_doubt),
        "alarms": sum(attempt.alarm is not None for attempt in in_doubt),
    }


def _unsound(keys: Iterable[str], no: Refused) -> dict[str, Any]:
    return dict.fromkeys(keys) | {"sound": False, "wrong": no.because, "todo": no.todo}


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
    yield from _ledger_lines(found["ledger"])


def _ledger_lines(ledger: dict[str, Any]) -> Iterable[str]:
    yield "The ledger, which keeps the same from being done twice:"
    if ledger["sound"]:
        yield f"  {styled('sound', 'green')}: all of it was read"
    else:
        yield styled("  NOT SOUND", "red", bold=True)
        yield from sentences(ledger["wrong"], ledger["todo"] or NOT_REPAIRED)
    if ledger["path"] is None:
        return
    yield f"  {printable(ledger['path'])}, SQLite {ledger['sqlite']}, journal {ledger['journal']}"
    if ledger["file_system"] in IN_MEMORY:
        yield styled("  IN MEMORY", "red", bold=True) + (
            f": it lies on {ledger['file_system']}, and a reboot wipes it, with all that it knows"
        )
    if not ledger["wal_reset_fix"]:
        yield "  This SQLite can lose commits in WAL mode (the WAL-reset bug), so a rollback"
        yield "  journal is used, which is slower; a newer `apsw` has the fix."
    yield from _window_lines(ledger)
    counts = ", ".join(f"{count} {state}" for state, count in sorted(ledger["counts"].items()))
    yield f"  attempts: {counts or 'none yet'}"
    if ledger["in_doubt"]:
        alarms = f", {ledger['alarms']} with an alarm" if ledger["alarms"] else ""
        yield styled(f"  {ledger['in_doubt']} in doubt{alarms}", "yellow", bold=True) + (
            ": a person has to look, `executor ledger doubt`"
        )


def _window_lines(ledger: dict[str, Any]) -> Iterable[str]:
    source = f", forced by {WINDOW_VARIABLE}" if ledger["window_forced"] else ""
    window = units.show_duration(ledger["window_ms"] / 1000)
    if ledger["window_ms"]:
        yield f"  a delivery blocks the same for {window}{source}"
    else:
        yield styled("  UNGUARDED", "red", bold=True) + (
            f": the window is 0{source}; what was delivered can be delivered again at once"
        )
    for tool, milliseconds in ledger["other_windows_ms"].items():
        if milliseconds:
            yield f"  {tool}: for {units.show_duration(milliseconds / 1000)}"
        else:
            yield styled(f"  {tool}: UNGUARDED", "red", bold=True) + ", its window is 0"
