"""Spawner: start a command, keep what it says, and return once its whole tree is gone."""

import contextlib
import fcntl
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
import trio

from executor.effects.sandbox import Ended, Sandbox, Streams
from executor.effects.verifying import Verified
from executor.finished import Finished, Output
from executor.rules import spawning

CHUNK = 64 * 1024
log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass
class Stream:
    """One of the command's streams: kept up to a limit, read to its end."""

    most: int
    near: int
    far: int
    kept: bytearray = field(default_factory=bytearray)
    total: int = 0
    at_end: bool = False

    @classmethod
    def open(cls, most: int) -> "Stream":
        """Open a pipe for one stream."""
        near, far = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(near, False)
        return cls(most, near, far)

    async def drain(self) -> None:
        """Read as long as anybody can write."""
        while not self.at_end:
            await trio.lowlevel.wait_readable(self.near)
            self._read()

    def sweep(self) -> None:
        """Take what lies in the pipe, and no more: a writer that got away cannot hold us."""
        for _ in range(fcntl.fcntl(self.near, fcntl.F_GETPIPE_SZ) // CHUNK + 1):
            if self.at_end or not self._read():
                return

    def _read(self) -> int:
        try:
            block = os.read(self.near, CHUNK)
        except BlockingIOError:
            return 0
        self.at_end = not block
        self.total += len(block)
        self.kept += block[: self.most - len(self.kept)]
        return len(block)

    def output(self, secrets: Sequence[bytes]) -> Output:
        """Give what was kept, the secrets masked."""
        truncated = self.total > len(self.kept)
        kept = spawning.mask(bytes(self.kept), secrets, truncated=truncated)
        return Output(kept, self.total, truncated)

    def close_far(self) -> None:
        """Close the command's end, once it has its own."""
        if self.far >= 0:
            os.close(self.far)
            self.far = -1

    def close(self) -> None:
        """Close both ends."""
        self.close_far()
        os.close(self.near)


async def spawn(verified: Verified, sandbox: Sandbox) -> Finished:
    """Run a verified action to the end of its whole tree.

    It cannot be cut short: a cancellation from outside ends the tree, and the end is told like
    any other.
    """
    stop = trio.Event()
    finished: list[Finished] = []

    async def stop_when_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            stop.set()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop_when_cancelled)
            with trio.CancelScope(shield=True):
                try:
                    finished.append(await _spawn(verified, sandbox, stop))
                except Exception as fault:
                    log.exception("attempt %s: a fault of ours", verified.frozen.admitted.id)
                    finished.append(Finished("fault", detail=repr(fault)))
            nursery.cancel_scope.cancel()
    except trio.Cancelled:
        # The end must not be lost on its way to the record. The cancellation is not: it comes
        # again at the caller's next checkpoint.
        pass
    return finished[0]


async def _spawn(verified: Verified, sandbox: Sandbox, stop: trio.Event) -> Finished:
    limits = verified.frozen.admitted.manifest.limits
    started = trio.current_time()
    with contextlib.ExitStack() as ours:
        stdout, stderr = Stream.open(int(limits.output)), Stream.open(int(limits.output))
        ours.callback(stdout.close)
        ours.callback(stderr.close)
        stdin = _open_stdin(verified)
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
            stdout=stdout.output(secrets),
            stderr=stderr.output(secrets),
            leftovers=left,
            detail=ended.detail,
            seconds=trio.current_time() - started,
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
        return Ended("sandbox-failed", detail="it was not ready at the deadline"), 0
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


def _open_stdin(verified: Verified) -> int:
    if verified.stdin is None:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    return os.open(f"/proc/self/fd/{verified.stdin.descriptor}", os.O_RDONLY | os.O_CLOEXEC)


def _with_reason(finished: Finished) -> Finished:
    """Nothing ran, so what stands on stderr was said by the sandbox: it belongs to the reason."""
    said = finished.stderr.text.strip().splitlines()
    detail = "; ".join(part for part in (finished.detail, *said[-2:]) if part)
    return msgspec.structs.replace(finished, detail=detail, stdout=Output(), stderr=Output())
