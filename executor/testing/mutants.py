"""Mutants: edits that break a rule on purpose, as they are written in YAML. Values only."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from executor.effects.texts import read_text
from executor.plain_yaml import Document
from executor.problems import Faulty, Problem, problem_at, read
from executor.testing.spec import Name, RuleId

Text = Annotated[str, msgspec.Meta(min_length=1)]
EQUIVALENT = "equivalent.yaml"
"""A file beside them that lists no mutants, but edits which are none (mutation/known.py)."""


class DoesNotApply(Exception):
    """An edit does not fit the file that it is for; the message says why."""


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One change: ``from``, which occurs exactly once in ``file``, becomes ``to``."""

    file: Text
    from_: Text = msgspec.field(name="from")
    to: str


class Mutant(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One way to break a rule, and the tests that must go red, each by itself.

    Attributes:
        why: what this would mean for somebody who relies on the rule.
        edit: the change, or several that only together break it.
        red: ids of pytest items, or of scenarios (``specs/x.yaml::ID``).
        expect: what must become of it; a time-out counts only where that is expected.
    """

    id: Name
    rule: RuleId
    why: str
    edit: Edit | tuple[Edit, ...]
    red: Text | tuple[Text, ...]
    expect: Literal["killed", "timeout"] = "killed"

    @property
    def edits(self) -> tuple[Edit, ...]:
        """Its changes."""
        return (self.edit,) if isinstance(self.edit, Edit) else self.edit

    @property
    def reds(self) -> tuple[str, ...]:
        """The tests that must go red."""
        return (self.red,) if isinstance(self.red, str) else self.red

    def texts(self, read: Callable[[str], str]) -> dict[str, str]:
        """Give the new text of each file that it edits.

        Args:
            read: gives the text of a file of the project.
        Raises:
            DoesNotApply: an edit does not fit exactly once.
        """
        texts: dict[str, str] = {}
        for edit in self.edits:
            try:
                text = texts[edit.file] if edit.file in texts else read(edit.file)
            except OSError as failed:
                raise DoesNotApply(f"{edit.file}: {failed.strerror}") from None
            if (count := text.count(edit.from_)) != 1:
                found = f"{edit.file}: what it replaces occurs {count} times"
                raise DoesNotApply(found)
            texts[edit.file] = text.replace(edit.from_, edit.to)
        return texts


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    mutants: tuple[Mutant, ...]


@dataclass(frozen=True, slots=True)
class MutantsFile:
    """The mutants of one file, and where each is written."""

    path: str
    mutants: tuple[Mutant, ...]
    document: Document

    def where(self, mutant: Mutant) -> str:
        """Give the file and line of one of them."""
        index = self.mutants.index(mutant)
        return f"{self.path}:{self.document.mark(('mutants', index)).line}"


def parse_mutants(source: bytes, path: str) -> MutantsFile:
    """Read the text of a file of mutants.

    Args:
        path: its name, for messages.
    Raises:
        Faulty: with every problem of it.
    """
    value, document = read(source, path, _File)
    return MutantsFile(path, value.mutants, document)


def read_mutants(paths: Iterable[Path | str]) -> list[MutantsFile]:
    """Read files, and every ``*.yaml`` of directories but the `EQUIVALENT`.

    Raises:
        Faulty: with every problem of every file; an id that two mutants share is one.
        OSError: a file cannot be read.
    """
    found: list[MutantsFile] = []
    problems: list[Problem] = []
    for path in _files(paths):
        try:
            found.append(parse_mutants(read_text(path, decides=False), str(path)))
        except Faulty as faulty:
            problems += faulty.problems
    problems += _twice(found)
    if problems:
        raise Faulty(problems)
    return found


def _files(paths: Iterable[Path | str]) -> Iterator[Path]:
    for path in map(Path, paths):
        if path.is_dir():
            yield from (one for one in sorted(path.rglob("*.yaml")) if one.name != EQUIVALENT)
        else:
            yield path


def _twice(files: Iterable[MutantsFile]) -> Iterator[Problem]:
    places: dict[str, str] = {}
    for file in files:
        for index, mutant in enumerate(file.mutants):
            if first := places.get(mutant.id):
                place = ("mutants", index, "id")
                found = f"a second mutant {mutant.id!r}"
                yield problem_at(file.document, file.path, place, found, f"See {first}")
            places[mutant.id] = file.where(mutant)
