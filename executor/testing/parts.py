"""Parts: what a scenario can be made of. Each part is one small module; its name is its key.

A folder of parts (`given`, `steps`, `then`) is turned into one strict struct, so that the schema,
the error messages and the reference in the documentation need no list of their own. Adding a part
is adding its module.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec


@dataclass(frozen=True, slots=True)
class Part:
    """One key of a scenario: the type of its value, what it does, and what is said of it.

    ``named`` says of an expectation that its keys are names: no word can stand in their place, and
    without one nothing is expected.
    """

    key: str
    type: Any
    act: Callable[..., Any]
    doc: str
    named: bool = False


@cache
def parts(package: str) -> dict[str, Part]:
    """Give the parts of a package by their keys, in the order of their names.

    Each module of it holds ``Value``, the type of what stands under its key, ``act``, and a
    docstring whose first line is for readers of the reference.
    """
    home = importlib.import_module(package)
    found = {}
    for entry in pkgutil.iter_modules(home.__path__):
        module = importlib.import_module(f"{package}.{entry.name}")
        key = entry.name.rstrip("_").replace("_", "-")
        found[key] = Part(
            key,
            module.Value,
            module.act,
            inspect.getdoc(module) or "",
            getattr(module, "NAMED", False),
        )
    return found


def struct(name: str, package: str) -> type[msgspec.Struct]:
    """Give a strict struct with a key for each part of a package, none of them required."""
    fields: list[tuple[str, Any, Any]] = [
        (key.replace("-", "_") + "_", part.type | msgspec.UnsetType, msgspec.UNSET)
        for key, part in parts(package).items()
    ]
    return msgspec.defstruct(
        name,
        fields,
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
        rename=lambda field: field.rstrip("_").replace("_", "-"),
    )


def chosen(value: msgspec.Struct) -> dict[str, Any]:
    """Give what is set in a value of such a struct, by its keys."""
    fields = msgspec.structs.fields(value)
    held = {field.encode_name: getattr(value, field.name) for field in fields}
    return {key: found for key, found in held.items() if found is not msgspec.UNSET}
