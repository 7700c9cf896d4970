"""Main: the `executor` command, its groups, and what becomes of an error."""

import importlib
import os
import sys
import traceback
from typing import Any

import click

from executor.cli.output import FAULT, NOTHING_HAPPENED, tell_problem, writing
from executor.refusal import Refused

_HOMES = {"demo": "demo", "doctor": "doctor", "manifest": "manifest", "run": "run"}


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
        module = importlib.import_module(f"executor.cli.{_HOMES[cmd_name]}")
        command: click.Command = module.command
        return command


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sealed-executor", prog_name="executor")
def cli() -> None:
    """The one gate through which commands with side effects pass.

    What is run is exactly what was frozen, in a sandbox, with a receipt.

    \b
    Exit codes of commands that run an action:
      0 delivered        4 unresolved: it may have happened
      2 invalid input    5 did not happen, proven
      3 refused          70 a fault of the executor
    """


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line and exit with its code; an error is told, without a traceback."""
    try:
        code = cli.main(arguments, prog_name="executor", standalone_mode=False)
    except click.exceptions.Exit as done:
        code = done.exit_code
    except click.ClickException as wrong:
        wrong.show(sys.stderr)
        code = 2
    except Refused as no:
        tell_problem(no)
        code = 2 if no.row.invalid_input else 3
    except (KeyboardInterrupt, click.Abort):
        print("executor: interrupted; nothing was started.", file=sys.stderr)
        code = NOTHING_HAPPENED
    except BrokenPipeError:
        code = FAULT
    except Exception as fault:
        _tell_fault(fault)
        code = FAULT
    with writing():
        sys.stdout.flush()
    sys.exit(code if isinstance(code, int) else 0)


def _tell_fault(fault: Exception) -> None:
    if os.environ.get("EXECUTOR_DEBUG"):
        traceback.print_exception(fault)
    print(
        f"executor: a fault of the executor itself: {type(fault).__name__}: {fault}\n"
        "Set EXECUTOR_DEBUG=1 to see where, and report it.",
        file=sys.stderr,
    )
