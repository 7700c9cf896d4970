"""Plain YAML: text in, values and their places out.  Knows no files and no schema.

The one loader for manifests, requests, configuration and specs; a request may also be JSON. It
builds from the parser's events, so nothing is ever expanded, and reads YAML 1.2: a text means
what JSON, an editor and a reviewer say it means. PyYAML is a YAML 1.1 parser, and ``_Yaml12``
mends it where the two differ without a word. It is the Python parser and not libyaml, which
refuses the surrogate pairs that JSON writes for every emoji.

Rule: ``admission.plain-yaml``
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf, isfinite
from types import MappingProxyType
from typing import Any, TypeAlias

import yaml

Scalar: TypeAlias = bool | int | float | str | None
Value: TypeAlias = Scalar | list["Value"] | dict[str, "Value"]
Path: TypeAlias = tuple[str | int, ...]

MAX_EXACT = 2**53 - 1  # JSON readers hold numbers as doubles; past this two integers become one
MAX_SHOWN = 80  # characters of somebody's text that an error repeats

_BREAK = re.compile(r"\r\n|\r|\n")

# Characters that YAML 1.1 takes for structure, and YAML 1.2, JSON and editors do not: the first
# three would end a line, so that a comment ends early and text is folded; a "?" in brackets would
# begin a key though no space follows. While PyYAML scans, lone surrogates stand for them: the
# source cannot hold one, and no escape that we accept yields one.
_STAND_INS = {0x85: "\udc85", 0x2028: "\udc28", 0x2029: "\udc29"}
_QUESTION = "\udc3f"
_NO_INDICATOR = re.compile(r"(?<=[^ \t\r\n\[{,])\?|\?(?=[^ \t\r\n])")
_STOOD_FOR = {0xDC85: 0x85, 0xDC28: 0x2028, 0xDC29: 0x2029, 0xDC3F: ord("?")}

_BLANKS = re.compile(r"[ \t]+")
_TEXT_RUN = re.compile(r'[^"\\\0 \t\r\n]+')
_PAIR = re.compile(r"\\u[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2}")
_CODE = re.compile(r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8})")

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9A-Fa-f]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_BASES = {"0o": 8, "0x": 16}

# What PyYAML says when it gives up, and what the writer most likely has to do.
_ADVICE = (
    ("'\\t'", "Indent with spaces"),
    ("mapping values are not allowed", "Put text that holds ': ' in quotes"),
    ("could not find expected ':'", "Give the key its ':' on the same line"),
    ("found ':'", "Write a key before the ':', or put the text in quotes"),
    ("<document start>", "Keep one document in a text, and indent what belongs to it"),
    ("<block end>", "Give the entries of one block the same indentation"),
    ("end of stream", "Close the quote"),
    ("<stream end>", "Close the bracket"),
    ("", "Put text that holds special characters in quotes"),
)

_WHOLE = "Write the whole character"
_NO_NUL = "Remove it: no text may hold one"
_EMPTY = ("an empty document", "Write a value; {} is an empty mapping")


class PlainYamlError(ValueError):
    """The text is not plain YAML: where, what was found, what to write instead."""

    def __init__(self, line: int, column: int, found: str, instead: str) -> None:
        super().__init__(line, column, found, instead)
        self.line = line
        self.column = column
        self.found = found
        self.instead = instead

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.found}. {self.instead}"


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in the text, both counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Document:
    """One value, and where each part of it was written.

    Attributes:
        marks: of every mapping entry (at its key), of every list item, and ``()`` for the root.
    """

    value: Value
    marks: Mapping[Path, Mark]

    def mark(self, path: Path) -> Mark:
        """Where ``path`` is, or else the nearest place around it that exists."""
        while path and path not in self.marks:
            path = path[:-1]
        return self.marks[path]


def load(
    source: bytes | str,
    *,
    max_bytes: int = 1024 * 1024,
    max_depth: int = 32,
    max_nodes: int = 100_000,
) -> Document:
    """Read one plain YAML (or JSON) document.

    Args:
        max_bytes: of the text in UTF-8.
        max_depth: collections inside one another.
        max_nodes: keys, scalars and collections together.
    Raises:
        PlainYamlError: whatever the bytes are, the only thing that is raised.
    """
    tree = _Tree(max_depth, max_nodes)
    for event in _events(_text(source, max_bytes)):
        tree.take(event)
    return tree.document()


def _text(source: bytes | str, max_bytes: int) -> str:
    """The characters of ``source`` without its byte order mark, each fit for a YAML text."""
    data = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
    if len(data) > max_bytes:
        found = f"{len(data)} bytes, and at most {max_bytes} are read"
        raise PlainYamlError(1, 1, found, "Split the text, or keep the data in a file of its own")
    if isinstance(source, str):
        text = source.removeprefix("\ufeff")
    else:
        text = source.decode("utf-8-sig", "surrogateescape")
    if unfit := _Yaml12.NON_PRINTABLE.search(text):
        raise _unfit(text, unfit.start(), decoded=isinstance(source, bytes))
    return text


def _unfit(text: str, index: int, *, decoded: bool) -> PlainYamlError:
    """The error for the character at ``index``, which YAML texts do not hold."""
    lines = _BREAK.split(text[:index])
    code = ord(text[index])
    if code == 0:
        found, instead = "a NUL", _NO_NUL
    elif 0xD800 <= code <= 0xDFFF and decoded:
        found, instead = f"byte 0x{code & 0xFF:02X}, which is not UTF-8", "Save the text as UTF-8"
    elif 0xD800 <= code <= 0xDFFF:
        found, instead = f"U+{code:04X}, half of a surrogate pair", _WHOLE
    else:
        found = f"U+{code:04X}, a character that does not print"
        instead = f'Write "\\u{code:04x}" in double quotes'
    return PlainYamlError(len(lines), len(lines[-1]) + 1, found, instead)


class _Yaml12(yaml.BaseLoader):
    """PyYAML's scanner and parser, mended to read YAML 1.2 and JSON.  Nothing is constructed."""

    def check_printable(self, data: str) -> None:
        """Done by ``_text``; the stand-ins would not pass."""

    def fetch_directive(self) -> None:
        """PyYAML skips a directive that it does not know."""
        raise self._refused("a % directive", "Remove it, or put text that begins with % in quotes")

    def stale_possible_simple_keys(self) -> None:
        """A JSON key may be longer than 1024 characters, and its ':' on a later line."""
        key = self.possible_simple_keys.get(self.flow_level)
        newest = self.tokens_taken + len(self.tokens) - 1
        if key and self.flow_level and key.token_number == newest:
            key.index, key.line = self.index, self.line
        super().stale_possible_simple_keys()

    def scan_to_next_token(self) -> None:
        """JSON is often indented with tabs, which PyYAML refuses even in brackets.

        In a block they pass only where no entry begins behind them, so they never indent one.
        """
        super().scan_to_next_token()
        while tabs := _BLANKS.match(self.buffer, self.pointer):
            may_be_entry = self.allow_simple_key and not self.flow_level
            if may_be_entry and self.buffer[tabs.end()] not in "\0\r\n#[{":
                return
            self.forward(len(tabs[0]))
            super().scan_to_next_token()

    def scan_flow_scalar_non_spaces(self, double: bool, start_mark: Any) -> list[str]:
        """In double quotes our own escapes: PyYAML splits surrogate pairs and crashes on some."""
        if not double:
            return super().scan_flow_scalar_non_spaces(double, start_mark)
        chunks: list[str] = []
        while True:
            if run := _TEXT_RUN.match(self.buffer, self.pointer):
                chunks.append(run[0])
                self.forward(len(run[0]))
            elif self.peek() != "\\":
                return chunks
            elif ending := _BREAK.match(self.buffer, self.pointer + 1):
                self.forward(1 + len(ending[0]))
                chunks.extend(self.scan_flow_scalar_breaks(double, start_mark))
            else:
                chunks.append(self._escape())

    def _escape(self) -> str:
        """The one character that the escape at the pointer stands for."""
        if pair := _PAIR.match(self.buffer, self.pointer):
            written = pair[0]
            code = 0x10000 + ((int(written[2:6], 16) & 0x3FF) << 10 | int(written[8:], 16) & 0x3FF)
        elif coded := _CODE.match(self.buffer, self.pointer):
            written = coded[0]
            code = int(written.lstrip("\\xuU"), 16)
        elif known := self.ESCAPE_REPLACEMENTS.get(self.peek(1)):
            written, code = "\\" + self.peek(1), ord(known)
        else:
            raise self._refused("a backslash that begins no escape", "Double it")
        if code == 0:
            raise self._refused(f"{written}, a NUL", _NO_NUL)
        if 0xD800 <= code <= 0xDFFF:
            raise self._refused(f"{written}, half of a surrogate pair", _WHOLE)
        if code > 0x10FFFF:
            raise self._refused(f"{written}, past the last character U+10FFFF", _WHOLE)
        self.forward(len(written))
        return chr(code)

    def _refused(self, found: str, instead: str) -> PlainYamlError:
        return PlainYamlError(self.line + 1, self.column + 1, found, instead)


