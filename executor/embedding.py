"""Embedding: open an executor from a program. Every guard is on without any option."""

import contextvars
import logging
import os
import pwd
import random
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import trio

from executor import units
from executor.config import Config
from executor.effects import clock, staging
from executor.effects.blobs import Blobs
from executor.effects.commands import TRUSTED_DIRECTORIES, Commands
from executor.effects.freezer import Freezer, Progress
from executor.effects.owners import Owners
from executor.effects.sandbox.bare import Bare
from executor.effects.sandbox.notes import Notes
from executor.effects.sandbox.probe import probe
from executor.gate import Gate
from executor.loading import invalid_config, load_tools, read_config
from executor.receipt import Receipt, recovered
from executor.refusal import Refused
from executor.request import Request
from executor.rules import configs
from executor.rules import ledger as rules
from executor.rules.isolation import Availability, Places, private_below, private_places
from executor.rules.manifests import Tool
from executor.store.ledger import Ledger
from executor.store.looking import look_without_room
from executor.store.opening import open_database
from executor.store.receipts import Receipts
from executor.store.state import default_directory, open_directory
from executor.store.writer import Writer
from executor.units import Duration

log = logging.getLogger(__name__)
SWEEP_EVERY_S = 3600.0
TIDIED_AT_ONCE = 500
"""Settled attempts that are looked at for their age; `executor ledger prune` looks at all."""
WINDOW_VARIABLE = "EXECUTOR_DUPLICATE_WINDOW"
ARGV_SLACK = 64 * 1024
"""Bytes of the system's room for arguments that sandbox and kernel need themselves."""


class Executor:
    """An open executor, for trio. Get one from `open_executor`."""

    def __init__(self, gate: Gate, state: Path, settings: Config) -> None:
        self.gate = gate
        self.state = state
        self._settings = settings
        self._swept_at = trio.current_time()
        self._running = 0
        self._leaving = False
        self._idle = trio.Event()

    async def run(
        self,
        request: Request,
        *,
        progress: Progress | None = None,
        tell: Callable[[Receipt], None] | None = None,
    ) -> Receipt:
        """Take one request through the gate. See `executor.gate.Gate.run`."""
        if self._idle.is_set():
            raise RuntimeError("this executor is closed: the block that opened it was left")
        self._running += 1
        try:
            await self._sweep_when_due()
            return await self.gate.run(request, progress=progress, tell=tell)
        finally:
            self._running -= 1
            if self._leaving and not self._running:
                self._idle.set()

    async def until_idle(self) -> None:
        """Wait until nothing runs any more; from then on nothing more can run."""
        self._leaving = True
        if not self._running:
            self._idle.set()
        await self._idle.wait()

    async def _sweep_when_due(self) -> None:
        """Let go of old copies and old attempts in an executor that stays open for long."""
        retention = self._settings.retention
        if trio.current_time() - self._swept_at < min(retention, SWEEP_EVERY_S):
            return
        self._swept_at = trio.current_time()
        with trio.CancelScope(shield=True):  # a caller that gives up does so in the gate
            try:
                await trio.to_thread.run_sync(self.gate.freezer.blobs.sweep, retention)
                self.gate.receipts.sweep()
            except OSError as failed:
                log.warning("old copies could not be removed: %s", failed)
            try:
                await self.tidy_ledger()
            except Refused as failed:
                log.warning("the ledger could not be tidied: %s", failed)

    async def tidy_ledger(self) -> None:
        """Settle what killed executors left, write their receipts, and forget what is old."""
        gate, now = self.gate, clock.moment()
        await gate.ledger.recover(now)
        gate.publish()
        # From the first one, and from anywhere: some that stay for long must not hide the rest.
        anywhere = random.randrange(gate.ledger.newest_number() + 1)  # noqa: S311 - no secret
        for after in (0, anywhere):
            await gate.ledger.prune(lambda _: self.keep, now, most=TIDIED_AT_ONCE, after=after)

    @property
    def keep(self) -> float:
        """Give the seconds that settled attempts stay, at least for as long as one can block."""
        gate = self.gate
        manifests = [tool.manifest for tool in gate.tools.values()]
        windows = [rules.window(one, gate.window, gate.forced_window) for one in manifests]
        return max(self._settings.ledger.keep, gate.window, *windows)

    def receipt_path(self, receipt: Receipt) -> Path:
        """Give the file that a receipt lies in."""
        return self.gate.receipts.path(receipt.attempt)

    @property
    def tools(self) -> dict[str, Tool]:
        """Give every loaded tool by name."""
        return dict(self.gate.tools)

    @property
    def levels(self) -> tuple[Availability, ...]:
        """Give what the probes found out about each level of isolation."""
        return self.gate.probed


