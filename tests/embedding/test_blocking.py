"""For plain threads and asyncio: the same gate, without a word of trio in sight."""

import asyncio
import contextvars
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from executor import BlockingExecutor, Receipt, Refused, open_blocking
from tests.embedding.programs import (
    options_of,
    processes_of,
    program,
    results_on_record,
    until,
    writable,
)
from tests.house import House


def is_closed(executor: BlockingExecutor, house: House) -> bool:
    """Ask for something that is refused at once, as long as anything is answered."""
    try:
        executor.run(house.request(tool="test.none"))
    except Refused:
        return False
    except RuntimeError as closed:
        return "closed" in str(closed)
    raise AssertionError("a tool that nobody declares ran")


def test_twenty_threads_at_once_get_each_its_own_receipt(house: House) -> None:
    """A web server's workers share one executor."""
    with open_blocking(**options_of(house)) as executor, ThreadPoolExecutor(20) as pool:
        together = threading.Barrier(20)

        def run(number: int) -> Receipt:
            together.wait()
            return executor.run(house.request({"stdout": f"id=m-{number}"}))

        receipts = list(pool.map(run, range(20)))

    assert [receipt.result_id for receipt in receipts] == [f"m-{number}" for number in range(20)]
    assert len({receipt.attempt for receipt in receipts}) == 20
    assert results_on_record(house) == ["delivered"] * 20


def test_asyncio_runs_several_at_once_by_to_thread(house: House) -> None:
    """An asyncio program stays responsive meanwhile."""

    async def main() -> list[Receipt]:
        requests = [house.request({"stdout": f"id=m-{number}"}) for number in range(5)]
        with open_blocking(**options_of(house)) as executor:
            runs = (asyncio.to_thread(executor.run, request) for request in requests)
            return await asyncio.gather(*runs)

    receipts = asyncio.run(main())

    assert [receipt.result_id for receipt in receipts] == [f"m-{number}" for number in range(5)]


def test_a_refusal_crosses_over_with_its_receipt(house: House) -> None:
    """In a thread as in asyncio it is the very exception, and it is on record."""
    with open_blocking(**options_of(house)) as executor:
        request = house.request(tool="test.none")
        with pytest.raises(Refused) as in_thread:
            executor.run(request)
        with pytest.raises(Refused) as in_asyncio:
            asyncio.run(asyncio.to_thread(executor.run, request))

    for no in (in_thread.value, in_asyncio.value):
        assert (type(no), no.code) == (Refused, "UNKNOWN_TOOL")
        assert no.receipt is not None
        assert (house.state / "receipts" / f"{no.receipt.attempt}.json").exists()


def test_the_one_who_asks_is_told_with_its_own_context(house: House) -> None:
    """Tracing knows which of many callers a receipt belongs to."""
    caller = contextvars.ContextVar("caller", default="nobody")
    told: list[tuple[str, str | None]] = []
    steps: list[int] = []
    house.manifest(files={"body": {}})
    body = house.file("body.txt")

    with open_blocking(**options_of(house)) as executor:
        caller.set("me")
        receipt = executor.run(
            house.request({"stdout": "id=m-7"}, files={"body": str(body)}),
            progress=lambda done, _: steps.append(done),
            tell=lambda receipt: told.append((caller.get(), receipt.result_id)),
        )

    assert receipt.result_id == "m-7"
    assert told == [("me", "m-7")]
    assert steps


def test_a_caller_whose_progress_fails_gets_that_fault_and_nothing_ran(house: House) -> None:
    """A bug of the caller is the caller's to see; the executor goes on for the others."""
    house.manifest(files={"body": {}})
    request = house.request({"stdout": "id=m-7"}, files={"body": str(house.file("body.txt"))})

    def fail(_: int, __: int) -> None:
        raise ZeroDivisionError

    with open_blocking(**options_of(house)) as executor:
        with pytest.raises(ZeroDivisionError):
            executor.run(request, progress=fail)
        assert executor.run(request).result_id == "m-7"