def _events(text: str) -> Iterator[yaml.Event]:
    """What the parser sees, its own errors told as ours."""
    try:
        text = _NO_INDICATOR.sub(_QUESTION, text.translate(_STAND_INS))
        yield from yaml.parse(text, Loader=_Yaml12)
    except yaml.MarkedYAMLError as error:
        raise _unreadable(error) from error


def _unreadable(error: yaml.MarkedYAMLError) -> PlainYamlError:
    problem = (error.problem or "text that cannot be read").replace(r"\udc3f", "?")
    found = problem[:MAX_SHOWN]
    if error.context and error.context_mark:
        found = f"{found} {error.context} that begins in line {_mark(error.context_mark).line}"
    instead = next(advice for sign, advice in _ADVICE if sign in problem)
    return _refused(_mark(error.problem_mark), found, instead)


@dataclass(slots=True)
class _Open:
    """A collection whose end is still to come; in a mapping ``key`` may wait for its value."""

    value: list[Value] | dict[str, Value]
    path: Path
    key: str = ""
    has_key: bool = False


class _Tree:
    """Grows one document from events, on a stack of its own: depth is never Python's."""

    def __init__(self, max_depth: int, max_nodes: int) -> None:
        self.max_depth = max_depth
        self.max_nodes = max_nodes
        self.nodes = 0
        self.root: Value = None
        self.marks: dict[Path, Mark] = {}
        self.open: list[_Open] = []

    def document(self) -> Document:
        """What has grown, once the events are at their end."""
        if not self.marks:
            raise PlainYamlError(1, 1, *_EMPTY)
        return Document(self.root, MappingProxyType(self.marks))

    def take(self, event: yaml.Event) -> None:
        """Grow by one event."""
        if isinstance(event, yaml.NodeEvent):
            self._node(event, _mark(event.start_mark))
        elif isinstance(event, yaml.CollectionEndEvent):
            self.open.pop()
        elif isinstance(event, yaml.DocumentStartEvent) and self.marks:
            mark = _mark(event.start_mark)
            raise _refused(mark, "a second document", "Keep one document in a text")

    def _node(self, event: yaml.NodeEvent, mark: Mark) -> None:
        self.nodes += 1
        if self.nodes > self.max_nodes:
            raise _refused(mark, f"more than {self.max_nodes} keys and values", "Split the text")
        match event:
            case yaml.AliasEvent(anchor=name):
                raise _refused(mark, f"the alias {_shown(name)}", "Write the value out here")
            case yaml.NodeEvent(anchor=str(name)):
                raise _refused(mark, f"the anchor {_shown(name)}", "Remove it")
            case yaml.ScalarEvent(tag=str(tag)) | yaml.CollectionStartEvent(tag=str(tag)):
                raise _refused(mark, f"the tag {_shown(tag)}", "Remove it; quotes make a string")
        inside = self.open[-1] if self.open else None
        if inside and isinstance(inside.value, dict) and not inside.has_key:
            inside.key, inside.has_key = self._key(event, mark, inside.path), True
        elif isinstance(event, yaml.ScalarEvent):
            self._put(_scalar(event, mark, root=inside is None), mark, inside)
        elif len(self.open) == self.max_depth:
            found = f"more than {self.max_depth} collections inside one another"
            raise _refused(mark, found, "Nest less deeply")
        else:
            value: list[Value] | dict[str, Value]
            value = [] if isinstance(event, yaml.SequenceStartEvent) else {}
            self.open.append(_Open(value, self._put(value, mark, inside)))

    def _key(self, event: yaml.NodeEvent, mark: Mark, path: Path) -> str:
        """The key that ``event`` writes into the mapping at ``path``."""
        if not isinstance(event, yaml.ScalarEvent):
            raise _refused(mark, "a collection as a key", "Write a string as the key")
        key = event.value.translate(_STOOD_FOR)
        if not event.style and key == "<<":
            raise _refused(mark, "the merge key <<", "Write the entries out here")
        if not event.style and not key:
            raise _refused(mark, "an entry without a key", "Write its key before the ':'")
        if first := self.marks.get((*path, key)):
            found = f"the key {_shown(key)} again, first written in line {first.line}"
            raise _refused(mark, found, "Keep one of them")
        self.marks[*path, key] = mark
        return key

    def _put(self, value: Value, mark: Mark, inside: _Open | None) -> Path:
        """Hang ``value`` where it belongs, and say where that is."""
        if inside is None:
            self.root = value
            path: Path = ()
        elif isinstance(inside.value, list):
            path = (*inside.path, len(inside.value))
            inside.value.append(value)
        else:
            path = (*inside.path, inside.key)
            inside.value[inside.key] = value
            inside.has_key = False
        self.marks.setdefault(path, mark)  # an entry already has that of its key
        return path


