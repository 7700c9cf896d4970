"""Scene: one case while it runs. Its house, its targets, and what they answered."""

import os
import signal
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from executor.testing import filling, target
from executor.testing.house import House
from executor.testing.matching import MISSING
from executor.testing.merging import merged
from executor.testing.target import Broken, Gone, Target, Unsupported
from executor.testing.warm import Warm

if TYPE_CHECKING:  # a spec is made of the parts that work on a scene
    from executor.testing.spec import Case

PATIENCE_S = 60.0
"""For a condition that never comes about; nothing that works waits for so long."""
_LOOK_AGAIN_S = 0.003
_USUAL_REQUEST = {
    "tool": "test.post",
    "asked_by": {"role": "assistant", "channel": "cli", "sender": "ana"},
}
MAIN = "main"
_NOTHING: dict[str, Any] = defaultdict(lambda: MISSING)
Answer = dict[str, Any]


class Deviated(Exception):
    """A step did not do what it is there for: what it expected, and what came instead."""

    def __init__(self, key: str, expected: Any, actual: Any) -> None:
        super().__init__(key, expected, actual)
        self.key, self.expected, self.actual = key, expected, actual


@dataclass(slots=True, eq=False)
class Run:
    """A request on its way through a target."""

    name: str
    target: Target
    held_at: str | None = None
    frozen: Mapping[str, str] = field(default_factory=dict)
    answer: Answer | None = None
    fault: Exception | None = None
    moved: trio.Event = field(default_factory=trio.Event)

    def move(self) -> None:
        """Let whoever waits look again."""
        self.moved.set()
        self.moved = trio.Event()

    async def until_still(self) -> None:
        """Wait until it is held, or has ended.

        Raises:
            Unsupported, Broken: it could not be asked.
        """
        while self.held_at is None and self.answer is None and self.fault is None:
            await self.moved.wait()
        if self.fault is not None:
            raise self.fault


@dataclass(frozen=True, slots=True)
class Setting:
    """What is the same for all cases: how targets are started, and what the machine has.

    ``home`` is the directory of the cases' houses. ``command`` is a foreign target's; without one
    the executor is tested. ``no_sandbox`` says why there is no sandbox, and is empty where there
    is one.
    """

    warm: Warm
    home: Path
    command: tuple[str, ...] | None = None
    no_sandbox: str = ""


