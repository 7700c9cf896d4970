"""Ledger: claims and settlements, beside a raw loop of two commits with the same pragmas."""

import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing.synchronize import Barrier
from pathlib import Path

import apsw
import trio

from executor.attempt import Attempt, Moment, Owner, Settlement
from executor.effects import clock
from executor.effects.owners import Owners
from executor.receipt import recovered
from executor.rules.ledger import Terms
from executor.store.content import weights
from executor.store.ledger import Ledger
from executor.store.opening import open_database
from executor.store.writer import Writer

ATTEMPTS = 1600
DRAFT = b"x" * 2000
"""About as long as a receipt."""
DELIVERED = Settlement("delivered", None, "It exited with 0.", result_id="m-1")
_FILL = """
WITH RECURSIVE count(n) AS (SELECT :first UNION ALL SELECT n + 1 FROM count WHERE n < :last)
INSERT INTO attempts (id, fingerprint, state, account, tool, action, idempotency, resend, level,
    window_ms, owner, claimed, dispatched, settled, decided_by, because)
SELECT printf('%028x', n), lower(hex(randomblob(32))), 'delivered', 'ana@example.org', 'mail.send',
    lower(hex(randomblob(32))), '', 0, 'namespaced', 900000, :owner, :moment, :moment,
    :moment, 'run', ''
FROM count
"""


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[tuple[Ledger, Owner]]:
    """Open a ledger as an executor does."""
    owners = Owners(directory)
    database = open_database(directory, used_before=False)
    try:
        with owners.registered() as owner:
            yield Ledger(database, Writer(database), owners.is_gone, recovered), owner
    finally:
        database.close()


async def attempt(ledger: Ledger, owner: Owner) -> float:
    """Claim and settle one new action; give the seconds that it took."""
    start = time.perf_counter()
    now = clock.moment()
    wanted = Attempt(
        id=clock.new_id(),
        fingerprint=os.urandom(32).hex(),
        account="ana@example.org",
        tool="mail.send",
        action=os.urandom(32).hex(),
        owner=owner,
        claimed=now,
        window_ms=900_000,
    )
    reserved = await ledger.claim(wanted, Terms(), now, draft=DRAFT)
    await ledger.settle(reserved, DELIVERED, clock.moment(), draft=DRAFT)
    ledger.recorded(reserved.id)
    return time.perf_counter() - start


