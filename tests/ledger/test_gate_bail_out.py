"""Ways out: up to the dispatch each of them releases, after it none does."""

import errno
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest
import trio

from executor import Receipt, Refused, Request
from executor.frozen import FrozenAction
from executor.gate import Gate
from executor.rules import ledger as rules
from executor.store import receipts
from tests.house import House
from tests.ledger.crash.post import Post

Meddle = Callable[[Gate, FrozenAction], None]


@dataclass
class Way:
    """A way out: what happens after the claim, what puts it right again, and what is told."""

    code: str
    status: str
    happens: Callable[[Post], Meddle]
    mend: Callable[[Post], None] = lambda post: None


def _change_copy(post: Post) -> Meddle:
    def change(gate: Gate, action: FrozenAction) -> None:
        copy = Path(gate.freezer.blobs.path(action.files[0].sha256))
        copy.chmod(0o600)
        copy.write_text("something else, put there meanwhile")

    return change


def _change_command(post: Post) -> Meddle:
    def change(gate: Gate, action: FrozenAction) -> None:
        with (post.house.bin / "fake").open("a") as command:
            command.write("\n# another version\n")

    return change


def _remove(name: str) -> Callable[[Post], Meddle]:
    def happens(post: Post) -> Meddle:
        def remove(gate: Gate, action: FrozenAction) -> None:
            path = post.house.root / name
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink()

        return remove

    return happens


def _token(post: Post) -> None:
    post.house.file("token", "a-secret-of-ours\n").chmod(0o600)


def _spare(post: Post) -> None:
    (post.house.root / "spare").mkdir(exist_ok=True)


def _nothing_found(post: Post) -> Meddle:
    return lambda gate, action: post.does("look", then={"exit": 1}, stderr="no such draft\n")


def _found(post: Post) -> None:
    post.does("look")


def _raises(fault: BaseException) -> Callable[[Post], Meddle]:
    def happens(post: Post) -> Meddle:
        def meddle(gate: Gate, action: FrozenAction) -> NoReturn:
            raise fault

        return meddle

    return happens


WAYS = {
    "changed copy": Way("FROZEN_COPY_CHANGED", "refused", _change_copy),
    "changed command": Way("COMMAND_CHANGED", "refused", _change_command),
    "missing secret": Way("SECRET_UNAVAILABLE", "refused", _remove("token"), _token),
    "missing path": Way("PATH_NOT_FOUND", "refused", _remove("spare"), _spare),
    "failed look-up": Way("LOOKUP_FAILED", "refused", _nothing_found, _found),
    "interrupt": Way("FAULT_BEFORE_START", "undelivered", _raises(KeyboardInterrupt())),
    "fault": Way("FAULT_BEFORE_START", "undelivered", _raises(RuntimeError("a bug of ours"))),
}


@pytest.fixture
def post(house: House) -> Post:
    """A tool that can fail in each of these ways, and does not yet."""
    post = Post(house)
    _token(post)
    _spare(post)
    _found(post)
    isolation = house.manifest()
    post.declare(
        files={"paper": {}},
        secrets={"token": {"env": "TOKEN", "source": {"file": str(house.root / "token")}}},
        preflight={"argv": [*post.plan("look"), "--"], "when": {"exit": 0}},
        isolation={
            "read": [str(post.plans), *isolation.get("isolation", {}).get("read", [])],
            "write": [str(post.out), str(house.root / "spare")],
        },
    )
    return post


def wanted(post: Post) -> Request:
    return post.request(files={"paper": str(post.house.file("paper.txt"))})


def after_the_claim(patched: pytest.MonkeyPatch, meddle: Meddle) -> None:
    """Let something happen as soon as the claim is durable."""
    look_up = Gate.look_up

    async def happened(self: Gate, action: FrozenAction) -> Any:
        meddle(self, action)
        return await look_up(self, action)

    patched.setattr(Gate, "look_up", happened)


async def is_released_and_free(post: Post, request: Request, told: Receipt, code: str) -> None:
    assert post.sent == []
    [first] = await post.attempts()
    assert (first.id, first.state, first.code) == (told.attempt, "released", code)
    assert first.dispatched is None

    async with post.open() as executor:
        assert (await executor.run(request)).status == "delivered"

    assert post.sent == ["to ana"]
    assert len(post.receipts()) == len(await post.attempts()) == 2
    await post.is_all_on_record()


