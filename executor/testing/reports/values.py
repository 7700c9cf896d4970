"""Values: what was expected and what was seen, for a program and for people. Pure."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from executor.testing.matching import MISSING
from executor.visible import printable

_PLAIN_WORD = re.compile(r"[A-Za-z_/][A-Za-z0-9_./:@-]*")
_NO_TEXT = ("true", "false", "null", "nothing")


def plain(value: Any) -> Any:
    """Give what JSON can carry. What was not there at all is ``{"$absent": true}``."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case Mapping():
            return {str(key): plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
        case msgspec.Struct():
            return plain(msgspec.to_builtins(value, builtin_types=(bytes,), enc_hook=str))
    return {"$absent": True} if value is MISSING else str(value)


def shown(value: Any, most: int) -> str:
    """Give one line for people, in which a text stands bare only where nobody can mistake it.

    Args:
        most: characters; what is longer is cut, and that is said.
    """
    if value is MISSING:
        return "nothing"
    value = plain(value)
    if isinstance(value, str) and _PLAIN_WORD.fullmatch(value) and value not in _NO_TEXT:
        text = value
    else:
        text = printable(json.dumps(value, ensure_ascii=False))
    if len(text) <= most:
        return text
    return f"{text[:most]}... ({len(text)} characters)"
