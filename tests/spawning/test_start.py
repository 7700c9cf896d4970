"""A fault of the sandbox, of the start and of the command are three results, each with proof."""

import contextlib
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio

from executor import Receipt
from executor.effects.sandbox import bubblewrap
from executor.finished import Finished
from tests.house import House
from tests.spawning.runs import (
    STATUS_WIRE,
    SYSTEM_BINARY,
    alive,
    bwrap_that_can_turn,
    descriptors,
    no_sandbox,
    result,
    start_executor,
    until,
    writable,
)


def garbage(house: House) -> None:
    """Make a command that is pinned as a program, and that the system will not run."""
    house.manifest(command="garbage")
    path = house.bin / "garbage"
    path.write_bytes(b"\x7fELF is all that is right about it")
    path.chmod(0o755)


def binary(house: House) -> Any:
    """Make a program of the house's own, and a manifest that runs it."""
    path = house.bin / "program"
    shutil.copy(SYSTEM_BINARY, path)
    path.chmod(0o755)
    house.manifest(command="program")
    return path


# rule: spawning.exec-failed
async def test_exec_failed_of_what_is_no_program_is_undelivered(
    house: House, options: dict[str, Any]
) -> None:
    """What provably did not run may be asked again."""
    garbage(house)

    receipt = await house.run({}, **options)

    assert (receipt.status, receipt.code) == ("undelivered", "SPAWN_FAILED")
    assert receipt.recovery == "retry"
    assert receipt.finished is not None
    assert receipt.finished.end == "not-started"
    assert "format" in receipt.because.lower()
    assert receipt.finished.stderr.kept == b""  # bwrap said it, not the command


# rule: spawning.exec-failed
def test_exec_failed_is_told_by_the_head_of_a_file() -> None:
    """What the kernel would refuse, bwrap would hand to a shell."""
    good = Path(SYSTEM_BINARY).read_bytes()[:64]
    fixed = good[:16] + b"\x02\x00" + good[18:]  # not position-independent
    for head in (good, good[:16] + b"\x03\x00" + good[18:], fixed):
        assert bubblewrap._is_program(head)

    object_file = good[:16] + b"\x01\x00" + good[18:]
    no_entries = good[:56] + b"\x00\x00" + good[58:]
    odd_entries = good[:54] + b"\x07\x00" + good[56:]
    no_class, no_order = good[:4] + b"\x03" + good[5:], good[:5] + b"\x03" + good[6:]
    foreign = good[:18] + b"\xff\xfe" + good[20:]
    script = b"#!/bin/sh\n".ljust(64)
    for head in (
        object_file,
        no_entries,
        odd_entries,
        no_class,
        no_order,
        foreign,
        script,
        good[:63],
    ):
        assert not bubblewrap._is_program(head)


# rule: spawning.exec-failed
async def test_exec_failed_is_not_what_a_program_that_runs_is_called(
    house: House, options: dict[str, Any]
) -> None:
    """The twin: the same place, a program that is one."""
    binary(house)

    receipt = await house.run({}, **options)

    assert receipt.status == "delivered"


# rule: spawning.exec-failed
async def test_exec_failed_of_a_file_that_is_written_is_told_or_cannot_happen(
    house: House, options: dict[str, Any]
) -> None:
    """Case 24 b: held open for writing, the kernel calls it busy. A sandbox runs its own copy."""
    path = binary(house)
    with open(path, "r+b"):
        receipt = await house.run({}, **options)
    again = await house.run({}, **options)

    if options:
        assert (receipt.status, receipt.code) == ("undelivered", "SPAWN_FAILED")
        assert "ETXTBSY" in receipt.because
    else:
        assert receipt.status == "delivered"
    assert again.status == "delivered"


