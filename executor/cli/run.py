"""Run: take one request through the gate."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from executor.cli import signals, working
from executor.cli.ledger.parts import resend_until, whole_id
from executor.cli.options import opening, same_opening, same_store, user
from executor.cli.output import print_json, tell_receipt
from executor.effects import clock
from executor.effects.texts import read_text
from executor.embedding import Executor, open_executor
from executor.manifest import Manifest
from executor.problems import Faulty, read
from executor.receipt import Receipt
from executor.refusal import Refused
from executor.request import AskedBy, FileGiven, Request
from executor.rules.admission import coerce

PROGRESS_FROM = 64 * 2**20
"""Bytes from which on freezing shows how far it has come."""
REQUEST_FILES = (".yaml", ".yml", ".json")


@click.command("run", short_help="Run one action, and exit with its end.")
@click.argument("what", metavar="TOOL|REQUEST")
@click.option(
    "-p",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the tool. Repeat it for each entry of a list.",
)
@click.option(
    "-f",
    "files",
    multiple=True,
    metavar="NAME=PATH",
    help="A file for the tool, copied and hashed before anything runs. Repeat it for a list.",
)
@click.option(
    "--account",
    metavar="TEXT",
    help="On whose behalf the command acts, where the manifest does not say.",
)
@click.option("--as", "role", metavar="ROLE", help="The role that asks.  [default: operator]")
@click.option(
    "--level", metavar="LEVEL", help="The autonomy level of the request.  [default: Supervised]"
)
@click.option(
    "--allow-duplicate",
    metavar="ATTEMPT",
    help="The earlier attempt that is known, beside which the same is wanted once more.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@opening
def command(
    what: str,
    parameters: tuple[str, ...],
    files: tuple[str, ...],
    account: str | None,
    role: str | None,
    level: str | None,
    allow_duplicate: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Run one action: a TOOL with -p and -f, or a REQUEST file (.yaml, .yml, .json, or any path
    with a slash).

    The exit code is the end: 0 delivered, 2 input not valid, 3 refused, 4 unresolved (it may have
    happened), 5 did not happen. Ctrl-C ends the command and waits until all of it is gone. With
    --json, stdout has the result and nothing else; words for people go to stderr.

    The same action asked again is refused while an earlier attempt is on its way, for 15 minutes
    after it was delivered, and for as long as nobody knows what became of it; see
    `executor ledger`.

    \b
    Example:
      executor run mail.send -p sender=ana@example.org -p to=bo@example.org \\
          -f message=invoice.eml
      executor run request.yaml --json
    """
    told: list[tuple[Receipt, str]] = []
    until: list[str | None] = []

    async def work() -> None:
        async with open_executor(**options) as executor:
            if _is_request_file(executor, what):
                if parameters or files:
                    raise click.UsageError(
                        "-p and -f go with a tool's name; a request file has its own."
                    )
                request = read_request(Path(what))
            else:
                request = _request(executor, what, parameters, files)
            known = allow_duplicate and whole_id(executor.gate.ledger, allow_duplicate)
            request = _changed(request, account, role, level, known)

            def tell(receipt: Receipt) -> None:
                told.append((receipt, str(executor.receipt_path(receipt))))
                signals.settle(receipt.exit_code)

            with _progress() as progress:
                signals.begin()
                ended = await executor.run(request, progress=progress, tell=tell)
                until.append(_until(executor, ended))

    try:
        working.run(work)
    except (Refused, signals.Interrupted):
        if not told:
            raise
    receipt, place = told[0]
    if as_json:
        print_json(receipt.result())
    if not as_json or receipt.status != "delivered":
        again = until[0] if until else None
        tell_receipt(receipt, place, same_store(options), same_opening(options), again)
    return receipt.exit_code


