"""Identity: what makes two actions the same thing, in the name of whom."""

import hashlib
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from executor import template
from executor.frozen import Asked, FrozenFile
from executor.manifest import Manifest, Parameter, SetOf

KEY_DIGITS = 32
NO_KEY = "0" * KEY_DIGITS
"""Stands for the idempotency key until the files are frozen; it is as long."""


def fingerprint(manifest: Manifest, asked: Asked, files: Sequence[FrozenFile]) -> str:
    """Give the SHA-256, in hex, over the RFC 8785 form of all that makes it the same thing.

    Listed equivalences, and no others: Unicode in NFC, the case of an address's domain, the order
    of a ``set``, and what is left out with what is as good as left out. Every part stands under its
    name, so that none can run into another.
    """
    import rfc8785

    covered: dict[str, Any] = {
        "executor": "fingerprint/1",
        "tool": asked.tool,
        "account": namespace(manifest, asked),
        "identity": dict(_parts(manifest, asked, files)),
    }
    return hashlib.sha256(rfc8785.dumps(covered)).hexdigest()


def idempotency_key(fingerprint: str, after: str | None) -> str:
    """Give the key that a provider gets: the same for the same action, asked again.

    Args:
        after: the attempt that the request knows of, or else the last that was delivered: what is
            wanted after it is another delivery, and a provider that still knows the old key would
            only hand back the old one.
    """
    text = f"idempotency-key/1 {fingerprint} {after or ''}"
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
    value: Any
    if manifest.identity is None:
        for name, given in asked.parameters.items():
            parameter = manifest.parameters[name]
            value = _same(parameter, given)
            is_default = value == _same(parameter, parameter.default)
            # A parameter that a later manifest adds, with a default, must not make old attempts
            # strangers: what is unresolved still blocks after an upgrade.
            if not is_default and not _is_nothing(manifest, name, given):
                yield name, value
        for slot in manifest.files:
            if frozen := [[file.name, file.sha256] for file in files if file.slot == slot]:
                yield f"files.{slot}", frozen
        return
    for part in manifest.identity:
        name = part.set if isinstance(part, SetOf) else part
        if name.startswith("files."):
            slot = name.removeprefix("files.")
            value = [file.sha256 for file in files if file.slot == slot]
        else:
            given = asked.parameters.get(name)
            nothing = _is_nothing(manifest, name, given)
            value = None if nothing else _same(manifest.parameters[name], given)
        yield name, _unordered(value) if isinstance(part, SetOf) and value is not None else value


def _is_nothing(manifest: Manifest, name: str, value: Any) -> bool:
    """Whether a value does just what leaving it out does: an empty list, a switch that is off."""
    if value is False:
        parameter = manifest.parameters[name]
        optional = parameter.default is msgspec.UNSET and name not in manifest.required
        return optional and name not in _written_out(manifest)
    return value is None or value == []


def _written_out(manifest: Manifest) -> set[str]:
    """Give the parameters that stand in a text which an absent one leaves out."""
    isolation = manifest.isolation
    texts = [*manifest.env.values(), *isolation.read, *isolation.write]
    texts += () if isolation.network == "host" else isolation.network
    return {one.name for text in texts for one in template.references(template.parse(text))}


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
