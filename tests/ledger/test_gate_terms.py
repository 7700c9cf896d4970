"""Terms: what a request, a manifest, the configuration and the environment say about duplicates."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from executor import Config, Executor, Receipt, Refused, Request
from executor.config import LedgerConfig
from executor.effects import clock
from executor.gate import Gate
from executor.units import Duration
from tests.house import House
from tests.ledger.crash.post import Post

MINUTE_S = 60.0


@pytest.fixture
def post(house: House) -> Post:
    """A tool without a sandbox, which adds nothing to what the ledger does."""
    return Post(house)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let some seconds pass on the clock that nobody sets."""
    moment, passed = clock.moment, [0.0]

    def later() -> Any:
        now = moment()
        return msgspec.structs.replace(now, ticks=now.ticks + round(passed[0] * 1000))

    monkeypatch.setattr(clock, "moment", later)

    def wait(seconds: float) -> None:
        passed[0] += seconds

    return wait


async def refused(executor: Executor, request: Request) -> Refused:
    with pytest.raises(Refused) as no:
        await executor.run(request)
    return no.value


def beside(post: Post, request: Request, attempt: str) -> Request:
    return msgspec.structs.replace(request, allow_duplicate=attempt)


def on_ledger(post: Post, attempt: str) -> dict[str, Any]:
    """Give what a receipt's file says of the ledger."""
    said: dict[str, Any] = post.receipts()[attempt]["ledger"]
    return said


# -- beside ---------------------------------------------------------------------------------------


# rule: ledger.override-beside
async def test_a_delivery_that_is_named_as_known_is_delivered_once_more_and_then_guards_itself(
    post: Post,
) -> None:
    """A flag that says "again" would say it again in every replay."""
    request = post.request()
    async with post.open() as executor:
        first = await executor.run(request)
        assert (await refused(executor, request)).code == "DUPLICATE_DELIVERED"
        again = beside(post, request, first.attempt)

        second = await executor.run(again)

        assert second.status == "delivered"
        assert post.sent == ["to ana"] * 2
        for replay in (again, request):
            no = await refused(executor, replay)
            assert no.code == "DUPLICATE_DELIVERED"
            assert no.earlier is not None
            assert no.earlier.attempt == second.attempt

    assert post.sent == ["to ana"] * 2
    attempts = await post.attempts()
    assert [one.beside for one in attempts] == [None, first.attempt]
    assert attempts[0].settled != attempts[1].settled
    assert on_ledger(post, first.attempt)["beside"] is None
    assert on_ledger(post, second.attempt)["beside"] == first.attempt
    assert second.result()["ledger"]["beside"] == first.attempt


# rule: ledger.override-beside
async def test_an_unresolved_one_that_is_named_as_known_stays_as_it_is(post: Post) -> None:
    """That it was sent once more says nothing about the first."""
    request = post.request()
    post.does(then={"exit": 1})
    async with post.open() as executor:
        first = await executor.run(request)
        assert (await refused(executor, request)).code == "DUPLICATE_UNRESOLVED"
        post.does()

        second = await executor.run(beside(post, request, first.attempt))

    assert (first.status, second.status) == ("unresolved", "delivered")
    assert [one.state for one in await post.attempts()] == ["unresolved", "delivered"]
    await post.is_all_on_record()


# rule: ledger.override-beside
async def test_a_rejected_override_leaves_the_earlier_delivery_in_the_way(post: Post) -> None:
    """What was delivered is delivered, whatever came of trying it again."""
    request = post.request()
    async with post.open() as executor:
        first = await executor.run(request)
        again = beside(post, request, first.attempt)
        post.does(sent="/dev/null", stdout="", then={"exit": 64})
        rejected = await executor.run(again)
        post.does()

        no = await refused(executor, request)

        assert (rejected.status, no.code) == ("undelivered", "DUPLICATE_DELIVERED")
        assert no.earlier is not None
        assert no.earlier.attempt == first.attempt
        assert (await executor.run(again)).status == "delivered"
    assert post.sent == ["to ana"] * 2


