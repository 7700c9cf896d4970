"""Freezing: only files below the roots, by no link, and never another one than was named."""

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from executor.effects import beneath
from executor.frozen import SlotFile
from executor.refusal import Refused
from tests.freezing.shelf import Shelf, lacking, python
from tests.house import House

SECRET = b"THE SECRET OF ANOTHER DIRECTORY"
OPENERS = [beneath.open_path, beneath.walk]
Opener = Callable[[int, str], int]


@contextmanager
def directory(path: Path | str) -> Iterator[int]:
    """Open a directory as the executor does."""
    handle = os.open(path, os.O_PATH | os.O_DIRECTORY)
    yield handle
    os.close(handle)


def opened(opener: Opener, top: int, relative: str) -> str | int:
    """Give what was opened, or the error number."""
    try:
        handle = opener(top, relative)
    except OSError as failed:
        return failed.errno or 0
    try:
        return os.readlink(f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)


# rule: freezing.inside-roots
@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize(
    ("relative", "error"),
    [
        ("link", errno.ELOOP),
        ("link-inside", errno.ELOOP),
        ("link-to-nothing", errno.ELOOP),
        ("link-to-directory/secret", errno.ELOOP),
        ("link-to-directory-inside/file", errno.ELOOP),
        ("link-to-link", errno.ELOOP),
        ("loop", errno.ELOOP),
        ("loop/file", errno.ELOOP),
        ("../outside/secret", errno.EXDEV),
        ("sub/../../outside/secret", errno.EXDEV),
        ("sub/../file", errno.EXDEV),
        ("..", errno.EXDEV),
        ("/etc/passwd", errno.EXDEV),
        ("missing", errno.ENOENT),
        ("missing/file", errno.ENOENT),
        ("", errno.ENOENT),
        ("file/file", errno.ENOTDIR),
        ("file/", errno.ENOTDIR),
        ("file\0.txt", errno.EINVAL),
        ("x" * 256, errno.ENAMETOOLONG),
    ],
)
def test_both_ways_refuse_what_does_not_lead_inside_roots(
    tmp_path: Path, opener: Opener, relative: str, error: int
) -> None:
    """Where openat2 is missing the promise is the same, and so is the reason that is told."""
    top, outside = tmp_path / "top", tmp_path / "outside"
    (top / "sub").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret").write_bytes(SECRET)
    (top / "file").write_text("plain")
    (top / "sub" / "file").write_text("plain")
    (top / "link").symlink_to(outside / "secret")
    (top / "link-inside").symlink_to("file")
    (top / "link-to-nothing").symlink_to("nowhere")
    (top / "link-to-directory").symlink_to(outside)
    (top / "link-to-directory-inside").symlink_to("sub")
    (top / "link-to-link").symlink_to("link-inside")
    (top / "loop").symlink_to("loop")
    with directory(top) as handle:
        assert opened(opener, handle, "file") == str(top / "file")
        assert opened(opener, handle, "sub/file") == str(top / "sub" / "file")
        assert opened(opener, handle, "./sub//file") == str(top / "sub" / "file")

        assert opened(opener, handle, relative) == error


# rule: freezing.inside-roots
@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("relative", ["root/etc/passwd", "cwd", "exe", "fd/0", "task/../root"])
def test_both_ways_refuse_the_magic_links_of_proc_as_not_inside_roots(
    opener: Opener, relative: str
) -> None:
    """A magic link leads anywhere without naming it."""
    with directory(f"/proc/{os.getpid()}") as handle:
        assert opened(opener, handle, "status") == f"/proc/{os.getpid()}/status"

        assert opened(opener, handle, relative) in (errno.ELOOP, errno.EXDEV)


# rule: freezing.inside-roots
@pytest.mark.parametrize("opener", OPENERS)
def test_both_ways_open_what_would_block_or_act_only_as_a_handle_inside_roots(
    tmp_path: Path, opener: Opener
) -> None:
    """Opening a pipe for reading can hang for ever, and opening a tape rewinds it."""
    os.mkfifo(tmp_path / "pipe")
    with directory(tmp_path) as handle:
        found = opener(handle, "pipe")
        try:
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.read(found, 1)
        finally:
            os.close(found)


