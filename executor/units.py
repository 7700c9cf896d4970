"""Units: sizes and durations as people write them (``25 MiB``, ``60 s``)."""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import field

_SIZE_FACTORS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_DURATION_FACTORS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
# The digits are bounded so that bytes and milliseconds stay numbers that JSON carries exactly.


class Size(int):
    """A number of bytes, 0 or more."""

    PATTERN = r"^([0-9]{1,15} ?B|[0-9]{1,6}(\.[0-9]{1,6})? ?(KiB|MiB|GiB))$(?!\n)"


class Duration(float):
    """A number of seconds, 0 or more."""

    PATTERN = r"^([0-9]{1,12} ?ms|[0-9]{1,6}(\.[0-9]{1,6})? ?(s|min|h|d))$(?!\n)"


def parse(kind: type, written: Any) -> Any:
    """Give the ``Size`` or ``Duration`` that ``written`` means (msgspec's ``dec_hook``).

    Raises:
        ValueError: not a number with one of the known units.
    """
    if kind is Size:
        return Size(_amount(written, Size.PATTERN, _SIZE_FACTORS, "25 MiB"))
    if kind is Duration:
        return Duration(_amount(written, Duration.PATTERN, _DURATION_FACTORS, "15 min"))
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


def show_duration(seconds: float) -> str:
    """Write a number of seconds for people: ``15 min``, ``1.5 s``."""
    unit = "s"
    for longer, factor in (("min", 60.0), ("h", 3600.0), ("d", 86400.0)):
        if seconds and seconds % factor == 0:
            unit = longer
    return f"{round(seconds / _DURATION_FACTORS[unit], 3):g} {unit}"


def _amount(written: Any, pattern: str, factors: Mapping[str, float], example: str) -> float:
    if not (isinstance(written, str) and re.fullmatch(pattern, written)):
        raise ValueError(f"{written!r} is not a number with a unit, such as {example}")
    unit = written.lstrip("0123456789.")
    return float(written.removesuffix(unit)) * factors[unit.strip()]