@contextlib.contextmanager
def only_descriptors(room: int, limit: tuple[int, int]) -> Iterator[None]:
    """Leave this process room for so many descriptors."""
    most = max(map(int, descriptors())) + 1 + room
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, limit[1]))
    taken = []
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        for descriptor in taken[-room:]:
            os.close(descriptor)
        yield
    finally:
        for descriptor in taken[:-room]:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)


async def run_after(house: House, change: Any, **options: Any) -> Finished:
    """Verify, change something, and only then spawn."""
    async with house.open(**options) as executor:
        gate = executor.gate
        frozen, hold = await gate.freeze(gate.admit("one", house.request({})))
        with hold, await gate.verify(frozen) as verified:
            change()
            return await gate.spawn(verified)


# rule: spawning.exec-failed
@pytest.mark.parametrize(
    ("change", "name"),
    [(os.unlink, "ENOENT"), (lambda path: path.chmod(0o644), "EACCES")],
    ids=["gone", "not-executable"],
)
async def test_exec_failed_of_what_went_after_the_check_is_proof(
    house: House, change: Any, name: str
) -> None:
    """Case 24 a, in the last moment: without a sandbox the path is opened once more."""
    path = binary(house)

    finished = await run_after(house, lambda: change(path), **no_sandbox(house))

    assert finished.end == "not-started"
    assert name in finished.detail
    assert house.leftovers() == []


# rule: spawning.exec-failed
async def test_exec_failed_cannot_come_of_what_went_after_the_check_in_a_sandbox(
    house: House, namespaced: None
) -> None:
    """The bytes that were verified run, wherever their file has gone."""
    path = binary(house)

    finished = await run_after(house, path.unlink)

    assert (finished.end, finished.exit) == ("exited", 0)


# rule: spawning.whose-failure
@pytest.mark.parametrize("code", [1, 2, 126, 127, 255])
async def test_whose_failure_an_exit_code_of_the_command_stays_its_own(
    house: House, options: dict[str, Any], code: int
) -> None:
    """bwrap exits 1 and a shell 127 for faults of their own; the command may mean anything."""
    out = writable(house)

    receipt = await house.run({"sent": str(out / "sent.log"), "then": {"exit": code}}, **options)

    assert (receipt.status, receipt.code) == ("unresolved", "OUTCOME_UNKNOWN")
    assert receipt.finished is not None
    assert (receipt.finished.end, receipt.finished.exit) == ("exited", code)


# rule: spawning.whose-failure
@pytest.mark.parametrize("number", [11, 9, 15, 6])
async def test_whose_failure_a_death_by_signal_is_told_as_one(
    house: House, options: dict[str, Any], number: int
) -> None:
    """Case 24 e: it crashed after who knows what."""
    out = writable(house)

    receipt = await house.run(
        {"sent": str(out / "sent.log"), "then": {"signal": number}}, **options
    )

    assert (receipt.status, receipt.code) == ("unresolved", "COMMAND_KILLED")
    assert receipt.finished is not None
    assert (receipt.finished.end, receipt.finished.signal) == ("signalled", number)


LIES = {
    "exits-1": "raise SystemExit(1)",
    "exits-0": "raise SystemExit(0)",
    "crashes": "os.kill(os.getpid(), 11)",
    "child-unsaid": "import time\nos.fork()\ntime.sleep(100)\nraise SystemExit",
    "says-nothing-more": STATUS_WIRE
    + "os.close(wire)\nimport time; time.sleep(100); raise SystemExit",
    "garbage": STATUS_WIRE
    + r"""os.write(wire, b'[1]\n"x"\n\xff\n{"child-pid": true}\n{"child-pid": "5"}\n')"""
    + "\nos.write(wire, b'[' * 9000 + b'\\n')\nraise SystemExit",
    "endless": STATUS_WIRE + "while True: os.write(wire, b'x' * 4096)",
    "number-too-large": STATUS_WIRE + r"""os.write(wire, b'{"child-pid": 1%s}\n' % (b'0' * 30))""",
    "number-negative": STATUS_WIRE + r"""os.write(wire, b'{"child-pid": -1}\n')""",
    "number-zero": STATUS_WIRE + r"""os.write(wire, b'{"child-pid": 0}\n')""",
    "number-nobody": STATUS_WIRE + r"""os.write(wire, b'{"child-pid": 4194303}\n')""",
    "itself": STATUS_WIRE + r"""os.write(wire, b'{"child-pid": %d}\n' % os.getpid())""",
    "us": STATUS_WIRE + r"""os.write(wire, b'{"child-pid": %d}\n' % os.getppid())""",
    "init": STATUS_WIRE + r"""os.write(wire, b'{"child-pid": 1}\n')""",
    "a-plain-child": STATUS_WIRE
    + "child = os.fork()\nimport time\nif not child: time.sleep(300)\n"
    + r"""os.write(wire, b'{"child-pid": %d}\n' % child)"""
    + "\ntime.sleep(300)",
}


