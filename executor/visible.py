"""Visible: text that others wrote, made so that what is there is what is seen. Pure."""

_INVISIBLE = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
    + "".join(map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)
"""Characters that show nothing, although Python counts them as printable."""


def printable(text: str, *, lines: bool = False) -> str:
    """Show control, bidirectional and invisible characters as escapes.

    Args:
        lines: line breaks stay.
    """
    return "".join(
        character if _shows(character) or (lines and character == "\n") else _escaped(character)
        for character in text
    )


def _shows(character: str) -> bool:
    return character.isprintable() and character not in _INVISIBLE


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
