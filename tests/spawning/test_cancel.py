"""Whoever gives up: the tree is ended, and the record says what is known, which differs."""

import json
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from executor import Executor, Receipt, Request
from executor.effects import staging
from tests.house import House
from tests.spawning.runs import (
    alive,
    bwrap_that_can_turn,
    descriptors,
    no_sandbox,
    result,
    start_executor,
    until,
    writable,
)


async def give_up(
    executor: Executor, request: Request, when: Callable[[], object]
) -> tuple[list[Receipt], bool]:
    """Cancel a run once something holds; give what was told, and whether it was cut short."""
    told: list[Receipt] = []
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def run() -> None:
            with scope:
                await executor.run(request, tell=told.append)
                await trio.lowlevel.checkpoint()

        nursery.start_soon(run)
        await until(lambda: when() or told)
        scope.cancel()
    return told, scope.cancelled_caught


# rule: spawning.cancel
async def test_cancel_while_it_runs_is_unresolved_and_recorded(
    house: House, options: dict[str, Any]
) -> None:
    """Nobody is left to find out what happened; that much must be on record."""
    out = writable(house)
    plan = {"sent": str(out / "sent.log"), "then": {"daemon": 300}}
    hanging = {"sent": str(out / "sent.log"), "then": "hang"}

    async with house.open(**options) as executor:
        assert (await executor.run(house.request(plan))).status == "delivered"
        (out / "sent.log").unlink()

        told, cut = await give_up(executor, house.request(hanging), (out / "sent.log").exists)

    assert [(one.status, one.code) for one in told] == [("unresolved", "CANCELLED_WHILE_RUNNING")]
    assert cut
    assert alive(house) == []
    assert house.leftovers() == []
    assert len(list((house.state / "receipts").iterdir())) == 2


# rule: spawning.cancel
async def test_cancel_while_files_are_frozen_is_undelivered(
    house: House, options: dict[str, Any]
) -> None:
    """Before the start it is certain: the same action may be asked again at once."""
    out = writable(house, files={"paper": {}})
    paper = house.file("paper", b"x" * 5_000_000)
    told: list[Receipt] = []

    async with house.open(**options) as executor:
        with trio.CancelScope() as scope:
            await executor.run(
                house.request({"sent": str(out / "sent.log")}, files={"paper": str(paper)}),
                progress=lambda done, all: scope.cancel(),
                tell=told.append,
            )

    assert scope.cancelled_caught
    assert [(one.status, one.code) for one in told] == [("undelivered", "CANCELLED")]
    assert not (out / "sent.log").exists()
    assert house.leftovers() == []


# rule: spawning.cancel
async def test_cancel_while_the_sandbox_is_set_up_is_undelivered(
    house: House, namespaced: None
) -> None:
    """Case 24 h: the command is still held back, and is never let go."""
    turned = bwrap_that_can_turn(house)
    out = writable(house)
    async with house.open() as executor:
        reached = house.home / "reached"
        turned.write_text(f"open({str(reached)!r}, 'w').close()\nimport time\ntime.sleep(300)\n")

        told, cut = await give_up(
            executor, house.request({"sent": str(out / "sent.log")}), reached.exists
        )

        turned.unlink()
        again = await executor.run(house.request({"sent": str(out / "sent.log")}))

    assert [(one.status, one.code) for one in told] == [("undelivered", "CANCELLED")]
    assert cut
    assert alive(house) == []
    assert again.status == "delivered"
    assert len((out / "sent.log").read_text().splitlines()) == 1


# rule: spawning.cancel
async def test_cancel_while_files_are_staged_starts_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Staging is waited for; what comes after it is not begun."""
    out = writable(house)
    told: list[Receipt] = []
    stage = staging.stage
    async with house.open(**no_sandbox(house)) as executor:
        with trio.CancelScope() as scope:
            token = trio.lowlevel.current_trio_token()

            def stage_and_give_up(*given: Any) -> Any:
                trio.from_thread.run_sync(scope.cancel)
                trio.from_thread.run(trio.testing.wait_all_tasks_blocked, trio_token=token)
                return stage(*given)

            monkeypatch.setattr(staging, "stage", stage_and_give_up)
            await executor.run(house.request({"sent": str(out / "sent.log")}), tell=told.append)
            await trio.lowlevel.checkpoint()

    assert scope.cancelled_caught
    assert [(one.status, one.code) for one in told] == [("undelivered", "CANCELLED")]
    assert not (out / "sent.log").exists()
    assert house.leftovers() == []


# rule: spawning.cancel
async def test_cancel_at_any_moment_leaves_nothing_and_tells_no_wrong_end(
    house: House, options: dict[str, Any]
) -> None:
    """Whenever it comes: never a process, an area or a descriptor, and never "nothing ran" of
    something that did."""
    out = writable(house)
    async with house.open(**options) as executor:
        await executor.run(house.request({}))
        before = descriptors()
        for step in range(40):
            log = out / f"sent-{step}.log"
            told: list[Receipt] = []

            with trio.move_on_after(step * 0.005):
                await executor.run(
                    house.request({"sent": str(log), "then": {"sleep": 0.1}}), tell=told.append
                )

            [receipt] = told
            if receipt.status == "undelivered":
                assert receipt.code == "CANCELLED"
                assert not log.exists()
            else:
                assert (receipt.status, receipt.code) in (
                    ("unresolved", "CANCELLED_WHILE_RUNNING"),
                    ("delivered", None),
                )
            assert house.leftovers() == []
        assert alive(house) == []
        assert descriptors() == before


# rule: spawning.cancel
async def test_cancel_by_an_interrupt_is_recorded_before_it_is_obeyed(
    house: House, options: dict[str, Any]
) -> None:
    """Ctrl-C is how most runs are given up; it must not take the record with it."""
    out = writable(house)
    executor = start_executor(house, {"sent": str(out / "sent.log"), "then": "hang"}, **options)
    await until((out / "sent.log").exists)

    os.kill(executor.pid, signal.SIGINT)

    told, _ = await result(executor)
    assert (told["status"], told["code"]) == ("unresolved", "CANCELLED_WHILE_RUNNING")
    assert executor.returncode == 130
    assert alive(house) == []
    assert house.leftovers() == []
    [recorded] = (house.state / "receipts").iterdir()
    assert json.loads(recorded.read_text())


# rule: spawning.cancel
async def test_cancel_twice_changes_nothing(house: House, namespaced: None) -> None:
    """An impatient second time comes while the tree is being ended."""
    out = writable(house, limits={"grace": "1 s"})
    told: list[Receipt] = []
    request = house.request({"sent": str(out / "sent.log"), "then": "ignore-term-and-hang"})
    async with house.open() as executor, trio.open_nursery() as nursery:
        outer, inner = trio.CancelScope(), trio.CancelScope()

        async def run() -> None:
            with outer, inner:
                await executor.run(request, tell=told.append)

        nursery.start_soon(run)
        await until((out / "sent.log").exists)
        inner.cancel()
        await trio.sleep(0.05)
        outer.cancel()

    assert [one.code for one in told] == ["CANCELLED_WHILE_RUNNING"]
    assert alive(house) == []
