"""Engine: runs cases against real processes, and says what came of each."""

import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import trio

from executor.testing import parts
from executor.testing.house import House
from executor.testing.matching import Mismatch
from executor.testing.scene import Deviated, Scene, Setting
from executor.testing.spec import Case, SpecFile, step_names
from executor.testing.target import Broken, Gone, Unsupported
from executor.testing.verdicts import Failure, Outcome, Verdict
from executor.testing.warm import Warm

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
    with Warm() as warm:
        yield await make_setting(warm, command)


async def make_setting(warm: Warm, command: Sequence[str] | None = None) -> Setting:
    """Look at what all cases share; it lasts as long as ``warm``, through several loops too."""
    setting = Setting(warm, None if command is None else tuple(command))
    if command is None:
        setting = replace(setting, no_sandbox=await _no_sandbox(setting))
    return setting


async def _no_sandbox(setting: Setting) -> str:
    """Say why this machine has no sandbox; empty where it has one."""
    with tempfile.TemporaryDirectory(prefix="executor-") as made:
        house = House(Path(made) / "house")
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
    home = Path(tempfile.mkdtemp(prefix="executor-"))
    try:
        try:
            verdict = await _run(setting, case, House(home / "house"))
        except Exception as fault:  # of a task beside: no case takes another with it
            verdict = Verdict(case, "broken", why=_told(fault))
        verdict = replace(verdict, seconds=time.monotonic() - began)
        if keep is not None and verdict.word != "passed":
            place = keep / Path(case.file.path).stem / case.id
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(home / "house", place, symlinks=True, copy_function=_copy)
            verdict = replace(verdict, kept=str(place))
        return verdict
    finally:
        with suppress(OSError):  # something writes there still: what is left is no finding
            _remove(home)


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


async def _run(setting: Setting, case: Case, house: House) -> Verdict:
    judged: list[Verdict] = []
    with trio.move_on_after(CASE_S) as patience:
        async with trio.open_nursery() as nursery:
            scene = Scene(case, house, setting, nursery)
            try:
                judged.append(await _judged(scene))
                await scene.close()
            finally:
                scene.end()
    if patience.cancelled_caught or not judged:
        return Verdict(case, "broken", why=f"it did not end within {CASE_S:.0f} seconds")
    return judged[0]


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


def _copy(source: str, target: str) -> Any:
    """Copy a file of a house; of what is no regular file, its name is enough."""
    if os.path.isfile(source):
        return shutil.copy2(source, target)
    Path(target).touch()
    return target


def _remove(home: Path) -> None:
    def open_up(function: Callable[..., Any], path: str, _: Any) -> None:
        parent = os.path.dirname(path)
        os.chmod(parent, 0o700)
        if os.path.isdir(path) and not os.path.islink(path):
            os.chmod(path, 0o700)
        function(path)

    shutil.rmtree(home, onerror=open_up)