DENY_OPENAT2 = """
import ctypes, json, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
step = struct.Struct("HBBI").pack
program = ctypes.create_string_buffer(
    step(0x20, 0, 0, 0)                            # load the number of the call
    + step(0x15, 0, 1, 437)                        # openat2?
    + step(0x06, 0, 0, 0x00050000 | int(sys.argv[1]))  # answer with this error
    + step(0x06, 0, 0, 0x7FFF0000)                 # anything else: go on
)
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Filter(4, ctypes.addressof(program)))) == 0
from executor.effects import beneath
top = os.open(sys.argv[2], os.O_PATH)
def said(opener, name):
    try:
        return os.readlink(f"/proc/self/fd/{opener(top, name)}")
    except OSError as failed:
        return failed.errno
print(json.dumps([
    said(beneath._openat2, "file"),
    said(beneath.open_path, "file"),
    said(beneath.open_path, "link"),
    said(beneath.open_path, "../top/file"),
]))
"""


# rule: freezing.inside-roots
@pytest.mark.parametrize("denial", [errno.ENOSYS, errno.EPERM])
def test_the_walk_takes_over_where_openat2_is_denied_and_stays_inside_roots(
    tmp_path: Path, denial: int
) -> None:
    """Container filters answer an unknown call with either error."""
    top = tmp_path / "top"
    top.mkdir()
    (top / "file").touch()
    (top / "link").symlink_to("file")

    direct, plain, link, out = python(DENY_OPENAT2, denial, top)

    assert direct == denial  # the filter is real
    assert plain == str(top / "file")
    assert (link, out) == (errno.ELOOP, errno.EXDEV)


# rule: freezing.inside-roots
@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret",
        "{outside}/secret",
        "in/../../outside/secret",
        "/etc/passwd",
        "/proc/self/root/etc/passwd",
        "//etc/passwd",
        "..",
        ".",
        "link",
        "link-inside",
        "directory/secret",
        "{home}/root-beside/secret",
    ],
)
async def test_a_file_that_is_not_inside_roots_is_refused_and_nothing_is_stored(
    shelf: Shelf, path: str
) -> None:
    """An agent may name any path; what it gets to send is another matter."""
    (shelf.outside / "secret").write_bytes(SECRET)
    (shelf.home / "root-beside").mkdir()
    (shelf.home / "root-beside" / "secret").write_bytes(SECRET)
    (shelf.root / "link").symlink_to(shelf.outside / "secret")
    (shelf.root / "link-inside").symlink_to("report.txt")
    (shelf.root / "directory").symlink_to(shelf.outside)
    shelf.file("report.txt", b"plain")
    shelf.file("in/report.txt", b"plain")
    for way in ("report.txt", "in/../report.txt", str(shelf.root / "report.txt"), "in//report.txt"):
        assert await shelf.frozen(way) == b"plain"
    before = shelf.stored()

    with pytest.raises(Refused) as no:
        await shelf.freeze(path.format(outside=shelf.outside, home=shelf.home))

    assert (no.value.rule, no.value.code) == ("freezing.inside-roots", "FILE_OUTSIDE_ROOTS")
    assert no.value.todo
    assert shelf.stored() == before


# rule: freezing.inside-roots
async def test_a_root_that_is_named_through_a_link_holds_its_files_inside_roots(
    shelf: Shelf,
) -> None:
    """Home directories and /tmp are links on many systems; people write the path they know."""
    shelf.file("in/report.txt", b"plain")
    named = shelf.home / "named"
    named.symlink_to(shelf.root)
    deeper = shelf.home / "deeper"
    deeper.symlink_to(named / "in")

    for root, path in [
        (named, named / "in/report.txt"),
        (named, shelf.root / "in/report.txt"),
        (deeper, deeper / "report.txt"),
        (f"{named}/", named / "in/report.txt"),
        ("/", shelf.root / "in/report.txt"),
    ]:
        assert await shelf.frozen(path, roots=[root]) == b"plain"


# rule: freezing.inside-roots
async def test_a_root_that_is_a_link_below_another_root_counts_as_inside_roots(
    shelf: Shelf,
) -> None:
    """Whoever declares it says so on purpose, in whichever order."""
    (shelf.outside / "shared.txt").write_bytes(b"shared")
    link = shelf.root / "shared"
    link.symlink_to(shelf.outside)
    with pytest.raises(Refused) as no:
        await shelf.freeze(link / "shared.txt")
    assert no.value.code == "FILE_OUTSIDE_ROOTS"

    assert await shelf.frozen(link / "shared.txt", roots=[shelf.root, link]) == b"shared"
    assert await shelf.frozen(link / "shared.txt", roots=[link, shelf.root]) == b"shared"


