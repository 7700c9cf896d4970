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
