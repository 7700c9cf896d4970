"""Executor CLI: the executor itself as a target, through nothing but its command line.

Each run is a process of its own, as in a script of a user. It can be held only before it is
answered: what happens inside of a run is not for a command line to stop.

Usage: executor verify --target 'python tools/peers/executor_cli.py'
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tools.peers.wire import Cancelled, Params, Run, Wire

# A killed program must take the executor with it, as it would if it were the executor itself. The
# kernel does that when the thread that started it is gone, and each waits for what it started.
_DIE_WITH_US = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


class CommandLine:
    """The methods of the protocol, each a command or two."""

    def __init__(self) -> None:
        self._state = Path()
        self._store: list[str] = []
        self._manifests: list[str] = []
        self._all: list[str] = []

    def open(self, params: Params) -> Any:
        """Remember the options; every command opens what it needs."""
        self._state = Path(params["state"])
        config = [params["config"]] if params.get("config") else []
        self._store = _options(state=[params["state"]], config=config)
        self._manifests = _options(manifest=params["manifests"])
        reach = _options(root=params["roots"], trusted=params["trusted"])
        self._all = [*self._store, *self._manifests, *reach]
        return {}

    def run(self, run: Run) -> Any:
        """Write the request into a file and run it; SIGINT is how its caller gives it up."""
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"executor": "request/1", **run.request}, file)
            file.flush()
            process = _start("run", file.name, "--json", *self._all)
            run.on_cancel.append(lambda: process.send_signal(signal.SIGINT))
            if run.cancelled:  # before there was anything to interrupt
                process.send_signal(signal.SIGINT)
            result = _said(process)[-1]
        with suppress(Cancelled):  # it has ended: there is nothing left to give up
            run.reach("answer")
        return result

    def ledger(self, _: Params) -> Any:
        """List what is on record."""
        if not any(self._state.iterdir()):
            return {"attempts": []}  # no executor was ever opened there
        process = _start("ledger", "list", "--json", *self._store)
        said = _said(process, at_least=0)
        return {"attempts": said[::-1]} if process.returncode == 0 else said[-1]

    def receipt(self, params: Params) -> Any:
        """Read it from where the documentation says that it lies."""
        path = self._state / "receipts" / f"{params['attempt']}.json"
        return json.loads(path.read_bytes()) if path.exists() else None

    def resolve(self, params: Params) -> Any:
        """Decide by the word of a person."""
        end = "--delivered" if params["delivered"] else "--not-delivered"
        words = [params["attempt"], end, "--as", params["who"], "--why", params["why"]]
        if params.get("result_id") is not None:
            words += ["--result-id", params["result_id"]]
        return _ok(_said(_start("ledger", "resolve", *words, "--json", *self._store))[-1])

    def find_out(self, params: Params) -> Any:
        """Let the tool look."""
        words = [params["attempt"], "--as", params["who"], "--json", *self._all]
        said = _said(_start("ledger", "verify", *words))[-1]
        if "clear" not in said:
            return said
        return {"status": "ok", **said["attempt"], "answer": said["code"]}

    def prune(self, params: Params) -> Any:
        """Forget what is older than so many seconds."""
        words = ["--older-than", f"{round(params['keep_s'] * 1000)} ms", "--json"]
        return _ok(_said(_start("ledger", "prune", *words, *self._store, *self._manifests))[-1])


def _options(**values: list[str]) -> list[str]:
    return [word for name, given in values.items() for one in given for word in (f"--{name}", one)]


def _start(*words: str) -> subprocess.Popen[bytes]:
    guard = [sys.executable, "-IS", "-c", _DIE_WITH_US, str(os.getpid())]
    return subprocess.Popen(
        [*guard, sys.executable, "-P", "-m", "executor", *words], stdout=subprocess.PIPE
    )


def _said(process: subprocess.Popen[bytes], at_least: int = 1) -> list[Any]:
    """Wait for its end and give the JSON objects that it printed.

    Raises:
        ValueError: fewer than there must be.
    """
    said = [json.loads(line) for line in process.communicate()[0].splitlines()]
    if len(said) < at_least:
        raise ValueError(f"exit code {process.returncode}, and no result")
    return said


def _ok(said: Any) -> Any:
    """Give what a command came to; a refusal has its status already."""
    return said if "status" in said else {"status": "ok", **said}


def main() -> None:
    """Answer on stdin and stdout."""
    line = CommandLine()
    methods = {
        "open": line.open,
        "ledger": line.ledger,
        "receipt": line.receipt,
        "resolve": line.resolve,
        "find-out": line.find_out,
        "prune": line.prune,
    }
    name = "executor's command line"
    Wire(
        name, version("sealed-executor"), ("answer",), line.run, methods, ends_its_runs=True
    ).serve()


if __name__ == "__main__":
    main()