async def rate(directory: Path, attempts: int, tasks: int) -> tuple[float, list[float]]:
    """Give attempts per second, and the seconds of each."""
    times: list[float] = []
    async with opened(directory) as (ledger, owner):

        async def work() -> None:
            for _ in range(attempts // tasks):
                times.append(await attempt(ledger, owner))

        await attempt(ledger, owner)
        start = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(tasks):
                nursery.start_soon(work)
        return len(times) / (time.perf_counter() - start), times


def raw_rate(directory: Path, attempts: int) -> float:
    """Give pairs of commits per second of a plain loop: a row put in, and changed."""
    connection = apsw.Connection(str(directory / "raw.db"))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS attempts (number INTEGER PRIMARY KEY, id TEXT UNIQUE, "
        "fingerprint TEXT, state TEXT, draft TEXT)"
    )
    connection.execute("CREATE INDEX IF NOT EXISTS by_fingerprint ON attempts (fingerprint)")
    start = time.perf_counter()
    for _ in range(attempts):
        name, fingerprint = clock.new_id(), os.urandom(32).hex()
        with connection:
            connection.execute(
                "INSERT INTO attempts (id, fingerprint, state, draft) VALUES (?, ?, ?, ?)",
                (name, fingerprint, "reserved", DRAFT.decode()),
            )
        with connection:
            connection.execute("UPDATE attempts SET state = ? WHERE id = ?", ("delivered", name))
    taken = time.perf_counter() - start
    connection.close()
    return attempts / taken


def _process(directory: Path, attempts: int, ready: Barrier) -> None:
    async def work() -> None:
        async with opened(directory) as (ledger, owner):
            ready.wait()
            for _ in range(attempts):
                await attempt(ledger, owner)
            ready.wait()  # what ending a process takes is not the ledger's

    trio.run(work)


def process_rate(directory: Path, attempts: int, processes: int) -> float:
    """Give attempts per second of several processes together."""
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(processes + 1)
    each = attempts // processes
    started = [
        context.Process(target=_process, args=(directory, each, ready)) for _ in range(processes)
    ]
    for process in started:
        process.start()
    ready.wait()
    start = time.perf_counter()
    ready.wait()
    taken = time.perf_counter() - start
    for process in started:
        process.join()
    return each * processes / taken


def fill(directory: Path, first: int, last: int, moment: Moment) -> None:
    """Put settled attempts into a ledger, in one go."""
    database = open_database(directory, used_before=False)
    path = database.path
    database.close()
    owner = '{"id":"x","boot":"x","namespace":"","pid":1,"started":"1"}'
    connection = apsw.Connection(str(path))
    with connection:
        connection.execute(
            _FILL, {"first": first, "last": last, "owner": owner, "moment": str(moment)}
        )
        # What the attempts come to: the next opening finds the file changed, and reads all of it.
        every = connection.execute("SELECT number, fingerprint, state FROM attempts")
        connection.execute("UPDATE store SET content = :content", {"content": weights(every)})
    connection.close()


async def prune(directory: Path) -> tuple[int, float]:
    """Prune all that is old; give how many went and in how many seconds."""
    async with opened(directory) as (ledger, _):
        start = time.perf_counter()
        gone = await ledger.prune(lambda _: 60.0, clock.moment())
        return gone, time.perf_counter() - start


def bench(rows: int) -> None:
    """Print the tables of the ledger."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
        _bench_rates(Path(made))
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
        _bench_sizes(Path(made), rows)


def _bench_rates(directory: Path) -> None:
    rates: dict[str, list[float]] = {"raw": [], "one": [], "sixteen": [], "processes": []}
    times: list[float] = []
    for _ in range(3):
        rates["raw"].append(raw_rate(directory, ATTEMPTS // 4))
        rates["one"].append(trio.run(rate, directory, ATTEMPTS // 4, 1)[0])
        sixteen, each = trio.run(rate, directory, ATTEMPTS, 16)
        rates["sixteen"].append(sixteen)
        times += each
        rates["processes"].append(process_rate(directory, ATTEMPTS, 16))
    medians = {name: statistics.median(found) for name, found in rates.items()}
    print("claim and settle, 3 rounds in turn      per second   ratio to the raw loop")
    for name, label in (
        ("raw", "two raw commits, one caller"),
        ("one", "the ledger, one caller"),
        ("sixteen", "the ledger, 16 tasks"),
        ("processes", "the ledger, 16 processes"),
    ):
        print(f"  {label:<36} {medians[name]:10.0f}   {medians[name] / medians['raw']:8.2f}")
    cuts = statistics.quantiles(times, n=100)
    print(f"  16 tasks: p99 is {cuts[98] / cuts[49]:.1f} times p50")


def _bench_sizes(directory: Path, rows: int) -> None:
    print("one caller, by attempts on record       median us    ratio to the smallest")
    smallest, filled = 0.0, 0
    for size in (10**3, 10**6, 10**7):
        if size > rows:
            break
        fill(directory, filled + 1, size, clock.moment())
        filled = size
        _, times = trio.run(rate, directory, 400, 1)
        median = statistics.median(times)
        smallest = smallest or median
        print(f"  {size:<36} {median * 1e6:10.0f}   {median / smallest:8.2f}")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
        now = clock.moment()
        long_ago = Moment(now.wall - 10**9, max(0, now.ticks - 10**9), "another-boot")
        fill(Path(made), 1, 10**6, long_ago)
        gone, seconds = trio.run(prune, Path(made))
        print(f"pruning: {gone} old attempts went, {gone / seconds:.0f} per second")
