"""Checking: do the edits of mutants still apply, and are their tests there? No test is run."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from executor.testing.mutants import DoesNotApply, MutantsFile
from executor.testing.mutation.crew import open_crew
from executor.testing.mutation.settings import Settings


@dataclass(frozen=True, slots=True)
class Fault:
    """A mutant that cannot be run as it is written. ``stale``: its edit does not apply once."""

    where: str
    mutant: str
    found: str
    stale: bool

    def __str__(self) -> str:
        return f"{self.where}: {self.mutant}: {self.found}"

    def facts(self) -> dict[str, Any]:
        """Give it as plain data."""
        return asdict(self)


async def collected_ids(top: Path, settings: Settings) -> frozenset[str]:
    """Give the ids of all tests of a project.

    Raises:
        WorkerGone: they cannot be collected.
    """
    async with open_crew(top, settings, jobs=1) as crew:
        return crew.collected


def faults(top: Path, files: Iterable[MutantsFile], ids: Iterable[str]) -> Iterator[Fault]:
    """Give every mutant that cannot be run, and why."""
    known = _nodes(ids)
    read = cache(lambda name: (top / name).read_text(encoding="utf-8"))
    for file in files:
        for mutant in file.mutants:
            where = file.where(mutant)
            try:
                mutant.texts(read)
            except DoesNotApply as stale:
                yield Fault(where, mutant.id, str(stale), True)
            for red in mutant.reds:
                if red not in known:
                    yield Fault(where, mutant.id, f"{red} is no test", False)


def _nodes(ids: Iterable[str]) -> frozenset[str]:
    """Give every id by which tests can be named: of items, of functions, and of what holds them."""
    found: set[str] = set()
    for one in ids:
        found.add(one)
        name = one.partition("[")[0]
        parts: Sequence[str] = name.split("::")
        found |= {"::".join(parts[: at + 1]) for at in range(len(parts))}
    return frozenset(found)
