"""The named cases of the ledger, with real commands and real processes."""

import contextlib
import re
import shutil
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
import trio

from executor import AskedBy, Executor, Receipt, Refused, Request
from executor.attempt import Moment, Owner
from executor.effects import clock, processes
from executor.gate import Gate
from tests.house import House
from tests.ledger.crash.post import Post, answer, until
from tests.spawning.runs import SYSTEM_BINARY, alive, bwrap_that_can_turn

NOT_SENT = re.compile(
    r"\b(not|never|nothing|no)\b[^.\"]*\b(sent|delivered|happen|happened|ran|run|started)\b"
    r"|undelivered|failed|retry|\b(ask|run|send|try)\b[^.\"]*\bagain\b",
    re.IGNORECASE,
)
HOUR_MS = 3_600_000


@pytest.fixture
def post(house: House) -> Post:
    """A tool without a sandbox, which adds nothing to what the ledger does."""
    return Post(house)


async def ask(post: Post, request: Request) -> tuple[str | None, str | None]:
    """Ask in a fresh executor of this process; give the code or the status, and who was there."""
    async with post.open() as executor:
        return await ask_in(executor, request)


async def ask_in(executor: Executor, request: Request) -> tuple[str | None, str | None]:
    try:
        return (await executor.run(request)).status, None
    except Refused as no:
        return no.code, no.earlier and no.earlier.attempt


def set_clock(monkeypatch: pytest.MonkeyPatch, hours: float) -> None:
    """Set the wall's clock for this process: nobody can set the one that runs since the boot."""
    moment, now = clock.moment, clock.now()

    def stepped() -> Moment:
        true = moment()
        return msgspec.structs.replace(true, wall=true.wall + round(hours * HOUR_MS))

    monkeypatch.setattr(clock, "moment", stepped)
    assert clock.moment().at[:13] != now[:13]


@contextlib.contextmanager
def ledger_file(post: Post) -> Iterator[apsw.Connection]:
    """Open the ledger as its owner can, to put into it what cannot be made to happen."""
    connection = apsw.Connection(str(post.house.state / "ledger.db"))
    try:
        yield connection
    finally:
        connection.close()


def change_owner(post: Post, **changes: Any) -> None:
    """Say of every attempt that its executor was another process."""
    with ledger_file(post) as connection:
        [(text,)] = connection.execute("SELECT DISTINCT owner FROM attempts").fetchall()
        owner = msgspec.structs.replace(msgspec.json.decode(text, type=Owner), **changes)
        changed = msgspec.json.encode(owner).decode()
        connection.execute("UPDATE attempts SET owner = :owner", {"owner": changed})


@contextlib.contextmanager
def stranger() -> Iterator[Owner]:
    """Start a process that has nothing to do with it, and give it as an owner."""
    with subprocess.Popen(["sleep", "999"]) as sleep:
        try:
            yield Owner("", "", "", sleep.pid, processes.started(sleep.pid))
            assert sleep.poll() is None, "it was ended"
        finally:
            sleep.kill()


# -- 03 -------------------------------------------------------------------------------------------


# rule: ledger.owner-gone
# rule: ledger.unresolved
async def test_03_executor_killed_hard_and_its_number_reused_is_unresolved_and_harms_nobody(
    house: House, namespaced: None
) -> None:
    """Identity is number and start: the number alone is some day a stranger's."""
    post = Post(house, "namespaced")
    late = post.out / "late"
    post.does(then={"sleep": 20, "sleep_writes": str(late)})
    request = post.request()
    with post.process(request) as executor:
        until(lambda: post.sent, "the effect")
        executor.kill()
        executor.wait()
    until(lambda: alive(house) == [], "the end of the command")

    with stranger() as other:
        change_owner(post, pid=other.pid)
        [note] = (house.state / "sandboxes").iterdir()
        note.rename(note.with_name(f"{other.pid}.{note.name.partition('.')[2]}"))
        told = await ask(post, request)

    [first] = await post.attempts()
    assert told == ("DUPLICATE_UNRESOLVED", first.id)
    assert (first.state, first.code) == ("unresolved", "EXECUTOR_GONE")
    assert first.owner.pid == other.pid
    assert post.sent == ["to ana"]
    assert not late.exists()
    await post.is_all_on_record()


