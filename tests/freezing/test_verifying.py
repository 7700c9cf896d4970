"""Freezing: between the yes and the start every byte is looked at again, and then run."""

import dataclasses
import fcntl
import hashlib
import mmap
import os
import re
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from executor import Executor, Request
from executor.effects import sealing
from executor.frozen import FrozenAction
from executor.gate import Gate
from executor.refusal import Refused, Unverified
from executor.rules.isolation import Availability
from tests.freezing.shelf import Shelf
from tests.house import House, interpreter, recorded

BENIGN, MUTATED = b"BENIGN", b"MUTATED"


@pytest.fixture
def ready(house: House) -> House:
    """A house whose tool takes one file and, when it runs, says so in ``root/sent.log``."""
    tree = interpreter()[1]
    isolation = {"write": [str(house.root)], "read": [] if tree is None else [tree]}
    house.manifest(files={"doc": {}}, isolation=isolation)
    house.file("body.txt", BENIGN)
    return house


def ask(house: House, **changes: Any) -> Request:
    """Ask for the run that reads the file and leaves a line."""
    plan = {"record": "stdout", "sent": str(house.root / "sent.log"), "sent_text": "ran"}
    return house.request(plan, files={"doc": str(house.root / "body.txt")}, **changes)


def started(house: House) -> int:
    """Say how often the command was started."""
    log = house.root / "sent.log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def copy_of(gate: Gate, frozen: FrozenAction) -> Path:
    """Give where the frozen copy lies."""
    return gate.freezer.blobs.path(frozen.files[0].sha256)


async def finish(executor: Executor, frozen: FrozenAction) -> Any:
    """Verify and spawn, as the gate does."""
    with await executor.gate.verify(frozen) as verified:
        return await executor.gate.spawn(verified)


def overwrite(path: Path, content: bytes) -> None:
    """Change a file in place, as its owner can."""
    path.chmod(0o600)
    path.write_bytes(content)


def link_to_the_same(path: Path) -> None:
    """Put a link to the very same bytes in its place: they could be turned later."""
    path.rename(path.parent / "elsewhere")
    path.symlink_to("elsewhere")


def link_to_others(path: Path) -> None:
    """Put a link to other bytes in its place."""
    (path.parent / "elsewhere").write_bytes(MUTATED)
    path.unlink()
    path.symlink_to("elsewhere")


def make_directory(path: Path) -> None:
    """Put a directory in its place."""
    path.unlink()
    path.mkdir()


def make_pipe(path: Path) -> None:
    """Put a pipe in its place."""
    path.unlink()
    os.mkfifo(path)


TAMPERING: dict[str, Callable[[Path], None]] = {
    "rewritten": lambda path: overwrite(path, b"BENIGM"),
    "rewritten-longer": lambda path: overwrite(path, MUTATED),
    "one-byte-more": lambda path: overwrite(path, BENIGN + b"\0"),
    "one-byte-less": lambda path: overwrite(path, BENIGN[:-1]),
    "emptied": lambda path: overwrite(path, b""),
    "replaced": lambda path: (path.unlink(), path.write_bytes(b"BENIGM"))[0],
    "link-to-the-same": link_to_the_same,
    "link-to-others": link_to_others,
    "link-to-nothing": lambda path: (path.unlink(), path.symlink_to("nowhere"))[0],
    "removed": lambda path: path.unlink(),
    "its-directory-removed": lambda path: shutil.rmtree(path.parent),
    "a-directory": make_directory,
    "a-pipe": make_pipe,
}


# rule: freezing.rehash-before-spawn
@pytest.mark.parametrize("tampering", TAMPERING)
async def test_a_frozen_copy_that_was_changed_is_found_by_rehash_before_spawn(
    ready: House, namespaced: None, tampering: str
) -> None:
    """Case 15. The approver saw one script; another must not run."""
    async with ready.open() as executor:
        gate = executor.gate
        frozen, hold = await gate.freeze(gate.admit("control", ask(ready)))
        with hold:
            assert (await finish(executor, frozen)).exit == 0
        assert started(ready) == 1
        frozen, hold = await gate.freeze(gate.admit("attempt", ask(ready)))
        TAMPERING[tampering](copy_of(gate, frozen))

        with hold, pytest.raises(Refused) as no:
            await finish(executor, frozen)

    assert not isinstance(no.value, Unverified)
    assert (no.value.rule, no.value.code) == ("freezing.rehash-before-spawn", "FROZEN_COPY_CHANGED")
    assert (no.value.stage, no.value.recovery) == ("verify", "ask")
    assert hashlib.sha256(BENIGN).hexdigest() in no.value.because
    assert started(ready) == 1


