"""Merging: a JSON merge patch (RFC 7396) on a value. Pure."""

import copy
from collections.abc import Mapping
from typing import Any


def merged(base: Any, patch: Any) -> Any:
    """Give ``base`` with a patch: mappings merge, null removes, anything else replaces."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    result = dict(base) if isinstance(base, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def joined(first: Any, second: Any) -> Any:
    """Give the one patch that does what two do, one after the other.

    A null takes back what the first says; where that says nothing, it stays, to remove something
    from what both are for.
    """
    if not isinstance(second, Mapping):
        return copy.deepcopy(second)
    result = dict(first) if isinstance(first, Mapping) else {}
    for key, value in second.items():
        if value is None and key in result:
            del result[key]
        else:
            result[key] = joined(result.get(key), value)
    return result
