"""file.copy, by the real cp."""

import os
import stat
from pathlib import Path

import pytest

from executor import AskedBy, Receipt, Request, open_executor
from executor.finished import Finished, Output
from executor.refusal import Refused
from executor.rules import outcomes
from tests.house import House
from tests.packs.shipped import end, opened, run

CONTENT = b"content \x00\xff\r\n"


@pytest.fixture
def target(house: House) -> Path:
    """A directory to copy into."""
    directory = house.root / "target"
    directory.mkdir()
    return directory


async def copy(
    house: House, directory: Path | str, name: str = "copied", content: bytes = CONTENT
) -> Receipt:
    """Copy a file into a directory."""
    source = house.file("given file.txt", content)
    source.chmod(0o4711)
    return await run(
        house,
        "file.copy",
        {"directory": str(directory), "name": name},
        {"source": str(source)},
    )


# -- delivered ------------------------------------------------------------------------------------


# rule: outcomes.declared
async def test_a_file_that_is_not_there_yet_is_delivered(house: House, target: Path) -> None:
    """cp's own word says where it went."""
    receipt = await copy(house, target)

    assert end(receipt) == ("delivered", None)
    assert receipt.reply == f"'{target}/copied'"
    assert os.listdir(target) == ["copied"]
    assert (target / "copied").read_bytes() == CONTENT


# rule: freezing.verified-bytes
async def test_a_large_file_arrives_byte_for_byte_with_plain_permissions(
    house: House, target: Path
) -> None:
    """The copy is of the frozen bytes, and does not become a set-user-id program by the way."""
    content = os.urandom(5 * 2**20 + 1)
    receipt = await copy(house, target, content=content)

    assert receipt.status == "delivered"
    assert (target / "copied").read_bytes() == content
    assert stat.S_IMODE((target / "copied").stat().st_mode) & 0o7711 == 0o600


NAMES = {
    "spaces": "a b  c",
    "single quote": "it's",
    "double quote": 'say "x"',
    "both quotes": 'it\'s "x"',
    "shell": "$(touch x); `y` & *",
    "dash": "-rf",
    "two dots more": "...",
    "hidden": ".profile",
    "umlaut": "\u00fcn\u00efc\u00f6de",
    "right to left": "abc\u202etxt",
    "delete": "a\x7fb",
    "control": "a\x85b",
    "arrow": "x' -> 'y",
    "messages": "x: cannot create regular file: File exists",
    "skipped": "skipped 'x'",
    "backslash": "a\\nb",
}


# rule: admission.no-shell
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
async def test_a_name_is_one_name_whatever_it_holds(house: House, target: Path, name: str) -> None:
    """cp quotes what it prints in many ways; the outcome must not depend on them."""
    receipt = await copy(house, target, name)
    again = await copy(house, target, name, b"other")

    assert end(receipt) == ("delivered", None)
    assert end(again) == ("undelivered", "ALREADY_THERE")
    assert os.listdir(target) == [name]
    assert (target / name).read_bytes() == CONTENT


# -- proven: nothing was written ------------------------------------------------------------------


# rule: outcomes.proven-kept
@pytest.mark.parametrize(
    "kind", ["file", "directory", "link-to-file", "link-to-directory", "dangling"]
)
async def test_what_stands_there_already_is_never_replaced_or_entered(
    house: House, target: Path, kind: str
) -> None:
    """A directory of that name would get the file put into it, unless cp is told not to."""
    there = target / "copied"
    other = house.root / "other"
    if kind in ("directory", "link-to-directory"):
        other.mkdir()
    elif kind != "dangling":
        other.write_bytes(b"theirs")
    if kind == "file":
        there.write_bytes(b"theirs")
    elif kind == "directory":
        there.mkdir()
    else:
        there.symlink_to(other)

    receipt = await copy(house, target)

    assert end(receipt) == ("undelivered", "ALREADY_THERE")
    assert os.listdir(target) == ["copied"]
    if kind in ("file", "link-to-file"):
        assert there.read_bytes() == b"theirs"
    elif kind == "dangling":
        assert not other.exists()
    else:
        assert os.listdir(there) == []


# rule: outcomes.proven-kept
async def test_a_name_that_the_file_system_does_not_take_is_undelivered(
    house: House, target: Path
) -> None:
    """200 letters can be 400 bytes."""
    receipt = await copy(house, target, "\u00fc" * 200)

    assert end(receipt) == ("undelivered", "NOT_WRITABLE")
    assert os.listdir(target) == []


# -- refused --------------------------------------------------------------------------------------


# rule: isolation.paths
async def test_a_directory_that_is_missing_is_refused(house: House, target: Path) -> None:
    """There is nothing to open for the command, and it makes none."""
    with pytest.raises(Refused) as no:
        await copy(house, target / "none")

    assert no.value.code == "PATH_NOT_FOUND"
    assert os.listdir(target) == []


# rule: isolation.paths
@pytest.mark.parametrize("place", ["state", "home", "etc", "root-of-all", "up"])
async def test_a_directory_outside_the_roots_is_refused(
    house: House, target: Path, place: str
) -> None:
    """A copy into our own state could replace what others approved."""
    directory = {
        "state": str(house.state),
        "home": str(house.home),
        "etc": "/etc",
        "root-of-all": "/..",
        "up": f"{target}/../../state",
    }[place]

    with pytest.raises(Refused) as no:
        await copy(house, directory)

    assert no.value.code == "PATH_NOT_ALLOWED"
    assert not list(house.home.rglob("copied"))


