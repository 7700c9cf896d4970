"""Spawner: start a command, keep what it says, and return once its whole tree is gone."""

import contextlib
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec
import trio

from executor.effects.sandbox import Ended, Sandbox, Streams
from executor.effects.streams import Stream
from executor.effects.verifying import Verified
from executor.finished import Finished, Output
from executor.rules import spawning

log = logging.getLogger(__name__)
T = TypeVar("T")


@trio.lowlevel.enable_ki_protection
async def spawn(verified: Verified, sandbox: Sandbox) -> Finished:
    """Run a verified action to the end of its whole tree.

    It cannot be cut short: a cancellation from outside, or an interrupt (Ctrl-C), ends the tree,
    and the end is told like any other.
    """
    stop, over = trio.Event(), trio.Event()
    finished: list[Finished] = []
    interrupted = False

    # A task of its own: an interrupt is raised in the main task, which may be the caller's.
    @trio.lowlevel.enable_ki_protection
    async def work() -> None:
        with trio.CancelScope(shield=True):
            try:
                finished.append(await _spawn(verified, sandbox, stop))
            except BaseException as fault:
                log.exception("attempt %s: a fault of ours", verified.frozen.admitted.id)
                finished.append(Finished("fault", detail=repr(fault)))
                if not isinstance(fault, Exception):
                    raise
            finally:
                over.set()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            try:
                await over.wait()
            finally:
                stop.set()
    # The end must not be lost on its way to the record. What was raised is not lost either: it
    # comes again at the next checkpoint.
    except* trio.Cancelled:
        pass
    except* KeyboardInterrupt:
        interrupted = True
    if interrupted:
        _interrupt_again()
    return finished[0]


def _interrupt_again() -> None:
    if callable(signal.getsignal(signal.SIGINT)):
        trio.lowlevel.current_trio_token().run_sync_soon(signal.raise_signal, signal.SIGINT)


async def _spawn(verified: Verified, sandbox: Sandbox, stop: trio.Event) -> Finished:
    limits = verified.frozen.admitted.manifest.limits
    started = trio.current_time()
    with contextlib.ExitStack() as ours:
        try:
            stdout = ours.enter_context(Stream.open(int(limits.output)))
            stderr = ours.enter_context(Stream.open(int(limits.output)))
            stdin = _open_stdin(verified)
        except OSError as failed:
            detail = f"no streams for it: {failed.strerror}"
            return Finished("sandbox-failed", detail=detail, passing=True)
        ours.callback(os.close, stdin)
        streams = Streams(stdin, stdout.far, stderr.far)
        outputs = (stdout, stderr)
        async with trio.open_nursery() as drains:
            drains.start_soon(stdout.drain)
            drains.start_soon(stderr.drain)
            deadline = started + limits.deadline
            ended, left = await _run(verified, sandbox, streams, stop, deadline, outputs)
            drains.cancel_scope.cancel()
        for output in outputs:
            output.sweep()
        secrets = verified.secret_values
        finished = Finished(
            end=ended.end,
            exit=ended.exit,
            signal=ended.signal,
            stdout=_output(stdout, secrets),
            stderr=_output(stderr, secrets),
            leftovers=left,
            detail=ended.detail,
            seconds=trio.current_time() - started,
            passing=ended.passing,
        )
    if finished.end in ("not-started", "sandbox-failed"):
        return _with_reason(finished)
    return finished


async def _run(
    verified: Verified,
    sandbox: Sandbox,
    streams: Streams,
    stop: trio.Event,
    deadline: float,
    outputs: Sequence[Stream],
) -> tuple[Ended, int]:
    limits = verified.frozen.admitted.manifest.limits
    running = await _before(deadline, stop, lambda: sandbox.start(verified, streams))
    for output in outputs:
        output.close_far()
    verified.close()
    if running is None:
        if stop.is_set():
            return Ended("given-up"), 0
        return Ended("sandbox-failed", detail="it was not ready in time", passing=True), 0
    if isinstance(running, Ended):
        return running, 0
    try:
        ended = await _before(deadline, stop, running.wait)
        if ended is None:
            ended = Ended("cancelled" if stop.is_set() else "timed-out")
            running.signal(signal.SIGTERM)
            with trio.move_on_after(limits.grace):
                await running.wait()
    finally:
        with trio.CancelScope(shield=True):
            left = await running.end()
    return ended, left


async def _before(deadline: float, stop: trio.Event, wait: Callable[[], Awaitable[T]]) -> T | None:
    """Wait for something, or give ``None`` at the deadline or when told to stop."""
    result: list[T] = []

    async def give_up() -> None:
        await stop.wait()
        nursery.cancel_scope.cancel()

    with trio.move_on_at(deadline):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(give_up)
            result.append(await wait())
            nursery.cancel_scope.cancel()
    return result[0] if result else None


def _output(stream: Stream, secrets: Sequence[bytes]) -> Output:
    """Give what was kept, the secrets masked."""
    kept = spawning.mask(bytes(stream.kept), secrets, truncated=stream.truncated)
    return Output(kept, stream.total, stream.truncated)


def _open_stdin(verified: Verified) -> int:
    if verified.stdin is None:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    return os.open(f"/proc/self/fd/{verified.stdin.descriptor}", os.O_RDONLY | os.O_CLOEXEC)


def _with_reason(finished: Finished) -> Finished:
    """Nothing ran, so what stands on stderr was said by the sandbox: it belongs to the reason."""
    said = finished.stderr.text.strip().splitlines()
    detail = "; ".join(part for part in (finished.detail, *said[-2:]) if part)
    return msgspec.structs.replace(finished, detail=detail, stdout=Output(), stderr=Output())
