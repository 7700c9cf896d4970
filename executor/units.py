"""Units: sizes and durations as people write them (``25 MiB``, ``60 s``)."""

import re
from typing import Any

from msgspec import field

_SIZE_FACTORS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_DURATION_FACTORS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_AMOUNT = re.compile(r"(?P<number>[0-9]{1,15}(?:\.[0-9]{1,6})?) ?(?P<unit>[A-Za-z]+)")


class Size(int):
    """A number of bytes, 0 or more."""

    PATTERN = r"^[0-9]{1,15}(\.[0-9]{1,6})? ?(B|KiB|MiB|GiB)$"


class Duration(float):
    """A number of seconds, 0 or more."""

    PATTERN = r"^[0-9]{1,15}(\.[0-9]{1,6})? ?(ms|s|min|h|d)$"


def parse(kind: type, written: Any) -> Any:
    """Give the ``Size`` or ``Duration`` that ``written`` means (msgspec's ``dec_hook``).

    Raises:
        ValueError: not a number with one of the known units.
    """
    if kind is Size:
        return Size(_amount(written, _SIZE_FACTORS, "a size such as 25 MiB (B, KiB, MiB, GiB)"))
    if kind is Duration:
        return Duration(
            _amount(written, _DURATION_FACTORS, "a duration such as 60 s (ms, s, min, h, d)")
        )
    raise NotImplementedError(kind)


def schema(kind: type) -> dict[str, Any]:
    """Give the JSON Schema of ``Size`` or ``Duration`` (msgspec's ``schema_hook``)."""
    if kind is Size:
        return {
            "type": "string",
            "pattern": Size.PATTERN,
            "examples": ["25 MiB"],
            "description": "A size: a number and B, KiB, MiB or GiB.",
        }
    if kind is Duration:
        return {
            "type": "string",
            "pattern": Duration.PATTERN,
            "examples": ["60 s"],
            "description": "A duration: a number and ms, s, min, h or d.",
        }
    raise NotImplementedError(kind)


def always(value: Any) -> Any:
    """Give a struct field with this default; msgspec cannot write a default of our own types."""
    return field(default_factory=lambda: value)


def show_size(count: int) -> str:
    """Write a number of bytes for people: ``812 B``, ``1.5 MiB``."""
    if count < 1024:
        return f"{count} B"
    amount = float(count)
    for unit in ("KiB", "MiB", "GiB"):
        amount /= 1024
        if amount < 1024 or unit == "GiB":
            break
    return f"{amount:.1f}".removesuffix(".0") + f" {unit}"


def _amount(written: Any, factors: dict[str, Any], wanted: str) -> Any:
    found = _AMOUNT.fullmatch(written) if isinstance(written, str) else None
    factor = factors.get(found["unit"]) if found else None
    if found is None or factor is None:
        raise ValueError(f"{written!r} is not {wanted}")
    return float(found["number"]) * factor