# rule: freezing.inside-roots
async def test_a_root_that_is_itself_exchanged_for_a_link_no_longer_has_files_inside_roots(
    shelf: Shelf,
) -> None:
    """Whoever can write beside a root could otherwise point it at anything."""
    (shelf.outside / "report.txt").write_bytes(SECRET)
    shelf.file("report.txt", b"plain")
    freezer = shelf.freezer()
    path = str(shelf.root / "report.txt")
    _, hold = await freezer.freeze("first", [SlotFile("doc", path, "report.txt", 100)], None)
    hold.release()
    before = shelf.stored()
    shelf.root.rename(shelf.home / "moved")
    shelf.root.symlink_to(shelf.outside)

    with pytest.raises(Refused) as no:
        await freezer.freeze("second", [SlotFile("doc", path, "report.txt", 100)], None)

    assert no.value.code == "FILE_OUTSIDE_ROOTS"
    assert shelf.stored() == before


EXCHANGE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
one, other = (os.fsencode(path) for path in sys.argv[1:])
assert libc.renameat2(-100, one, -100, other, 2) == 0, os.strerror(ctypes.get_errno())
print("turning", flush=True)
while True:
    libc.renameat2(-100, one, -100, other, 2)
"""


@contextmanager
def turning(one: Path, other: Path) -> Iterator[None]:
    """Exchange two names for each other, over and over, as fast as the kernel can."""
    with subprocess.Popen(
        [sys.executable, "-c", EXCHANGE, one, other], stdout=subprocess.PIPE
    ) as loop:
        assert loop.stdout is not None
        assert loop.stdout.readline() == b"turning\n"
        try:
            yield
        finally:
            loop.send_signal(signal.SIGKILL)


# rule: freezing.inside-roots
@pytest.mark.parametrize("turned", ["file", "directory"])
async def test_a_link_swapped_in_while_copying_never_gets_a_file_from_outside_inside_roots(
    shelf: Shelf, turned: str
) -> None:
    """Case 11. Looking and opening are one step, or the file is another one in between."""
    (shelf.outside / "report.txt").write_bytes(SECRET)
    shelf.file("in/report.txt", b"PLAIN")
    if turned == "file":
        one, other = shelf.root / "in/report.txt", shelf.root / "in/other"
        other.symlink_to(shelf.outside / "report.txt")
    else:
        one, other = shelf.root / "in", shelf.root / "other"
        other.symlink_to(shelf.outside)
    seen: dict[str | bytes, int] = {}
    rounds = 0
    with turning(one, other):
        # 2000 rounds, and on until both faces of the coin were met.
        while rounds < 2000 or len(seen) < 2:
            rounds += 1
            try:
                outcome: str | bytes = await shelf.frozen("in/report.txt")
            except Refused as no:
                outcome = no.code
            seen[outcome] = seen.get(outcome, 0) + 1

    assert set(seen) <= {b"PLAIN", "FILE_OUTSIDE_ROOTS", "FILE_CHANGED_WHILE_FREEZING"}
    assert "FILE_OUTSIDE_ROOTS" in seen
    assert all(SECRET not in path.read_bytes() for path in shelf.stored())


# rule: freezing.inside-roots
@pytest.mark.parametrize("opener", OPENERS)
def test_a_directory_swapped_for_a_link_never_leads_either_way_out_inside_roots(
    tmp_path: Path, opener: Opener
) -> None:
    """Case 11, for the way that goes step by step: each step is one look, not two."""
    for name in ("in", "outside"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    (tmp_path / "other").symlink_to("outside")
    inside = (tmp_path / "in" / "file").stat().st_ino
    seen: set[int] = set()
    rounds = 0
    with turning(tmp_path / "in", tmp_path / "other"), directory(tmp_path) as top:
        while rounds < 2000 or len(seen) < 2:
            rounds += 1
            try:
                handle = opener(top, "in/file")
            except OSError as failed:
                seen.add(-(failed.errno or 0))
            else:
                seen.add(os.fstat(handle).st_ino)
                os.close(handle)

    assert seen - {-errno.ELOOP, -errno.ENOTDIR} == {inside}


# rule: freezing.regular-files
@pytest.mark.parametrize("kind", ["directory", "pipe", "socket", "character", "block"])
async def test_what_is_no_regular_file_is_refused_by_regular_files_without_blocking(
    shelf: Shelf, kind: str
) -> None:
    """A pipe nobody writes to would stop the gate for everybody."""
    path = shelf.root / "thing"
    shelf.file("real")
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listening, directory(shelf.root) as top:
            listening.bind(f"/proc/self/fd/{top}/thing")
    else:
        try:
            # zero, and the first loop device
            code, number = (0o20600, (1, 5)) if kind == "character" else (0o60600, (7, 0))
            os.mknod(path, code, os.makedev(*number))
        except PermissionError:
            lacking("making a device file is not permitted here")
    assert await shelf.frozen("real") == b"content\n"
    before = shelf.stored()

    with pytest.raises(Refused) as no:
        await shelf.freeze("real", "thing")

    assert (no.value.rule, no.value.code) == ("freezing.regular-files", "NOT_A_REGULAR_FILE")
    assert shelf.stored() == before


# rule: freezing.regular-files
async def test_the_real_device_of_zeros_is_refused_by_regular_files(shelf: Shelf) -> None:
    """It never ends."""
    with pytest.raises(Refused) as no:
        await shelf.freeze("/dev/zero", roots=["/dev"])

    assert no.value.code == "NOT_A_REGULAR_FILE"
    assert "a device" in no.value.because
    assert shelf.stored() == []


# rule: freezing.readable-files
@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("missing.txt", "No such file"),
        ("report.txt/inner", "Not a directory"),
        ("x" * 300, "too long"),
        ("report.txt\0.pdf", "NUL"),
        ("report\ud800.txt", "surrogates"),
    ],
)
async def test_a_file_that_is_not_there_is_refused_by_readable_files(
    shelf: Shelf, path: str, told: str
) -> None:
    """Half of a message is another message."""
    shelf.file("report.txt")
    assert await shelf.frozen("report.txt") == b"content\n"
    before = shelf.stored()

    with pytest.raises(Refused) as no:
        await shelf.freeze("report.txt", path)

    assert (no.value.rule, no.value.code) == ("freezing.readable-files", "FILE_NOT_READABLE")
    assert told in no.value.because
    assert "\0" not in str(no.value)
    assert shelf.stored() == before


# rule: freezing.readable-files
async def test_a_file_whose_bytes_cannot_be_read_is_refused_by_readable_files(
    shelf: Shelf,
) -> None:
    """It is the file that fails, not the store: advice about the disk would lead astray."""
    path = f"/proc/{os.getpid()}/mem"  # a regular file; nothing is mapped at its start
    with pytest.raises(Refused) as no:
        await shelf.freeze(path, roots=["/proc"])

    assert (no.value.rule, no.value.code) == ("freezing.readable-files", "FILE_NOT_READABLE")
    assert "Input/output error" in no.value.because
    assert shelf.stored() == []


FREEZE = """
import json, sys, trio
from pathlib import Path
from executor.effects.blobs import Blobs
from executor.effects.freezer import Freezer
from executor.frozen import SlotFile
from executor.refusal import Refused
store, root, name = sys.argv[1:]
async def main():
    try:
        files, _ = await Freezer(Blobs(Path(store)), [root], root).freeze(
            "once", [SlotFile("doc", name, "a", 2**40)], None
        )
        return files[0].sha256
    except Refused as no:
        return no.code
