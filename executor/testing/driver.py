"""Driver: the executor itself as a target. It answers JSON-RPC on stdin and stdout.

It stands where an embedding program stands: it opens an executor and runs requests. Beyond that it
can hold a run right before a stage of the gate, and set the clock that the executor reads.
"""

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from contextvars import ContextVar
from dataclasses import fields
from importlib.metadata import version
from typing import Any

import msgspec
import trio

from executor.attempt import Attempt, Moment, Settlement
from executor.effects import clock
from executor.effects.blobs import Hold
from executor.effects.freezer import Progress
from executor.effects.verifying import Verified
from executor.embedding import Executor, open_executor
from executor.finished import Finished
from executor.frozen import Admitted, FrozenAction
from executor.gate import Gate
from executor.loading import read_config
from executor.receipt import Receipt
from executor.refusal import Refused
from executor.request import Request
from executor.store import content, witness

POINTS = ("freeze", "copy", "claim", "look-up", "verify", "dispatch", "spawn", "settle", "answer")
"""Where a run can be held: right before these stages; the last is before it is answered, and
``copy`` is in the middle of the freezing: every file is open, the first is being copied."""
_INVALID_PARAMS, _METHOD_NOT_FOUND, _INTERNAL_ERROR = -32602, -32601, -32603
_BLOCK = 65536

Params = Mapping[str, Any]


class _Run:
    """One run, as its caller sees it."""

    def __init__(self, name: str, pause: str | None) -> None:
        self.name = name
        self.pause = pause
        self.scope = trio.CancelScope()
        self.go_on = trio.Event()
        self.frozen: dict[str, str] = {}


_RUN: ContextVar[_Run] = ContextVar("_RUN")


class _HeldGate(Gate):
    """The gate, which can be held between its stages. It decides nothing else."""

    __slots__ = ("_hold",)

    @classmethod
    def of(cls, gate: Gate, hold: Callable[[str], Awaitable[None]]) -> "_HeldGate":
        held = cls(**{one.name: getattr(gate, one.name) for one in fields(gate)})
        object.__setattr__(held, "_hold", hold)
        return held

    async def freeze(
        self, admitted: Admitted, progress: Progress | None = None
    ) -> tuple[FrozenAction, Hold]:
        await self._hold("freeze")  # type: ignore[attr-defined]

        def hold_in_its_midst(done: int, whole: int) -> None:
            if _RUN.get().pause == "copy":
                trio.from_thread.run(self._hold, "copy")  # type: ignore[attr-defined]
            if progress is not None:
                progress(done, whole)

        action, hold = await super().freeze(admitted, hold_in_its_midst)
        path = self.freezer.blobs.path
        _RUN.get().frozen = {file.name: str(path(file.sha256)) for file in action.files}
        return action, hold

    async def claim(self, attempt: Any, action: FrozenAction) -> Attempt:
        await self._hold("claim")  # type: ignore[attr-defined]
        return await super().claim(attempt, action)

    async def look_up(self, action: FrozenAction) -> dict[str, list[str]] | None:
        await self._hold("look-up")  # type: ignore[attr-defined]
        return await super().look_up(action)

    async def verify(self, frozen: FrozenAction) -> Verified:
        await self._hold("verify")  # type: ignore[attr-defined]
        return await super().verify(frozen)

    async def dispatch(self, reserved: Attempt, action: FrozenAction) -> Attempt:
        await self._hold("dispatch")  # type: ignore[attr-defined]
        return await super().dispatch(reserved, action)

    async def spawn(self, verified: Verified) -> Finished:
        await self._hold("spawn")  # type: ignore[attr-defined]
        return await super().spawn(verified)

    async def settle(self, *given: Any, **named: Any) -> Receipt:
        await self._hold("settle")  # type: ignore[attr-defined]
        return await super().settle(*given, **named)