# rule: spawning.cancel
def test_leaving_the_block_waits_for_what_still_runs_and_takes_nothing_new(house: House) -> None:
    """Leaving used to cancel it: a message half sent, because the main thread was done."""
    out = writable(house)
    house.install(
        "fake",
        "import os, time\n"
        f"open({str(out / 'started')!r}, 'w').close()\n"
        f"while not os.path.exists({str(out / 'go')!r}): time.sleep(0.005)\n"
        "print('id=m-7')\n",
    )
    receipts: list[Receipt] = []

    with open_blocking(**options_of(house)) as executor:

        def run() -> None:
            receipts.append(executor.run(house.request()))

        def let_go_once_it_is_closed() -> None:
            until(lambda: is_closed(executor, house), "the executor is closed to new runs")
            (out / "go").touch()

        running = threading.Thread(target=run)
        running.start()
        until((out / "started").exists, "the command runs")
        letting = threading.Thread(target=let_go_once_it_is_closed)
        letting.start()

    running.join()
    letting.join()
    assert [(receipt.status, receipt.result_id) for receipt in receipts] == [("delivered", "m-7")]


def test_after_the_block_a_run_is_turned_away(house: House) -> None:
    """Not with a word about the inside of trio, and not by waiting for ever."""
    with open_blocking(**options_of(house)) as executor:
        assert not is_closed(executor, house)

    assert is_closed(executor, house)
    assert not any(thread.name == "executor" for thread in threading.enumerate())


async def test_a_blocking_run_inside_of_trio_is_turned_away(house: House) -> None:
    """It would stop everything else there, the executor itself for one."""
    with (
        open_blocking(**options_of(house)) as executor,
        pytest.raises(RuntimeError, match="blocking"),
    ):
        executor.run(house.request())

    assert results_on_record(house) == []


@pytest.fixture(params=["namespaced", "bare"])
def out(request: pytest.FixtureRequest, house: House) -> Path:
    """A writable directory, at the strongest level and at the one that has nothing."""
    if request.param == "namespaced":
        request.getfixturevalue("namespaced")
    else:
        house.install("bwrap", "raise SystemExit(1)")
    return writable(house)


BLOCKING = """
    with open_blocking(**options) as executor:
        try:
            executor.run(request, tell=lambda receipt: print(receipt.code, flush=True))
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            raise
"""
TRIO = """
    import trio

    async def main():
        async with open_executor(**options) as executor:
            await executor.run(request, tell=lambda receipt: print(receipt.code, flush=True))

    trio.run(main)
"""


# rule: spawning.cancel
@pytest.mark.parametrize("form", [BLOCKING, TRIO], ids=["blocking", "trio"])
def test_an_interrupt_ends_the_command_first_and_is_then_told(
    house: House, out: Path, form: str
) -> None:
    """Ctrl-C must not leave a command behind that goes on sending, nor lose that it was sent."""
    plan = {"sent": str(out / "sent.log"), "then": "ignore-term-and-hang"}
    house.manifest(
        isolation=house.manifest().get("isolation", {}) | {"write": [str(out)]},
        limits={"grace": "100 ms"},
    )
    with program(house, plan, form) as process:
        until((out / "sent.log").exists, "the command runs")
        assert len(processes_of(house)) > 1  # a control: more than the program itself

        process.send_signal(signal.SIGINT)
        said, faults = process.communicate()

    assert process.returncode == -signal.SIGINT, faults
    assert "KeyboardInterrupt" in faults
    assert said.split() == ["CANCELLED_WHILE_RUNNING"] + ["interrupted"] * (form is BLOCKING)
    assert results_on_record(house) == ["unresolved CANCELLED_WHILE_RUNNING"]
    assert processes_of(house) == []
    assert house.leftovers() == []