print(json.dumps(trio.run(main)))
"""


# rule: freezing.readable-files
def test_a_file_that_this_user_may_not_read_is_refused_by_readable_files(shelf: Shelf) -> None:
    """The executor lends nobody its own rights, and has none to lend here."""
    path = shelf.file("report.txt")
    path.chmod(0o200)

    assert python(FREEZE, shelf.store, shelf.root, "report.txt", powerless=True) == (
        "FILE_NOT_READABLE"
    )
    assert shelf.stored() == []
    path.chmod(0o400)
    assert len(python(FREEZE, shelf.store, shelf.root, "report.txt", powerless=True)) == 64


# rule: freezing.inside-roots
async def test_a_key_below_a_root_is_refused_inside_roots(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wide root, such as a home directory, must not make every key an attachment."""
    house.manifest(files={"doc": {}})
    monkeypatch.setenv("HOME", str(house.root))
    key, note = house.file(".ssh/id_ed25519"), house.file(".sshd-notes/id_ed25519")

    async with house.open() as executor:
        allowed = await executor.run(house.request(files={"doc": str(note)}))
        with pytest.raises(Refused) as no:
            await executor.run(house.request(files={"doc": str(key)}))

    assert allowed.status == "delivered"
    assert (no.value.rule, no.value.code) == ("freezing.inside-roots", "FILE_OUTSIDE_ROOTS")
    assert ".ssh" in no.value.because


# rule: freezing.inside-roots
async def test_our_own_state_below_a_root_is_refused_inside_roots(house: House) -> None:
    """Copies and receipts of other actions are not for sending."""
    house.manifest(files={"doc": {}})
    async with house.open(roots=[house.home]) as executor:
        first = await executor.run(house.request(files={"doc": str(house.file("note"))}))
        receipt = executor.receipt_path(first)
        assert receipt.exists()
        with pytest.raises(Refused) as no:
            await executor.run(house.request(files={"doc": str(receipt)}))

    assert no.value.rule == "freezing.inside-roots"
