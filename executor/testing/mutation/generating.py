"""Generating: every edit that mutmut's operators can make inside the functions of a file.

mutmut finds the edits; our runner runs them, so that one set of verdicts, copies and proofs is for
all mutants, and an edit is put into the text of the file as it is, decorated functions included.
Module-level code is left to declared mutants: it runs at import, before any test.
"""

import ast
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from executor.testing.mutation.edits import difference

FOR_DEVELOPERS = "pip install 'sealed-executor[mutants]'"


class NoGenerator(Exception):
    """The library that makes edits is not installed; the message says how to get it."""


@dataclass(frozen=True, slots=True)
class Generated:
    """One edit: in ``file`` the text from ``start`` to ``end`` becomes ``replacement``.

    Attributes:
        id: stays the same as long as its function and the edit do, wherever they move.
        function: the qualified name of the innermost function around it.
        operator: the kind of syntax that it changes, by its name in libcst.
    """

    id: str
    file: str
    function: str
    operator: str
    start: int
    end: int
    original: str
    replacement: str
    reds: tuple[str, ...] = ()
    """The tests that could be red for it, the likeliest first."""
    expect = "killed"

    @property
    def rule(self) -> str:
        """What it breaks: its function."""
        return f"{self.file}:{self.function}"

    def texts(self, read: Callable[[str], str]) -> dict[str, str]:
        """Give the new text of its file.

        Args:
            read: gives the text of a file of the project.
        """
        source = read(self.file)
        return {self.file: source[: self.start] + self.replacement + source[self.end :]}


def generated(file: str, source: str) -> list[Generated]:
    """Give every edit of a file, in the order of its text.

    Args:
        file: its path in the project.
    Raises:
        NoGenerator: mutmut is not installed.
    """
    places = _Places(source)
    seen: Counter[str] = Counter()
    found = []
    for operator, start, end, replacement in sorted(_edits(source), key=lambda one: one[1:3]):
        function = places.function(start, end)
        if function is None:
            continue
        original = source[start:end]
        about = "\0".join((file, function, operator, original, replacement))
        digest = hashlib.sha256(about.encode()).hexdigest()[:10]
        seen[digest] += 1
        number = "" if seen[digest] == 1 else f"-{seen[digest]}"
        name = f"{file}:{function}:{digest}{number}"
        found.append(Generated(name, file, function, operator, start, end, original, replacement))
    return found


def functions(source: str) -> list[str]:
    """Give the qualified names of all functions of a file, in the order of its text."""
    return [name for name, _ in _Places(source).functions]


def instrumented(source: str, number: Callable[[str], int], prelude: str) -> str:
    """Give the source with a call at the start of every function: ``_entered(NUMBER)``.

    Args:
        number: gives the number that stands for a function, by its qualified name.
        prelude: defines ``_entered``; it is put before everything but ``__future__``.
    """
    tree = ast.parse(source)
    for name, node in _functions(tree):
        call = ast.parse(f"_entered({number(name)})").body[0]
        node.body.insert(1 if ast.get_docstring(node, clean=False) is not None else 0, call)
    after = [_is_docstring(one) or _is_future(one) for one in tree.body]
    at = after.index(False) if False in after else len(after)
    tree.body[at:at] = ast.parse(prelude).body
    return ast.unparse(ast.fix_missing_locations(tree))


# -- the edits -------------------------------------------------------------------------------------