# rule: ledger.owner-gone
async def test_03_an_owner_whose_number_and_start_are_alive_is_not_gone(post: Post) -> None:
    """A lost lock alone proves nothing: what may still run is not called unresolved."""
    request = post.request()
    post.dies(request, "after the dispatch's commit")
    with stranger() as other:
        change_owner(post, pid=other.pid, started=other.started)
        assert (await ask(post, request))[0] == "DUPLICATE_IN_FLIGHT"

        change_owner(post, started=str(int(other.started) - 1))
        assert (await ask(post, request))[0] == "DUPLICATE_UNRESOLVED"
    assert post.sent == []


# -- 17 -------------------------------------------------------------------------------------------


# rule: ledger.unresolved
async def test_17_a_timeout_asked_again_three_times_is_unresolved_and_sent_once(
    post: Post,
) -> None:
    """The answer was lost, not the message; nobody may be told that it was not sent."""
    post.declare(limits={"deadline": "1 s", "grace": "1 s"})
    post.does(then={"sleep": 60})
    request = post.request()

    async with post.open() as executor:
        first = await executor.run(request)
        texts = [first.because, str(first.result() | {"output": None})]
        told = []
        for _ in range(2):
            with pytest.raises(Refused) as no:
                await executor.run(request)
            assert no.value.receipt is not None
            texts += [str(no.value), str(no.value.receipt.result())]
            told.append((no.value.code, no.value.earlier and no.value.earlier.attempt))
        elsewhere = post.asks(request)
        texts += [elsewhere["text"], str(elsewhere["result"])]
        told.append((elsewhere["code"], elsewhere["earlier"]["attempt"]))

    assert (first.status, first.code) == ("unresolved", "TIMED_OUT")
    assert told == [("DUPLICATE_UNRESOLVED", first.attempt)] * 3
    assert post.sent == ["to ana"]
    for text in texts:
        assert NOT_SENT.search(re.sub(r"`[^`]*`", "", text)) is None, text


# -- 19 -------------------------------------------------------------------------------------------


# rule: ledger.identity
async def test_19_volatile_fields_do_not_make_it_another_action_is_refused_as_delivered(
    post: Post,
) -> None:
    """A time, a path or a note in the key would make every retry look new."""
    post.declare(files={"paper": {}})
    asked = {"to": "ana", "turn": "1"}
    first = post.house.file("one/paper.txt", "the very same")
    second = post.house.file("two/paper.txt", "the very same")
    other = post.house.file("three/paper.txt", "the very samE")

    def request(paper: Path, parameters: dict[str, Any], **changes: Any) -> Request:
        changes = {"asked_by": AskedBy(role="tester")} | changes
        files: Any = {"paper": str(paper)}
        return Request(tool="test.fake", parameters=parameters, files=files, **changes)

    async with post.open() as executor:
        delivered = await executor.run(request(first, asked, note="at 10:00, request r-1"))
        told = await ask_in(
            executor,
            request(
                second,
                dict(reversed(asked.items())),
                note="at 10:05, request r-2",
                asked_by=AskedBy(role="tester", channel="mcp", sender="bo"),
            ),
        )
        assert told == ("DUPLICATE_DELIVERED", delivered.attempt)
        assert post.sent == ["to ana"]

        assert await ask_in(executor, request(other, asked)) == ("delivered", None)
    assert post.sent == ["to ana"] * 2


# -- 22 -------------------------------------------------------------------------------------------


# rule: ledger.in-flight
# rule: ledger.clock
@pytest.mark.parametrize("hours", [0, 2, 24 * 365, -2])
async def test_22_a_c_a_long_run_is_in_flight_whatever_the_clock_says(
    post: Post, monkeypatch: pytest.MonkeyPatch, hours: float
) -> None:
    """No lease runs out: who still runs is found out, not reckoned."""
    post.stop.touch()
    request = post.request()
    with post.process(request) as first:
        until(post.started.exists, "the start")
        if hours:
            set_clock(monkeypatch, hours)

        told = await ask(post, request)

        [running] = await post.attempts()
        assert told == ("DUPLICATE_IN_FLIGHT", running.id)
        assert running.state == "dispatching"
        assert post.sent == []
        post.stop.unlink()
        assert answer(first)["result"]["status"] == "delivered"
    assert post.sent == ["to ana"]


