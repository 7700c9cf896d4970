"""Run: take one request through the gate."""

import contextlib
import getpass
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import trio

from executor.cli.options import opening
from executor.cli.output import NOTHING_HAPPENED, print_json, refused_result, tell_receipt
from executor.embedding import Executor, open_executor
from executor.manifest import Manifest
from executor.problems import Faulty, read
from executor.receipt import Receipt
from executor.refusal import Refused
from executor.request import AskedBy, FileGiven, Request
from executor.rules.admission import coerce, find_tool

PROGRESS_FROM = 64 * 2**20
"""Bytes from which on freezing shows how far it has come."""


@click.command("run")
@click.argument("what", metavar="TOOL|REQUEST")
@click.option(
    "-p",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter; repeat it for a list.",
)
@click.option(
    "-f", "files", multiple=True, metavar="NAME=PATH", help="A file; repeat it for a list."
)
@click.option("--account", help="On whose behalf, where the manifest does not say.")
@click.option("--as", "role", help="The role that asks.")
@click.option("--level", help="The autonomy level of the request.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@opening
def command(
    what: str,
    parameters: tuple[str, ...],
    files: tuple[str, ...],
    account: str | None,
    role: str | None,
    level: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Run one action: a TOOL with -p and -f, or a REQUEST file (.yaml, .yml, .json).

    \b
    Example:
      executor run mail.send -p sender=ana@example.org -p to=bo@example.org \\
          -f message=invoice.eml
      executor run request.yaml --json
    """
    told: list[tuple[Receipt, str]] = []

    async def work() -> None:
        async with open_executor(**options) as executor:
            request = _request(executor, what, parameters, files, account, role, level)
            await _run(executor, request, told)

    try:
        trio.run(work)
    except Refused as no:
        if not told:  # refused before the gate, or the refusal could not be recorded
            if as_json:
                print_json(refused_result(no))
            raise
    for receipt, place in told:
        if as_json:
            print_json(receipt.result())
        else:
            tell_receipt(receipt, place)
        return receipt.exit_code
    return NOTHING_HAPPENED


async def _run(executor: Executor, request: Request, told: list[tuple[Receipt, str]]) -> None:
    """Run the request until it ends, or until a signal says to end it."""
    refused: list[Refused] = []

    def tell(receipt: Receipt) -> None:
        told.append((receipt, str(executor.receipt_path(receipt))))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_on_signal, nursery.cancel_scope)
        with _progress() as progress:
            try:
                await executor.run(request, progress=progress, tell=tell)
            except Refused as no:
                refused.append(no)
        nursery.cancel_scope.cancel()
    if refused:  # not from inside the nursery, which would wrap it into a group
        raise refused[0]


async def _cancel_on_signal(scope: trio.CancelScope) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        async for number in signals:
            name = signal.Signals(number).name
            click.echo(f"executor: {name}: ending what runs, and waiting for its end.", err=True)
            scope.cancel()


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """Show people at a terminal how far the freezing of large files has come."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    columns = (TextColumn("freezing"), BarColumn(), DownloadColumn(binary_units=True))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: list[Any] = []

        def show(done: int, total: int) -> None:
            if total < 2 * PROGRESS_FROM:
                return
            if not tasks:
                tasks.append(bar.add_task("", total=total))
            bar.update(tasks[0], completed=done)

        yield show


def _request(
    executor: Executor,
    what: str,
    parameters: tuple[str, ...],
    files: tuple[str, ...],
    account: str | None,
    role: str | None,
    level: str | None,
) -> Request:
    if what.endswith((".yaml", ".yml", ".json")):
        if parameters or files:
            raise click.UsageError("-p and -f go with a tool's name; a request file has its own.")
        request = read_request(Path(what))
    else:
        tool = find_tool(executor.tools, what)
        request = Request(
            tool=what,
            asked_by=AskedBy(role=role or "operator", channel="cli", sender=_user()),
            parameters=_parameters(tool.manifest, parameters),
            files=_files(files),
        )
    changes: dict[str, Any] = {}
    if account is not None:
        changes["account"] = account
    if level is not None:
        changes["level"] = level
    if role is not None:
        changes["asked_by"] = msgspec.structs.replace(request.asked_by, role=role)
    return msgspec.structs.replace(request, **changes)


def read_request(path: Path) -> Request:
    """Read a request file.

    Raises:
        Refused: ``admission.closed-request``, with every problem found.
    """
    try:
        return read(path.read_bytes(), str(path), Request)[0]
    except Faulty as faulty:
        found = f"The request is not valid:\n{faulty}\n"
    except OSError as failed:
        found = f"{path}: {failed.strerror}."
    raise Refused(
        "admission.closed-request",
        "INVALID_REQUEST",
        because=found,
        todo="Correct it and ask again; nothing was started.",
    )


def _parameters(manifest: Manifest, given: tuple[str, ...]) -> dict[str, Any]:
    texts = _pairs(given, "-p")
    return {
        name: coerce(manifest.parameters[name], values)
        if name in manifest.parameters
        else values[-1]
        for name, values in texts.items()
    }


def _files(given: tuple[str, ...]) -> dict[str, FileGiven]:
    return {
        name: paths[0] if len(paths) == 1 else tuple(paths)
        for name, paths in _pairs(given, "-f").items()
    }


def _pairs(given: tuple[str, ...], option: str) -> dict[str, list[str]]:
    pairs: dict[str, list[str]] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f"{option} {pair!r} has no '='; write {option} name=value.")
        pairs.setdefault(name, []).append(value)
    return pairs


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None
