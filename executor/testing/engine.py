"""Engine: runs cases against real processes, and says what came of each."""

import os
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import trio

from executor.testing import parts
from executor.testing.house import House
from executor.testing.matching import Mismatch
from executor.testing.scene import Deviated, Scene, Setting
from executor.testing.spec import Case, SpecFile, step_names
from executor.testing.target import Broken, Gone, Unsupported
from executor.testing.verdicts import Failure, Outcome, Verdict
from executor.testing.warm import Warm
from executor.testing.workplaces import remove, workplace

_PREFIX = "executor-cases-"
CASE_S = 120.0
"""After so long a case that has not ended is broken."""
Chosen = Callable[[Case], bool]
Told = Callable[[Verdict], None]


@asynccontextmanager
async def open_setting(command: Sequence[str] | None = None) -> AsyncIterator[Setting]:
    """Make ready what all cases share.

    Args:
        command: the words of a foreign target; without it the executor itself is tested.
    """
    with workplace(_PREFIX) as home, Warm() as warm:
        yield await make_setting(home, warm, command)


async def make_setting(home: Path, warm: Warm, command: Sequence[str] | None = None) -> Setting:
    """Look at what all cases share; it lasts as long as ``home`` and ``warm``, through many loops.

    Args:
        home: a directory for what the cases need.
    """
    setting = Setting(warm, home, None if command is None else tuple(command))
    if command is None:
        setting = replace(setting, no_sandbox=await _no_sandbox(setting))
    return setting


async def _no_sandbox(setting: Setting) -> str:
    """Say why this machine has no sandbox; empty where it has one."""
    house = House(setting.home / "probe")
    house.build()
    house.declare({})
    async with trio.open_nursery() as nursery:
        scene = Scene(None, house, setting, nursery)  # type: ignore[arg-type]
        try:
            opened = (await scene.opened()).opened
            await scene.close()
        finally:
            scene.end()
    return str((opened or {}).get("sandbox", ""))


async def run_case(setting: Setting, case: Case, keep: Path | None = None) -> Verdict:
    """Run one case in a house of its own.

    Args:
        keep: a directory in which the houses of cases that did not pass stay.
    """
    began = time.monotonic()
    if lacking := _lacking(setting, case):
        return Verdict(case, "skipped", why=lacking)
    home = Path(tempfile.mkdtemp(prefix="case-", dir=setting.home))
    try:
        verdict = await _run(setting, case, House(home / "house"), keep)
    except Exception as fault:  # of a task beside: no case takes another with it
        verdict = Verdict(case, "broken", why=_told(fault))
    finally:
        remove(home)
    return replace(verdict, seconds=time.monotonic() - began)


async def run_all(
    files: Iterable[SpecFile],
    *,
    target: Sequence[str] | None = None,
    jobs: int = 1,
    keep: Path | None = None,
    chosen: Chosen = lambda _: True,
    told: Told = lambda _: None,
) -> Outcome:
    """Run the chosen cases of some files, so many at a time.

    Args:
        target: the words of a foreign target; without it the executor itself is tested.
        told: called with each verdict as it comes.
    """
    began, files = time.monotonic(), tuple(files)
    cases = [case for file in files for case in file.cases() if chosen(case)]
    verdicts: dict[int, Verdict] = {}
    room = trio.CapacityLimiter(jobs)

    async with open_setting(target) as setting, trio.open_nursery() as nursery:

        async def one(number: int, case: Case) -> None:
            async with room:
                verdicts[number] = await run_case(setting, case, keep)
            told(verdicts[number])

        for number, case in enumerate(cases):
            nursery.start_soon(one, number, case)
    return Outcome(
        files,
        tuple(verdicts[number] for number in range(len(cases))),
        "executor" if target is None else " ".join(target),
        time.monotonic() - began,
    )