# rule: spawning.whose-failure
@pytest.mark.parametrize("lie", LIES)
async def test_whose_failure_a_sandbox_that_turned_bad_started_nothing(
    house: House, namespaced: None, lie: str
) -> None:
    """Whatever it says or does: the command was held back, nobody is hurt, nothing stays."""
    turned = bwrap_that_can_turn(house)
    out = writable(house, limits={"deadline": "4 s"})
    async with house.open() as executor:
        honest = await executor.run(house.request({}))
        before = descriptors()
        turned.write_text(LIES[lie])

        receipt = await executor.run(house.request({"sent": str(out / "sent.log")}))

        assert honest.status == "delivered"
        assert (receipt.status, receipt.code) == ("undelivered", "SANDBOX_FAILED")
        assert not (out / "sent.log").exists()
        await until(lambda: alive(house) == [])
        assert descriptors() == before


# rule: spawning.whose-failure
async def test_whose_failure_a_false_number_hurts_no_stranger(
    house: House, namespaced: None
) -> None:
    """What bwrap names is ended in the end, so it had better be its own."""
    turned = bwrap_that_can_turn(house)
    house.manifest(limits={"deadline": "4 s"})
    stranger = subprocess.Popen(["sleep", "999"])
    try:
        async with house.open() as executor:
            turned.write_text(
                STATUS_WIRE + rf"""os.write(wire, b'{{"child-pid": {stranger.pid}}}\n')"""
            )

            receipt = await executor.run(house.request({}))

        assert receipt.code == "SANDBOX_FAILED"
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


# rule: spawning.whose-failure
async def test_whose_failure_a_sandbox_that_hangs_is_not_waited_for_beyond_the_deadline(
    house: House, namespaced: None
) -> None:
    """It never was ready, so nothing ran, and that is proven."""
    turned = bwrap_that_can_turn(house)
    house.manifest(limits={"deadline": "2 s"})
    async with house.open() as executor:
        turned.write_text("import time; time.sleep(300)")

        receipt = await executor.run(house.request({}))

    assert (receipt.status, receipt.code) == ("undelivered", "SANDBOX_FAILED")
    assert "not ready in time" in receipt.because
    assert alive(house) == []


# rule: spawning.whose-failure
async def test_whose_failure_what_the_sandbox_says_is_in_the_reason(
    house: House, namespaced: None
) -> None:
    """Whoever has to repair it wants bwrap's own words, and no output of a command."""
    turned = bwrap_that_can_turn(house)
    house.manifest()
    async with house.open() as executor:
        turned.write_text("print('bwrap: no room', file=sys.stderr); raise SystemExit(1)")

        receipt = await executor.run(house.request({}))

    assert "bwrap: no room" in receipt.because
    assert receipt.finished is not None
    assert receipt.finished.stderr.kept == b""


def sandboxes() -> list[psutil.Process]:
    """Give the living sandboxes that this process started."""
    return [
        child
        for child in psutil.Process().children()
        if child.name() == "bwrap" and child.status() != psutil.STATUS_ZOMBIE
    ]