def _scalar(event: yaml.ScalarEvent, mark: Mark, *, root: bool) -> Scalar:
    """YAML 1.2 core schema: without quotes a few words and numbers are no strings."""
    text = event.value.translate(_STOOD_FOR)
    if event.style:
        return text
    if root and not text:
        raise _refused(mark, *_EMPTY)
    if text in _WORDS:
        return _WORDS[text]
    number = _number(text)
    if number is None:
        return text
    if not isfinite(number) or (isinstance(number, int) and abs(number) > MAX_EXACT):
        found = f"{_shown(text)}, a number that JSON cannot carry exactly"
        raise _refused(mark, found, "Put it in quotes")
    return number


def _number(text: str) -> int | float | None:
    """The number that a plain ``text`` writes, infinite where it is too large to matter."""
    if _INT.fullmatch(text):
        digits = text.lstrip("+-0xo")
        # 2**53 takes 16 digits, in octal 18. Python is slow with many more, and then raises.
        if len(digits) > 18:
            return inf
        number = int(digits or "0", _BASES.get(text[:2], 10))
        return -number if text.startswith("-") else number
    if _FLOAT.fullmatch(text):
        return float(text)
    return inf if _NOT_FINITE.fullmatch(text) else None


def _mark(at: object) -> Mark:
    """PyYAML counts from 0; its types allow for no mark at all, though it always gives one."""
    return Mark(at.line + 1, at.column + 1) if isinstance(at, yaml.Mark) else Mark(1, 1)


def _shown(text: object) -> str:
    """Somebody's text as an error repeats it: short, and safe for a terminal."""
    shown = str(text)
    return repr(shown if len(shown) <= MAX_SHOWN else shown[:MAX_SHOWN] + "...")


def _refused(mark: Mark, found: str, instead: str) -> PlainYamlError:
    return PlainYamlError(mark.line, mark.column, found, instead)