# rule: freezing.rehash-before-spawn
async def test_both_hashes_of_a_changed_copy_are_told_by_rehash_before_spawn(ready: House) -> None:
    """Whoever investigates can say which bytes were put there."""
    async with ready.open() as executor:
        gate = executor.gate
        frozen, hold = await gate.freeze(gate.admit("attempt", ask(ready)))
        overwrite(copy_of(gate, frozen), b"BENIGM")

        with hold, pytest.raises(Refused) as no:
            await gate.verify(frozen)

    assert re.findall("[0-9a-f]{64}", no.value.because) == [
        hashlib.sha256(BENIGN).hexdigest(),
        hashlib.sha256(b"BENIGM").hexdigest(),
    ]


# rule: freezing.rehash-before-spawn
async def test_every_copy_is_looked_at_not_only_the_first_by_rehash_before_spawn(
    house: House,
) -> None:
    """The last of many attachments is as good a place as any."""
    house.manifest(files={"doc": {"many": True}})
    paths = tuple(str(house.file(f"{name}.txt", name)) for name in ("a", "b", "c"))
    async with house.open() as executor:
        gate = executor.gate
        frozen, hold = await gate.freeze(gate.admit("attempt", house.request(files={"doc": paths})))
        with hold:
            (await gate.verify(frozen)).close()
            overwrite(gate.freezer.blobs.path(frozen.files[-1].sha256), b"d")

            with pytest.raises(Refused) as no:
                await gate.verify(frozen)

    assert no.value.code == "FROZEN_COPY_CHANGED"
    assert "c.txt" in no.value.because


