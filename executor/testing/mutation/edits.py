"""Edits: changes to the text of a module, and how they are told. Pure."""

import ast
import difflib

NO_OP = "\n# nothing else\n"
"""At the end of a module it changes nothing."""


def patch_of(name: str, before: str, after: str) -> str:
    """Give a change as a unified diff that `git apply` and `patch -p1` take."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
    )
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def break_all(source: str) -> str:
    """Make every function of a module fail at its first statement."""
    lines = source.splitlines(keepends=True)
    functions = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    for node in sorted(functions, key=lambda one: one.body[0].lineno, reverse=True):
        first = node.body[0]
        if first.lineno > node.lineno and not lines[first.lineno - 1][: first.col_offset].strip():
            indent = " " * first.col_offset
            lines.insert(first.lineno - 1, f"{indent}raise AssertionError('broken on purpose')\n")
    return "".join(lines)


def difference(before: str, after: str) -> tuple[int, int, str]:
    """Give start and end of what is replaced in ``before``, and what stands there in ``after``.

    Both ends are widened to whole words.
    """
    least = min(len(before), len(after))
    start = _common(before, after, least)
    tail = _common(before[::-1], after[::-1], least - start)
    start, tail = _whole_words(before, after, start, tail)
    return start, len(before) - tail, after[start : len(after) - tail]


def _whole_words(before: str, after: str, start: int, tail: int) -> tuple[int, int]:
    """Widen a difference to whole words: readers see ``==`` become ``!=``, not ``=`` ``!``."""

    def joins(left: str, right: str) -> bool:
        both = left + right
        return both.isidentifier() or all(one in "<>=!+-*/%&|^~" for one in both)

    while start and (
        joins(before[start - 1], before[start : start + 1] or " ")
        or joins(before[start - 1], after[start : start + 1] or " ")
    ):
        start -= 1
    while tail and (
        joins(before[len(before) - tail - 1], before[-tail])
        or joins(after[len(after) - tail - 1], after[-tail])
    ):
        tail -= 1
    return start, tail


def _common(one: str, other: str, most: int) -> int:
    """Count the characters at the start that two texts share."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def position(text: str, offset: int) -> tuple[int, int]:
    """Give line and column of an offset in a text, both from 1."""
    line = text.count("\n", 0, offset)
    return line + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1
