"""Filling: the templates of a manifest, with what a request gives. Text only; starts nothing.

`str.format_map` does the work: `{to}`, `{item}`, `{files.message}`, `{secrets.login}`, `{{`.
"""

import json
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

Manifest = Mapping[str, Any]
Values = dict[str, Any]
_SECONDS = {"ms": 0.001, "s": 1, "min": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class File:
    """A file of the request, and the name under which the command finds it."""

    source: str
    name: str

    def __str__(self) -> str:
        return self.name


def files_of(manifest: Manifest, given: Manifest) -> dict[str, Any]:
    """Give what a request hands over, each a `File` or a list of them."""
    slots = manifest.get("files", {})
    return {slot: _file(one, slots.get(slot, {}).get("name")) for slot, one in given.items()}


def _file(given: Any, name: str | None) -> Any:
    if isinstance(given, list):
        return [_file(one, name) for one in given]
    if isinstance(given, str):
        return File(os.path.abspath(given), name or os.path.basename(given))
    return _file(given["path"], given.get("name") or name)


def flat(files: Mapping[str, Any]) -> Iterator[File]:
    """Give them one by one."""
    for one in files.values():
        yield from one if isinstance(one, list) else [one]


def values_of(
    manifest: Manifest, given: Manifest, files: Mapping[str, Any], secrets: Mapping[str, str]
) -> Values:
    """Give what the references of templates stand for."""
    declared = manifest.get("parameters", {})
    defaults = {name: one["default"] for name, one in declared.items() if "default" in one}
    return {
        **defaults,
        **given,
        "files": SimpleNamespace(**files),
        "secrets": SimpleNamespace(**secrets),
        "idempotency_key": uuid.uuid4().hex,
    }


def fill(text: str, values: Values) -> str:
    """Fill one template."""
    return text.format_map({name: _text(value) for name, value in values.items()})


def _text(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, bool | int | float) else value


def look_up(values: Values, name: str) -> Any:
    """Give the value of a name such as ``to`` or ``files.message``; nothing where it is absent."""
    space, dot, key = name.partition(".")
    return getattr(values[space], key, None) if dot else values.get(name)


def arguments(argv: Iterable[Any], values: Values) -> Iterator[str]:
    """Fill the argument list."""
    for entry in argv:
        if isinstance(entry, str):
            yield fill(entry, values)
        elif isinstance(entry, list):
            yield from (fill(text, values) for text in entry)
        elif "each" in entry:
            for item in look_up(values, entry["each"]) or []:
                yield from (fill(text, values | {"item": item}) for text in entry["argv"])
        elif look_up(values, entry["when"]) not in (None, False):
            yield from (fill(text, values) for text in entry["argv"])


def environment(manifest: Manifest, values: Values) -> dict[str, str]:
    """Fill the variables that the manifest names, secrets among them."""
    made = {}
    for name, text in manifest.get("env", {}).items():
        with suppress(KeyError):  # its parameter is absent
            made[name] = fill(text, values)
    for name, one in manifest.get("secrets", {}).items():
        secret = look_up(values, f"secrets.{name}")
        if one.get("env") and secret is not None:
            made[one["env"]] = secret
    return made


def seconds(duration: str) -> float:
    """Give the seconds of ``60 s``."""
    number, unit = duration.split()
    return float(number) * _SECONDS[unit]
