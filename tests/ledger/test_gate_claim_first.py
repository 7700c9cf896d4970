"""Claim first: what could happen is on the disk before it can, and others see it by then."""

import re
from pathlib import Path

import pytest

from tests.house import House
from tests.ledger.crash.post import Post, answer, until

_CALL = re.compile(r"^(\d+) +(<\.\.\. )?(\w+)(.*)$")


def in_order(trace: Path) -> list[str]:
    """Give what strace saw: ``sync`` once one of the ledger is over, and each start by its plan."""
    found, unfinished = [], set()
    for line in trace.read_text(errors="replace").splitlines():
        if (call := _CALL.match(line)) is None:
            continue
        pid, resumed, name, rest = call.groups()
        if name in ("fsync", "fdatasync"):
            if resumed and pid in unfinished:
                unfinished.discard(pid)
                found.append("sync")
            elif "ledger.db-wal" in rest or "ledger.db-journal" in rest:
                if "unfinished" in rest:
                    unfinished.add(pid)
                else:
                    found.append("sync")
        elif name == "execve" and (plan := re.search(r"/plans/(\w+)\.json", rest)):
            found.append(plan[1])
        elif name == "openat" and "/ready" in rest:
            found.append("asked")
    return found


@pytest.fixture(params=["bare", "namespaced"])
def post(request: pytest.FixtureRequest, house: House) -> Post:
    """A tool with a look-up, at each level."""
    if request.param == "namespaced":
        request.getfixturevalue("namespaced")
    post = Post(house, request.param)
    post.declare(preflight={"argv": [*post.plan("look"), "--"], "when": {"exit": 0}})
    post.does("look")
    return post


# rule: ledger.claim-first
def test_the_claim_is_synced_before_the_look_up_and_the_dispatch_before_the_command(
    post: Post, strace: None
) -> None:
    """What was not on the disk before it could happen is not there when the power fails."""
    trace, ready = post.house.home / "trace", post.house.home / "ready"
    calls = "trace=fsync,fdatasync,execve,openat"
    watch = ["strace", "-f", "-y", "-qq", "-s", "4096", "-o", str(trace), "-e", calls]

    told = post.asks(post.request(), under=watch, ready=str(ready), wait_for=str(ready))

    assert told["result"]["status"] == "delivered"
    seen = in_order(trace)
    seen = seen[seen.index("asked") :]
    look_up, command = seen.index("look"), seen.index("plan")
    assert "sync" in seen[:look_up]  # the claim
    assert "sync" in seen[look_up:command]  # the dispatch
    assert "sync" in seen[command:]  # what became of it


# rule: ledger.claim-first
# rule: ledger.in-flight
async def test_another_process_is_refused_while_the_first_still_looks_up(house: House) -> None:
    """A claim that only its own process knows would let both look up, and both send."""
    post = Post(house)
    post.declare(preflight={"argv": [*post.plan("look"), "--"], "when": {"exit": 0}})
    post.does("look")
    request = post.request()
    post.stop.touch()
    with post.process(request) as first:
        until(post.started.exists, "the look-up")
        [reserved] = await post.attempts()

        told = post.asks(request)

        assert (reserved.state, reserved.dispatched) == ("reserved", None)
        assert (told["code"], told["earlier"]["state"]) == ("DUPLICATE_IN_FLIGHT", "reserved")
        assert told["earlier"]["attempt"] == reserved.id
        assert post.sent == []
        post.stop.unlink()
        assert answer(first)["result"]["status"] == "delivered"

    assert post.sent == ["to ana"]
