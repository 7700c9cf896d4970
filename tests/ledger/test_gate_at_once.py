"""At once: of any number that ask for the same, one does it; and who leaves waits for it."""

from contextlib import ExitStack

import pytest
import trio

from executor import Executor, Receipt, Refused, Request
from tests.house import House
from tests.ledger.crash.post import Post, answer, until


@pytest.fixture
def post(house: House) -> Post:
    """A tool without a sandbox, which adds nothing to what the ledger does."""
    return Post(house)


async def told_to(executor: Executor, request: Request, codes: list[str | None]) -> None:
    try:
        codes.append((await executor.run(request)).status)
    except Refused as no:
        codes.append(no.code)


# rule: ledger.everywhere
# rule: ledger.in-flight
async def test_eight_tasks_ask_for_the_same_and_one_does_it(post: Post) -> None:
    """Two callers are the usual case, not the odd one."""
    post.stop.touch()
    request, codes = post.request(), list[str | None]()
    async with post.open() as executor, trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(told_to, executor, request, codes)
        with trio.fail_after(60):
            while len(codes) < 7:
                await trio.sleep(0.005)
        assert codes == ["DUPLICATE_IN_FLIGHT"] * 7
        post.stop.unlink()

    assert codes[7] == "delivered"
    assert post.sent == ["to ana"]
    assert len(await post.attempts()) == 1
    await post.is_all_on_record()


# rule: ledger.everywhere
async def test_four_processes_ask_for_the_same_and_one_does_it(post: Post) -> None:
    """No lock error reaches a caller, and no second line the log."""
    request, go = post.request(), post.house.home / "go"
    ready = [post.house.home / f"ready-{number}" for number in range(4)]
    with ExitStack() as stack:
        processes = [
            stack.enter_context(post.process(request, ready=str(one), wait_for=str(go)))
            for one in ready
        ]
        until(lambda: all(one.exists() for one in ready), "all of them open")
        go.touch()
        told = [answer(process) for process in processes]

    codes = sorted(str(one["code"]) for one in told)
    assert codes.count("None") == 1
    assert set(codes) <= {"None", "DUPLICATE_IN_FLIGHT", "DUPLICATE_DELIVERED"}
    assert post.sent == ["to ana"]
    [attempt] = await post.attempts()
    assert {one["earlier"]["attempt"] for one in told if one["earlier"]} == {attempt.id}
    await post.is_all_on_record()


# rule: ledger.in-flight
async def test_leaving_the_executor_waits_for_what_runs_and_ends_it_for_others(post: Post) -> None:
    """A run without its owner would look like a dead one's, and its end would have no place."""
    post.stop.touch()
    request, receipts, left = post.request(), list[Receipt](), False

    async with trio.open_nursery() as nursery:
        async with post.open() as executor:

            async def run() -> None:
                receipts.append(await executor.run(request))
                assert not left

            async def let_go_on() -> None:
                with trio.fail_after(60):
                    while not executor._leaving:
                        await trio.sleep(0.005)
                assert receipts == []
                post.stop.unlink()

            nursery.start_soon(run)
            with trio.fail_after(60):
                while not post.started.exists():
                    await trio.sleep(0.005)
            nursery.start_soon(let_go_on)
        left = True
        assert [one.status for one in receipts] == ["delivered"]

    with pytest.raises(RuntimeError, match="closed"):
        await executor.run(post.request())
    assert post.sent == ["to ana"]
    assert len(await post.attempts()) == 1
    await post.is_all_on_record()