# rule: ledger.override-beside
async def test_naming_another_attempt_or_one_that_still_runs_lifts_nothing(post: Post) -> None:
    """Only who knows of the very attempt can mean it."""
    request, other = post.request(), post.request()
    async with post.open() as executor:
        first, stranger = await executor.run(request), await executor.run(other)
        for name in ("01a22e08d3796bc414f9212b568c", stranger.attempt):
            no = await refused(executor, beside(post, request, name))
            assert no.code == "DUPLICATE_DELIVERED"
            assert no.receipt is not None
            assert on_ledger(post, no.receipt.attempt)["beside"] is None
        assert (await executor.run(beside(post, request, first.attempt))).status == "delivered"
    assert post.sent == ["to ana"] * 3

    running = post.request()
    post.dies(running, "after the dispatch's commit")
    *_, left = await post.attempts()
    async with post.open() as executor:
        post.does()
        assert (await refused(executor, running)).code == "DUPLICATE_UNRESOLVED"
        assert (await executor.run(beside(post, running, left.id))).status == "delivered"
    assert post.sent == ["to ana"] * 4


# rule: ledger.override-beside
# rule: ledger.crash
async def test_a_killed_override_says_in_its_receipt_what_it_stood_beside(post: Post) -> None:
    """The record made for it by another must not look like that of a first try."""
    request = post.request()
    async with post.open() as executor:
        first = await executor.run(request)

    post.dies(beside(post, request, first.attempt), "after the dispatch's commit")
    async with post.open():
        pass

    *_, second = await post.attempts()
    assert (second.state, second.beside) == ("unresolved", first.attempt)
    assert on_ledger(post, second.id)["beside"] == first.attempt


# -- the window -----------------------------------------------------------------------------------


async def blocks_for(
    post: Post, passes: Callable[[float], None], seconds: float, **options: Any
) -> None:
    """A delivery blocks for so long, and no longer; ledger, result and receipt say so."""
    request = post.request()
    async with post.open(**options) as executor:
        first = await executor.run(request)
        passes(seconds - 1)
        assert (await refused(executor, request)).code == "DUPLICATE_DELIVERED"
        passes(2)
        assert (await executor.run(request)).status == "delivered"
    said = [first.result()["ledger"]["window_ms"], on_ledger(post, first.attempt)["window_ms"]]
    assert said == [seconds * 1000] * 2


# rule: ledger.window
async def test_a_delivery_blocks_for_15_minutes(
    post: Post, passes: Callable[[float], None]
) -> None:
    """On by default, with nothing to wire."""
    await blocks_for(post, passes, 15 * MINUTE_S)


