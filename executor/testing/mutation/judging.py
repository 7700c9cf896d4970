"""Judging: what a child's answer says of a mutant. Pure."""

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from executor.testing.mutation.slot import Answer, Item

Word = Literal[
    "killed", "survived", "invalid", "not-applied", "timeout", "unstable", "memory", "signal",
    "no-tests",
]  # fmt: skip
"""``killed``: each named test failed on its own account. ``invalid``: the edit broke import,
collection or syntax, or the file was never read. ``unstable``: a control or a repeat disagrees."""
BROKEN_CODE = frozenset({"ImportError", "SyntaxError", "NameError"})
"""What an edit raises that is no program any more; `NameError` is a slip in the edit."""
DETECTED = ("killed", "timeout")
"""A generated mutant that never ends is found out too, by whoever waits for it."""
LIMIT_TIMES, LIMIT_LEAST_S = 5.0, 10.0


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict on one mutant, why, and which items failed."""

    word: Word
    why: str
    killers: tuple[str, ...] = ()


def time_limit(control: Mapping[str, Item], names: Sequence[str]) -> float:
    """Give the seconds that a mutant's tests may take, by what they took without it."""
    took = sum(item.seconds for name in names for item in items_of(name, control).values())
    return LIMIT_LEAST_S + LIMIT_TIMES * took


def items_of(name: str, items: Mapping[str, Item]) -> dict[str, Item]:
    """Give the items that a test's name means: the one of that id, or all that are below it."""
    if name in items:
        return {name: items[name]}
    return {one: item for one, item in items.items() if one.startswith((f"{name}[", f"{name}::"))}


def control_fault(name: str, control: Mapping[str, Item]) -> str:
    """Say why a test cannot be a mutant's: it is not there, or not green without it."""
    found = items_of(name, control)
    if not found:
        return f"{name} is no test"
    if all(item.outcome == "skipped" for item in found.values()):
        return f"{name} is skipped here: {next(iter(found.values())).text}"
    for one, item in found.items():
        if item.outcome not in ("passed", "skipped"):
            return f"{one} is not green without the mutant: {item.outcome} {item.text[-500:]}"
    return ""


def judge(names: Sequence[str], answer: Answer) -> Judgement:
    """Say what became of a mutant.

    Args:
        names: the tests that must go red, each by itself.
    """
    if nothing := _nothing(answer):
        return nothing
    killers: list[str] = []
    for name in names:
        found = items_of(name, answer.items)
        failed = {one: item for one, item in found.items() if item.outcome == "failed"}
        if not found:
            return Judgement("no-tests", f"{name} was not run")
        for one, item in failed.items():
            if fault := _no_kill(item):
                return Judgement(fault, f"{one} failed in {item.when}: {item.text[-2000:]}")
        if not failed:
            return Judgement("survived", f"{name} stayed green", tuple(killers))
        killers += failed
    return Judgement("killed", "", tuple(killers))


def judge_any(answer: Answer) -> Judgement:
    """Say what became of a generated mutant: any test that it makes red has killed it.

    In whatever phase, and by whatever exception: a program that only crashes is no better for it.
    """
    if answer.broken and answer.exit == 0 and not answer.late:
        return Judgement("killed", f"its tests cannot be collected: {answer.broken[0][-2000:]}")
    if nothing := _nothing(answer):
        return nothing
    failed = {one: item for one, item in answer.items.items() if item.outcome == "failed"}
    for one, item in failed.items():
        if "MemoryError" in item.causes:
            return Judgement("memory", f"{one} needed more memory than a test may take")
        if {"ImportError", "SyntaxError"} & set(item.causes):
            return Judgement("invalid", f"{one} failed in {item.when}: {item.text[-2000:]}")
    if failed:
        return Judgement("killed", "", tuple(failed))
    return Judgement("survived", f"{len(answer.items)} tests stayed green")


def _nothing(answer: Answer) -> Judgement | None:
    """Say why an answer says nothing of the tests, if it does not."""
    if answer.late:
        return Judgement("timeout", f"its tests had not ended after {answer.seconds:.1f} seconds")
    if answer.exit < 0:
        name = signal.Signals(-answer.exit).name
        return Judgement("signal", f"the process that ran its tests died of {name}")
    if answer.broken:
        return Judgement("invalid", f"its tests cannot be collected: {answer.broken[0][-2000:]}")
    if answer.exit != 0:
        return Judgement("invalid", f"its tests could not be run (exit {answer.exit})")
    if not answer.items:
        return Judgement("no-tests", "none of its tests was run")
    if answer.read is False and not answer.swapped:
        return Judgement("invalid", "the changed file was never read, so another one was imported")
    return None


def _no_kill(item: Item) -> Literal["memory", "invalid"] | None:
    """Say what a failed item shows instead of a kill."""
    if "MemoryError" in item.causes:
        return "memory"
    if item.when != "call" or BROKEN_CODE & set(item.causes):
        return "invalid"
    return None
