"""Program: one request in an executor of its own, which kills itself at a named boundary.

The boundaries are put into the code from here; it knows nothing of them.
"""

import inspect
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import trio

from executor import Refused, Request, open_executor
from executor.gate import Gate
from executor.refusal import Refused as Refusal
from executor.store import receipts
from executor.store.database import Database
from executor.store.ledger import Ledger

_writes_for = ""
"""What the ledger is writing for: ``claim``, ``dispatch`` or ``settle``."""


def die() -> NoReturn:
    """End as by a power cut, as far as a process can."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL did not end it")


def at(owner: Any, name: str) -> None:
    """Die instead of calling something."""
    setattr(owner, name, lambda *_, **__: die())


def after(owner: Any, name: str) -> None:
    """Die once something has returned."""
    kept: Callable[..., Any] = getattr(owner, name)

    async def awaited(*given: Any, **named: Any) -> Any:
        await kept(*given, **named)
        die()

    def called(*given: Any, **named: Any) -> Any:
        kept(*given, **named)
        die()

    setattr(owner, name, awaited if inspect.iscoroutinefunction(kept) else called)


def commit(purpose: str, *, durable: bool) -> None:
    """Die right before or right after the commit of what the ledger writes for a purpose."""

    def named(name: str) -> None:
        kept: Callable[..., Any] = getattr(Ledger, name)

        async def noted(*given: Any, **more: Any) -> Any:
            global _writes_for
            _writes_for = name
            try:
                return await kept(*given, **more)
            finally:
                _writes_for = ""

        setattr(Ledger, name, noted)

    class Connection:
        def __init__(self, kept: Any) -> None:
            self.kept = kept

        def __getattr__(self, name: str) -> Any:
            return getattr(self.kept, name)

        def execute(self, statement: str, *values: Any) -> Any:
            if statement != "COMMIT" or _writes_for != purpose:
                return self.kept.execute(statement, *values)
            if durable:
                self.kept.execute(statement, *values)
            die()

    transact = Database._transact

    def transacted(self: Any, jobs: Any) -> None:
        if not isinstance(self._writing, Connection):
            self._writing = Connection(self._writing)
        transact(self, jobs)

    named(purpose)
    Database._transact = transacted  # type: ignore[method-assign]


def refuse() -> None:
    """Let the last look before the dispatch find a changed copy."""

    async def verify(*_: Any) -> NoReturn:
        raise Refusal(
            "freezing.rehash-before-spawn",
            "FROZEN_COPY_CHANGED",
            because="The copy was changed.",
            todo="Ask again.",
        )

    Gate.verify = verify  # type: ignore[method-assign,assignment]


def refused(then: Callable[[], None]) -> Callable[[], None]:
    def both() -> None:
        refuse()
        then()

    return both


def link_only() -> None:
    """Die when a receipt has its name, and the name of its room still."""
    link = os.link

    def linked(*given: Any) -> None:
        link(*given)
        die()

    receipts.os.link = linked


BOUNDARIES: dict[str, Callable[[], None]] = {
    "before the claim's commit": lambda: commit("claim", durable=False),
    "after the claim's commit": lambda: commit("claim", durable=True),
    "after the claim, before the look-up": lambda: at(Gate, "look_up"),
    "after the room for the receipt": lambda: at(Gate, "verify"),
    "before the dispatch's commit": lambda: commit("dispatch", durable=False),
    "after the dispatch's commit": lambda: commit("dispatch", durable=True),
    "after the dispatch, before the spawn": lambda: at(Gate, "spawn"),
    "between spawn and effect": lambda: None,
    "between effect and exit": lambda: None,
    "between exit and settle": lambda: at(Gate, "classify"),
    "before the settle's commit": lambda: commit("settle", durable=False),
    "after the settle's commit": lambda: commit("settle", durable=True),
    "after the settle, before the receipt": lambda: at(receipts.Receipts, "add"),
    "in the receipt, before its name": lambda: at(receipts.os, "link"),
    "in the receipt, with its name": link_only,
    "after the receipt, before its draft goes": lambda: at(Ledger, "recorded"),
    "after the receipt, before the caller": lambda: after(receipts.Receipts, "add"),
    "bailing out, before the release": refused(lambda: commit("settle", durable=False)),
    "bailing out, after the release": refused(lambda: commit("settle", durable=True)),
    "bailing out, before the receipt": refused(lambda: at(receipts.Receipts, "add")),
}
_SEEN_OUTSIDE = {"between spawn and effect": "started", "between effect and exit": "sent.log"}
"""The files of the command that tell that it is there."""


async def _watch(file: Path) -> None:
    while not file.exists():
        await trio.sleep(0.005)
    die()


def _told(receipt: Any, no: Refused | None, state: Path) -> dict[str, Any]:
    earlier = None if no is None or no.earlier is None else msgspec.to_builtins(no.earlier)
    named = None if earlier is None else earlier["receipt"]
    there = named is not None and (state / "receipts" / f"{named}.json").exists()
    return {
        "result": None if receipt is None else receipt.result(),
        "code": receipt.code if no is None else no.code,
        "rule": None if no is None else no.rule,
        "text": None if no is None else str(no),
        "earlier": earlier,
        "earlier_receipt_is_there": there,
    }


async def _work(given: dict[str, Any]) -> dict[str, Any]:
    state, boundary = Path(given["open"]["state"]), given["boundary"]
    request = msgspec.convert(given["request"], Request)
    async with open_executor(**given["open"]) as executor, trio.open_nursery() as nursery:
        if boundary in _SEEN_OUTSIDE:
            nursery.start_soon(_watch, Path(given["out"]) / _SEEN_OUTSIDE[boundary])
        if wait_for := given.get("wait_for"):
            Path(given["ready"]).touch()
            while not Path(wait_for).exists():
                await trio.sleep(0.001)
        try:
            told = _told(await executor.run(request), None, state)
        except Refused as no:
            told = _told(no.receipt, no, state)
        nursery.cancel_scope.cancel()
    return told


def main() -> None:
    """Do what argv says, and print what the caller is told."""
    given = json.loads(sys.argv[1])
    if given["boundary"] is not None:
        BOUNDARIES[given["boundary"]]()
    print(json.dumps(trio.run(_work, given)))