class Scene:
    """One case while it runs; `steps/` and `then/` work on it."""

    def __init__(self, case: "Case", house: House, setting: Setting, nursery: trio.Nursery) -> None:
        self.case = case
        self.house = house
        self.setting = setting
        self.request: Mapping[str, Any] = _USUAL_REQUEST
        self.config: dict[str, Any] = {}
        self.environment: dict[str, str] | None = None
        self.answers: dict[str, Answer] = {}
        self.names: list[str] = []
        """The names of the answers, in the order in which they were asked for."""
        self.runs: dict[str, Run] = {}
        self.targets: dict[str, Target] = {}
        self.clock = {"wall_ms": 0, "passed_ms": 0, "boots": 0}
        self.notes: dict[str, Any] = {}
        """What steps leave for expectations and for ``${...}``."""
        self.held = ExitStack()
        """What parts hold against the executor: let go before it is asked to close."""
        self.undo = ExitStack()
        """What parts did to the world outside, to be undone once every process has ended."""
        self._nursery = nursery
        self._every: list[Target] = []
        """Also those whose name another has by now: they may have left something."""

    def beside(self, work: Callable[[], Awaitable[None]]) -> None:
        """Let something go on beside the steps; it ends by itself when every process has."""
        self._nursery.start_soon(work)

    def place(self, name: str) -> Path:
        """Give the path that a scenario means; a relative one is below the root.

        Raises:
            Broken: it leads out of the house: a slip must not reach what is not the scenario's.
        """
        path = Path(os.path.normpath(self.house.root / name))
        if not path.is_relative_to(self.house.home):
            raise Broken(f"{name} is outside of what the scenario has to itself")
        return path

    # -- words --------------------------------------------------------------------------------

    def fill(self, value: Any) -> Any:
        """Put what is known into texts that hold ``${...}``."""
        return filling.fill(value, self._known)

    def _known(self, name: str) -> Any:
        places = self.house.names() | self.notes
        if name in places:
            return places[name]
        if name.startswith("file/"):
            path = self.house.root / name.removeprefix("file/")
            return path.read_text(encoding="utf-8", errors="surrogateescape")
        owner, _, key = name.partition(".")
        kind, slash, file = key.partition("/")
        if owner in self.runs and slash and kind == "frozen":
            frozen = self.runs[owner].frozen
            if file in frozen:
                return frozen[file]
            if not frozen:  # a target that freezes nothing has nothing that could be altered
                raise Unsupported(f"{self.runs[owner].target.name} tells of no frozen copy")
        if owner in self.answers and key:
            return self._part(owner, key)
        known = [*places, *(f"{one}.attempt" for one in self.answers)]
        raise Broken(f"{self.case.where}: nothing is known of ${{{name}}}; known: {known}")

    def _part(self, owner: str, key: str) -> Any:
        found: Any = self.answers[owner]
        for step in key.split("."):
            if not isinstance(found, Mapping) or step not in found:
                fault = f"the answer to {owner!r} has no {key!r}"
                raise Broken(fault) if self.setting.command is None else Unsupported(fault)
            found = found[step]
        return found

    # -- targets ------------------------------------------------------------------------------

    async def process(self, name: str = MAIN) -> Target:
        """Give a process of the target, started if there is none of this name."""
        if name in self.targets and not self.targets[name].gone.is_set():
            return self.targets[name]
        environment = self.environment
        if environment is not None and self.setting.command is not None:
            environment = dict(os.environ) | environment
        made = target.start(
            self.setting.warm,
            self.house.home,
            self.house.home / f"{name}-{len(self._every) + 1}.err",
            self.setting.command,
            environment,
            held=self.notes.get("descriptor"),
            terminal=self.notes.get("terminal"),
        )
        made.heard = self._heard
        self.targets[name] = made
        self._every.append(made)
        self._nursery.start_soon(made.serve)
        await made.hello()
        if version := self.notes.get("sqlite"):
            made.needs("sqlite")
            await made.call("sqlite", version=version)
        if any(self.clock.values()):
            made.needs("clock")
            await made.call("clock", **self.clock)
        return made

    async def opened(self, name: str = MAIN) -> Target:
        """Give a process in which the executor is open, or has refused to be."""
        made = await self.process(name)
        if made.opened is None or made.opened.get("status") == "refused":
            opened = await made.call(
                "open",
                state=str(self.house.state),
                roots=[str(self.house.root)],
                manifests=[str(self.house.manifests)],
                trusted=[str(self.house.bin), *self.house.interpreter_directories()],
                config=str(self.house.config) if self.house.config.exists() else None,
            )
            made.opened = _object(opened, "open")
        return made

    async def ask(self, method: str, process: str = MAIN, **params: Any) -> Any:
        """Ask an open target for something other than a run.

        Returns:
            its answer, or its refusal to open.
        """
        made = await self.opened(process)
        made.needs(method)
        if made.opened and made.opened.get("status") == "refused":
            return made.opened
        return await made.call(method, **params)

    def _heard(self, method: str, params: dict[str, Any]) -> None:
        run = self.runs.get(str(params.get("run")))
        point, frozen = params.get("point"), params.get("frozen")
        if method != "paused" or run is None or not isinstance(point, str):
            return
        run.held_at = point
        run.frozen = frozen if isinstance(frozen, dict) else {}
        run.move()

    # -- runs ---------------------------------------------------------------------------------

    async def start(
        self, name: str, patch: Mapping[str, Any], pause: str | None, process: str
    ) -> Run:
        """Ask for an action; it goes on by itself."""
        made = await self.opened(process)
        made.needs("run", *([f"point:{pause}"] if pause else []))
        run = Run(name, made)
        self.runs[name] = run
        self.names.append(name)
        request = self.fill(merged(merged(_USUAL_REQUEST, self.request), patch))
        self._nursery.start_soon(self._run, run, request, pause)
        return run

    def runs_of(self, name: str) -> list[Run]:
        """Give the runs of a step: one, or NAME-1, NAME-2 and so on."""
        if name in self.runs:
            return [self.runs[name]]
        prefix = f"{name}-"
        found: list[Run] = []
        while (one := f"{prefix}{len(found) + 1}") in self.runs:
            found.append(self.runs[one])
        return found

    async def _run(self, run: Run, request: Any, pause: str | None) -> None:
        opened = run.target.opened
        try:
            if opened and opened.get("status") == "refused":
                answer = opened
            else:
                answer = await run.target.call("run", run=run.name, request=request, pause=pause)
            self.told(run.name, answer)
            run.answer = answer
        except Gone as gone:
            run.answer = {"status": "gone", "because": str(gone)}
            self.told(run.name, run.answer)
        except (Unsupported, Broken) as fault:
            run.fault = fault
        run.held_at = None
        run.move()

    def told(self, name: str, answer: Answer) -> None:
        """Keep an answer under a name."""
        _object(answer, name)
        if name not in self.names:
            self.names.append(name)
        self.answers[name] = answer

    def answer(self, name: str) -> Answer:
        """Give the answer to a step.

        Raises:
            Broken: no step has this name, or none that is answered.
        """
        if name not in self.answers:
            known = ", ".join(self.names)
            raise Broken(f"nothing was asked for as {name!r}; known: {known or 'nothing'}")
        return self.answers[name]

    def last_answer(self) -> Answer:
        """Give the answer to what was asked for last."""
        if not self.names:
            raise Broken("nothing was asked for that has an answer")
        return self.answers[self.names[-1]]

    def last_record(self) -> dict[str, Any]:
        """Give what the fake that was started last recorded; nothing, if none was."""
        records = self.house.recorded()
        return records[-1] if records else _NOTHING

    def last_words(self) -> str:
        """Say why a run has no answer, where its process ended by itself."""
        gone = (one for one in self.answers.values() if one.get("status") == "gone")
        return next((str(one.get("because", "")) for one in gone), "")

    def left(self) -> int:
        """Count the processes of the commands that are there."""
        return sum(len(made.left()) for made in self._every)

    async def settle(self) -> None:
        """Wait until every run has ended."""
        for run in self.runs.values():
            await run.until_still()
            if run.answer is None:
                raise Broken(f"the run {run.name!r} is still held before {run.held_at!r}")

    async def until(self, holds: Any, what: str) -> None:
        """Wait until a condition of the world outside holds.

        Raises:
            Broken: it does not come about.
        """
        with trio.move_on_after(PATIENCE_S):
            while not holds():  # noqa: ASYNC110 - other processes tell no event
                await trio.sleep(_LOOK_AGAIN_S)
            return
        raise Broken(f"it did not come about that {what}")

    async def close(self) -> None:
        """Let go of what is held, and ask every process to close what it has open."""
        self.held.close()
        for made in self.targets.values():
            if not made.gone.is_set():
                made.signal(signal.SIGCONT)  # a stopped one answers nobody
                with suppress(Gone, Unsupported, Broken), trio.move_on_after(PATIENCE_S):
                    await made.call("close")
                    await made.ended()

    def end(self) -> None:
        """End every process, and undo what was done to the world outside; wait for nobody."""
        self.held.close()
        for made in self._every:
            made.end()
        self.undo.close()


def _object(answer: Any, asked: str) -> Answer:
    if not isinstance(answer, dict):
        raise Broken(f"the answer to {asked!r} is no object: {answer!r}")
    return answer
