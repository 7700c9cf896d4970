"""Writer: tasks that write at the same time share one commit; each waits until it is durable.

What the store failed to take is tried again until it is taken, though nobody else writes.
"""

import logging
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import trio

from executor.refusal import Refused
from executor.store.database import Database, Job, Session

T = TypeVar("T")
log = logging.getLogger(__name__)

AGAIN_EVERY_S = 1.0
"""Seconds between two tries to write what the store failed to take; others are refused by then."""


class Writer:
    """The one writer of a process. Whoever finds nobody writing writes for all that wait."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[_Waiting] = []
        self._owed: list[Job[Any]] = []
        self._overdue: list[Job[Any]] = []
        self._led = False
        self._trying: _Trying | None = None
        self._closed = False

    @trio.lowlevel.enable_ki_protection
    async def write(self, work: Callable[[Session], T]) -> T:
        """Do some work in a transaction; return once it is durable.

        It cannot be cancelled or interrupted: the time is bounded by the store's own patience, and
        what comes of it must be known.

        Raises:
            Refused: the work's own, or ``ledger.full-disk`` or ``ledger.sound-store``: none of it
                counts then.
        """
        job = Job(work)
        waiting = _Waiting(job)
        self._waiting.append(waiting)
        with trio.CancelScope(shield=True):
            if self._led:
                await waiting.until_called()
            if not waiting.done:
                await self._lead()
        return job.result()

    def owe(self, work: Callable[[Session], Any], *, overdue: bool = False) -> None:
        """Let some work ride with the next transaction that succeeds, or with `pay`.

        Args:
            overdue: the store has failed it, and others wait for it: it is tried again by itself
                until it is done or the writer is closed.
        """
        job = Job(work)
        self._owed.append(job)
        if overdue:
            self._overdue.append(job)
            if self._trying is None and not self._closed:
                self._trying = _Trying()
                trio.lowlevel.spawn_system_task(self._try_again, self._trying)

    async def pay(self) -> None:
        """Do what is still owed."""
        if self._owed:
            await self.write(lambda _: None)

    async def close(self) -> None:
        """End what is tried by itself; what is owed is not tried any more."""
        self._closed = True
        if self._trying is not None:
            self._trying.scope.cancel()
            await self._trying.ended.wait()

    async def _try_again(self, trying: "_Trying") -> None:
        try:
            with trying.scope:
                while self._overdue:
                    await trio.sleep(AGAIN_EVERY_S)
                    with suppress(Refused):
                        await self.pay()
        finally:
            self._trying = None
            trying.ended.set()

    async def _lead(self) -> None:
        self._led = True
        batch, self._waiting = self._waiting, []
        owed = list(self._owed)
        jobs = [*owed, *(waiting.job for waiting in batch)]
        try:
            await self._commit(jobs)
        finally:
            for job in owed:
                if job.done:
                    self._owed.remove(job)
                if job.done and job in self._overdue:
                    self._overdue.remove(job)
                if job.done and job.failed is not None:
                    log.error("what was owed to the ledger cannot be done: %r", job.failed)
            for waiting in batch:
                waiting.done = True
                waiting.called.set()
            if self._waiting:
                self._waiting[0].called.set()  # it is not done: it leads
            else:
                self._led = False

    async def _commit(self, jobs: list[Job[Any]]) -> None:
        interrupted, begun = False, False
        while not begun:
            try:
                await trio.to_thread.run_sync(self._database.commit, jobs)
                begun = True
            except KeyboardInterrupt:  # it was waiting for us; once it has begun, it waits
                interrupted = True
            except Exception as failed:  # no thread was to be had: nobody may take that for done
                begun = True
                for job in jobs:
                    job.fail(failed)
        if interrupted:
            _interrupt_again()


class _Trying:
    """The task that tries again."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.ended = trio.Event()


class _Waiting:
    def __init__(self, job: Job[Any]) -> None:
        self.job = job
        self.done = False
        self.called = trio.Event()

    async def until_called(self) -> None:
        """Wait; an interrupt (Ctrl-C) comes again afterwards."""
        interrupted = False
        while not self.called.is_set():
            try:
                await self.called.wait()
            except KeyboardInterrupt:
                interrupted = True
        if interrupted:
            _interrupt_again()


def _interrupt_again() -> None:
    if callable(signal.getsignal(signal.SIGINT)):
        trio.lowlevel.current_trio_token().run_sync_soon(signal.raise_signal, signal.SIGINT)
