"""Subject: what an attempt was about, as its receipt says, or the draft of it in the ledger."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from executor import units
from executor.attempt import Attempt, Earlier
from executor.frozen import FrozenFile, Target
from executor.refusal import Refused
from executor.request import AskedBy
from executor.store.ledger import Ledger

MOST_SHOWN = 200
"""Characters of a parameter's value that people are shown."""


class _Action(msgspec.Struct, frozen=True):
    targets: tuple[Target, ...] = ()
    files: tuple[FrozenFile, ...] = ()


class _Result(msgspec.Struct, frozen=True):
    status: str
    code: str | None = None


class Subject(msgspec.Struct, frozen=True):
    """Who asked for what, and what came of it; as much of it as is known."""

    result: _Result | None = None
    asked_by: AskedBy | None = None
    action: _Action | None = None
    earlier: Earlier | None = None

    @property
    def targets(self) -> list[str]:
        """Give what it acted on, without what it needs for that."""
        targets = () if self.action is None else self.action.targets
        return [one.target for one in targets if one.target is not None]

    def facts(self) -> dict[str, Any]:
        """Give it for programs."""
        action = self.action or _Action()
        return {
            "asked_by": msgspec.to_builtins(self.asked_by),
            "targets": msgspec.to_builtins(action.targets),
            "files": msgspec.to_builtins(action.files),
        }

    def lines(self) -> Iterator[tuple[str, str]]:
        """Give it for people: names and values."""
        if (by := self.asked_by) is not None:
            yield "asked by", f"{by.sender or 'somebody'} as {by.role}, by {by.channel}"
        action = self.action or _Action()
        for target in action.targets:
            yield "target", f"{target.capability}  {target.target or ''}".strip()
        for file in action.files:
            size = units.show_size(file.size)
            yield "file", f"{file.slot}: {file.name}, {size}, sha256:{file.sha256}"


class _Statement(msgspec.Struct, frozen=True):
    predicate: Subject


def subject_of(ledger: Ledger, attempt: Attempt) -> Subject:
    """Give what is known of the subject of an attempt; nothing, where its receipt is lost."""
    path = receipt_path(ledger, attempt.id)
    return _read((path and _content(path)) or ledger.draft(attempt.id)) or Subject()


def first_targets(ledger: Ledger, attempts: Iterable[Attempt]) -> dict[str, str]:
    """Give, by attempt, the first thing that it acted on."""
    found = ((one.id, subject_of(ledger, one).targets) for one in attempts)
    return {name: targets[0] for name, targets in found if targets}


def parameters_of(ledger: Ledger, attempt: Attempt) -> dict[str, Any] | None:
    """Give an attempt's parameters, where they are kept for its `verify` command."""
    question = ledger.question(attempt.id)
    if question is None:
        return None
    try:
        return msgspec.json.decode(question, type=dict[str, Any])
    except msgspec.MsgspecError:
        return None


def parameter_lines(parameters: dict[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Give parameters for people; a long value is cut."""
    for name, value in (parameters or {}).items():
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        cut = (
            text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}... ({len(text)} characters)"
        )
        yield "parameter", f"{name}: {cut}"


def receipt_path(ledger: Ledger, name: str) -> Path | None:
    """Give the file that an attempt's receipt lies in, if it is there."""
    path = _receipts(ledger) / f"{name}.json"
    try:
        return path if path.exists() else None
    except OSError:
        return None


def not_in_the_ledger(ledger: Ledger, text: str) -> Refused | None:
    """Give the refusal of a name of which only a receipt is left, if there is one."""
    if not re.fullmatch("[0-9a-f]+", text):
        return None
    found = sorted(_receipts(ledger).glob(f"{text}*.json"))
    if len(found) != 1:
        return None
    path, name = found[0], found[0].stem
    about = _read(_content(path)) or Subject()
    status = "unknown" if about.result is None else about.result.status
    if status != "refused":
        because = f"Attempt {name} is {status} by its receipt {path}, and pruned from the ledger."
        todo = "Read its receipt."
    else:
        code = about.result.code if about.result else None
        because = f"{name} is a refusal ({code}), not an attempt; its receipt is {path}."
        earlier = None if about.earlier is None else about.earlier.attempt
        todo = f"Look at what was in its way: {earlier}." if earlier else "Read its receipt."
    return Refused("ledger.by-attempt", "UNKNOWN_ATTEMPT", because=because, todo=todo)


def _receipts(ledger: Ledger) -> Path:
    return ledger.database.path.parent / "receipts"


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _read(statement: bytes | None) -> Subject | None:
    try:
        return msgspec.json.decode(statement or b"", type=_Statement).predicate
    except msgspec.MsgspecError:
        return None