# rule: isolation.paths
async def test_the_state_directory_is_refused_even_below_a_root(house: House, target: Path) -> None:
    """Whoever declares a root too wide must not thereby open our own state."""
    source = house.file("source.txt")
    async with opened(house, "file.copy") as executor:
        assert executor.state == house.state
        async with open_executor(state=house.state, roots=[house.home]) as wide:
            with pytest.raises(Refused) as no:
                await wide.run(
                    Request(
                        tool="file.copy",
                        asked_by=AskedBy(role="tester"),
                        parameters={"directory": str(house.state / "receipts"), "name": "x"},
                        files={"source": str(source)},
                    )
                )

    assert no.value.code == "PATH_NOT_ALLOWED"


# rule: isolation.paths
@pytest.mark.parametrize("deep", [False, True])
async def test_a_directory_reached_by_a_link_is_refused(
    house: House, target: Path, deep: bool
) -> None:
    """A link can be turned elsewhere between the yes and the start."""
    (target / "inner").mkdir()
    (house.root / "link").symlink_to(target)

    with pytest.raises(Refused) as no:
        await copy(house, house.root / "link" / "inner" if deep else house.root / "link")

    assert no.value.code == "PATH_NOT_FOUND"
    assert not list(target.rglob("copied"))


# -- other versions of cp -------------------------------------------------------------------------


VERSIONS = {
    "coreutils 9.1 leaves it without a word": (0, "", "", "ALREADY_THERE"),
    "coreutils 9.2 to 9.4 call it an error": (
        1, "", "cp: not replacing '/d/copied'\n", "ALREADY_THERE",
    ),
    "Debian's 9.4 warns about its own option": (
        0, "", "cp: warning: behavior of -n is non-portable and may change in future; "
        "use --update=none instead\n", "ALREADY_THERE",
    ),
    "coreutils 9.5, asked for more": (0, "skipped '/d/copied'\n", "", "ALREADY_THERE"),
    "somebody else made it at the same time": (
        1, "'source' -> '/d/copied'\n",
        "cp: cannot create regular file '/d/copied': File exists\n", "ALREADY_THERE",
    ),
    "a read-only file system": (
        1, "'source' -> '/d/copied'\n",
        "cp: cannot create regular file '/d/copied': Read-only file system\n", "NOT_WRITABLE",
    ),
    "by its whole path": (
        1, "'source' -> '/d/copied'\n",
        "/usr/bin/cp: cannot create regular file '/d/copied': Permission denied\n", "NOT_WRITABLE",
    ),
    "the disk is full after a part of it": (
        1, "'source' -> '/d/copied'\n",
        "cp: error writing '/d/copied': No space left on device\n", "OUTCOME_UNKNOWN",
    ),
    "the same, and the name holds a message": (
        1, "'source' -> '/d/cp: cannot stat x'\n",
        "cp: error writing '/d/cp: cannot stat x': No space left on device\n", "OUTCOME_UNKNOWN",
    ),
    "the same, and the name holds another": (
        1, "'source' -> '/d/not replacing'\n",
        "cp: error writing '/d/cp: not replacing ': No space left on device\n", "OUTCOME_UNKNOWN",
    ),
    "a file that could not be read to its end": (
        1, "'source' -> '/d/copied'\n",
        "cp: error reading 'source': Input/output error\n", "OUTCOME_UNKNOWN",
    ),
    "it failed to close the copy": (
        1, "'source' -> '/d/copied'\n",
        "cp: failed to close '/d/copied': Disk quota exceeded\n", "OUTCOME_UNKNOWN",
    ),
}  # fmt: skip


# rule: outcomes.unknown-holds
@pytest.mark.parametrize(("exit_code", "stdout", "stderr", "code"), VERSIONS.values(), ids=VERSIONS)
async def test_what_other_versions_print_means_the_same(
    house: House, exit_code: int, stdout: str, stderr: str, code: str
) -> None:
    """Only one version is installed here; these are the words of the others."""
    async with opened(house, "file.copy") as executor:
        manifest = executor.tools["file.copy"].manifest
    said = [Output(text.encode(), len(text)) for text in (stdout, stderr)]
    finished = Finished("exited", exit=exit_code, stdout=said[0], stderr=said[1])

    verdict = outcomes.classify(manifest, finished)

    assert verdict.code == code
    assert verdict.status == ("unresolved" if code == "OUTCOME_UNKNOWN" else "undelivered")


# rule: spawning.minimal-env
async def test_cp_speaks_as_the_outcomes_expect_whatever_the_callers_language(
    house: House, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Translated words would match no pattern, and every failure would need a person."""
    for name, value in (("LANG", "de_DE.UTF-8"), ("LC_ALL", "de_DE.UTF-8"), ("LANGUAGE", "de:fr")):
        monkeypatch.setenv(name, value)

    receipt = await copy(house, target, "\u00fc" * 200)

    assert end(receipt) == ("undelivered", "NOT_WRITABLE")
    assert receipt.action is not None
    assert {name: text for name, text in receipt.action.env.items() if name.startswith("L")} == {
        "LANG": "C.UTF-8"
    }
