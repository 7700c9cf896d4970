"""Template: the text of one argument, ``--url={server}``, as literals and references.

``{name}`` is a parameter, ``{item}`` the current item of an ``each``, ``{files.slot}`` the staged
name of a file, ``{secrets.name}`` the path of a secret's file. ``{{`` and ``}}`` are braces.
"""

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind = Literal["parameter", "item", "files", "secrets"]
_TOKEN = re.compile(
    r"(?P<brace>\{\{|\}\})|\{(?:(?P<space>files|secrets)\.)?(?P<name>[a-z][a-z0-9_]*)\}|(?P<bad>[{}])"
)


@dataclass(frozen=True, slots=True)
class Reference:
    """A place in a template that a value fills."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        space = f"{self.kind}." if self.kind in ("files", "secrets") else ""
        return f"{{{space}{self.name}}}"


Template: TypeAlias = tuple[str | Reference, ...]


def parse(text: str) -> Template:
    """Split ``text`` into literals and references.

    Raises:
        ValueError: a brace that opens or closes nothing.
    """
    parts: list[str | Reference] = []
    literal = ""
    position = 0
    for token in _TOKEN.finditer(text):
        literal += text[position : token.start()]
        position = token.end()
        if token["bad"]:
            raise ValueError(
                f"{token['bad']!r} at character {token.start() + 1} belongs to no {{reference}}"
            )
        if token["brace"]:
            literal += token["brace"][0]
            continue
        if literal:
            parts.append(literal)
            literal = ""
        parts.append(Reference(_kind(token["space"], token["name"]), token["name"]))
    literal += text[position:]
    if literal:
        parts.append(literal)
    return tuple(parts)


def references(template: Template) -> tuple[Reference, ...]:
    """Give the references of ``template``, in order."""
    return tuple(part for part in template if isinstance(part, Reference))


def _kind(space: str | None, name: str) -> Kind:
    if space == "files":
        return "files"
    if space == "secrets":
        return "secrets"
    return "item" if name == "item" else "parameter"
