"""Verdicts: what became of mutants. Values only."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from executor.testing.mutation.judging import Judgement
from executor.testing.mutation.slot import Item

AGAIN_ONE_IN = 25
"""Of so many kills one is looked at again, chosen by its id."""
Told = Callable[["Verdict"], None]


class Subject(Protocol):
    """What is run: a mutant that somebody wrote, or one that was generated.

    Attributes:
        rule: what it breaks; of a generated one the function that it is in.
        reds: the tests that are to go red.
        expect: the verdict that is as it should be.
    """

    @property
    def id(self) -> str: ...
    @property
    def rule(self) -> str: ...
    @property
    def reds(self) -> Sequence[str]: ...
    @property
    def expect(self) -> str: ...
    def texts(self, read: Callable[[str], str]) -> dict[str, str]: ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one mutant, and how it was found out."""

    mutant: Subject
    judgement: Judgement
    patch: str
    output: str = ""
    exit: int | None = None
    seconds: float = 0.0
    how: str = ""

    @property
    def as_declared(self) -> bool:
        """Whether it ended as its file says."""
        return self.judgement.word == self.mutant.expect


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of all of them.

    ``void`` says why none of it means anything; it is empty otherwise.
    """

    verdicts: tuple[Verdict, ...]
    controls: Mapping[str, Item]
    void: str = ""
    seconds: float = 0.0
    again: int = 0
    """How many verdicts were looked at a second time."""


def is_sampled(name: str) -> bool:
    """Say whether a kill is one of those that are looked at again."""
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % AGAIN_ONE_IN == 0
