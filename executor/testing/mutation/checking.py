"""Checking: do the edits of mutants still apply, and are their tests there? No test is run."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from executor.testing.mutants import MutantsFile
from executor.testing.mutation import tree
from executor.testing.mutation.settings import Settings
from executor.testing.mutation.slot import open_slot


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
    async with AsyncExitStack() as stack:
        home = stack.enter_context(tree.workplace())
        slot = await stack.enter_async_context(
            open_slot(
                top, home / "slot", tests=settings.tests, roots=settings.imports,
                leave_out=settings.leave_out, memory=int(settings.memory),
            )
        )  # fmt: skip
        return slot.collected


def faults(top: Path, files: Iterable[MutantsFile], ids: Iterable[str]) -> Iterator[Fault]:
    """Give every mutant that cannot be run, and why."""
    known = _nodes(ids)
    texts: dict[str, str] = {}
    for file in files:
        for mutant in file.mutants:
            where = file.where(mutant)
            edited: dict[str, str] = {}
            for edit in mutant.edits:
                try:
                    text = edited.get(edit.file) or texts.get(edit.file) or _text(top, edit.file)
                except OSError as failed:
                    yield Fault(where, mutant.id, f"{edit.file}: {failed.strerror}", True)
                    continue
                texts.setdefault(edit.file, text)
                if (count := text.count(edit.from_)) != 1:
                    found = f"{edit.file}: what it replaces occurs {count} times"
                    yield Fault(where, mutant.id, found, True)
                    continue
                edited[edit.file] = text.replace(edit.from_, edit.to)
            for red in mutant.reds:
                if red not in known:
                    yield Fault(where, mutant.id, f"{red} is no test", False)


def _text(top: Path, name: str) -> str:
    return (top / name).read_text(encoding="utf-8")


def _nodes(ids: Iterable[str]) -> frozenset[str]:
    """Give every id by which tests can be named: of items, of functions, and of what holds them."""
    found: set[str] = set()
    for one in ids:
        found.add(one)
        name = one.partition("[")[0]
        parts: Sequence[str] = name.split("::")
        found |= {"::".join(parts[: at + 1]) for at in range(len(parts))}
    return frozenset(found)