class Driver:
    """The methods of the protocol, over one executor."""

    def __init__(self, say: trio.lowlevel.FdStream) -> None:
        self._say = say
        self._saying = trio.Lock()
        self._runs: dict[str, _Run] = {}
        self._executor: Executor | None = None
        self._leaving = trio.Event()
        self._open = AsyncExitStack()
        self._methods: dict[str, Callable[[Params], Awaitable[Any]]] = {
            "hello": self.hello,
            "open": self.open,
            "run": self.run,
            "resume": self.resume,
            "cancel": self.cancel,
            "ledger": self.ledger,
            "receipt": self.receipt,
            "resolve": self.resolve,
            "find-out": self.find_out,
            "prune": self.prune,
            "clock": self.clock,
            "sqlite": self.sqlite,
            "patience": self.patience,
            "close": self.close,
        }

    # -- the wire -----------------------------------------------------------------------------

    async def serve(self, hear: trio.lowlevel.FdStream) -> None:
        """Answer until it is closed, or nobody asks any more."""
        async with self._open, trio.open_nursery() as nursery:
            nursery.start_soon(self._listen, hear, nursery)
            await self._leaving.wait()
            nursery.cancel_scope.cancel()

    async def _listen(self, hear: trio.lowlevel.FdStream, nursery: trio.Nursery) -> None:
        line = b""
        while block := await hear.receive_some(_BLOCK):
            *lines, line = (line + block).split(b"\n")
            for one in lines:
                nursery.start_soon(self._answer, json.loads(one))
        self._leaving.set()

    async def _answer(self, asked: Params) -> None:
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": asked.get("id")}
        method = self._methods.get(asked["method"])
        if method is None:
            reply["error"] = {"code": _METHOD_NOT_FOUND, "message": "Method not found"}
        else:
            try:
                reply["result"] = await method(asked.get("params", {}))
            except Refused as no:
                reply["result"] = _refused(no)
            except Exception as fault:
                message = f"{type(fault).__name__}: {fault}"
                reply["error"] = {"code": _INTERNAL_ERROR, "message": message}
        with trio.CancelScope(shield=True):
            await self._tell(reply)

    async def _tell(self, message: Params) -> None:
        async with self._saying:
            with suppress(trio.BrokenResourceError):
                await self._say.send_all(json.dumps(message).encode() + b"\n")

    # -- the methods --------------------------------------------------------------------------

    async def hello(self, params: Params) -> Any:  # noqa: ARG002
        """Say who this is, and what it can do."""
        can = [name for name in self._methods if name not in ("hello", "close")]
        return {
            "name": "executor",
            "version": version("sealed-executor"),
            "can": [*can, *(f"point:{name}" for name in POINTS)],
        }

    async def open(self, params: Params) -> Any:
        """Open an executor on a house."""
        executor = await self._open.enter_async_context(
            open_executor(
                read_config(params["config"]) if params.get("config") else None,
                state=params["state"],
                roots=params["roots"],
                manifests=params["manifests"],
                trusted=params["trusted"],
            )
        )
        executor.gate = _HeldGate.of(executor.gate, self._hold)
        self._executor = executor
        sandbox = next(one for one in executor.levels if one.level == "namespaced")
        return {"sandbox": "" if sandbox.works else sandbox.why}

    async def run(self, params: Params) -> Any:
        """Take a request through the gate."""
        run = _Run(params["run"], params.get("pause"))
        self._runs[run.name] = run
        _RUN.set(run)
        request = _request(params["request"])
        receipts: list[Receipt] = []
        no: Refused | None = None
        with run.scope:
            try:
                receipts.append(await self._gate().run(request, tell=receipts.append))
            except Refused as refused:
                no = refused
        if no is not None and not receipts:
            result = _refused(no)
        elif receipts:
            result = receipts[-1].result()
        else:
            result = {"status": "undelivered", "code": None, "because": "It was not recorded."}
        await self._hold("answer")
        del self._runs[run.name]
        return result

    async def resume(self, params: Params) -> Any:
        """Let a run that is held go on."""
        self._runs[params["run"]].go_on.set()
        return {}

    async def cancel(self, params: Params) -> Any:
        """Cancel a run, as its caller does."""
        self._runs[params["run"]].scope.cancel()
        return {}

    async def ledger(self, params: Params) -> Any:  # noqa: ARG002
        """Give what the ledger says, attempt by attempt."""
        attempts = self._gate().ledger.newest(1000)[::-1]
        return {"attempts": [one.facts() for one in attempts]}

    async def receipt(self, params: Params) -> Any:
        """Give the receipt of an attempt."""
        path = self._gate().receipts.path(params["attempt"])
        return json.loads(path.read_bytes()) if path.exists() else None

    async def resolve(self, params: Params) -> Any:
        """Decide, as a person does, what became of an attempt."""
        ledger, now = self._gate().ledger, clock.moment()
        said = Settlement(
            "delivered" if params["delivered"] else "released",
            None,
            params["why"],
            by="person",
            result_id=params.get("result_id"),
        )
        attempt = await ledger.decide(
            params["attempt"], said, now, who=params["who"], why=params["why"]
        )
        return {"status": "ok", **attempt.facts()}

    async def find_out(self, params: Params) -> Any:
        """Ask the tool's `verify` command what became of an attempt."""
        attempt, verdict = await self._gate().find_out(params["attempt"], params["who"])
        return {"status": "ok", **attempt.facts(), "answer": verdict.code}

    async def prune(self, params: Params) -> Any:
        """Forget settled attempts that are older than they need to be."""
        keep = float(params["keep_s"])
        return {
            "status": "ok",
            "pruned": await self._gate().ledger.prune(lambda _: keep, clock.moment()),
        }

    async def clock(self, params: Params) -> Any:
        """Read the clock otherwise from now on."""
        _set_clock(params["wall_ms"], params["passed_ms"], params["boots"])
        return {}

    async def sqlite(self, params: Params) -> Any:
        """Believe that this is the version of SQLite."""
        believe_in_sqlite(params["version"])
        return {}

    async def patience(self, params: Params) -> Any:
        """Wait no longer than so many milliseconds for whoever writes to the ledger."""
        witness.PATIENCE_S = params["ms"] / 1000
        return {}

    async def close(self, params: Params) -> Any:  # noqa: ARG002
        """Close the executor and end."""
        await self._open.aclose()
        self._leaving.set()
        return {}

    def _gate(self) -> Gate:
        if self._executor is None:
            raise RuntimeError("nothing is open")
        return self._executor.gate

    async def _hold(self, point: str) -> None:
        run = _RUN.get(None)
        if run is None or run.pause != point:
            return
        run.pause = None
        params = {"run": run.name, "point": point, "frozen": run.frozen}
        with trio.CancelScope(shield=True):
            await self._tell({"jsonrpc": "2.0", "method": "paused", "params": params})
        await run.go_on.wait()


