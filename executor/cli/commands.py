"""Commands: the groups of the `executor` command, and what becomes of an error."""

import importlib
import json
import logging
import os
import traceback
from collections.abc import Sequence
from typing import Any

import click

from executor.cli import output, signals
from executor.cli.signals import Interrupted
from executor.refusal import Refused

FAULT = 70
_NO_ARGUMENTS: tuple[type[Exception], ...] = tuple(
    filter(None, [getattr(click.exceptions, "NoArgsIsHelpError", None)])  # since click 8.2
)
_HOMES = ("run", "ledger", "doctor", "manifest", "verify", "spec", "mutants", "demo")


class _Lazy(click.Group):
    """Loads a command's module when that command is called: `executor --help` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_HOMES)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002
        cmd_name: str,
    ) -> click.Command | None:
        if cmd_name not in _HOMES:
            return None
        command: click.Command = importlib.import_module(f"executor.cli.{cmd_name}").command
        return command


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sealed-executor", prog_name="executor")
def cli() -> None:
    """The one gate through which commands with side effects pass.

    What runs is exactly what was frozen, in a sandbox, and every end has a receipt. Start with
    `executor demo`, which shows it, and `executor doctor`, which says what this machine can do.

    \b
    Example:
      executor run mail.send -p sender=ana@example.org -p to=bo@example.org \\
          -f message=invoice.eml

    \b
    Exit codes:
      0   delivered
      2   the input is not valid; nothing was started
      3   refused by a rule; nothing was started
      4   unresolved: it may have happened
      5   did not happen, proven
      6   waiting for approval
      70  a fault of the executor itself
    """


def invoke(arguments: Sequence[str]) -> int:
    """Run one command and give its exit code. With ``--json`` every end has its JSON object."""
    logging.getLogger("executor").addHandler(_Notes())
    try:
        code: int = cli.main(list(arguments), prog_name="executor", standalone_mode=False) or 0
    except click.exceptions.Exit as done:
        code = done.exit_code
    except Exception as failed:
        code, words, result = _told(failed)
        signals.settle(code)
        output.warn(words)
        if "--json" in arguments:
            output.print_json(result)
    if output.lost() and not signals.begun():  # the output was all there was to do
        return code or 1
    return code


def _told(failed: Exception) -> tuple[int, str, dict[str, Any]]:
    """Give exit code, words for people, and the result."""
    match failed:
        case Refused():
            code = 2 if failed.row.invalid_input else 3
            return code, output.refusal_words(failed), output.refused_result(failed)
        case click.Abort() | Interrupted():
            return _interrupted()
        case click.ClickException():
            return _not_understood(failed)
    return _fault(failed)


class _Notes(logging.Handler):
    """Passes on what the library warns of, in one line each and without a traceback."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            output.note(output.printable(record.getMessage()))
            if record.exc_info and os.environ.get("EXECUTOR_DEBUG"):
                traceback.print_exception(record.exc_info[1])


def _not_understood(wrong: click.ClickException) -> tuple[int, str, dict[str, Any]]:
    context = wrong.ctx if isinstance(wrong, click.UsageError) else None
    path = "executor" if context is None else context.command_path
    todo = f"See `{path} --help`." if isinstance(wrong, click.UsageError) else ""
    if isinstance(wrong, _NO_ARGUMENTS):  # its message is the help
        words, because = wrong.format_message(), "A command is missing."
    else:
        because = output.printable(wrong.format_message(), lines=True)
        words = f"executor: {because} {todo}".strip()
    result = output.bare_result(
        status="refused",
        code="INVALID_REQUEST",
        stage="admit",
        recovery="fix",
        rule="admission.closed-request",
        because=because,
        todo=todo or None,
    )
    return wrong.exit_code, words, result


def _interrupted() -> tuple[int, str, dict[str, Any]]:
    words = "executor: interrupted; nothing was started."
    return signals.NOTHING_HAPPENED, words, json.loads(signals.RESULT)


def _fault(fault: Exception) -> tuple[int, str, dict[str, Any]]:
    said = f"{type(fault).__name__}: {fault}"
    words = [f"executor: a fault of the executor itself: {output.printable(said)}"]
    if signals.begun():
        words.append("  Whether the action happened is not known: look before you ask again.")
    words.append("  Set EXECUTOR_DEBUG=1 to see where it failed, and report it.")
    if os.environ.get("EXECUTOR_DEBUG"):
        words += traceback.format_exception(fault)
    result = output.bare_result(
        status="unresolved" if signals.begun() else "undelivered",
        code="EXECUTOR_FAULT",
        recovery="ask" if signals.begun() else "retry",
        because=f"A fault of the executor itself: {said}",
    )
    return FAULT, "\n".join(words), result
