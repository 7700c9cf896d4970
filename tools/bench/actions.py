"""Actions: what the gate costs a run, a large file, and a start of the interpreter."""

import hashlib
import itertools
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from executor import AskedBy, Executor, Request
from executor.frozen import SlotFile

MANIFEST = """\
executor: manifest/1
tool: bench.true
summary: Do nothing, successfully.
command: "true"
argv: []
capabilities: [{name: "compute:pure"}]
parameters: {turn: {type: string}}
required: [turn]
account: bench
outcomes: [{when: {exit: 0}, is: delivered}]
"""
PLAIN_BWRAP = (
    "bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
    "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
    "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--", "/usr/bin/true",
)  # fmt: skip


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    """Give the seconds that some work took."""
    start = time.perf_counter()
    await work()
    return time.perf_counter() - start


async def bench_run(executor: Executor, runs: int) -> None:
    """One action through the gate, beside plain bwrap and a plain start, in turn."""
    turn = itertools.count()

    async def through_the_gate() -> None:
        parameters = {"turn": str(next(turn))}  # another action each time
        asked_by = AskedBy(role="bench")
        await executor.run(Request(tool="bench.true", asked_by=asked_by, parameters=parameters))

    async def plain(*argv: str) -> None:
        await trio.run_process(argv, capture_stdout=True, capture_stderr=True, stdin=b"")

    await through_the_gate()
    taken: dict[str, list[float]] = {"gate": [], "bwrap": [], "start": []}
    for _ in range(runs):
        taken["start"].append(await timed(lambda: plain("/usr/bin/true")))
        taken["bwrap"].append(await timed(lambda: plain(*PLAIN_BWRAP)))
        taken["gate"].append(await timed(through_the_gate))
    medians = {name: statistics.median(times) for name, times in taken.items()}
    print(f"one action, warm, {runs} runs in turn   median ms   ratio to plain bwrap")
    for name, label in (
        ("start", "`true`, started plainly"),
        ("bwrap", "`bwrap ... true`, started plainly"),
        ("gate", "`true`, through the gate"),
    ):
        ratio = medians[name] / medians["bwrap"]
        print(f"  {label:<36} {medians[name] * 1000:9.2f}   {ratio:8.2f}")


async def bench_freeze(executor: Executor, directory: Path, mebibytes: int) -> None:
    """Freezing a large file, beside hashing it."""
    source = directory / "large"
    block = os.urandom(2**20)
    with source.open("wb") as file:
        for _ in range(mebibytes):
            file.write(block)
    freezer = executor.gate.freezer
    wanted = SlotFile("file", str(source), "large", 2 * mebibytes * 2**20)

    async def hash_alone() -> None:
        with source.open("rb") as file:
            hashlib.file_digest(file, "sha256")

    async def freeze() -> None:
        _, hold = await freezer.freeze(f"bench-{next(turn)}", [wanted], None)
        hold.release()
        freezer.blobs.sweep(0)

    turn = itertools.count()
    await hash_alone()
    hashing, freezing = [], []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(3):
        hashing.append(await timed(hash_alone))
        freezing.append(await timed(freeze))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    alone, frozen = statistics.median(hashing), statistics.median(freezing)
    print(f"a file of {mebibytes} MiB, 3 rounds in turn     median ms   ratio to hashing alone")
    for label, took in (("hashing alone", alone), ("freezing: copy, hash the copy, sync", frozen)):
        print(f"  {label:<36} {took * 1000:9.0f}   {took / alone:8.2f}")
    print(f"  memory grew by {grown / 1024:.1f} MiB at most while freezing")


def bench_import() -> None:
    """Importing the package, beside a bare interpreter."""

    def median(code: str) -> float:
        times = []
        for _ in range(9):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    bare, ours = median("pass"), median("import executor")
    print("starting Python, 9 runs                 median ms   ratio to a bare start")
    print(f"  {'pass':<36} {bare * 1000:9.1f}   {1:8.2f}")
    print(f"  {'import executor':<36} {ours * 1000:9.1f}   {ours / bare:8.2f}")
