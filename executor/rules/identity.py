"""Identity: what makes two actions the same thing, in the name of whom."""

import hashlib
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from executor import template
from executor.frozen import Asked, FrozenFile
from executor.manifest import Manifest, Parameter, SetOf

KEY_DIGITS = 32
NO_KEY = "0" * KEY_DIGITS
"""Stands for the idempotency key until the files are frozen; it is as long."""


def fingerprint(manifest: Manifest, asked: Asked, files: Sequence[FrozenFile]) -> str:
    """Give the SHA-256, in hex, over the RFC 8785 form of all that makes it the same thing.

    Listed equivalences, and no others: Unicode in NFC, the case of an address's domain, the order
    of a ``set``. Every part stands under its name, so that none can run into another.
    """
    import rfc8785

    covered: dict[str, Any] = {
        "executor": "fingerprint/1",
        "tool": asked.tool,
        "account": namespace(manifest, asked),
        "identity": dict(_parts(manifest, asked, files)),
    }
    return hashlib.sha256(rfc8785.dumps(covered)).hexdigest()


def idempotency_key(fingerprint: str, beside: str | None) -> str:
    """Give the key that a provider gets: the same for the same action, asked again.

    Args:
        beside: the attempt that is known and is to be delivered once more: another delivery.
    """
    text = f"idempotency-key/1 {fingerprint} {beside or ''}"
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]


def namespace(manifest: Manifest, asked: Asked) -> list[Any]:
    """Give the account in its parts: ``a b`` with ``c`` is not ``a`` with ``b c``."""
    if manifest.account is None:
        return ["request", _same(None, asked.account)]
    parts: list[Any] = []
    for piece in template.parse(manifest.account):
        if isinstance(piece, str):
            parts.append(piece)
        else:
            parameter = manifest.parameters[piece.name]
            parts.append([piece.name, _same(parameter, asked.parameters[piece.name])])
    return ["manifest", parts]


def _parts(
    manifest: Manifest, asked: Asked, files: Sequence[FrozenFile]
) -> Iterator[tuple[str, Any]]:
    if manifest.identity is None:
        for name, given in asked.parameters.items():
            yield name, _same(manifest.parameters[name], given)
        for slot in manifest.files:
            yield f"files.{slot}", [[f.name, f.sha256] for f in files if f.slot == slot]
        return
    for part in manifest.identity:
        name = part.set if isinstance(part, SetOf) else part
        value: Any
        if name.startswith("files."):
            slot = name.removeprefix("files.")
            value = [file.sha256 for file in files if file.slot == slot]
        else:
            value = _same(manifest.parameters[name], asked.parameters.get(name))
        yield name, _unordered(value) if isinstance(part, SetOf) and value is not None else value


def _unordered(items: Sequence[Any]) -> list[Any]:
    """Give a set its one order; what RFC 8785 writes alike is one item, be it 1 or 1.0."""
    import rfc8785

    written = {rfc8785.dumps(item): item for item in items}
    return [written[form] for form in sorted(written)]


def _same(parameter: Parameter | None, value: Any) -> Any:
    if isinstance(value, list):
        items = None if parameter is None else parameter.items
        return [_same(items, item) for item in value]
    if not isinstance(value, str):
        return value
    text = unicodedata.normalize("NFC", value)
    if parameter is not None and parameter.format == "email":
        local, at, domain = text.rpartition("@")
        return f"{local}{at}{domain.lower()}"
    return text
