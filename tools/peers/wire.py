"""Wire: the protocol `target/1` as each peer speaks it; docs/targets.md explains it.

Knows nothing of commands. Each request is answered in a thread of its own, so that a run which
takes long, or is held, is in nobody's way.
"""

import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO, NoReturn

PROTOCOL = "target/1"
METHOD_NOT_FOUND, INTERNAL_ERROR = -32601, -32603

Params = Mapping[str, Any]
Method = Callable[[Params], Any]
Say = Callable[[Mapping[str, Any]], None]


class Cancelled(Exception):
    """The caller gave the run up while it was held."""


class Run:
    """One run, as its caller sees it: on its way, held before a point, or given up."""

    def __init__(self, params: Params, say: Say) -> None:
        self.name = str(params["run"])
        self.request: Mapping[str, Any] = params["request"]
        self.cancelled = False
        self.on_cancel: list[Callable[[], object]] = []
        """What is done when it is given up, the last added first."""
        self._pause = params.get("pause")
        self._say = say
        self._go_on = threading.Event()

    def reach(self, *points: str) -> None:
        """Stand still if one of these points is the one to be held before.

        Raises:
            Cancelled: it was given up meanwhile, or before.
        """
        if self._pause in points:
            told = {"run": self.name, "point": self._pause, "frozen": {}}
            self._say({"jsonrpc": "2.0", "method": "paused", "params": told})
            self._go_on.wait()
        if self.cancelled:
            raise Cancelled

    def go_on(self) -> None:
        """Let it go on."""
        self._go_on.set()

    def cancel(self) -> None:
        """Give it up."""
        self.cancelled = True
        self._go_on.set()
        for do in reversed(self.on_cancel):
            do()


class Wire:
    """Answers what is asked on stdin, on stdout.

    Args:
        points: what a run can be held before.
        run: takes a run to its end, and gives its result.
        methods: what the target can do beside `hello`, `run`, `resume`, `cancel` and `close`.
        ends_its_runs: when it is closed, runs are given up and answered first. Otherwise their
            commands are left to themselves, as by any program that ends.
    """

    def __init__(
        self,
        name: str,
        version: str,
        points: Iterable[str],
        run: Callable[[Run], Any],
        methods: Mapping[str, Method],
        *,
        ends_its_runs: bool = False,
    ) -> None:
        self._name, self._version, self._points = name, version, points
        self._take, self._ends_its_runs = run, ends_its_runs
        self._runs: dict[str, Run] = {}
        self._threads: list[threading.Thread] = []
        self._writing = threading.Lock()
        self._hear, self._mouth = _apart()
        own: dict[str, Method] = {"run": self._run, "resume": self._resume, "cancel": self._cancel}
        self._can = [*methods, *own]
        self._methods = own | dict(methods) | {"hello": self._hello, "close": self._close}

    def serve(self) -> NoReturn:
        """Answer until it is closed, or nobody asks any more; then end the process."""
        for line in self._hear:
            asked = json.loads(line)
            if asked["method"] == "close":
                self._answer(asked)
                break
            if asked["method"] == "run":  # from now on it can be resumed and given up
                self._runs[asked["params"]["run"]] = Run(asked["params"], self._say)
            self._threads.append(threading.Thread(target=self._answer, args=(asked,)))
            self._threads[-1].start()
        else:  # nobody asks any more
            self._close({})
        os._exit(0)  # a plain exit would wait for threads that wait for a command

    def _answer(self, asked: Mapping[str, Any]) -> None:
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"]}
        method = self._methods.get(asked["method"])
        if method is None:
            reply["error"] = {"code": METHOD_NOT_FOUND, "message": "Method not found"}
        else:
            try:
                reply["result"] = method(asked.get("params", {}))
            except Exception as fault:
                message = f"{type(fault).__name__}: {fault}"
                reply["error"] = {"code": INTERNAL_ERROR, "message": message}
        self._say(reply)

    def _say(self, message: Mapping[str, Any]) -> None:
        with self._writing:
            self._mouth.write(json.dumps(message).encode() + b"\n")
            self._mouth.flush()

    def _hello(self, params: Params) -> Any:
        if params["protocol"] != PROTOCOL:
            raise ValueError(f"this is {PROTOCOL}")
        can = [*self._can, *(f"point:{point}" for point in self._points)]
        return {"name": self._name, "version": self._version, "can": can}

    def _close(self, _: Params) -> Any:
        if self._ends_its_runs:
            for run in list(self._runs.values()):
                run.cancel()
            for thread in self._threads:
                thread.join()
        return {}

    def _run(self, params: Params) -> Any:
        run = self._runs[params["run"]]
        try:
            return self._take(run)
        finally:
            del self._runs[run.name]

    def _resume(self, params: Params) -> Any:
        self._runs[params["run"]].go_on()
        return {}

    def _cancel(self, params: Params) -> Any:
        if run := self._runs.get(params["run"]):  # else it has ended
            run.cancel()
        return {}


def _apart() -> tuple[BinaryIO, BinaryIO]:
    """Take stdin and stdout for the protocol alone: a command must find neither there."""
    hear, mouth = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    os.dup2(2, 1)
    return hear, mouth