# rule: ledger.owner-gone
def test_22_a_run_is_in_flight_for_who_counts_the_time_from_elsewhere(post: Post) -> None:
    """In a time namespace even a process's start reads otherwise; its lock does not."""
    unshare = shutil.which("unshare")
    under = [str(unshare), "--time", "--boottime", "7200", "--monotonic", "7200", "--"]
    if unshare is None or subprocess.run([*under, "true"], check=False).returncode:
        pytest.skip("no time namespace is to be had")
    post.stop.touch()
    request = post.request()
    with post.process(request) as first:
        until(post.started.exists, "the start")

        assert post.asks(request, under=under)["code"] == "DUPLICATE_IN_FLIGHT"

        post.stop.unlink()
        assert answer(first)["result"]["status"] == "delivered"
    assert post.asks(request, under=under)["code"] == "DUPLICATE_DELIVERED"
    assert post.sent == ["to ana"]


# rule: ledger.crash
# rule: ledger.clock
@pytest.mark.parametrize("hours", [0, -2, 2, 24 * 365])
async def test_22_b_d_a_killed_run_is_unresolved_whatever_the_clock_says(
    post: Post, monkeypatch: pytest.MonkeyPatch, hours: float
) -> None:
    """Time does not make it known what became of it."""
    post.does(then="hang")
    request = post.request()
    post.dies(request, "between effect and exit")
    if hours:
        set_clock(monkeypatch, hours)

    told = await ask(post, request)

    [first] = await post.attempts()
    assert told == ("DUPLICATE_UNRESOLVED", first.id)
    assert post.sent == ["to ana"]


# rule: ledger.clock
@pytest.mark.parametrize("hours", [-2, -24 * 365, 2])
async def test_22_d_the_wall_clock_is_set_after_the_end_is_refused_as_delivered(
    post: Post, monkeypatch: pytest.MonkeyPatch, hours: float
) -> None:
    """The window is 15 minutes of time that passed, not of what somebody set."""
    request = post.request()
    assert (await ask(post, request))[0] == "delivered"
    set_clock(monkeypatch, hours)

    assert (await ask(post, request))[0] == "DUPLICATE_DELIVERED"
    assert post.sent == ["to ana"]