# rule: ledger.bail-out-releases
@pytest.mark.parametrize("name", WAYS)
async def test_every_way_out_before_the_dispatch_releases_and_leaves_one_receipt(
    post: Post, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A claim that nobody gives back would block what provably never happened."""
    way, request, told = WAYS[name], wanted(post), list[Receipt]()

    async with post.open() as executor:
        with monkeypatch.context() as patched:
            after_the_claim(patched, way.happens(post))
            with pytest.raises((Refused, RuntimeError, KeyboardInterrupt)) as no:
                await executor.run(request, tell=told.append)
    way.mend(post)

    assert [(one.status, one.code) for one in told] == [(way.status, way.code)]
    if isinstance(no.value, Refused):
        assert no.value.receipt == told[0]
    await is_released_and_free(post, request, told[0], way.code)


# rule: ledger.bail-out-releases
async def test_given_up_between_claim_and_dispatch_releases(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever gives up before the start is free to ask again at once."""
    request, told = wanted(post), list[Receipt]()
    async with post.open() as executor:
        with monkeypatch.context() as patched, trio.CancelScope() as scope:
            after_the_claim(patched, lambda gate, action: scope.cancel())
            await executor.run(request, tell=told.append)

    assert scope.cancelled_caught
    assert [(one.status, one.code) for one in told] == [("undelivered", "CANCELLED")]
    await is_released_and_free(post, request, told[0], "CANCELLED")


# rule: ledger.bail-out-releases
async def test_a_disk_without_room_for_the_receipt_releases(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger says why, and the next executor has room to write it down."""
    request, told = wanted(post), list[Receipt]()

    def full(*_: Any) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with post.open() as executor:
        with monkeypatch.context() as patched:
            patched.setattr(receipts.os, "posix_fallocate", full)
            with pytest.raises(Refused) as no:
                await executor.run(request, tell=told.append)

    assert no.value.code == "STORE_UNAVAILABLE"
    assert [(one.status, one.filed) for one in told] == [("refused", False)]
    assert told[0].result()["receipt"] is None
    assert post.receipts() == {}
    await is_released_and_free(post, request, told[0], "STORE_UNAVAILABLE")


# rule: ledger.bail-out-releases
# rule: ledger.release-allowlist
@pytest.mark.parametrize("stage", ["spawn", "classify", "settle"])
@pytest.mark.parametrize(
    "fault", [RuntimeError("a bug of ours"), KeyboardInterrupt()], ids=["fault", "interrupt"]
)
async def test_a_fault_after_the_dispatch_never_releases(
    post: Post, monkeypatch: pytest.MonkeyPatch, stage: str, fault: BaseException
) -> None:
    """From there on it may have happened; "nothing ran" would be a guess."""
    post.declare()  # without a look-up, which is spawned too
    request, told = post.request(), list[Receipt]()

    def fails(*_: Any) -> NoReturn:
        raise fault

    async with post.open() as executor:
        with monkeypatch.context() as patched:
            patched.setattr(Gate, stage, fails)
            with pytest.raises(type(fault)):
                await executor.run(request, tell=told.append)
        lines = post.sent
        with pytest.raises(Refused) as no:
            await executor.run(request)

    assert [(one.status, one.code) for one in told] == [("unresolved", "EXECUTOR_FAULT")]
    assert "It may have happened." in told[0].because
    [first] = await post.attempts()
    assert (first.state, first.code) == ("unresolved", "EXECUTOR_FAULT")
    assert no.value.code == "DUPLICATE_UNRESOLVED"
    assert post.sent == lines
    assert "Nothing ran" not in json.dumps([told[0].because, first.because])
    await post.is_all_on_record()


# rule: ledger.release-allowlist
async def test_a_fault_while_the_end_is_put_on_record_leaves_it_in_doubt(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It must not stay in flight for as long as the executor lives."""
    request, told = wanted(post), list[Receipt]()
    settle, faults = rules.settle, [RuntimeError("a bug of ours")]

    def fails_once(*given: Any) -> Any:
        if faults:
            raise faults.pop()
        return settle(*given)

    monkeypatch.setattr(rules, "settle", fails_once)
    async with post.open() as executor:
        with pytest.raises(RuntimeError):
            await executor.run(request, tell=told.append)
        with pytest.raises(Refused) as no:
            await executor.run(request)

    assert [(one.status, one.code) for one in told] == [("unresolved", "EXECUTOR_FAULT")]
    assert no.value.code == "DUPLICATE_UNRESOLVED"
    assert post.sent == ["to ana"]
    await post.is_all_on_record()
