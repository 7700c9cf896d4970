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
