"""Commands: the groups of the `executor` command, and what becomes of an error."""

import importlib
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
_HOMES = ("run", "doctor", "manifest", "demo")


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
    as_json = "--json" in arguments
    result: dict[str, Any] | None = None
    try:
        code = cli.main(list(arguments), prog_name="executor", standalone_mode=False) or 0
    except click.exceptions.Exit as done:
        code = done.exit_code
    except click.ClickException as wrong:
        code, result = _not_understood(wrong)
    except Refused as no:
        output.tell_refusal(no)
        code, result = 2 if no.row.invalid_input else 3, output.refused_result(no)
    except (Interrupted, KeyboardInterrupt, click.Abort):
        output.note("interrupted; nothing was started.")
        code, result = signals.NOTHING_HAPPENED, _interrupted()
    except Exception as fault:
        _tell_fault(fault)
        code, result = FAULT, _faulty(fault)
    if as_json and result is not None:
        output.print_json(result)
    if output.lost() and not signals.settled():
        return int(code) or 1
    return int(code)


class _Notes(logging.Handler):
    """Passes on what the library warns of, in one line each and without a traceback."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            output.note(output.printable(record.getMessage()))
            if record.exc_info and os.environ.get("EXECUTOR_DEBUG"):
                traceback.print_exception(record.exc_info[1])


def _not_understood(wrong: click.ClickException) -> tuple[int, dict[str, Any]]:
    context = wrong.ctx if isinstance(wrong, click.UsageError) else None
    path = "executor" if context is None else context.command_path
    if isinstance(wrong, _NO_ARGUMENTS):  # its message is the help
        output.warn(wrong.format_message())
        message, todo = "A command is missing.", f"See `{path} --help`."
    else:
        message = output.printable(wrong.format_message(), lines=True)
        todo = f"See `{path} --help`." if isinstance(wrong, click.UsageError) else ""
        output.note(f"{message} {todo}".strip())
    result = output.bare_result(
        status="refused",
        code="INVALID_REQUEST",
        stage="admit",
        recovery="fix",
        rule="admission.closed-request",
        because=message,
        todo=todo or None,
    )
    return wrong.exit_code, result


def _interrupted() -> dict[str, Any]:
    return output.bare_result(
        status="undelivered",
        code="CANCELLED",
        recovery="retry",
        because="It was interrupted; nothing was started.",
    )


def _faulty(fault: Exception) -> dict[str, Any]:
    return output.bare_result(
        status="unresolved" if signals.begun() else "undelivered",
        code="EXECUTOR_FAULT",
        recovery="ask" if signals.begun() else "retry",
        because=f"A fault of the executor itself: {type(fault).__name__}: {fault}",
    )


def _tell_fault(fault: Exception) -> None:
    if os.environ.get("EXECUTOR_DEBUG"):
        traceback.print_exception(fault)
    said = output.printable(f"{type(fault).__name__}: {fault}")
    output.note(f"a fault of the executor itself: {said}")
    if signals.begun():
        output.warn("  Whether the action happened is not known: look before you ask again.")
    output.warn("  Set EXECUTOR_DEBUG=1 to see where it failed, and report it.")
