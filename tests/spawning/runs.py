"""Runs: what the tests of spawning and isolation share. Marks, levels, and an executor to kill."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import trio

from tests.house import House, interpreter

TOP = Path(__file__).parents[2]
REAL_BWRAP = "/usr/bin/bwrap"
SYSTEM_BINARY = os.path.realpath("/bin/true")


def no_sandbox(house: House) -> dict[str, Any]:
    """Leave the house without a sandbox, and give the options that accept it."""
    house.install("bwrap", "raise SystemExit(1)\n")
    return {"degraded": True}


def bwrap_that_can_turn(house: House) -> Path:
    """Install a bwrap that is the real one until there is a script at the path that is given."""
    script = house.home / "turned.py"
    house.install(
        "bwrap",
        "import os, sys\n"
        f"if os.path.exists({str(script)!r}):\n"
        f"    exec(open({str(script)!r}).read())\n"
        f"os.execv({REAL_BWRAP!r}, ['bwrap', *sys.argv[1:]])\n",
    )
    return script


STATUS_WIRE = """
words = os.pread(int(sys.argv[2]), 1 << 20, 0).split(b"\\0")
wire = int(words[words.index(b"--json-status-fd") + 1])
"""
"""For a script that turned: finds the wire on which bwrap talks to us."""


def writable(house: House, **changes: Any) -> Path:
    """Write a manifest whose command may write a directory, and give the directory."""
    out = house.root / "out"
    out.mkdir(exist_ok=True)
    tree = interpreter()[1]
    isolation: dict[str, Any] = {"write": [str(out)]} | ({"read": [tree]} if tree else {})
    isolation |= changes.pop("isolation", {})
    house.manifest(isolation=isolation, env={"MARK": str(house.home)}, **changes)
    return out


def alive(house: House) -> list[str]:
    """Give every living process of this house: it has the house in its words or environment."""
    mark = str(house.home)
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            environment = process.environ() if process.pid != os.getpid() else {}
            if process.status() != psutil.STATUS_ZOMBIE and (
                any(mark in word for word in words)
                or any(mark in value for value in environment.values())
            ):
                found.append(f"{process.pid} {words}")
        except psutil.Error:
            continue
    return found


def descriptors() -> dict[str, str]:
    """Give the open descriptors of this process, the one that looks left out."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue
    return found


async def until(holds: Callable[[], object], patience: float = 30) -> None:
    """Wait until something holds; one that never does fails the test."""
    with trio.fail_after(patience):
        while not holds():
            await trio.sleep(0.01)


def start_executor(
    house: House,
    plan: dict[str, Any],
    *,
    before: str = "",
    **options: Any,
) -> subprocess.Popen[str]:
    """Run one request in an executor of its own, a process that can be killed.

    It prints one JSON object for each receipt: the result and the statement.

    Args:
        before: what this process does first.
    """
    given = {
        "open": {
            "state": str(house.state),
            "manifests": [str(house.manifests)],
            "roots": [str(house.root)],
            "trusted": [str(house.bin), *house.interpreter_directories()],
            **options,
        },
        "request": {"tool": "test.fake", "parameters": {"plan": json.dumps(plan)}},
    }
    words = json.dumps(given)
    return subprocess.Popen(
        [sys.executable, "-c", f"{before}\nfrom tests.spawning.runs import main; main()", words],
        cwd=TOP,
        env=os.environ | {"PYTHONPATH": str(TOP), "SUPMARK": "topsecret"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )


async def result(executor: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for an executor of its own, and give what it printed."""
    out, _ = await trio.to_thread.run_sync(executor.communicate)
    printed: dict[str, Any] = json.loads(out.splitlines()[-1])
    return printed


def main() -> None:
    """Run the request that stands in argv."""
    from executor import AskedBy, Receipt, Refused, Request, open_executor

    given = json.loads(sys.argv[1])
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def tell(receipt: Receipt) -> None:
        print(json.dumps([receipt.result(), receipt.statement()]), flush=True)

    async def work() -> None:
        async with open_executor(**given["open"]) as executor:
            request = Request(asked_by=AskedBy(role="tester"), **given["request"])
            with contextlib.suppress(Refused):
                await executor.run(request, tell=tell)
            await trio.lowlevel.checkpoint()

    try:
        trio.run(work)
    except BaseException as ended:
        if "KeyboardInterrupt" not in repr(ended):
            raise
        raise SystemExit(130) from None


def become_somebody_else(house: House) -> str:
    """Give the house to a user who is not root, and give what makes a process that user's.

    What is imported late is imported first: that user may not be able to read where it lies.
    The same goes for the packs, so there is a `config.yaml` without them.
    """
    config = house.home / "config.yaml"
    config.write_text("executor: config/1\npacks: false\n")
    if os.geteuid() != 0:
        return ""
    user = 65534
    for path in [house.home, *house.home.rglob("*")]:
        os.chown(path, user, user)
    return (
        "import ctypes, os, psutil, rfc8785, tests.spawning.runs, trio\n"
        "from executor import open_executor\n"
        "async def once():\n"
        f"    async with open_executor(state={str(house.home / 'first')!r},\n"
        f"                             manifests=[{str(house.manifests)!r}]): pass\n"
        "trio.run(once)\n"
        f"os.setgroups([]); os.setgid({user}); os.setuid({user})\n"
        "ctypes.CDLL(None).prctl(4, 1)\n"  # dumpable again, or /proc/self is closed to us
    )
