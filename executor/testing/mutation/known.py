"""Known: what was found out about generated mutants, and is kept beside the declared ones.

``killers.json`` names the test that killed each. A later run tries that one first, and it is proven
again each time; nothing is believed because it is written there. ``equivalent.yaml`` lists edits
that change nothing that anybody could see, each with its reason.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from executor.effects.texts import read_text
from executor.plain_yaml import Document
from executor.problems import Problem, problem_at, read
from executor.testing.mutants import EQUIVALENT
from executor.testing.mutation.generating import Generated

KILLERS = "killers.json"
Text = Annotated[str, msgspec.Meta(min_length=1)]


class Equivalent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An edit, wherever a function has it, that no test can see; ``why`` says how that is."""

    file: Text
    function: Text
    from_: str = msgspec.field(name="from")
    to: str
    why: Text

    def means(self, mutant: Generated) -> bool:
        """Say whether a mutant is it."""
        return (self.file, self.function, self.from_, self.to) == (
            mutant.file, mutant.function, mutant.original, mutant.replacement
        )  # fmt: skip


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    equivalent: tuple[Equivalent, ...]


@dataclass(frozen=True, slots=True)
class Equivalents:
    """The list, and where each entry is written."""

    path: str = EQUIVALENT
    listed: tuple[Equivalent, ...] = ()
    document: Document | None = None

    def why(self, mutant: Generated) -> str | None:
        """Say why a mutant is equivalent; ``None`` for one that is not listed."""
        return next((one.why for one in self.listed if one.means(mutant)), None)

    def stale(self, mutants: Sequence[Generated]) -> Iterator[Problem]:
        """Give the entries that mean no edit that is there."""
        for at, one in enumerate(self.listed):
            if self.document and not any(one.means(mutant) for mutant in mutants):
                found = f"no edit of {one.file}:{one.function} is this one"
                place = ("equivalent", at)
                yield problem_at(self.document, self.path, place, found, "Remove the entry")


def read_equivalents(directory: Path) -> Equivalents:
    """Read the list of a directory of mutants; a missing one is empty.

    Raises:
        Faulty: with every problem of it.
        OSError: it cannot be read.
    """
    path = directory / EQUIVALENT
    if not path.exists():
        return Equivalents()
    value, document = read(read_text(path, decides=False), str(path), _File)
    return Equivalents(str(path), value.equivalent, document)


def read_killers(directory: Path) -> dict[str, str]:
    """Read which test killed which mutant, by the mutant's id; a missing file is empty.

    Raises:
        ValueError: it is not valid.
        OSError: it cannot be read.
    """
    path = directory / KILLERS
    if not path.exists():
        return {}
    kept = msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, list[str]]])
    return {
        f"{place}:{digest}": test
        for test, places in kept.items()
        for place, digests in places.items()
        for digest in digests
    }


def write_killers(directory: Path, killers: Mapping[str, str]) -> None:
    """Write them, grouped by test and function, in an order that keeps differences small."""
    kept: dict[str, dict[str, list[str]]] = {}
    for mutant, test in sorted(killers.items(), key=lambda one: (one[1], one[0])):
        place, _, digest = mutant.rpartition(":")
        kept.setdefault(test, {}).setdefault(place, []).append(digest)
    text = msgspec.json.format(msgspec.json.encode(kept), indent=1)
    (directory / KILLERS).write_bytes(text + b"\n")