# rule: spawning.whose-failure
@pytest.mark.parametrize("whom", ["outside", "inside"])
async def test_whose_failure_a_sandbox_killed_from_outside_proves_nothing(
    house: House, namespaced: None, whom: str
) -> None:
    """It ran, and then nobody could see: the absence of an exit code is no proof here."""
    out = writable(house)
    receipts: list[Receipt] = []
    async with house.open() as executor, trio.open_nursery() as nursery:

        async def run() -> None:
            plan = {"sent": str(out / "sent.log"), "then": "hang"}
            receipts.append(await executor.run(house.request(plan)))

        nursery.start_soon(run)
        await until((out / "sent.log").exists)
        [bwrap] = sandboxes()
        (bwrap if whom == "outside" else bwrap.children()[0]).kill()

    [receipt] = receipts
    assert receipt.status == "unresolved"
    assert receipt.code in ("OUTCOME_UNKNOWN", "COMMAND_KILLED")
    assert alive(house) == []


# rule: spawning.whose-failure
async def test_whose_failure_is_ours_when_there_are_no_descriptors_left(
    house: House, options: dict[str, Any]
) -> None:
    """Before the start a fault of ours is proof; none may leave a descriptor or a process."""
    house.manifest()
    async with house.open(**options) as executor:
        gate = executor.gate
        await executor.run(house.request({}))
        before = descriptors()
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        ends = set()
        for room in range(1, 40):
            frozen, hold = await gate.freeze(gate.admit(f"one-{room}", house.request({})))
            with hold, await gate.verify(frozen) as verified, only_descriptors(room, limit):
                finished = await gate.spawn(verified)
            ends.add(finished.end)
            started = {"exited", "fault"} if options else {"exited"}  # bare cannot hold it back
            assert finished.end in {"sandbox-failed"} | started, finished
            if finished.end == "exited":
                assert finished.exit == 0
                break
        assert {"sandbox-failed", "exited"} <= ends
        assert descriptors() == before
    await until(lambda: alive(house) == [])
    async with house.open(**options):  # an area that could not be removed then goes now
        assert house.leftovers() == []


# rule: spawning.whose-failure
async def test_whose_failure_is_unknown_to_a_process_that_ignores_its_children(
    house: House,
) -> None:
    """The kernel keeps their end from it: silence would look like proof."""
    house.manifest()
    ignore = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)"

    strict, _ = await result(start_executor(house, {}, before=ignore))
    accepted, _ = await result(start_executor(house, {}, before=ignore, degraded=True))

    assert (strict["status"], strict["code"]) == ("refused", "ISOLATION_UNAVAILABLE")
    assert "SIGCHLD" in strict["because"]
    assert (accepted["status"], accepted["code"]) == ("unresolved", "OUTCOME_UNKNOWN")


# rule: spawning.whose-failure
async def test_whose_failure_fifty_runs_of_every_kind_leave_no_descriptor(
    house: House, options: dict[str, Any]
) -> None:
    """What leaks once a run stops a service after a thousand."""
    out = writable(house)
    house.manifest(tool="test.garbage", command="garbage")
    (house.bin / "garbage").write_bytes(b"\x7fELF")
    (house.bin / "garbage").chmod(0o755)
    async with house.open(**options) as executor:
        await executor.run(house.request({}))
        before = descriptors()
        plans: list[dict[str, Any]] = [
            {},
            {"then": {"exit": 3}},
            {"then": {"signal": 9}},
            {"then": {"daemon": 300}},
        ]

        for turn in range(10):
            for plan in plans:
                await executor.run(house.request(plan))
            await executor.run(house.request({}, tool="test.garbage"))
            with trio.move_on_after(0.01 * turn):
                await executor.run(house.request({"sent": str(out / "sent")}))

        assert descriptors() == before
    assert alive(house) == []
