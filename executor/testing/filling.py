"""Filling: put what is known into texts that hold ``${name}``. Pure."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

_HOLE = re.compile(r"\$\{([^{}$]*)\}")


def fill(value: Any, known: Callable[[str], Any]) -> Any:
    """Give ``value`` with every ``${name}`` in its texts and keys replaced.

    A text that is one such word becomes what it stands for, whatever that is.

    Args:
        known: gives what a name stands for, and raises for one that it does not know.
    """
    match value:
        case str():
            if whole := _HOLE.fullmatch(value):
                return known(whole[1])
            return _HOLE.sub(lambda found: str(known(found[1])), value)
        case Mapping():
            return {fill(key, known): fill(inner, known) for key, inner in value.items()}
        case list() | tuple():
            return [fill(inner, known) for inner in value]
        case msgspec.Struct():
            held = {one.name: getattr(value, one.name) for one in msgspec.structs.fields(value)}
            return msgspec.structs.replace(
                value, **{name: fill(inner, known) for name, inner in held.items()}
            )
    return value
