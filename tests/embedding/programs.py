"""Programs: the options of a house for a blocking executor, and programs as their own processes."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.house import House

PATIENCE_S = 60.0  # only ever spent by a test that fails
HEAD = """
import json, sys
from executor import *
options = json.loads(sys.argv[1])
me = AskedBy(role="tester")
request = Request(tool="test.fake", asked_by=me, parameters=json.loads(sys.argv[2]))
"""


def options_of(house: House, **changes: Any) -> dict[str, Any]:
    """Give the arguments that open an executor on a house."""
    if not any(house.manifests.iterdir()):
        house.manifest()
    given: dict[str, Any] = {
        "state": str(house.state),
        "manifests": [str(house.manifests)],
        "roots": [str(house.root)],
        "trusted": [str(house.bin), *house.interpreter_directories()],
        "degraded": True,
    }
    return given | changes


@contextmanager
def program(house: House, plan: dict[str, Any], body: str) -> Iterator[subprocess.Popen[str]]:
    """Start a program that has ``options`` and ``request``; end it in the end."""
    arguments = [json.dumps(options_of(house)), json.dumps({"plan": json.dumps(plan)})]
    with subprocess.Popen(
        [sys.executable, "-c", HEAD + textwrap.dedent(body), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_interruptible,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _interruptible() -> None:
    """Under some runners SIGINT is ignored, and Python then leaves it so."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"never seen: {what}"
        time.sleep(0.005)


def processes_of(house: House) -> list[str]:
    """Give the command lines of processes that speak of a house, the asking one left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
            except OSError:  # ended meanwhile
                continue
            if str(house.home) in line:
                found.append(line)
    return found


def writable(house: House) -> Path:
    """Let the tool write a directory, and give it."""
    out = house.root / "out"
    out.mkdir(exist_ok=True)
    isolation = house.manifest().get("isolation", {})
    house.manifest(isolation=isolation | {"write": [str(out)]})
    return out


def results_on_record(house: House) -> list[str]:
    """Give status and code of every receipt."""
    found = []
    for path in sorted((house.state / "receipts").iterdir()):
        result = json.loads(path.read_bytes())["predicate"]["result"]
        found.append(" ".join(filter(None, (result["status"], result["code"]))))
    return found
