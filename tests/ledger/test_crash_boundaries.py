"""Crash: killed at any instant, an executor leaves what its last durable word says; never a second.

Each test kills a real executor at one boundary, asks for the very same in a fresh process, and once
more in this one.
"""

from typing import Any

import pytest

from executor import Config, Refused, Request
from executor.units import Duration
from tests.house import House
from tests.ledger.crash.post import Post, answer, until

NOT_ON_RECORD = ["before the claim's commit"]
RESERVED = [
    "after the claim's commit",
    "after the claim, before the look-up",
    "after the room for the receipt",
    "before the dispatch's commit",
    "bailing out, before the release",
]
RELEASED = ["bailing out, after the release", "bailing out, before the receipt"]
DISPATCHING = [
    "after the dispatch's commit",
    "after the dispatch, before the spawn",
    "between spawn and effect",
    "between effect and exit",
    "between exit and settle",
    "before the settle's commit",
]
DELIVERED = [
    "after the settle's commit",
    "after the settle, before the receipt",
    "in the receipt, before its name",
    "in the receipt, with its name",
    "after the receipt, before its draft goes",
    "after the receipt, before the caller",
]


@pytest.fixture
def level(request: pytest.FixtureRequest) -> str:
    """A level of isolation, where it can be had."""
    if request.param == "namespaced":
        request.getfixturevalue("namespaced")
    return str(request.param)


async def refused(post: Post, request: Request) -> Refused:
    """Ask once more, in this process."""
    async with post.open() as executor:
        with pytest.raises(Refused) as no:
            await executor.run(request)
    return no.value


def delivered(told: dict[str, Any]) -> str:
    assert (told["result"]["status"], told["result"]["result_id"]) == ("delivered", "m-7")
    attempt: str = told["result"]["attempt"]
    return attempt


# rule: ledger.crash
@pytest.mark.parametrize("boundary", NOT_ON_RECORD + RESERVED + RELEASED)
async def test_killed_before_the_dispatch_was_durable_the_same_runs_once_and_is_then_refused(
    house: House, boundary: str
) -> None:
    """Nothing can have happened, and nobody has to find out whether it did."""
    post = Post(house)
    request = post.request()

    post.dies(request, boundary)
    assert post.sent == []
    second = delivered(post.asks(request))

    third = await refused(post, request)
    assert (third.code, third.earlier and third.earlier.attempt) == ("DUPLICATE_DELIVERED", second)
    assert post.sent == ["to ana"]
    attempts = await post.attempts()
    first = [(one.state, one.code) for one in attempts[:-1]]
    if boundary in NOT_ON_RECORD:
        assert first == []
    elif boundary in RESERVED:
        assert first == [("released", "EXECUTOR_GONE_BEFORE_START")]
    else:
        assert first == [("released", "FROZEN_COPY_CHANGED")]
    assert attempts[-1].id == second
    await post.is_all_on_record()


# rule: ledger.crash
# rule: ledger.unresolved
@pytest.mark.parametrize(
    ("boundary", "level"),
    [(one, "bare") for one in DISPATCHING]
    + [(one, "namespaced") for one in DISPATCHING if one.startswith("between")],
    indirect=["level"],
)
async def test_killed_after_the_dispatch_was_durable_the_same_is_refused_as_unresolved(
    house: House, boundary: str, level: str
) -> None:
    """It may have happened, whether it did or not; only a person can say."""
    post = Post(house, level)
    if boundary == "between spawn and effect":
        post.stop.touch()
    if boundary == "between effect and exit":
        post.does(then="hang")
    wanted = post.request()

    post.dies(wanted, boundary)
    lines = post.sent
    second = post.asks(wanted)

    [first] = await post.attempts()
    third = await refused(post, wanted)
    assert second["code"] == third.code == "DUPLICATE_UNRESOLVED"
    assert second["earlier"]["attempt"] == first.id
    assert third.earlier is not None
    assert third.earlier.attempt == first.id
    assert second["earlier_receipt_is_there"]
    assert (first.state, first.code, first.decided_by) == (
        "unresolved",
        "EXECUTOR_GONE",
        "recovery",
    )
    assert post.sent == lines
    assert len(lines) == (boundary in DISPATCHING[3:])
    await post.is_all_on_record()
    if boundary == "between spawn and effect":
        post.stop.unlink()
        if level == "bare":  # nothing ends it there: it sends late, and was rightly not sent again
            until(lambda: post.sent, "the late effect")
            assert post.sent == ["to ana"]
        else:
            assert post.sent == []