class BlockingExecutor:
    """An open executor for plain threads, and for asyncio by `asyncio.to_thread`.

    asyncio cannot cancel a thread: the command of a cancelled task runs to its end.
    """

    def __init__(self, executor: Executor, runs: trio.Nursery) -> None:
        self._executor = executor
        self._runs = runs
        self._token = trio.lowlevel.current_trio_token()
        self._left = trio.Event()

    def run(
        self,
        request: Request,
        *,
        progress: Progress | None = None,
        tell: Callable[[Receipt], None] | None = None,
    ) -> Receipt:
        """Take one request through the gate; safe to call from many threads at once.

        An interrupt (Ctrl-C) while it waits ends the command first.

        Args:
            progress: see `executor.gate.Gate.run`; called in another thread.
            tell: likewise.
        Raises:
            Refused: as `Executor.run` does.
            RuntimeError: the block of `open_blocking` was left.
        """
        end: Future[Receipt] = Future()
        scope = trio.CancelScope()
        context = contextvars.copy_context()

        async def work() -> None:
            try:
                with scope:
                    end.set_result(await self._executor.run(request, progress=progress, tell=tell))
                if scope.cancelled_caught:
                    end.set_exception(KeyboardInterrupt())
            except BaseException as fault:
                end.set_exception(fault)  # the thread that waits for it takes it from here

        def start() -> None:
            if self._left.is_set():
                raise RuntimeError("this executor is closed: the block that opened it was left")
            end.set_running_or_notify_cancel()
            context.run(self._runs.start_soon, work)

        def give_up() -> None:
            scope.cancel()
            end.cancel()  # if it was not even started

        try:
            trio.from_thread.run_sync(start, trio_token=self._token)
            return end.result()
        except trio.RunFinishedError:
            raise RuntimeError("this executor is closed") from None
        except KeyboardInterrupt:
            with suppress(trio.RunFinishedError, CancelledError):
                self._token.run_sync_soon(give_up)
                end.exception()  # wait for it; a second interrupt ends the waiting
            raise

    def _leave(self) -> None:
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._left.set)


@asynccontextmanager
async def open_executor(
    config: str | os.PathLike[str] | Config | None = None,
    *,
    state: str | os.PathLike[str] | None = None,
    manifests: Iterable[str | os.PathLike[str]] = (),
    roots: Iterable[str | os.PathLike[str]] = (),
    trusted: Iterable[str | os.PathLike[str]] = (),
    degraded: bool | None = None,
) -> AsyncIterator[Executor]:
    """Open an executor.

    Args:
        config: an `executor.yaml`, or its value; each further argument adds to it.
        state: the private directory for copies and receipts.
        manifests: files or directories of manifests, beside the shipped ones.
        roots: directories below which files may be frozen; by default the current one.
        trusted: directories of commands, beside the system's own.
        degraded: accept weaker isolation than a manifest requires; the receipt says so.
    Raises:
        Refused: ``admission.closed-config``, ``admission.closed-manifest``,
            ``freezing.private-store`` or ``isolation.probed``; nothing is open then.
    """
    settings = config if isinstance(config, Config) else read_config(config)
    forced_window = duplicate_window_from_environment()
    directory = open_directory(Path(state or settings.state or default_directory()))
    paths = (*settings.manifests, *_texts(manifests))
    base = _current_directory()
    given_roots = (*settings.roots, *_texts(roots)) or (base,)
    real_roots = tuple(map(os.path.abspath, given_roots))
    given_trusted = (*_texts(trusted), *settings.trusted)
    commands = Commands((*given_trusted, *TRUSTED_DIRECTORIES))
    tools = load_tools(paths, packs=settings.packs)
    if unknown := list(configs.unknown_secrets(settings, tools)):
        raise invalid_config("\n".join(unknown))
    try:
        blobs = Blobs(directory)
        receipts = Receipts(directory)
        owners = Owners(directory)
        await trio.to_thread.run_sync(blobs.sweep, settings.retention)
        await trio.to_thread.run_sync(staging.sweep, directory / "staging")
        notes = Notes(directory / "sandboxes")
        notes.sweep()
        receipts.sweep()
    except OSError as failed:
        raise _store_fails(failed) from failed
    probed = await probe(commands, blobs, Bare(directory / "staging"), notes)
    places = Places(
        tuple(map(os.path.realpath, real_roots)),
        home=os.path.realpath(os.path.expanduser("~")),
        state=str(directory),
        private=(*_private_by_account(), *_secret_files(settings, tools)),
        unwritable=tuple(map(os.path.realpath, (*paths, *given_trusted, *_file_of(config)))),
    )
    async with _ledger(directory, receipts, owners) as ledger:
        with owners.registered() as owner:
            gate = Gate(
                tools=tools,
                commands=commands,
                freezer=Freezer(blobs, real_roots, base, private_places(places)),
                sandboxes=probed.sandboxes,
                probed=probed.found,
                places=places,
                secret_sources=settings.secrets,
                ledger=ledger,
                owner=owner,
                window=settings.ledger.window,
                forced_window=forced_window,
                receipts=receipts,
                degraded=settings.degraded if degraded is None else degraded,
                most_argv_bytes=os.sysconf("SC_ARG_MAX") - ARGV_SLACK,
                version=version("sealed-executor"),
            )
            executor = Executor(gate, directory, settings)
            left = owners.left()
            await executor.tidy_ledger()
            owners.remove(left)
            try:
                yield executor
            finally:
                with trio.CancelScope(shield=True):
                    await executor.until_idle()
                    try:
                        await ledger.pay()
                    except Refused:
                        owners.keep_lock(owner)