# rule: ledger.window
async def test_a_delivery_blocks_for_as_long_as_was_said_last(
    post: Post, passes: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The configuration, over it the manifest, over both the environment."""
    config = Config(ledger=LedgerConfig(window=Duration(60)))
    await blocks_for(post, passes, 60, config=config)

    post.declare(ledger={"window": "2 h"})
    await blocks_for(post, passes, 2 * 3600, config=config)

    monkeypatch.setenv("EXECUTOR_DUPLICATE_WINDOW", "10 min")
    await blocks_for(post, passes, 600, config=config)


# rule: ledger.window
@pytest.mark.parametrize("where", ["configuration", "manifest", "0", "0 s"])
async def test_a_window_of_0_blocks_nothing_delivered_and_says_so(
    post: Post, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Whoever switches it off, nobody should be unaware of it; the rest stays on."""
    request, options = post.request(), dict[str, Any]()
    if where == "configuration":
        options["config"] = Config(ledger=LedgerConfig(window=Duration(0)))
    elif where == "manifest":
        post.declare(ledger={"window": "0 s"})
    else:
        monkeypatch.setenv("EXECUTOR_DUPLICATE_WINDOW", where)

    async with post.open(**options) as executor:
        receipts = [await executor.run(request), await executor.run(request)]
        post.does(then={"exit": 1})
        unresolved = await executor.run(request)
        assert (await refused(executor, request)).code == "DUPLICATE_UNRESOLVED"

    assert [one.status for one in [*receipts, unresolved]] == ["delivered"] * 2 + ["unresolved"]
    assert post.sent == ["to ana"] * 3
    for one in receipts:
        assert one.result()["ledger"]["window_ms"] == 0
        assert on_ledger(post, one.attempt)["window_ms"] == 0
    assert [one.window_ms for one in await post.attempts()] == [0, 0, 0]


# rule: ledger.window
@pytest.mark.parametrize("written", ["15", "off", "-1 s", "1 s 2 s", "1e3 s", "00", "0s0"])
async def test_a_window_in_the_environment_that_means_nothing_opens_nothing(
    post: Post, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    """A slip that is ignored is a guard that somebody believes in, or one that is off."""
    state = post.house.home / "another"
    monkeypatch.setenv("EXECUTOR_DUPLICATE_WINDOW", " 15 min ")
    async with post.open():
        pass
    monkeypatch.setenv("EXECUTOR_DUPLICATE_WINDOW", written)

    with pytest.raises(Refused) as no:
        async with post.open(state=state):
            pytest.fail("it was opened")

    assert no.value.code == "INVALID_CONFIG"
    assert f"EXECUTOR_DUPLICATE_WINDOW={written!r}" in str(no.value)
    assert not state.exists()


# -- the key --------------------------------------------------------------------------------------


def with_key(post: Post, **idempotency: Any) -> None:
    """Hand the key to the command, as an argument and in its environment."""
    post.declare(
        argv=[*post.plan("plan"), "--", "{idempotency_key}"],
        env={"KEY": "{idempotency_key}"},
        idempotency=idempotency,
    )


def keys(post: Post) -> list[tuple[str, str]]:
    """Give the keys that the command was given, in order of its runs."""
    found = sorted(post.out.glob("record-*.json"), key=lambda path: path.stat().st_mtime_ns)
    records = [json.loads(path.read_text()) for path in found]
    return [(record["argv"][-1], record["env"]["KEY"]) for record in records]


# rule: ledger.idempotency-key
async def test_a_key_is_the_same_for_the_same_action_and_another_for_one_beside_it(
    post: Post,
) -> None:
    """A provider that knows it again makes a retry safe, and must not swallow what is wanted."""
    with_key(post)
    request, record = post.request(), f"{post.out}/"
    async with post.open() as executor:
        post.does(record=record, sent="/dev/null", stdout="", then={"exit": 64})
        released = await executor.run(request)
        post.does(record=record)
        first = await executor.run(request)
        await executor.run(beside(post, request, first.attempt))
        await executor.run(post.request())

    assert released.status == "undelivered"
    (one, in_env), same, beside_it, other = keys(post)
    assert one == in_env == same[0] == same[1]
    assert len({one, beside_it[0], other[0]}) == 3
    assert set(one) != {"0"}
    assert [attempt.key for attempt in await post.attempts()] == [
        one,
        one,
        beside_it[0],
        other[0],
    ]


# rule: ledger.idempotency-key
async def test_a_key_is_another_one_after_a_delivery_whose_window_is_over(
    post: Post, passes: Callable[[float], None]
) -> None:
    """A provider with a long memory would hand back the old one, told here as delivered again."""
    with_key(post)
    request, record = post.request(), f"{post.out}/"
    post.does(record=record)
    async with post.open() as executor:
        first = await executor.run(request)
        passes(16 * MINUTE_S)
        second = await executor.run(request)

    assert (first.status, second.status) == ("delivered", "delivered")
    (one, _), (other, _) = keys(post)
    assert one != other


async def in_doubt(post: Post, executor: Executor, request: Request) -> Receipt:
    """Send, and never learn what became of it."""
    post.does(record=f"{post.out}/", then={"exit": 1})
    receipt = await executor.run(request)
    assert receipt.status == "unresolved"
    post.does(record=f"{post.out}/")
    return receipt


# rule: ledger.idempotency-key
async def test_inside_the_providers_window_a_resend_under_the_key_settles_the_earlier_one(
    post: Post, passes: Callable[[float], None]
) -> None:
    """To the provider it is one delivery, and by its answer both are known."""
    with_key(post, window="10 min")
    request = post.request()
    async with post.open() as executor:
        first = await in_doubt(post, executor, request)
        passes(9 * MINUTE_S)

        second = await executor.run(request)

        assert second.status == "delivered"
        assert second.result()["ledger"]["resend"] is True
        no = await refused(executor, request)
        assert no.code == "DUPLICATE_DELIVERED"
        notes = executor.gate.ledger.notes(first.attempt)
    one, same = keys(post)
    assert one == same
    earlier, later = await post.attempts()
    assert (earlier.id, earlier.state, earlier.decided_by) == (first.attempt, "delivered", "resend")
    assert earlier.result_id == later.result_id == "m-7"
    assert (later.resend, later.state) == (True, "delivered")
    assert [note.by for note in notes] == ["resend"]
    assert on_ledger(post, second.attempt)["resend"] is True


# rule: ledger.idempotency-key
async def test_a_resend_that_is_rejected_leaves_the_earlier_one_in_doubt(
    post: Post, passes: Callable[[float], None]
) -> None:
    """A provider may say no to the second because it has the first."""
    with_key(post, window="10 min")
    request = post.request()
    async with post.open() as executor:
        await in_doubt(post, executor, request)
        post.does(sent="/dev/null", stdout="", then={"exit": 64})
        assert (await executor.run(request)).status == "undelivered"
        passes(11 * MINUTE_S)
        assert (await refused(executor, request)).code == "DUPLICATE_UNRESOLVED"
    assert [one.state for one in await post.attempts()] == ["unresolved", "released"]


# rule: ledger.idempotency-key
@pytest.mark.parametrize("window", [{}, {"window": "10 min"}], ids=["no-window", "past-it"])
async def test_without_or_after_the_providers_window_a_resend_is_refused_as_unresolved(
    post: Post, passes: Callable[[float], None], window: dict[str, str]
) -> None:
    """Once it has forgotten the key, the second is a second delivery."""
    with_key(post, **window)
    request = post.request()
    async with post.open() as executor:
        first = await in_doubt(post, executor, request)
        passes(10 * MINUTE_S + 1)

        no = await refused(executor, request)

    assert no.code == "DUPLICATE_UNRESOLVED"
    assert no.earlier is not None
    assert no.earlier.attempt == first.attempt
    assert post.sent == ["to ana"]


# rule: ledger.idempotency-key
async def test_a_resend_whose_window_ends_before_its_dispatch_is_refused_and_released(
    post: Post, passes: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What counts is when it goes out, not when it was asked for."""
    with_key(post, window="10 min")
    request = post.request()
    async with post.open() as executor:
        first = await in_doubt(post, executor, request)
        verify = Gate.verify

        async def slow(self: Gate, frozen: Any) -> Any:
            passes(11 * MINUTE_S)
            return await verify(self, frozen)

        with monkeypatch.context() as patched:
            patched.setattr(Gate, "verify", slow)
            no = await refused(executor, request)

    assert no.code == "DUPLICATE_UNRESOLVED"
    earlier, later = await post.attempts()
    assert (earlier.id, earlier.state) == (first.attempt, "unresolved")
    assert (later.state, later.dispatched) == ("released", None)
    assert post.sent == ["to ana"]
    await post.is_all_on_record()


# -- forgetting -----------------------------------------------------------------------------------


# rule: ledger.pruning
async def test_what_is_old_is_forgotten_at_the_next_opening_and_never_what_is_in_doubt(
    post: Post, passes: Callable[[float], None]
) -> None:
    """The ledger must not grow for ever, and forgetting must not be a way to do it twice."""
    config = Config(ledger=LedgerConfig(keep=Duration(3600)))
    settled, open_one = post.request(), post.request()
    async with post.open(config=config) as executor:
        await executor.run(settled)
        doubt = await in_doubt(post, executor, open_one)
    for seconds, left in ((3599, 2), (2, 1)):
        passes(seconds)
        async with post.open(config=config):
            assert len(await post.attempts()) == left

    async with post.open(config=config) as executor:
        assert (await refused(executor, open_one)).code == "DUPLICATE_UNRESOLVED"
        assert (await executor.run(settled)).status == "delivered"
    assert doubt.attempt in [one.id for one in await post.attempts()]


# rule: ledger.pruning
# rule: ledger.window
async def test_a_window_that_is_made_longer_later_still_finds_what_it_has_to_block(
    post: Post, passes: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was kept for a minute must not be gone when an hour is asked for."""
    config = Config(ledger=LedgerConfig(window=Duration(60), keep=Duration(0)))
    request = post.request()
    async with post.open(config=config) as executor:
        await executor.run(request)
    passes(600)
    monkeypatch.setenv("EXECUTOR_DUPLICATE_WINDOW", "1 h")

    async with post.open(config=config) as executor:
        assert (await refused(executor, request)).code == "DUPLICATE_DELIVERED"
    assert post.sent == ["to ana"]
