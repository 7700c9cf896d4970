"""The command that was pinned is the one that runs, or nothing does."""

import os
import shutil
from pathlib import Path

import pytest

from executor import open_executor
from executor.refusal import Refused
from tests.house import House, interpreter, recorded

OTHER = "import pathlib; pathlib.Path('stolen').write_text('x')\n"


@pytest.fixture
def own_interpreter(house: House) -> Path:
    """Run the fake by an interpreter of the house's own, which a test can replace."""
    path = house.bin / "interpreter"
    shutil.copyfile(os.path.realpath(interpreter()[0]), path)
    path.chmod(0o755)
    fake = house.bin / "fake"
    fake.write_text(f"#!{path} -IS\n" + fake.read_text().split("\n", 1)[1])
    return path


# rule: admission.command-pinned
@pytest.mark.parametrize(
    "how", ["written", "replaced", "removed", "unreadable", "linked", "longer"]
)
@pytest.mark.parametrize("which", ["fake", "interpreter"])
async def test_a_command_that_changed_since_it_was_pinned_is_not_started_command_pinned(
    house: House, own_interpreter: Path, how: str, which: str
) -> None:
    """Between the approval and the start somebody updated the program: it is another action."""
    path = house.bin / which
    async with house.open() as executor:
        gate = executor.gate
        request = house.request({"record": "stdout"})
        assert (await executor.run(request)).status == "delivered"
        admitted = gate.admit("first", request)
        frozen, hold = await gate.freeze(admitted)
        with hold:
            (await gate.verify(frozen)).close()
            _change(path, how)

            with pytest.raises(Refused) as no:
                await gate.verify(frozen)

    rule = "admission.command-pinned" if which == "interpreter" else "admission.script-pinned"
    assert (no.value.rule, no.value.code) == (rule, "COMMAND_CHANGED")
    assert no.value.recovery == "ask"
    assert str(path) in no.value.because
    assert house.leftovers() == []


def _change(path: Path, how: str) -> None:
    other = path.with_name("other")
    match how:
        case "written":  # one byte, at the same length
            content = path.read_bytes()
            path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        case "replaced":
            shutil.copyfile("/bin/cat", other)
            other.chmod(0o755)
            other.rename(path)
        case "removed":
            path.unlink()
        case "unreadable":
            path.unlink()
            path.mkdir()
        case "linked":
            path.rename(other)
            path.symlink_to("/bin/cat")
        case "longer":
            with path.open("ab") as file:
                file.write(b"\n")


# rule: admission.command-pinned
async def test_what_was_verified_is_what_runs_even_if_the_file_changes_then_command_pinned(
    house: House, own_interpreter: Path
) -> None:
    """Between the last look and the start there is no path that anybody could change."""
    async with house.open() as executor:
        gate = executor.gate
        admitted = gate.admit("first", house.request({"record": "stdout"}, "old"))
        frozen, hold = await gate.freeze(admitted)
        with hold, await gate.verify(frozen) as verified:
            house.install("fake", OTHER)
            own_interpreter.unlink()
            finished = await gate.spawn(verified)

    assert finished.exit == 0
    assert b'"old"' in finished.stdout.kept


async def test_an_updated_command_is_asked_for_anew(house: House) -> None:
    """The allowed twin: a new version is a new action with another digest, not a lasting no."""
    async with house.open() as executor:
        first = await executor.run(house.request({"record": "stdout"}))
        fake = house.bin / "fake"
        fake.write_text(fake.read_text() + "# version 2\n")
        second = await executor.run(house.request({"record": "stdout"}))

    assert recorded(first)["argv"] == recorded(second)["argv"]
    assert first.action is not None
    assert second.action is not None
    assert first.action.digest != second.action.digest
    assert [file.sha256 for file in first.action.admitted.command.files] != [
        file.sha256 for file in second.action.admitted.command.files
    ]


async def test_the_same_command_behind_another_link_is_the_same_bytes(house: House) -> None:
    """What is pinned is the file; where the link leads is looked up once."""
    os.rename(house.bin / "fake", house.bin / "fake-1")
    (house.bin / "fake").symlink_to("fake-1")
    async with house.open() as executor:
        gate = executor.gate
        frozen, hold = await gate.freeze(gate.admit("first", house.request({"record": "stdout"})))
        house.install("fake-2", OTHER)
        (house.bin / "fake").unlink()
        (house.bin / "fake").symlink_to("fake-2")
        with hold, await gate.verify(frozen) as verified:
            finished = await gate.spawn(verified)

    assert b'"argv"' in finished.stdout.kept


# rule: admission.no-shell
async def test_a_shell_behind_a_link_is_refused_before_anything_is_frozen_no_shell(
    house: House,
) -> None:
    """The manifest cannot know where a name leads; the gate looks."""
    (house.bin / "deploy").symlink_to("/bin/sh")
    house.manifest(command="deploy", files={"f": {}})
    path = house.file("f")
    async with house.open() as executor:
        with pytest.raises(Refused) as no:
            await executor.run(house.request(files={"f": str(path)}))

    assert (no.value.rule, no.value.code) == ("admission.no-shell", "COMMAND_NOT_PINNABLE")
    assert no.value.stage == "admit"
    assert no.value.receipt is not None
    assert no.value.receipt.action is None


async def test_a_command_outside_of_the_trusted_directories_is_refused(house: House) -> None:
    """Trust is said by whoever runs the executor, and not by a manifest."""
    house.manifest(command=str(house.bin / "fake"))
    request = house.request({"record": "stdout"})
    async with house.open() as executor:
        assert (await executor.run(request)).status == "delivered"

    options = {"state": house.state, "manifests": [house.manifests], "roots": [house.root]}
    async with open_executor(**options) as executor:
        with pytest.raises(Refused) as no:
            await executor.run(request)

    assert no.value.code == "COMMAND_NOT_TRUSTED"
