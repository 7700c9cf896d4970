"""At the deadline the whole tree is ended before anybody is told; what it did stays unknown."""

import contextlib
import json
import os
import select
import subprocess
import time
from typing import Any

import pytest

from executor.effects import processes
from executor.effects.sandbox import bubblewrap
from tests.house import House
from tests.spawning.runs import alive, no_sandbox, start_executor, until, writable

SHORT = {"deadline": "3 s", "grace": "200 ms"}


# rule: spawning.deadline
async def test_deadline_that_passes_is_unresolved_and_nowhere_called_unsent(
    house: House, options: dict[str, Any]
) -> None:
    """Case 17: the answer was lost, not the message. Whoever reads "not sent" sends again."""
    out = writable(house, limits=SHORT)

    receipt = await house.run(
        {"sent": str(out / "sent.log"), "stdout": "id=7\n", "then": {"sleep": 60}}, **options
    )

    assert (receipt.status, receipt.code) == ("unresolved", "TIMED_OUT")
    assert receipt.recovery == "ask"
    assert len((out / "sent.log").read_text().splitlines()) == 1
    told = json.dumps([receipt.result(), receipt.statement()]).lower()
    for word in ("not sent", "nothing ran", "undelivered", "failed", "did not"):
        assert word not in told
    assert receipt.finished is not None
    assert receipt.finished.stdout.text == "id=7\n"
    assert alive(house) == []


# rule: spawning.deadline
async def test_deadline_ends_one_that_will_not_listen_and_all_that_it_left(
    house: House, options: dict[str, Any]
) -> None:
    """A tree that outlives its result can still have its effect."""
    house.manifest(limits=SHORT, env={"MARK": str(house.home)})
    told: list[list[str]] = []

    async with house.open(**options) as executor:
        for then in ("ignore-term-and-hang", {"fork-bomb": 20}):
            receipt = await executor.run(
                house.request({"then": then}), tell=lambda _: told.append(alive(house))
            )
            assert receipt.code == "TIMED_OUT"

    assert told == [[], []]


# rule: spawning.deadline
async def test_deadline_gives_the_command_its_grace(house: House, options: dict[str, Any]) -> None:
    """TERM first: a command that cleans up must be able to."""
    out = writable(house, limits={"deadline": "3 s", "grace": "20 s"}, command="tidy")
    house.install(
        "tidy",
        "import signal, sys, time\n"
        f"def end(*_): open({str(out / 'tidied')!r}, 'w').close(); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('ready', flush=True)\n"
        "time.sleep(300)\n",
    )

    receipt = await house.run({}, **options)

    assert receipt.code == "TIMED_OUT"  # an exit code that we caused says nothing
    assert receipt.finished is not None
    assert receipt.finished.stdout.text == "ready\n"
    assert (out / "tidied").exists()
    assert receipt.finished.seconds < 20


# rule: spawning.deadline
async def test_deadline_that_is_kept_is_no_concern(house: House, options: dict[str, Any]) -> None:
    """The twin: the same limits, and a command that is done in time."""
    house.manifest(limits=SHORT | {"deadline": "60 s"})

    receipt = await house.run({"stdout": "id=7\n", "then": {"sleep": 0}}, **options)

    assert (receipt.status, receipt.result_id) == ("delivered", "7")


# rule: spawning.deadline
@pytest.mark.parametrize("clean", [False, True])
async def test_deadline_or_not_a_daemon_does_not_outlive_the_result(
    house: House, namespaced: None, clean: bool
) -> None:
    """Case 01: a daemon of its own session keeps the pipe open, and acts later."""
    out = writable(house)
    plan = {
        "stdout": "SENT\n",
        "then": {
            "daemon": 300,
            "daemon_clean_env": clean,
            "daemon_writes": str(out / "late"),
        },
    }

    receipt = await house.run(plan)

    assert receipt.status == "delivered"
    assert receipt.finished is not None
    assert receipt.finished.stdout.kept == b"SENT\n"
    assert receipt.finished.leftovers == 1
    assert receipt.statement()["predicate"]["run"]["leftovers_ended"] == 1
    assert receipt.finished.seconds < 60
    assert alive(house) == []
    assert not (out / "late").exists()


# rule: spawning.deadline
async def test_deadline_or_not_what_is_left_is_still_there_to_be_counted(
    house: House, namespaced: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """bwrap takes the sandbox with it when it ends, however late we come to look."""
    house.manifest()
    descendants = processes.descendants

    def descendants_on_a_slow_machine(pid: int) -> list[int]:
        time.sleep(0.3)
        return descendants(pid)

    monkeypatch.setattr(processes, "descendants", descendants_on_a_slow_machine)

    receipt = await house.run({"then": {"children": 3}})

    assert receipt.finished is not None
    assert receipt.finished.leftovers == 3


# rule: spawning.deadline
async def test_deadline_or_not_a_daemon_is_found_without_a_sandbox_too(house: House) -> None:
    """Where no namespace holds it, its session or its environment gives it away."""
    house.manifest()

    for then in ({"daemon": 300}, {"children": 3}):
        receipt = await house.run({"stdout": "SENT\n", "then": then}, **no_sandbox(house))

        assert receipt.status == "delivered"
        assert receipt.finished is not None
        assert receipt.finished.stdout.kept == b"SENT\n"
        assert receipt.finished.leftovers == (1 if "daemon" in then else 3)
        assert alive(house) == []


# rule: spawning.deadline
async def test_deadline_of_a_long_run_is_not_that_of_the_thread_that_started_it(
    house: House, namespaced: None
) -> None:
    """Slow on purpose: a sandbox tied to a worker thread dies when that idles out, after 10 s."""
    house.manifest()

    receipt = await house.run({"stdout": "id=7\n", "then": {"sleep": 12}})

    assert (receipt.status, receipt.result_id) == ("delivered", "7")


# rule: spawning.cancel
async def test_cancel_by_kill_9_ends_the_command_and_hits_no_stranger(
    house: House, namespaced: None, tmp_path: Any
) -> None:
    """Case 03: nobody is left who could end it, so the kernel has to."""
    out = writable(house)
    stranger = subprocess.Popen(["sleep", "999"])
    try:
        executor = start_executor(
            house,
            {
                "sent": str(out / "sent.log"),
                "then": {"sleep": 20, "sleep_writes": str(out / "late")},
            },
        )
        await until((out / "sent.log").exists)

        executor.kill()
        executor.communicate()

        await until(lambda: alive(house) == [], patience=15)
        assert not (out / "late").exists()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


# rule: spawning.cancel
def test_cancel_by_kill_9_does_not_open_the_gate() -> None:
    """bwrap goes on at the end of what it waits for, and a killed process closes all it has."""
    with contextlib.ExitStack() as ends:
        near, far = bubblewrap._gate(ends)
        poll = select.poll()
        poll.register(far)

        os.close(near)

        assert not any(event & (select.POLLIN | select.POLLHUP) for _, event in poll.poll(0))

    with contextlib.ExitStack() as ends:
        near, far = bubblewrap._gate(ends)
        os.write(near, b"1")
        assert os.read(far, 1) == b"1"
