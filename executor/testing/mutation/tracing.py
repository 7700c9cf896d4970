"""Tracing: which tests enter which functions, in whatever process they do it.

Every function under test is made to note that it was entered, in copies of the project. A test
that has entered no function of a mutant cannot be red because of it.
"""

import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path

import msgspec
import trio

from executor.testing.mutation import generating, tree
from executor.testing.mutation.crew import open_crew
from executor.testing.mutation.settings import Settings
from executor.testing.mutation.slot import Slot, WorkerGone

_AT_ONCE = 25
_BATCH_S = 600.0
_AT_IMPORT = 0
Told = Callable[[int, int], None]


class Trace(msgspec.Struct, frozen=True, dict=True):
    """What was seen.

    Attributes:
        seconds: what each green test took, by its id. Others prove nothing.
        entered: the tests that entered a function, by ``file:function``.
        imported: the functions that ran while the tests were collected: every test has had them.
    """

    seconds: dict[str, float]
    entered: dict[str, list[str]]
    imported: frozenset[str]

    def tests(self, file: str, function: str) -> list[str]:
        """Give the tests that could be red if a function is changed, the likeliest first.

        A test that enters few functions looks closely at each. What ran at import could have left
        something to every test.
        """
        name = f"{file}:{function}"
        own = set(self.entered.get(name, ()))
        found = self.seconds if name in self.imported else own

        def key(test: str) -> tuple[bool, int, float, str]:
            return test not in own, self._breadth[test], self.seconds[test], test

        return sorted(found, key=key)

    @cached_property
    def _breadth(self) -> Counter[str]:
        """Count the functions that each test enters."""
        return Counter(test for tests in self.entered.values() for test in tests)


async def trace(
    top: Path, sources: Mapping[str, str], settings: Settings, jobs: int, told: Told
) -> Trace:
    """Run every test of the project at ``top`` once, each as if it were alone.

    Args:
        sources: the texts of the files whose functions are traced, by their path.
        told: called with how many tests have run, and how many there are.
    Raises:
        WorkerGone: the tests cannot be collected.
    """
    names = [
        f"{file}:{function}"
        for file, source in sources.items()
        for function in generating.functions(source)
    ]
    numbers = {name: at for at, name in enumerate(names)}
    prepare = partial(_instrument, sources, numbers)
    async with open_crew(top, settings, jobs, prepare) as crew:
        tests = sorted(crew.collected)
        seconds = await _run(crew.slots, tests, told)
        log = _log(crew.slots[0]).read_text(encoding="ascii")
    return _read(log, tests, names, seconds)


def _log(slot: Slot) -> Path:
    """Give the file in which all slots of a crew note what was entered."""
    return slot.home.with_name("entered.log")


def _instrument(sources: Mapping[str, str], numbers: Mapping[str, int], slot: Slot) -> None:
    helper, log = slot.home / "entered.py", _log(slot)
    log.touch()
    slot.current.write_bytes(struct.pack("=Q", _AT_IMPORT))
    paths = f"CURRENT, LOG = {str(slot.current)!r}, {str(log)!r}"
    text = (Path(__file__).parent / "entered.py").read_text(encoding="utf-8")
    helper.write_text(text.replace('CURRENT, LOG = "", ""', paths), encoding="utf-8")
    prelude = (
        f"_entered = (lambda space: exec(compile(open({str(helper)!r}).read(), 'entered', 'exec'), "
        "space) or space)({})['entered']"
    )
    for file, source in sources.items():
        tree.forget_compiled(slot.top / file)

        def number(function: str, file: str = file) -> int:
            return numbers[f"{file}:{function}"]

        text = generating.instrumented(source, number, prelude)
        (slot.top / file).write_text(text, encoding="utf-8")


async def _run(slots: Sequence[Slot], tests: Sequence[str], told: Told) -> dict[str, float]:
    seconds: dict[str, float] = {}
    batches = [list(tests[at : at + _AT_ONCE]) for at in range(0, len(tests), _AT_ONCE)]
    numbers = {test: at + 1 for at, test in enumerate(tests)}
    done = 0

    async def work(slot: Slot) -> None:
        nonlocal done
        while batches:
            batch = batches.pop(0)
            own = {test: numbers[test] for test in batch}
            try:
                answer = await slot.run("collected", batch, _BATCH_S, numbers=own)
            except WorkerGone:
                continue
            seconds.update(
                {name: item.seconds for name, item in answer.items.items()
                 if item.outcome == "passed"}
            )  # fmt: skip
            done += len(batch)
            told(done, len(tests))

    async with trio.open_nursery() as nursery:
        for slot in slots:
            nursery.start_soon(work, slot)
    return seconds


def _read(log: str, tests: Sequence[str], names: Sequence[str], seconds: dict[str, float]) -> Trace:
    entered: defaultdict[str, set[str]] = defaultdict(set)
    imported: set[str] = set()
    for line in log.splitlines():
        test, function = map(int, line.split())
        if test == _AT_IMPORT:
            imported.add(names[function])
        elif tests[test - 1] in seconds:
            entered[names[function]].add(tests[test - 1])
    found = {name: sorted(those) for name, those in sorted(entered.items())}
    return Trace(seconds, found, frozenset(imported))
