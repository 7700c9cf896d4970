"""Post: a tool that sends by appending a line to a `sent.log`, and a look at all that is on record.

Its command is the recording fake, which takes its plan from a file: so the same request can meet
another behaviour. It says that it has started, and waits for as long as it is told to.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from executor import Request
from executor.attempt import Attempt
from executor.embedding import open_ledger
from tests.house import FAKE, House, interpreter
from tests.spawning.runs import TOP, no_sandbox

PATIENCE_S = 60.0
STATUSES = {
    "delivered": {"delivered"},
    "released": {"undelivered", "refused"},
    "unresolved": {"unresolved"},
}
"""What a receipt may say of an attempt in each state: by then nothing is on its way."""
_WAITING = """
import contextlib, os, time
with contextlib.suppress(OSError):
    open({started!r}, "w").close()
while os.path.exists({stop!r}):
    time.sleep(0.005)
"""


class Post:
    """The tool ``test.fake`` of a house, at a level of isolation."""

    def __init__(self, house: House, level: str = "bare") -> None:
        self.house = house
        self.options: dict[str, Any] = no_sandbox(house) if level == "bare" else {}
        self.out, self.plans = house.root / "out", house.root / "plans"
        self.out.mkdir()
        self.plans.mkdir()
        waiting = _WAITING.format(started=str(self.started), stop=str(self.stop))
        house.install("fake", waiting + FAKE.read_text().split("\n", 1)[1])
        self.declare()
        self.does()

    # -- the tool -----------------------------------------------------------------------------

    def declare(self, **changes: Any) -> None:
        """Write its manifest: exit 0 is delivered, exit 64 proves that nothing was sent."""
        tree = interpreter()[1]
        isolation = {"write": [str(self.out)], "read": [str(self.plans), *([tree] if tree else [])]}
        given: dict[str, Any] = {
            "parameters": {
                "to": {"type": "string", "default": "ana"},
                "turn": {"type": "string", "default": ""},
            },
            "argv": [*self.plan("plan"), "--", "{to}"],
            "isolation": isolation,
        }
        self.house.manifest(**(given | changes))

    def plan(self, name: str) -> list[str]:
        """Give the arguments by which a command finds one of the plans."""
        return ["--plan", str(self.plans / f"{name}.json")]

    def does(self, name: str = "plan", **plan: Any) -> None:
        """Say how it will behave from now on: it sends, and says ``id=m-7``.

        Args:
            name: of another plan than the tool's own, which does no more than it says.
        """
        usual = {"sent": str(self.out / "sent.log"), "sent_text": "to ana", "stdout": "id=m-7\n"}
        given = usual | plan if name == "plan" else plan
        (self.plans / f"{name}.json").write_text(json.dumps(given))

    def request(self, **changes: Any) -> Request:
        """Give another request each time; the same one asked twice is a replay."""
        parameters = self.house.request().parameters
        del parameters["plan"]
        parameters |= changes.pop("parameters", {})
        return self.house.request(parameters=parameters, **changes)

    @property
    def started(self) -> Path:
        """There once the command was started."""
        return self.out / "started"

    @property
    def stop(self) -> Path:
        """As long as it is there, a started command waits before it sends."""
        return self.out / "stop"

    @property
    def sent(self) -> list[str]:
        """What was sent, whatever anybody says."""
        log = self.out / "sent.log"
        return log.read_text().splitlines() if log.exists() else []

    # -- executors ----------------------------------------------------------------------------

    def open(self, **options: Any) -> Any:
        """Open an executor in this process."""
        return self.house.open(**(self.options | options))

    @contextmanager
    def process(
        self,
        request: Request,
        boundary: str | None = None,
        *,
        under: Sequence[str] = (),
        **given: Any,
    ) -> Iterator["subprocess.Popen[str]"]:
        """Start an executor of its own for one request; it is killed at the end of the block.

        Args:
            boundary: where it kills itself; see `crash/program.py`.
            under: the words of a program that runs it, such as strace.
            given: what else it is told.
        """
        import msgspec

        told = {
            "open": {
                "state": str(self.house.state),
                "manifests": [str(self.house.manifests)],
                "roots": [str(self.house.root)],
                "trusted": [str(self.house.bin), *self.house.interpreter_directories()],
                **self.options,
            },
            "request": msgspec.to_builtins(request),
            "boundary": boundary,
            "out": str(self.out),
            **given,
        }
        program = "from tests.ledger.crash.program import main; main()"
        with subprocess.Popen(
            [*under, sys.executable, "-c", program, json.dumps(told)],
            cwd=TOP,
            env=os.environ | {"PYTHONPATH": str(TOP)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def dies(self, request: Request, boundary: str, **given: Any) -> None:
        """Run a request in a process that kills itself at a boundary."""
        with self.process(request, boundary, **given) as process:
            printed, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == -9, f"it did not come to {boundary}: {printed}"

    def asks(self, request: Request, **given: Any) -> dict[str, Any]:
        """Run a request in a fresh process, and give what its caller is told."""
        with self.process(request, **given) as process:
            return answer(process)

    # -- the record ---------------------------------------------------------------------------

    async def attempts(self) -> list[Attempt]:
        """Give the attempts in the ledger, in the order of their claims."""
        async with open_ledger(state=self.house.state) as ledger:
            return ledger.newest(100)[::-1]

    def receipts(self) -> dict[str, dict[str, Any]]:
        """Give what each receipt says, by its attempt."""
        found = {}
        for path in sorted((self.house.state / "receipts").glob("*.json")):
            found[path.stem] = json.loads(path.read_text())["predicate"]
        return found

    async def is_all_on_record(self) -> None:
        """Each attempt has its one receipt with the state that the ledger has, and no more."""
        async with open_ledger(state=self.house.state) as ledger:
            await ledger.writer.pay()
            drafts = ledger.database.read(
                lambda session: session.rows("SELECT id FROM attempts WHERE draft IS NOT NULL")
            )
            attempts = ledger.newest(100)
        receipts = self.receipts()
        for attempt in attempts:
            assert attempt.settled is not None, attempt
            result = receipts[attempt.id]["result"]
            assert result["status"] in STATUSES[attempt.state], (attempt, result)
            assert (result["code"], result["result_id"]) == (attempt.code, attempt.result_id)
        assert drafts == []
        assert list((self.house.state / "receipts").glob("*.new")) == []


def answer(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """Wait for an executor of its own, and give what its caller is told."""
    printed, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, printed
    told: dict[str, Any] = json.loads(printed)
    return told


def until(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition of another process."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"never seen: {what}"
        time.sleep(0.005)