# rule: ledger.crash
# rule: ledger.delivered
@pytest.mark.parametrize("boundary", DELIVERED)
async def test_killed_after_the_settlement_was_durable_the_same_is_refused_as_delivered(
    house: House, boundary: str
) -> None:
    """The answer was lost, not the record: the next one is told the id and has the receipt."""
    post = Post(house)
    request = post.request()

    post.dies(request, boundary)
    second = post.asks(request)

    [first] = await post.attempts()
    third = await refused(post, request)
    assert second["code"] == third.code == "DUPLICATE_DELIVERED"
    assert second["earlier_receipt_is_there"]
    assert third.earlier is not None
    for told in (second["earlier"], third.earlier.facts()):
        assert (told["attempt"], told["result_id"], told["receipt"]) == (first.id, "m-7", first.id)
    assert post.receipts()[first.id]["result"]["result_id"] == "m-7"
    assert post.sent == ["to ana"]
    await post.is_all_on_record()


# rule: ledger.crash
@pytest.mark.parametrize("boundary", ["after the dispatch's commit", "after the settle's commit"])
async def test_two_executors_that_recover_at_once_write_one_receipt(
    house: House, boundary: str
) -> None:
    """Both find what the killed one left; neither may fail over it, or say it twice."""
    post = Post(house)
    request = post.request()
    post.dies(request, boundary)

    with post.process(request) as one, post.process(request) as other:
        told = [answer(one), answer(other)]

    [first] = await post.attempts()
    assert [one["code"] for one in told] == [f"DUPLICATE_{first.state.upper()}"] * 2
    assert [one["earlier"]["receipt"] for one in told] == [first.id] * 2
    assert [one["earlier_receipt_is_there"] for one in told] == [True, True]
    await post.is_all_on_record()


# rule: ledger.crash
@pytest.mark.parametrize(
    ("boundary", "code"),
    [
        ("after the claim's commit", None),
        ("after the dispatch's commit", "DUPLICATE_UNRESOLVED"),
        ("in the receipt, before its name", "DUPLICATE_DELIVERED"),
    ],
)
async def test_an_executor_that_is_open_meanwhile_settles_what_a_killed_one_left(
    house: House, boundary: str, code: str | None
) -> None:
    """A service must not have to be started anew for it."""
    post = Post(house)
    request = post.request()
    async with post.open() as executor:
        post.dies(request, boundary)
        if code is None:
            assert (await executor.run(request)).status == "delivered"
        else:
            with pytest.raises(Refused) as no:
                await executor.run(request)
            assert no.value.code == code
            assert no.value.earlier is not None
            assert no.value.earlier.attempt in post.receipts()

    assert len(post.sent) == (boundary != "after the dispatch's commit")
    async with post.open():
        pass
    await post.is_all_on_record()


# rule: ledger.crash
async def test_an_executor_that_stays_open_tidies_up_after_killed_ones_by_itself(
    house: House,
) -> None:
    """Nobody may ever ask for the same again, and a person still has to hear of it."""
    post = Post(house)
    async with post.open(config=Config(retention=Duration(0))) as executor:
        post.dies(post.request(), "after the dispatch's commit")
        assert (await executor.run(post.request())).status == "delivered"

        [left, _] = executor.gate.ledger.newest(2)[::-1]

    assert (left.state, left.code) == ("unresolved", "EXECUTOR_GONE")
    assert post.receipts()[left.id]["result"]["status"] == "unresolved"
    await post.is_all_on_record()
