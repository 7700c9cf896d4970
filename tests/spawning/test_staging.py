"""The working directory is fresh, private, holds what was staged and nothing else, and goes."""

import os
from typing import Any

from tests.house import House, recorded
from tests.spawning.runs import no_sandbox

SLOTS = {"paper": {}, "more": {"many": True, "required": False}}


# rule: spawning.staging-cwd
async def test_staging_cwd_holds_exactly_what_was_staged(
    house: House, options: dict[str, Any]
) -> None:
    """What is found lying there would be an input that nobody approved."""
    house.manifest(files=SLOTS, stage={"conf/tool.ini": "[a]\n", "empty/": ""})
    paper = house.file("in/paper.txt", "one")
    more = [house.file("in/two"), house.file("in/drei é.bin", b"\0\xff")]

    async with house.open(**options) as executor:
        receipt = await executor.run(
            house.request(
                {"record": "stdout"},
                files={"paper": str(paper), "more": [str(path) for path in more]},
            )
        )

    seen = recorded(receipt)
    assert seen["unseen"] == {}
    assert [entry["path"] for entry in seen["files"]] == [
        "conf",
        "conf/tool.ini",
        "drei é.bin",
        "empty",
        "paper.txt",
        "two",
    ]
    contents = {entry["path"]: entry.get("content") for entry in seen["files"]}
    assert contents["paper.txt"] == "one"
    assert contents["conf/tool.ini"] == "[a]\n"
    assert house.leftovers() == []


# rule: spawning.staging-cwd
async def test_staging_cwd_is_nobody_elses(house: House, options: dict[str, Any]) -> None:
    """Another user of the machine must neither read it nor put anything into it."""
    house.manifest()

    seen = recorded(
        await house.run(
            {"record": "stdout", "try": [{"listdir": ".."}, {"write": "new"}]}, **options
        )
    )

    listed, written = seen["try"]
    assert sorted(listed["names"]) == ["home", "secrets", "tmp", "work"]
    assert written["ok"]
    assert house.leftovers() == []


# rule: spawning.staging-cwd
async def test_staging_cwd_is_another_one_for_each_run(
    house: House, options: dict[str, Any]
) -> None:
    """What one run leaves must not be there for the next."""
    house.manifest()
    async with house.open(**options) as executor:
        await executor.run(house.request({"try": [{"write": "left"}, {"write": "../home/left"}]}))

        look = {"record": "stdout", "try": [{"listdir": "../home"}]}
        again = await executor.run(house.request(look))

    assert recorded(again)["files"] == []
    assert recorded(again)["try"][0]["names"] == []


# rule: spawning.staging-cwd
async def test_staging_cwd_goes_when_the_start_fails(house: House) -> None:
    """The ways out that nobody takes every day are where things are left behind."""
    house.manifest(command="garbage")
    garbage = house.bin / "garbage"
    garbage.write_bytes(b"\x7fELF is all that is right about it")
    garbage.chmod(0o755)

    receipt = await house.run({}, **no_sandbox(house))

    assert receipt.code == "SPAWN_FAILED"
    assert house.leftovers() == []


# rule: spawning.staging-cwd
async def test_staging_cwd_that_cannot_be_made_is_no_start(house: House) -> None:
    """A full disk is a fault of ours, and proves that nothing ran."""
    house.manifest()
    async with house.open(**no_sandbox(house)) as executor:
        before = await executor.run(house.request({}))
        staging = house.state / "staging"
        if staging.exists():
            os.rmdir(staging)
        staging.write_text("in the way")

        receipt = await executor.run(house.request({}))

    assert before.status == "delivered"
    assert (receipt.status, receipt.code) == ("undelivered", "SANDBOX_FAILED")