# rule: freezing.rehash-before-spawn
async def test_asking_again_after_a_changed_copy_freezes_anew_for_rehash_before_spawn(
    ready: House, namespaced: None
) -> None:
    """That is what the refusal advises, and the damaged copy has the same name."""
    async with ready.open() as executor:
        gate = executor.gate
        frozen, hold = await gate.freeze(gate.admit("attempt", ask(ready)))
        with hold:
            overwrite(copy_of(gate, frozen), MUTATED)
            with pytest.raises(Refused):
                await gate.verify(frozen)

        receipt = await executor.run(ask(ready))

    assert receipt.status == "delivered"
    assert recorded(receipt)["files"][0]["content"] == "BENIGN"


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """Let the system refuse larger files, memory files too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# rule: freezing.rehash-before-spawn
async def test_a_copy_that_cannot_be_looked_at_is_no_accusation_of_rehash_before_spawn(
    ready: House,
) -> None:
    """Also no, but the repair is ours: nobody has to look for an intruder."""
    ready.file("body.txt", b"x" * 5000)
    async with ready.open() as executor:
        gate = executor.gate
        frozen, hold = await gate.freeze(gate.admit("attempt", ask(ready)))
        with hold:
            (await gate.verify(frozen)).close()

            with files_no_larger_than(4000), pytest.raises(Unverified) as no:
                await gate.verify(frozen)

    assert no.value.code == "FROZEN_COPY_CHANGED"
    assert "cannot be read: File too large" in no.value.because


# rule: freezing.rehash-before-spawn
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda path: path.write_text(path.read_text().replace("fake", "fuke")), "its SHA-256 is"),
        (lambda path: path.write_text(path.read_text() + "\n"), "its SHA-256 is"),
        (lambda path: path.unlink(), "it is gone"),
        (link_to_the_same, "it is a symbolic link now"),
    ],
)
async def test_a_command_that_was_changed_is_found_by_rehash_before_spawn(
    ready: House, namespaced: None, change: Callable[[Path], object], told: str
) -> None:
    """An update between the yes and the start makes it another program."""
    async with ready.open() as executor:
        gate = executor.gate
        frozen, hold = await gate.freeze(gate.admit("attempt", ask(ready)))
        with hold:
            (await gate.verify(frozen)).close()
            change(ready.bin / "fake")

            with pytest.raises(Refused) as no:
                await finish(executor, frozen)

    assert (no.value.rule, no.value.code) == ("admission.script-pinned", "COMMAND_CHANGED")
    assert told in no.value.because
    assert frozen.admitted.command.files[1].sha256 in no.value.because
    assert started(ready) == 0


# rule: freezing.rehash-before-spawn
async def test_a_refused_verification_gives_every_descriptor_back_for_rehash_before_spawn(
    ready: House,
) -> None:
    """Sealed copies are memory; a gate that refuses often must not run out of it."""

    def open_now() -> set[str]:
        return {name for name in os.listdir("/proc/self/fd") if _leads_to_memory(name)}

    async with ready.open() as executor:
        gate = executor.gate
        frozen, hold = await gate.freeze(gate.admit("attempt", ask(ready)))
        with hold:
            before = open_now()
            verified = await gate.verify(frozen)
            assert open_now() > before
            verified.close()
            assert open_now() == before
            (ready.bin / "fake").unlink()

            with pytest.raises(Refused):
                await gate.verify(frozen)

            assert open_now() == before


def _leads_to_memory(name: str) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{name}").startswith("/memfd:")
    except FileNotFoundError:
        return False


# rule: freezing.verified-bytes
async def test_rewriting_the_source_after_the_freeze_changes_nothing_of_verified_bytes(
    ready: House, namespaced: None
) -> None:
    """Case 15, first half: what was shown is what is sent."""
    async with ready.open() as executor:
        gate = executor.gate
        frozen, hold = await gate.freeze(gate.admit("attempt", ask(ready)))
        ready.file("body.txt", MUTATED)
        with hold, await gate.verify(frozen) as verified:
            finished = await gate.spawn(verified)

    assert b'"content":"BENIGN"' in finished.stdout.kept.replace(b": ", b":")
    assert started(ready) == 1


# rule: freezing.verified-bytes
@pytest.mark.parametrize("tampering", TAMPERING)
async def test_a_change_after_the_last_look_does_not_reach_the_command_under_verified_bytes(
    ready: House, namespaced: None, tampering: str
) -> None:
    """Case 15, last half: a check followed by a second look checks nothing."""
    async with ready.open() as executor:
        gate = executor.gate
        admitted = gate.admit("attempt", ask(ready))
        frozen, hold = await gate.freeze(admitted)
        with hold, await gate.verify(frozen) as verified:
            TAMPERING[tampering](copy_of(gate, frozen))
            ready.file("body.txt", MUTATED)
            ready.install("fake", "print('another program')\n")
            finished = await gate.spawn(verified)

    assert finished.exit == 0, finished
    assert b'"content":"BENIGN"' in finished.stdout.kept.replace(b": ", b":")
    assert started(ready) == 1


# rule: freezing.verified-bytes
async def test_stdin_is_of_the_verified_bytes_too(house: House, namespaced: None) -> None:
    """What a command reads from its standard input is a file like any other."""
    house.manifest(files={"doc": {}}, stdin={"file": "doc"})
    house.file("body.txt", BENIGN)
    request = house.request({"record": "stdout"}, files={"doc": str(house.root / "body.txt")})
    async with house.open() as executor:
        gate = executor.gate
        frozen, hold = await gate.freeze(gate.admit("attempt", request))
        with hold, await gate.verify(frozen) as verified:
            overwrite(copy_of(gate, frozen), MUTATED)
            finished = await gate.spawn(verified)

    assert b'"stdin":"BENIGN"' in finished.stdout.kept.replace(b": ", b":")


# rule: freezing.verified-bytes
def test_sealed_memory_cannot_be_changed_by_anybody_so_verified_bytes_stay(tmp_path: Path) -> None:
    """Not by us either, and not through another descriptor."""
    path = tmp_path / "file"
    path.write_bytes(BENIGN)
    for sealed in (sealing.seal_file(str(path), len(BENIGN)), sealing.seal_bytes(BENIGN)):
        with open(f"/proc/self/fd/{sealed.descriptor}", "r+b", buffering=0) as again:
            for descriptor in (sealed.descriptor, again.fileno()):
                with pytest.raises(PermissionError):
                    os.pwrite(descriptor, MUTATED, 0)
                with pytest.raises(PermissionError):
                    os.ftruncate(descriptor, 1)
                with pytest.raises(PermissionError):
                    os.ftruncate(descriptor, 100)
                with pytest.raises(PermissionError):
                    mmap.mmap(descriptor, len(BENIGN))
                with pytest.raises(PermissionError):  # no seal can be taken off or added
                    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, 0)
        assert sealed.bytes() == BENIGN
        assert sealed.sha256() == hashlib.sha256(BENIGN).hexdigest()
        sealed.close()


# rule: freezing.verified-bytes
@pytest.mark.parametrize("size", [0, 1, sealing.CHUNK, 2 * sealing.CHUNK + 1])
def test_the_digest_of_sealed_memory_is_of_all_verified_bytes(tmp_path: Path, size: int) -> None:
    """A byte behind the last full piece counts as well."""
    content = os.urandom(1000) * (size // 1000 + 1)
    path = tmp_path / "file"
    path.write_bytes(content[:size])

    sealed = sealing.seal_file(str(path), size)

    assert sealed.size == size
    assert sealed.sha256() == hashlib.sha256(content[:size]).hexdigest()
    sealed.close()


# rule: freezing.verified-bytes
@pytest.mark.parametrize(("size", "taken"), [(10, 10), (9, 10), (5, 6), (0, 1), (100, 10)])
def test_no_more_than_one_byte_too_many_is_taken_into_verified_bytes(
    tmp_path: Path, size: int, taken: int
) -> None:
    """A copy that grew to fill the disk must not fill the memory; one byte is enough to see it."""
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")

    sealed = sealing.seal_file(str(path), size)

    assert sealed.bytes() == b"0123456789"[:taken]
    sealed.close()


def bare(gate: Gate) -> Gate:
    """Give the gate of a machine without any sandbox, in degraded mode."""
    probed = tuple(
        Availability(entry.level, entry.level == "bare", "", entry.missing) for entry in gate.probed
    )
    return dataclasses.replace(gate, probed=probed, degraded=True)


# rule: freezing.verified-bytes
async def test_in_bare_the_receipt_declares_the_gap_in_verified_bytes(
    ready: House, namespaced: None
) -> None:
    """Without a mount of its own the command opens its files by path, after the check."""
    async with ready.open() as executor:
        sandboxed = await executor.run(ask(ready))
        plain = await bare(executor.gate).run(ask(ready, note="again"))

    def missing(receipt: Any) -> str:
        record = receipt.statement()["predicate"]["action"]["isolation"]
        return f"{record['level']}: {record['missing']}"

    assert "verified bytes" not in missing(sandboxed)
    assert missing(plain).startswith("bare: ")
    assert "the verified bytes" in missing(plain)
    assert recorded(plain)["files"][0]["content"] == "BENIGN"


# rule: freezing.verified-bytes
async def test_in_bare_the_staged_copy_is_still_made_of_the_verified_bytes(ready: House) -> None:
    """The gap is between staging and the start, not between the check and staging."""
    async with ready.open() as executor:
        gate = bare(executor.gate)
        frozen, hold = await gate.freeze(gate.admit("attempt", ask(ready)))
        with hold, await gate.verify(frozen) as verified:
            overwrite(copy_of(gate, frozen), MUTATED)
            finished = await gate.spawn(verified)

    assert b'"content":"BENIGN"' in finished.stdout.kept.replace(b": ", b":")
    assert ready.leftovers() == []


# rule: freezing.verified-bytes
async def test_the_shelf_is_not_needed_any_more_once_the_verified_bytes_are_taken(
    shelf: Shelf,
) -> None:
    """From the check on no path leads to them."""
    shelf.file("doc", BENIGN)
    (frozen,), hold = await shelf.freeze("doc")
    with hold:
        sealed = sealing.seal_file(str(shelf.blobs.path(frozen.sha256)), frozen.size)
        shutil.rmtree(shelf.store)

    assert sealed.bytes() == BENIGN
    sealed.close()