def _request(value: Any) -> Any:
    """Give a request; what is none of the right shape goes to the gate as it is."""
    try:
        return msgspec.convert(value, Request)
    except msgspec.ValidationError as wrong:
        raise Refused(
            "admission.closed-request",
            "INVALID_REQUEST",
            because=f"The request is not valid: {wrong}.",
            todo="Correct it and ask again; nothing was started.",
        ) from None


def _refused(no: Refused) -> dict[str, Any]:
    if no.receipt is not None:
        return no.receipt.result()
    return {
        "status": "refused",
        "code": no.code,
        "stage": no.stage,
        "recovery": no.recovery,
        "rule": no.rule,
        "because": no.because.strip(),
        "todo": no.todo,
        "earlier": None if no.earlier is None else dict(no.earlier.facts()),
        "receipt": None,
    }


_REAL_MOMENT, _REAL_BOOT = clock.moment, clock.boot


def _set_clock(wall_ms: int, passed_ms: int, boots: int) -> None:
    def boot() -> str:
        return _REAL_BOOT() if not boots else f"{_REAL_BOOT()[:-4]}{boots:04x}"

    def moment() -> Moment:
        real = _REAL_MOMENT()
        ticks = real.ticks + passed_ms if not boots else real.ticks % 1000 + passed_ms
        return Moment(real.wall + wall_ms + passed_ms, ticks, boot())

    clock.moment = moment
    clock.boot = boot  # type: ignore[assignment]


def believe_in_sqlite(version: str) -> None:
    """Take the SQLite in use for this version of it; an empty one leaves it what it is."""
    if version:
        parts = tuple(map(int, version.split(".")))
        content.sqlite_version = lambda: parts  # type: ignore[assignment, return-value]


async def _serve() -> None:
    # Whatever else writes to stdout must not speak for us.
    say = trio.lowlevel.FdStream(os.dup(1))
    os.dup2(2, 1)
    hear = trio.lowlevel.FdStream(os.dup(0))
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    async with hear, say:
        await Driver(say).serve(hear)


def main() -> None:
    """Answer on stdin and stdout until it is closed."""
    trio.run(_serve)


if __name__ == "__main__":
    main()
