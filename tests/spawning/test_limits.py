"""One runaway command must not stop the gate, or the machine."""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.house import House, recorded
from tests.spawning.runs import become_somebody_else, result, start_executor

LIMITS = {
    "memory": "96 MiB",
    "output": "8 MiB",
    "processes": 20,
    "file_size": "4 KiB",
    "open_files": 40,
    "cpu": "7 s",
    "deadline": "60 s",
}


# rule: spawning.limits
async def test_limits_are_those_of_the_manifest(house: House, options: dict[str, Any]) -> None:
    """Soft and hard alike: a soft one can be lifted again."""
    house.manifest(limits=LIMITS)

    limits = recorded(await house.run({"record": "stdout"}, **options))["limits"]

    assert limits["RLIMIT_DATA"] == [96 * 2**20] * 2
    assert limits["RLIMIT_FSIZE"] == [4096] * 2
    assert limits["RLIMIT_NOFILE"] == [40] * 2
    assert limits["RLIMIT_CPU"] == [7] * 2
    assert limits["RLIMIT_CORE"] == [1] * 2  # the kernel's own word for none, pipes included


# rule: spawning.limits
async def test_limits_of_processor_time_are_the_deadline_unless_said(
    house: House, namespaced: None
) -> None:
    """Rounded up: a limit of 0 would be none."""
    house.manifest(limits={"deadline": "2500 ms"})

    limits = recorded(await house.run({"record": "stdout"}))["limits"]

    assert limits["RLIMIT_CPU"] == [3, 3]


# rule: spawning.limits
async def test_limits_bite_on_memory_and_on_files(house: House, options: dict[str, Any]) -> None:
    """What is in bounds is the twin, in the same run."""
    house.manifest(limits=LIMITS)
    plan = {
        "record": "stdout",
        "try": [
            {"alloc": 8 * 2**20},
            {"alloc": 200 * 2**20},
            {"write": "small", "text": "x" * 1000},
            {"write": "large", "text": "x" * 5000},
        ],
    }

    small, large, little, much = recorded(await house.run(plan, **options))["try"]

    assert small["ok"]
    assert not large["ok"]
    assert little["ok"]
    assert not much["ok"]


# rule: spawning.limits
async def test_limits_bite_on_what_is_written_in_staging(house: House, namespaced: None) -> None:
    """It lies in memory, so it must end somewhere."""
    house.manifest(limits={"scratch": "64 KiB"})
    text = "x" * 30_000
    plan = {"record": "stdout", "try": [{"write": f"f{n}", "text": text} for n in range(3)]}

    written = recorded(await house.run(plan))["try"]

    assert [one["ok"] for one in written] == [True, True, False]
    assert written[2]["errno"] == "ENOSPC"


# rule: spawning.limits
async def test_limits_of_no_scratch_at_all_can_be_had(house: House, namespaced: None) -> None:
    """The smallest value of a limit is a value, no fault."""
    house.manifest(limits={"scratch": "0 B"})

    receipt = await house.run({})

    assert receipt.status == "delivered"


# rule: spawning.limits
async def test_limits_of_processor_time_end_the_command(
    house: House, options: dict[str, Any]
) -> None:
    """What the kernel ended may have had its effect."""
    house.manifest(limits={"cpu": "1 s", "deadline": "60 s"}, command="busy")
    house.install("busy", "while True: pass\n")

    receipt = await house.run({}, **options)

    assert (receipt.status, receipt.code) == ("unresolved", "COMMAND_KILLED")


@pytest.fixture
def open_house() -> Iterator[House]:
    """A house that another user can enter; what pytest makes is closed to all others."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)  # noqa: S103 - the other user has to come in
        yield House(Path(directory) / "house")


# rule: spawning.limits
async def test_limits_of_processes_bind_all_but_root(open_house: House, namespaced: None) -> None:
    """A fork bomb fails at its limit, and the command itself has all that it was given."""
    house = open_house
    house.manifest(limits={"processes": 5})
    plan = {"record": "stdout", "try": [{"fork": 4}, {"fork": 5}]}

    told, _ = await result(
        start_executor(
            house,
            plan,
            before=become_somebody_else(house),
            config=str(house.home / "config.yaml"),
        )
    )

    assert told["isolation"]["level"] == "namespaced"
    assert not any("root" in entry for entry in told["isolation"]["missing"])
    fits, one_more = json.loads(told["output"]["stdout"]["text"])["try"]
    assert fits["ok"]
    assert (one_more["ok"], one_more["made"], one_more["errno"]) == (False, 4, "EAGAIN")


# rule: spawning.limits
@pytest.mark.skipif(os.geteuid() != 0, reason="root has no such limit; this user has")
async def test_limits_of_processes_that_do_not_bind_root_are_told(
    house: House, namespaced: None
) -> None:
    """A promise that cannot be kept is said to be none."""
    receipt = await house.run({})

    assert any("limit of processes" in entry for entry in receipt.result()["isolation"]["missing"])