def _until(executor: Executor, receipt: Receipt) -> str | None:
    """Say until when an unresolved action goes out again under its key, if it does."""
    if receipt.status != "unresolved" or receipt.action is None:
        return None
    with contextlib.suppress(Refused):  # it is told all the same
        same = executor.gate.ledger.same(receipt.action.fingerprint)
        manifest = receipt.action.admitted.manifest
        if same and same[-1].id == receipt.attempt:
            return resend_until(manifest, same[-1], same, clock.moment())
    return None


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """Show people at a terminal how far the freezing of large files has come."""
    if not sys.stderr.isatty():
        yield None
        return
    with contextlib.ExitStack() as bars:
        shown: list[Callable[[int], None]] = []

        def show(done: int, total: int) -> None:
            if total < 2 * PROGRESS_FROM:  # each byte is counted twice: copied, and hashed
                return
            with contextlib.suppress(OSError):  # the terminal has gone; freezing goes on
                if not shown:
                    shown.append(_bar(bars, total))
                shown[0](done)
                if done >= total:
                    bars.close()

        yield show
        with contextlib.suppress(OSError):
            bars.close()


def _bar(bars: contextlib.ExitStack, total: int) -> Callable[[int], None]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    columns = (TextColumn("freezing"), BarColumn(), DownloadColumn(binary_units=True))
    console = Console(file=sys.stderr)
    progress = Progress(*columns, console=console, transient=True, auto_refresh=False)
    bar = bars.enter_context(progress)
    task = bar.add_task("", total=total // 2)

    def update(done: int) -> None:
        bar.update(task, completed=done // 2, refresh=True)

    return update


def _is_request_file(executor: Executor, what: str) -> bool:
    return what not in executor.tools and (what.endswith(REQUEST_FILES) or "/" in what)


def _request(
    executor: Executor, what: str, parameters: tuple[str, ...], files: tuple[str, ...]
) -> Request:
    tool = executor.tools.get(what)  # an unknown one is refused by the gate, which records it
    return Request(
        tool=what,
        asked_by=AskedBy(role="operator", channel="cli", sender=user()),
        parameters=_parameters(tool.manifest if tool else None, _pairs(parameters, "-p")),
        files=_files(_pairs(files, "-f")),
    )


def _changed(
    request: Request,
    account: str | None,
    role: str | None,
    level: str | None,
    allow_duplicate: str | None,
) -> Request:
    changes: dict[str, Any] = {}
    if account is not None:
        changes["account"] = account
    if level is not None:
        changes["level"] = level
    if allow_duplicate is not None:
        changes["allow_duplicate"] = allow_duplicate
    if role is not None:
        changes["asked_by"] = msgspec.structs.replace(request.asked_by, role=role)
    changed = msgspec.structs.replace(request, **changes)
    try:  # making a value does not check it
        return msgspec.convert(msgspec.to_builtins(changed), Request)
    except msgspec.ValidationError as wrong:
        found, _, place = str(wrong).partition(" - at ")
        raise _invalid(f"The request is not valid: {place.strip('`$.')}: {found}.") from None


def read_request(path: Path) -> Request:
    """Read a request file.

    Raises:
        Refused: ``admission.closed-request``, with every problem found.
    """
    try:
        return read(read_text(path, decides=False), str(path), Request)[0]
    except Faulty as faulty:
        raise _invalid(f"The request is not valid:\n{faulty}") from None
    except OSError as failed:
        raise _invalid(f"{path}: {failed.strerror}.") from None


def _invalid(found: str) -> Refused:
    return Refused(
        "admission.closed-request",
        "INVALID_REQUEST",
        because=found,
        todo="Correct it and ask again; nothing was started.",
    )


def _parameters(manifest: Manifest | None, texts: Mapping[str, list[str]]) -> dict[str, Any]:
    declared = {} if manifest is None else manifest.parameters
    return {
        name: coerce(declared[name], values)
        if name in declared
        else values[0]
        if len(values) == 1
        else values
        for name, values in texts.items()
    }


def _files(paths: Mapping[str, list[str]]) -> dict[str, FileGiven]:
    return {name: given[0] if len(given) == 1 else tuple(given) for name, given in paths.items()}


def _pairs(given: tuple[str, ...], option: str) -> dict[str, list[str]]:
    pairs: dict[str, list[str]] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{option} {pair!r}: write {option} name=value.")
        pairs.setdefault(name, []).append(value)
    return pairs
