"""Working: do what needs trio, until it is done or a signal says to end it."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable

import click
import trio

from executor.cli import output, signals
from executor.cli.signals import Interrupted


def run(work: Callable[[], Awaitable[None]]) -> None:
    """Run ``work`` to its end. The first signal cancels it, which ends what runs.

    Raises:
        Interrupted: a signal cut it short.
        click.UsageError: there is no directory to work in.
        Exception: its own, never in a group.
    """
    try:
        os.getcwd()
    except OSError:
        raise click.UsageError("The current directory is gone; change into another.") from None
    failed: list[Exception] = []
    done: list[bool] = []

    async def until_signal() -> None:
        numbers = signals.watched()
        if not numbers:
            await work()
            done.append(True)
            return
        with trio.open_signal_receiver(*numbers) as arriving:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_cancel_at_the_first, arriving, nursery.cancel_scope)
                try:
                    await work()
                    done.append(True)
                except Exception as fault:  # from inside the nursery it would become a group
                    failed.append(fault)
                nursery.cancel_scope.cancel()

    trio.run(until_signal)
    if failed:
        raise failed[0]
    if not done:
        raise Interrupted


async def _cancel_at_the_first(arriving: AsyncIterator[int], scope: trio.CancelScope) -> None:
    async for number in arriving:
        if name := signals.hear(number):
            output.note(f"{name}: ending what runs, and waiting for its end.")
        scope.cancel()