@asynccontextmanager
async def open_ledger(
    config: str | os.PathLike[str] | Config | None = None,
    *,
    state: str | os.PathLike[str] | None = None,
    looking: bool = False,
) -> AsyncIterator[Ledger]:
    """Open the ledger alone: to look at it, to decide what is unresolved, to prune.

    Args:
        looking: only to look at it; that a disk has no room left is logged then, and no hindrance.
    Raises:
        Refused: ``admission.closed-config``, ``freezing.private-store`` or ``ledger.sound-store``.
    """
    settings = config if isinstance(config, Config) else read_config(config)
    directory = open_directory(Path(state or settings.state or default_directory()))
    try:
        receipts, owners = Receipts(directory), Owners(directory)
    except OSError as failed:
        raise _store_fails(failed) from failed
    async with _ledger(directory, receipts, owners, looking=looking) as ledger:
        try:
            await ledger.recover(clock.moment())
        except Refused as no:
            if not (looking and no.rule == "ledger.full-disk"):
                raise
            log.warning("what killed executors left could not be settled: %s", no.because)
        yield ledger


@asynccontextmanager
async def _ledger(
    directory: Path, receipts: Receipts, owners: Owners, *, looking: bool = False
) -> AsyncIterator[Ledger]:
    opening = partial(open_database, directory, used_before=receipts.any())
    try:
        database = await trio.to_thread.run_sync(opening)
    except Refused as no:
        if not (looking and no.rule == "ledger.full-disk"):
            raise
        database = await trio.to_thread.run_sync(look_without_room, directory)
        log.warning("the ledger can only be looked at: %s", no.because)
    try:
        writer = Writer(database)
        try:
            yield Ledger(database, writer, owners.is_gone, recovered)
        finally:
            with trio.CancelScope(shield=True):
                with suppress(Refused):
                    await writer.pay()
                await writer.close()
    finally:
        database.close()


def duplicate_window_from_environment() -> float | None:
    """Give the seconds that ``EXECUTOR_DUPLICATE_WINDOW`` says (``10 min``, ``0``), if it does.

    Raises:
        Refused: ``admission.closed-config``.
    """
    written = os.environ.get(WINDOW_VARIABLE, "").strip()
    if not written:
        return None
    try:
        return float(units.parse(Duration, "0 s" if written == "0" else written))
    except ValueError as wrong:
        raise invalid_config(f"{WINDOW_VARIABLE}={written!r}: {wrong}") from None


@contextmanager
def open_blocking(*args: Any, **options: Any) -> Iterator[BlockingExecutor]:
    """Open an executor for plain threads; the arguments are those of `open_executor`.

    It runs in a thread of its own until the block is left, which waits for what still runs.
    """
    opened: Future[BlockingExecutor] = Future()
    failed: list[BaseException] = []

    async def serve() -> None:
        async with open_executor(*args, **options) as executor, trio.open_nursery() as runs:
            blocking = BlockingExecutor(executor, runs)
            opened.set_result(blocking)
            await blocking._left.wait()

    def work() -> None:
        try:
            trio.run(serve)
        except BaseException as fault:
            failed.append(fault)
            if not opened.done():
                opened.set_exception(fault)

    def leave(opened: "Future[BlockingExecutor]") -> None:
        if opened.exception() is None:
            opened.result()._leave()

    thread = threading.Thread(target=work, name="executor", daemon=True)
    thread.start()
    try:
        yield opened.result()
    finally:
        opened.add_done_callback(leave)  # an interrupt may come while it is still being opened
        thread.join()
    if failed:
        raise failed[0]


def _file_of(config: str | os.PathLike[str] | Config | None) -> tuple[str, ...]:
    return () if config is None or isinstance(config, Config) else (os.fspath(config),)


def _private_by_account() -> tuple[str, ...]:
    """Guard the home directory of the account too: ``$HOME`` can be set to anything."""
    try:
        home = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return ()
    return private_below(os.path.realpath(home))


def _secret_files(settings: Config, tools: Mapping[str, Tool]) -> Iterator[str]:
    """Give the files that secrets are read from: they are for their tool, not for sending."""
    configured = [source for sources in settings.secrets.values() for source in sources.values()]
    declared = [s.source for tool in tools.values() for s in tool.manifest.secrets.values()]
    for source in (*configured, *declared):
        if source is not None and source.file is not None:
            yield os.path.realpath(os.path.expanduser(source.file))


def _current_directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        raise invalid_config("The current directory is gone.") from None


def _texts(paths: Iterable[str | os.PathLike[str]]) -> Iterator[str]:
    return (os.fspath(path) for path in paths)


def _store_fails(failed: OSError) -> Refused:
    return Refused(
        "freezing.private-store",
        "STORE_UNAVAILABLE",
        because=f"The state directory cannot be used: {failed.strerror}.",
        todo="Make room on its disk, or set another one.",
    )
