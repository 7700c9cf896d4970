"""Freezing: what is copied, how much of it, and what the copy is."""

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from executor.effects import blobs
from executor.frozen import SlotFile
from executor.refusal import Refused
from executor.rules import freezing
from tests.freezing.shelf import BIG, TOP, Shelf, lacking, python
from tests.house import House


def sha256(content: bytes) -> str:
    """Hash as anybody would."""
    return hashlib.sha256(content).hexdigest()


def once(act: Callable[[], object], when: Callable[[int, int], bool]) -> Callable[[int, int], None]:
    """Give a progress callback that acts a single time, in the middle of the work."""
    done = []

    def progress(count: int, total: int) -> None:
        if not done and when(count, total):
            done.append(act())

    return progress


def grow(path: Path) -> None:
    """Append one byte."""
    with path.open("ab") as file:
        file.write(b"+")


def shrink(path: Path) -> None:
    """Cut off one byte."""
    os.truncate(path, path.stat().st_size - 1)


def rewrite(path: Path, position: int = 0) -> None:
    """Change one byte in place."""
    with path.open("r+b") as file:
        file.seek(position)
        file.write(b"!")


def rewrite_and_set_the_time_back(path: Path) -> None:
    """Change one byte, and let the file look untouched."""
    before = path.stat()
    rewrite(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def rewrite_the_end(path: Path) -> None:
    """Change the last byte."""
    rewrite(path, path.stat().st_size - 1)


def empty(path: Path) -> None:
    """Truncate to nothing."""
    os.truncate(path, 0)


CHANGES = [grow, shrink, empty, rewrite, rewrite_and_set_the_time_back, rewrite_the_end]
MOMENTS = {
    "while-it-is-copied": lambda count, _: count < BIG,
    "after-it-was-copied": lambda count, _: count >= BIG,
    "when-all-is-hashed": lambda count, total: count == total,
}


# rule: freezing.stable-source
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("change", CHANGES)
async def test_a_file_that_changes_meanwhile_is_refused_by_stable_source(
    shelf: Shelf, change: Callable[[Path], None], moment: str
) -> None:
    """A mixture of two versions was never anybody's file."""
    path = shelf.file("big", b"x" * BIG)
    assert await shelf.frozen("big", progress=lambda *_: None) == b"x" * BIG
    before = shelf.stored()

    with pytest.raises(Refused) as no:
        await shelf.freeze("big", progress=once(lambda: change(path), MOMENTS[moment]))

    assert (no.value.rule, no.value.code) == (
        "freezing.stable-source",
        "FILE_CHANGED_WHILE_FREEZING",
    )
    assert no.value.recovery == "retry"
    assert shelf.stored() == before
    assert await shelf.frozen("big") == path.read_bytes()


# rule: freezing.stable-source
async def test_a_file_that_changes_while_another_is_copied_is_refused_by_stable_source(
    shelf: Shelf,
) -> None:
    """The files of one action are looked at together; the action is of one moment."""
    shelf.file("first", b"x" * BIG)
    second = shelf.file("second", b"small")
    change = once(lambda: rewrite(second), lambda *_: True)

    with pytest.raises(Refused) as no:
        await shelf.freeze("first", "second", progress=change)

    assert no.value.code == "FILE_CHANGED_WHILE_FREEZING"
    assert "second" in no.value.because
    assert shelf.stored() == []


# rule: freezing.stable-source
async def test_a_file_that_holds_more_than_it_says_is_refused_by_stable_source(
    shelf: Shelf,
) -> None:
    """Files of /proc say 0 bytes and hold more; cut short, one would be another file."""
    assert os.stat("/proc/version").st_size == 0

    with pytest.raises(Refused) as no:
        await shelf.freeze("/proc/version", roots=["/proc"])

    assert no.value.code == "FILE_CHANGED_WHILE_FREEZING"
    assert shelf.stored() == []


# rule: freezing.bounded
async def test_a_file_of_one_byte_too_many_is_refused_by_bounded(shelf: Shelf) -> None:
    """The limit is a number that people can count on."""
    shelf.file("fits", b"x" * 1000)
    shelf.file("over", b"x" * 1001)
    assert len(await shelf.frozen("fits", max_bytes=1000)) == 1000
    before = shelf.stored()

    with pytest.raises(Refused) as no:
        await shelf.freeze("fits", "over", max_bytes=1000)

    assert (no.value.rule, no.value.code) == ("freezing.bounded", "FILE_TOO_LARGE")
    assert "1001 bytes" in no.value.because
    assert "1000" in no.value.because
    assert shelf.stored() == before


# rule: freezing.bounded
async def test_a_sparse_file_counts_as_large_as_it_appears_for_bounded(shelf: Shelf) -> None:
    """The command reads every one of its zeros."""
    path = shelf.file("sparse", b"")
    os.truncate(path, 10**6)
    assert path.stat().st_blocks == 0
    assert len(await shelf.frozen("sparse", max_bytes=10**6)) == 10**6
    before = shelf.stored()

    with pytest.raises(Refused) as no:
        await shelf.freeze("sparse", max_bytes=10**6 - 1)

    assert no.value.code == "FILE_TOO_LARGE"
    assert shelf.stored() == before


# rule: freezing.bounded
async def test_files_that_are_too_large_together_are_refused_by_bounded_before_any_is_copied(
    shelf: Shelf,
) -> None:
    """Verified copies lie in memory while the command runs."""
    freezing.check_total(freezing.MAX_TOTAL)
    for name in ("one", "two"):
        os.truncate(shelf.file(name), freezing.MAX_TOTAL // 2 + 1)

    def copied(*_: int) -> None:
        raise AssertionError("something was copied")

    with pytest.raises(Refused) as no:
        await shelf.freeze("one", "two", progress=copied)

    assert (no.value.rule, no.value.code) == ("freezing.bounded", "FILE_TOO_LARGE")
    assert str(freezing.MAX_TOTAL) in no.value.because
    assert shelf.stored() == []


# rule: freezing.bounded
@pytest.mark.parametrize(
    ("limit", "size", "fits"), [(0, 0, True), (0, 1, False), (10, 10, True), (10, 11, False)]
)
def test_the_size_of_a_slot_is_bounded_to_the_byte(limit: int, size: int, fits: bool) -> None:
    """Off by one is off."""
    file = SlotFile("doc", "a.txt", "a.txt", limit)
    if fits:
        freezing.check_size(file, size)
        return
    with pytest.raises(Refused) as no:
        freezing.check_size(file, size)
    assert no.value.code == "FILE_TOO_LARGE"


# rule: freezing.bounded
def test_the_total_is_bounded_to_the_byte() -> None:
    """Off by one is off."""
    freezing.check_total(freezing.MAX_TOTAL)

    with pytest.raises(Refused) as no:
        freezing.check_total(freezing.MAX_TOTAL + 1)

    assert no.value.code == "FILE_TOO_LARGE"


# rule: freezing.hash-the-copy
@pytest.mark.parametrize("size", [0, 1, blobs.CHUNK - 1, blobs.CHUNK, blobs.CHUNK + 1, BIG + 7])
async def test_the_digest_is_of_every_byte_and_names_the_copy_for_hash_the_copy(
    shelf: Shelf, size: int
) -> None:
    """Whoever has the copy can say whether it is the one that was approved."""
    content = os.urandom(1000) * (size // 1000 + 1)
    shelf.file("doc", content[:size])

    (frozen,), hold = await shelf.freeze("doc")

    with hold:
        assert (frozen.sha256, frozen.size) == (sha256(content[:size]), size)
        assert shelf.blobs.path(frozen.sha256).read_bytes() == content[:size]


# rule: freezing.hash-the-copy
async def test_a_copy_that_went_wrong_on_its_way_is_named_by_its_own_bytes_for_hash_the_copy(
    shelf: Shelf,
) -> None:
    """What was read before it was written is not what is on disk."""
    source = b"x" * BIG
    shelf.file("doc", source)

    def damage() -> None:
        copy = shelf.incoming()
        copy.chmod(0o600)
        rewrite(copy)

    (frozen,), hold = await shelf.freeze("doc", progress=once(damage, lambda done, _: done >= BIG))

    with hold:
        on_disk = shelf.blobs.path(frozen.sha256).read_bytes()
        assert frozen.sha256 == sha256(on_disk)
        assert frozen.sha256 != sha256(source)


# rule: freezing.hash-the-copy
async def test_the_copy_is_its_owners_alone_whatever_the_umask_for_hash_the_copy(
    tmp_path: Path,
) -> None:
    """A frozen mail is as private as the mail."""

    def mode(path: Path) -> int:
        return path.stat().st_mode & 0o777

    old = os.umask(0)
    try:
        shelf = Shelf(tmp_path / "shelf")
        shelf.file("doc").chmod(0o777)
        on_its_way: list[int] = []
        _, hold = await shelf.freeze(
            "doc", progress=lambda *_: on_its_way.append(mode(shelf.incoming()))
        )
    finally:
        os.umask(old)

    with hold:
        every = list(shelf.store.rglob("*"))
        assert set(on_its_way) == {0o400}
        assert {mode(path) for path in every if path.is_dir()} == {0o700}
        assert {
            path.relative_to(shelf.store).parts[0]: mode(path)
            for path in every
            if not path.is_dir()
        } == {"blobs": 0o400, "holds": 0o600, "blobs.lock": 0o600}


# rule: freezing.hash-the-copy
async def test_equal_files_become_one_copy_under_hash_the_copy(shelf: Shelf) -> None:
    """Content-addressed: the same mail in ten requests takes its room once."""
    shelf.file("one", b"same")
    shelf.file("two", b"same")
    shelf.file("other", b"other")

    files, hold = await shelf.freeze("one", "two", "other")

    with hold:
        assert [file.name for file in files] == ["file0", "file1", "file2"]
        assert files[0].sha256 == files[1].sha256 == sha256(b"same")
        copies = [path for path in shelf.stored() if path.parent.parent.name == "blobs"]
        assert sorted(path.name for path in copies) == sorted([sha256(b"same"), sha256(b"other")])


# rule: freezing.hash-the-copy
async def test_a_damaged_copy_is_replaced_when_the_same_is_frozen_again_by_hash_the_copy(
    shelf: Shelf,
) -> None:
    """The advice after a refusal is to ask again; then it must work."""
    shelf.file("doc", b"BENIGN")
    (frozen,), hold = await shelf.freeze("doc")
    hold.release()
    copy = shelf.blobs.path(frozen.sha256)
    copy.chmod(0o600)
    copy.write_bytes(b"DAMAGE")

    assert await shelf.frozen("doc") == b"BENIGN"
    assert copy.stat().st_mode & 0o777 == 0o400


# rule: freezing.hash-the-copy
async def test_a_file_of_another_file_system_is_copied_by_hand_under_hash_the_copy(
    shelf: Shelf, small_disk: Path
) -> None:
    """The kernel copies within one file system only."""
    content = os.urandom(50_000)
    (small_disk / "doc").write_bytes(content)
    seen: list[int] = []

    copy = await shelf.frozen(
        small_disk / "doc", roots=[small_disk], progress=lambda done, _: seen.append(done)
    )

    assert copy == content
    assert seen == [50_000, 100_000]


# rule: freezing.hash-the-copy
async def test_progress_is_told_twice_over_the_bytes_and_ends_at_the_end_of_hash_the_copy(
    shelf: Shelf,
) -> None:
    """Each byte is copied, and read again for the digest."""
    shelf.file("one", b"x" * BIG)
    shelf.file("two", b"y" * 100)
    seen: list[tuple[int, int]] = []

    _, hold = await shelf.freeze("one", "two", progress=lambda *told: seen.append(told))

    hold.release()
    total = 2 * (BIG + 100)
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert {said for _, said in seen} == {total}
    assert seen[-1] == (total, total)


# rule: freezing.hash-the-copy
async def test_cancelling_in_the_middle_leaves_nothing_of_hash_the_copy(shelf: Shelf) -> None:
    """Whoever gives up waiting should not pay with disk space."""
    shelf.file("doc", b"x" * BIG)
    with trio.CancelScope() as scope:
        await shelf.freeze("doc", progress=lambda *_: trio.from_thread.run_sync(scope.cancel))

    assert scope.cancelled_caught
    assert shelf.stored() == []
    assert len(await shelf.frozen("doc")) == BIG


# rule: freezing.hash-the-copy
async def test_a_failing_observer_leaves_nothing_of_hash_the_copy(shelf: Shelf) -> None:
    """The progress callback is somebody else's code."""
    shelf.file("doc", b"x" * BIG)

    with pytest.raises(ZeroDivisionError):
        await shelf.freeze("doc", progress=lambda *_: 1 // 0)

    assert shelf.stored() == []


PEAK = """
import json, sys, trio
from pathlib import Path
from executor.effects.blobs import Blobs
from executor.effects.freezer import Freezer
from executor.frozen import SlotFile
store, root = sys.argv[1:]
async def main():
    await Freezer(Blobs(Path(store)), [root], root).freeze(
        "once", [SlotFile("doc", "doc", "doc", 2**40)], None
    )
    # Not ru_maxrss: that one counts what the parent had before the exec.
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])
print(json.dumps(trio.run(main)))
"""


# rule: freezing.hash-the-copy
@pytest.mark.parametrize("way", ["in-kernel", "by-hand"])
def test_memory_stays_constant_for_256_mib_under_hash_the_copy(shelf: Shelf, way: str) -> None:
    """An attachment must not be able to get the gate killed."""
    root = shelf.root
    if way == "by-hand":
        root = Path("/dev/shm") / os.urandom(8).hex()
        if root.parent.stat().st_dev == shelf.store.stat().st_dev:
            lacking("there is no second file system here")
        root.mkdir()
    path = root / "doc"
    try:
        path.write_bytes(b"small")
        small = python(PEAK, shelf.store, root)
        os.truncate(path, 256 * 2**20)
        (shelf.store / "holds" / "once").unlink()
        large = python(PEAK, shelf.store, root)
    finally:
        path.unlink()
        if way == "by-hand":
            root.rmdir()

    assert large - small < 32 * 1024  # KiB


RUN = """
import sys, trio
from executor import AskedBy, Request, open_executor
state, manifests, root, *trusted = sys.argv[1:]
async def main():
    async with open_executor(
        state=state, manifests=[manifests], roots=[root], trusted=trusted
    ) as executor:
        receipt = await executor.run(
            Request("test.fake", AskedBy("tester"), files={"doc": ("one", "two")})
        )
        assert receipt.status == "delivered", receipt
trio.run(main)
"""


# rule: freezing.hash-the-copy
def test_one_sync_makes_the_whole_set_durable_before_the_start_under_hash_the_copy(
    house: House, strace: None, namespaced: None, tmp_path: Path
) -> None:
    """After a power cut the record must not name bytes that are not there."""
    house.manifest(files={"doc": {"many": True}})
    house.file("one", b"1" * 1000)
    house.file("two", b"2" * 1000)
    told = tmp_path / "told"
    trusted = [house.bin, *house.interpreter_directories()]
    calls = "execve,syncfs,fsync,fdatasync,rename,renameat,renameat2,write,pwrite64,copy_file_range"
    subprocess.run(
        ["strace", "-f", "-y", "-qq", "-o", told, "-e", f"trace={calls}", sys.executable, "-c", RUN]
        + [str(path) for path in (house.state, house.manifests, house.root, *trusted)],
        check=True,
        cwd=house.root,
        env=os.environ | {"PYTHONPATH": str(TOP)},
    )
    lines = told.read_text().splitlines()

    def find(pattern: str, after: int = -1) -> list[int]:
        return [
            index for index, line in enumerate(lines) if index > after and re.search(pattern, line)
        ]

    store = re.escape(str(house.state))
    copied = find(rf"(copy_file_range|write64?)\(.*{store}/incoming/")
    placed = find(rf'rename\w*\(.*"{store}/blobs/')
    held = find(rf"write\(.*{store}/holds/")
    synced = find(rf"(syncfs|fsync|fdatasync)\(\d+<{store}/(holds|blobs|incoming)")
    (sync_done,) = find(r"syncfs.*= 0$")
    started = find(r"execve\(.*bwrap", after=copied[0])
    assert len(placed) == 2
    assert len(held) == 1
    assert len(synced) == 1  # one for the set, not one for each file
    assert max(*copied, *placed, *held) < synced[0] <= sync_done < started[0]


# rule: freezing.hash-the-copy
async def test_an_action_without_files_needs_no_hold_and_no_sync_under_hash_the_copy(
    shelf: Shelf,
) -> None:
    """A sync waits for everybody else's writing too; it is not for nothing."""
    files, hold = await shelf.freeze()

    with hold:
        assert files == ()
        assert shelf.stored() == []