# rule: ledger.clock
async def test_22_d_until_the_other_clock_has_passed_it_too_is_refused_as_delivered(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A control for the tests that set the other one."""
    request = post.request()
    assert (await ask(post, request))[0] == "delivered"
    moment = clock.moment

    def passed(seconds: float) -> None:
        now = moment()
        later = msgspec.structs.replace(now, ticks=now.ticks + round(seconds * 1000))
        monkeypatch.setattr(clock, "moment", lambda: later)

    passed(14.9 * 60)
    assert (await ask(post, request))[0] == "DUPLICATE_DELIVERED"
    passed(15.1 * 60)
    assert (await ask(post, request))[0] == "delivered"
    assert post.sent == ["to ana"] * 2


# rule: ledger.owner-gone
async def test_22_e_after_a_reboot_a_live_process_with_the_number_is_not_the_owner(
    post: Post,
) -> None:
    """Numbers begin anew with each boot, and so do starts."""
    request = post.request()
    post.dies(request, "after the dispatch's commit")
    with stranger() as other:
        change_owner(post, pid=other.pid, started=other.started)
        assert (await ask(post, request))[0] == "DUPLICATE_IN_FLIGHT"

        change_owner(post, boot="00000000-0000-0000-0000-000000000000")
        told = await ask(post, request)

    [first] = await post.attempts()
    assert told == ("DUPLICATE_UNRESOLVED", first.id)
    assert post.sent == []


# -- 24 -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def right_before_the_spawn(
    monkeypatch: pytest.MonkeyPatch, do: Callable[[], Any]
) -> Iterator[None]:
    """Do something when all checks are passed and the dispatch is on record."""
    spawn = Gate.spawn

    async def done_first(self: Gate, verified: Any) -> Any:
        do()
        return await spawn(self, verified)

    with monkeypatch.context() as patched:
        patched.setattr(Gate, "spawn", done_first)
        yield


def own_program(post: Post) -> Path:
    """Let the tool be a program of the house's own."""
    program = post.house.bin / "program"
    shutil.copy(SYSTEM_BINARY, program)
    post.declare(command="program", argv=["{to}"])
    return program


async def first_then_again(
    post: Post, request: Request, first: Callable[[Executor], Awaitable[Receipt]]
) -> tuple[Receipt, str | None, str | None]:
    """Give how it went, and what is told to who asks again."""
    async with post.open() as executor:
        receipt = await first(executor)
        post.does()
        code, attempt = await ask_in(executor, request)
    [on_record, *_] = await post.attempts()
    assert on_record.id == receipt.attempt
    assert on_record.code == receipt.code
    await post.is_all_on_record()
    return receipt, code, attempt


# rule: ledger.release-allowlist
@pytest.mark.parametrize("fault", ["a gone", "b busy"])
async def test_24_a_b_what_the_system_did_not_start_is_accepted_again(
    post: Post, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """The kernel's own word proves that nothing ran."""
    program = own_program(post)
    request = post.request()
    kept = program.with_suffix(".kept")
    writers: list[Any] = []

    def break_it() -> None:
        if fault == "a gone":
            program.rename(kept)
        else:
            writers.append(program.open("r+b"))

    async def first(executor: Executor) -> Receipt:
        with right_before_the_spawn(monkeypatch, break_it):
            receipt = await executor.run(request)
        for writer in writers:
            writer.close()
        if kept.exists():
            kept.rename(program)
        return receipt

    receipt, code, _ = await first_then_again(post, request, first)

    assert (receipt.status, receipt.code) == ("undelivered", "SPAWN_FAILED")
    assert "ENOENT" in receipt.because or "ETXTBSY" in receipt.because
    assert code == "delivered"


# rule: ledger.release-allowlist
# rule: ledger.unresolved
@pytest.mark.parametrize(
    ("then", "code"),
    [
        ({"exit": 1}, "OUTCOME_UNKNOWN"),
        ({"exit": 75}, "OUTCOME_UNKNOWN"),
        ({"signal": int(signal.SIGSEGV)}, "COMMAND_KILLED"),
    ],
    ids=["c-exit-1", "d-exit-75", "e-signal-11"],
)
async def test_24_c_d_e_what_proves_nothing_is_unresolved_and_stays_so(
    post: Post, then: dict[str, int], code: str
) -> None:
    """An error is no proof; the line is in the log already."""
    post.does(then=then)
    request = post.request()

    receipt, again, attempt = await first_then_again(post, request, lambda one: one.run(request))

    assert (receipt.status, receipt.code) == ("unresolved", code)
    assert (again, attempt) == ("DUPLICATE_UNRESOLVED", receipt.attempt)
    assert post.sent == ["to ana"]


# rule: ledger.release-allowlist
@pytest.mark.parametrize(
    ("declared", "first", "again"),
    [
        ([{"when": {"exit": 0, "stdout": "^OK"}, "is": "delivered"}], "OUTCOME_UNKNOWN", False),
        (
            [
                {"when": {"stdout": "^ERROR rejected"}, "is": "undelivered", "code": "REJECTED"},
                {"when": {"exit": 0}, "is": "delivered"},
            ],
            "REJECTED",
            True,
        ),
    ],
    ids=["no-pattern", "a-pattern"],
)
async def test_24_f_exit_0_with_an_error_is_free_only_by_a_declared_pattern(
    post: Post, declared: list[dict[str, Any]], first: str, again: bool
) -> None:
    """Only the author of the manifest knows what the words prove."""
    post.declare(outcomes=declared)
    post.does(stdout="ERROR rejected\n", sent="/dev/null")
    request = post.request()

    receipt, code, _ = await first_then_again(post, request, lambda one: one.run(request))

    assert receipt.code == first
    assert code == ("delivered" if again else "DUPLICATE_UNRESOLVED")
    assert post.sent == (["to ana"] if again else [])


# rule: ledger.release-allowlist
async def test_24_g_an_exit_declared_as_nothing_sent_is_accepted_again(post: Post) -> None:
    """What provably did not happen may be asked again."""
    post.does(sent="/dev/null", stdout="", then={"exit": 64})
    request = post.request()

    receipt, code, _ = await first_then_again(post, request, lambda one: one.run(request))

    assert (receipt.status, receipt.code) == ("undelivered", "NOTHING_SENT")
    assert code == "delivered"
    assert post.sent == ["to ana"]


# rule: ledger.release-allowlist
async def test_24_h_given_up_before_exec_is_accepted_again(house: House, namespaced: None) -> None:
    """The dispatch is on record, and the sandbox proves that the command never started."""
    post = Post(house, "namespaced")
    turned = bwrap_that_can_turn(house)
    reached = house.home / "reached"
    request = post.request()

    async with post.open() as executor:
        turned.write_text(f"open({str(reached)!r}, 'w').close()\nimport time\ntime.sleep(300)\n")
        receipt = await given_up(executor, request, reached.exists)
        turned.unlink()
        again = await ask_in(executor, request)

    assert (receipt.status, receipt.code) == ("undelivered", "CANCELLED")
    assert again == ("delivered", None)
    [first, _] = await post.attempts()
    assert first.dispatched is not None
    assert (first.state, first.code) == ("released", "CANCELLED")
    assert post.sent == ["to ana"]
    await post.is_all_on_record()


async def given_up(executor: Executor, request: Request, when: Callable[[], object]) -> Receipt:
    """Run a request, and cancel it once something holds."""
    told: list[Receipt] = []
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def run() -> None:
            with scope:
                await executor.run(request, tell=told.append)

        nursery.start_soon(run)
        with trio.fail_after(60):
            while not when():
                await trio.sleep(0.005)
        scope.cancel()
    [receipt] = told
    return receipt


# -- 46 -------------------------------------------------------------------------------------------


# rule: ledger.in-flight
# rule: ledger.delivered
async def test_46_the_client_calls_again_while_it_runs_and_after_it_is_refused_as_delivered(
    post: Post,
) -> None:
    """The work goes on after the client's own patience; its second call must not do it again."""
    post.stop.touch()
    request = post.request()
    receipts: list[Receipt] = []
    async with post.open() as executor:
        async with trio.open_nursery() as nursery:

            async def run() -> None:
                receipts.append(await executor.run(request))

            nursery.start_soon(run)
            while not post.started.exists():
                await trio.sleep(0.005)
            [running] = await post.attempts()

            assert await ask_in(executor, request) == ("DUPLICATE_IN_FLIGHT", running.id)
            post.stop.unlink()
        with pytest.raises(Refused) as no:
            await executor.run(request)

    [receipt] = receipts
    assert receipt.attempt == running.id
    assert no.value.code == "DUPLICATE_DELIVERED"
    assert no.value.earlier is not None
    assert no.value.earlier.receipt == receipt.attempt in post.receipts()
    assert no.value.earlier.result_id == "m-7"
    assert no.value.receipt is not None
    said = post.receipts()[no.value.receipt.attempt]
    assert said["earlier"] == no.value.receipt.result()["earlier"] == no.value.earlier.facts()
    assert post.sent == ["to ana"]


# rule: ledger.bail-out-releases
# rule: ledger.unresolved
async def test_46_given_up_before_exec_is_free_and_after_it_is_not(post: Post) -> None:
    """What a client's cancellation frees depends on whether it was started, and on nothing else."""
    post.declare(preflight={"argv": [*post.plan("look"), "--"], "when": {"exit": 0}})
    post.does("look")
    request = post.request()
    async with post.open() as executor:
        post.stop.touch()
        before = await given_up(executor, request, post.started.exists)
        post.stop.unlink()
        post.does(then="hang")
        after = await given_up(executor, request, lambda: post.sent)
        post.does()

        assert (before.status, before.code) == ("undelivered", "CANCELLED")
        assert (after.status, after.code) == ("unresolved", "CANCELLED_WHILE_RUNNING")
        assert await ask_in(executor, request) == ("DUPLICATE_UNRESOLVED", after.attempt)
    assert post.sent == ["to ana"]
    await post.is_all_on_record()