async def _run(setting: Setting, case: Case, house: House, keep: Path | None) -> Verdict:
    verdict = Verdict(case, "broken", why=f"it did not end within {CASE_S:.0f} seconds")
    with trio.move_on_after(CASE_S):
        async with trio.open_nursery() as nursery:
            scene = Scene(case, house, setting, nursery)
            try:
                judged = await _judged(scene)
                await scene.close()
                verdict = judged
            finally:
                if keep is not None and verdict.word != "passed":
                    verdict = _kept(verdict, house, keep)
                scene.end()
    return verdict


def _kept(verdict: Verdict, house: House, keep: Path) -> Verdict:
    """Copy a house into a directory of its own; that it could not be is told, and no more."""
    name = f"{Path(verdict.case.file.path).stem}-{verdict.case.id}".replace(os.sep, "-")
    try:
        place = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=keep))
        done = subprocess.run(
            ["cp", "-a", "--sparse=always", f"{house.home}/.", str(place)],
            check=False, capture_output=True, text=True, errors="replace",
        )  # fmt: skip
    except OSError as failed:
        return replace(verdict, why=f"{verdict.why}\nit could not be kept: {failed}".strip())
    if done.returncode:
        why = f"{verdict.why}\nnot all of it could be kept: {done.stderr[-500:]}".strip()
        return replace(verdict, why=why, kept=str(place))
    return replace(verdict, kept=str(place))


async def _judged(scene: Scene) -> Verdict:
    """Play a case; whatever goes wrong in it takes no other with it."""
    try:
        return await _play(scene)
    except Unsupported as no:
        return Verdict(scene.case, "unsupported", why=str(no))
    except (Broken, Gone) as fault:
        return Verdict(scene.case, "broken", why=str(fault))
    except Exception as fault:
        return Verdict(scene.case, "broken", why=_told(fault))


def _told(fault: BaseException) -> str:
    """Say what went wrong, in whatever it is wrapped."""
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    return f"{type(fault).__name__}: {fault}"


async def _play(scene: Scene) -> Verdict:
    case = scene.case
    _build(scene)
    steps = parts.parts("executor.testing.steps")
    for name, step in zip(step_names(case.steps), case.steps, strict=True):
        [(kind, value)] = parts.chosen(step).items()
        try:
            await steps[kind].act(scene, value, name)
        except Deviated as other:
            key = f"steps.{name}.{other.key}"
            failure = Failure(key, case.where, other.expected, other.actual)
            return Verdict(case, "failed", (failure,))
    await scene.settle()
    failures: list[Failure] = []
    unseen: list[str] = []
    for key, expected in parts.chosen(case.then).items():
        try:
            part = parts.parts("executor.testing.then")[key]
            misses = await part.act(scene, scene.fill(expected))
        except Unsupported as no:
            unseen.append(f"{key}: {no}")
        else:
            failures += [_failure(case, key, miss) for miss in misses]
    if failures:
        return Verdict(case, "failed", tuple(failures), why=scene.last_words())
    if unseen:
        return Verdict(case, "unsupported", why="; ".join(unseen))
    return Verdict(case, "passed")


def _build(scene: Scene) -> None:
    house, given = scene.house, parts.chosen(scene.case.given)
    house.build()
    if "manifest" not in given:
        house.declare({})
    house.install("post", {})
    if scene.setting.no_sandbox:
        scene.config["degraded"] = True
    for key, value in given.items():
        parts.parts("executor.testing.given")[key].act(scene, scene.fill(value))
    if scene.config:
        scene.house.write_config(scene.config)


def _failure(case: Case, key: str, miss: Mismatch) -> Failure:
    path = (key, *miss.path)
    return Failure(".".join(map(str, path)), case.place(path), miss.expected, miss.actual)


def _lacking(setting: Setting, case: Case) -> str:
    needs = case.scenario.needs
    if "sandbox" in needs and setting.no_sandbox:
        return f"no sandbox: {setting.no_sandbox}"
    if "root" in needs and os.geteuid() != 0:
        return "it needs root"
    return ""
