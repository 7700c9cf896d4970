"""Choosing: which cases an expression of words means, as with pytest's ``-k``. Pure."""

import re
from collections.abc import Callable

Holds = Callable[[str], bool]
"""Says whether an expression holds for a text."""
_TOKEN = re.compile(r"\s*([\w:+.\[\]\\/@-]+|\S|$)")
_WORD = re.compile(r"[\w:+.\[\]\\/@-]+")
_DEEPEST = 100


class BadExpression(ValueError):
    """An expression that cannot be read, in words for people."""


def reader(expression: str) -> Holds:
    """Read words, ``and``, ``or``, ``not`` and parentheses.

    A word holds where it is part of the text, in capitals or not. An empty expression always
    holds.

    Raises:
        BadExpression: it is none.
    """
    tokens = _TOKEN.findall(expression)[::-1]
    if tokens[-1] == "":
        return lambda _: True
    holds = _either(tokens, 0)
    if tokens[-1] != "":
        raise _unexpected(tokens)
    return lambda text: holds(text.lower())


def _either(tokens: list[str], depth: int) -> Holds:
    """Read up to the end of an expression; the next token is the last of the list."""
    ways = [_all(tokens, depth)]
    while _takes(tokens, "or"):
        ways.append(_all(tokens, depth))
    return lambda text: any(holds(text) for holds in ways)


def _all(tokens: list[str], depth: int) -> Holds:
    conditions = [_one(tokens, depth)]
    while _takes(tokens, "and"):
        conditions.append(_one(tokens, depth))
    return lambda text: all(holds(text) for holds in conditions)


def _one(tokens: list[str], depth: int) -> Holds:
    if depth > _DEEPEST:
        raise BadExpression("it is nested too deeply")
    if _takes(tokens, "not"):
        inner = _one(tokens, depth + 1)
        return lambda text: not inner(text)
    if _takes(tokens, "("):
        inside = _either(tokens, depth + 1)
        if not _takes(tokens, ")"):
            raise _unexpected(tokens)
        return inside
    word = tokens[-1].lower()
    if not _WORD.fullmatch(word) or word in ("and", "or"):
        raise _unexpected(tokens)
    tokens.pop()
    return lambda text: word in text


def _takes(tokens: list[str], token: str) -> bool:
    if tokens[-1] != token:
        return False
    tokens.pop()
    return True


def _unexpected(tokens: list[str]) -> BadExpression:
    return BadExpression(f"{tokens[-1]!r} is not expected" if tokens[-1] else "it ends too early")