def _edits(source: str) -> Iterator[tuple[str, int, int, str]]:
    """Give operator, start, end and new text of each edit."""
    try:
        import libcst
        from libcst.metadata import MetadataWrapper, WhitespaceInclusivePositionProvider
        from mutmut.mutation.file_mutation import (
            NEVER_MUTATE_FUNCTION_NAMES,
            MutationVisitor,
        )
        from mutmut.mutation.mutators import mutation_operators
        from mutmut.mutation.pragma_handling import IgnoredCode
    except ImportError as missing:
        raise NoGenerator(f"{missing}. {FOR_DEVELOPERS}") from None

    class Visitor(MutationVisitor):
        def _skip_node_and_children(self, node: Any) -> bool:
            # mutmut skips decorated functions, since it cannot copy them; we change the text.
            if isinstance(node, libcst.FunctionDef) and node.decorators:
                return node.name.value in NEVER_MUTATE_FUNCTION_NAMES
            return bool(super()._skip_node_and_children(node))

    wrapper = MetadataWrapper(libcst.parse_module(source))
    visitor = Visitor(mutation_operators, IgnoredCode(set(), set(), set()))
    module = wrapper.visit(visitor)
    starts = wrapper.resolve(WhitespaceInclusivePositionProvider)
    parts: dict[Any, _Part] = {}
    for mutation in visitor.mutations:
        part = mutation.contained_by_top_level_function
        if part is None:
            continue
        if part not in parts:
            around = next((one for one in module.body if part in _statements(one)), None)
            parts[part] = _Part(module, part, around, starts[part].start)
        if edit := parts[part].edit(mutation):
            yield (type(mutation.original_node).__name__, *edit)


def _statements(node: Any) -> Sequence[Any]:
    """Give what stands in the body of a class; nothing for other nodes."""
    return getattr(node.body, "body", ()) if type(node).__name__ == "ClassDef" else ()


class _Part:
    """A function, or a statement of a class: small enough to be written out for each edit."""

    def __init__(self, module: Any, part: Any, around: Any, start: Any) -> None:
        self._module, self._part, self._around = module, part, around
        self._text = self._code([part])
        head = self._code([]).rpartition(f"{module.default_indent}pass")[0] if around else ""
        lines = module.code.splitlines(keepends=True)
        at = sum(map(len, lines[: start.line - 1])) + start.column
        self._shift = at - len(head)
        if not module.code.startswith(self._text[len(head) :], at):
            raise ValueError(f"line {start.line}: what libcst writes is not what it read")

    def _code(self, parts: Sequence[Any]) -> str:
        if self._around is not None:
            body = self._around.body.with_changes(body=parts, footer=[])
            parts = [self._around.with_changes(body=body)]
        return str(self._module.with_changes(header=[], footer=[], body=parts).code)

    def edit(self, mutation: Any) -> tuple[int, int, str] | None:
        """Give start and end in the module's text, and what stands there afterwards."""
        part = self._part.deep_replace(mutation.original_node, mutation.mutated_node)
        changed = self._code([part])
        if changed == self._text:
            return None
        start, end, replacement = difference(self._text, changed)
        return start + self._shift, end + self._shift, replacement


# -- where -----------------------------------------------------------------------------------------

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class _Places:
    """Knows of offsets in a text which line they are on, and in which function."""

    def __init__(self, source: str) -> None:
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._lines = source.splitlines(keepends=True)
        self.functions = [(name, self._span(node)) for name, node in _functions(ast.parse(source))]

    def function(self, start: int, end: int) -> str | None:
        """Name the innermost function whose body holds this; decorators and defaults are not it."""
        around = [name for name, (a, b) in self.functions if a <= start and end <= b]
        return around[-1] if around else None

    def _span(self, node: _Function) -> tuple[int, int]:
        first, end_line = node.body[0], node.end_lineno or node.lineno
        return (
            self._offset(first.lineno, first.col_offset),
            self._offset(end_line, node.end_col_offset or 0),
        )

    def _offset(self, line: int, column: int) -> int:
        """Give the offset in characters of what ``ast`` counts in bytes of UTF-8."""
        text = self._lines[line - 1].encode()[:column].decode()
        return self._starts[line - 1] + len(text)


def _functions(tree: ast.AST, above: Sequence[str] = ()) -> Iterator[tuple[str, _Function]]:
    """Give every function with its qualified name, the outer before the inner ones."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, _Function):
            yield ".".join((*above, node.name)), node
            yield from _functions(node, (*above, node.name, "<locals>"))
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, (*above, node.name))
        else:
            yield from _functions(node, above)


def _is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"
