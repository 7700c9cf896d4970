"""Freezing: under which name a file is staged, and which file may be frozen."""

import re
import unicodedata
from collections.abc import Mapping

from executor.frozen import SlotFile
from executor.manifest import Manifest
from executor.problems import did_you_mean, show_value
from executor.refusal import Refused
from executor.request import FileGiven, SourceFile
from executor.units import show_size

MAX_FILES = 64
MAX_TOTAL = 4 * 2**30
"""Bytes of all files of one action. Verified copies are held in memory while it runs."""
MAX_NAME_BYTES = 200
"""File systems take 255; the rest is room for a suffix of ours."""


def safe_name(name: str) -> str:
    """Give the name that a file called ``name`` is staged under.

    Kept: letters of every script, digits, spaces, marks and signs. Replaced by ``_``: separators,
    control, format (bidirectional, zero-width), private and unassigned characters, bytes that are
    no UTF-8, and a leading dash or dot.
    """
    base = unicodedata.normalize("NFC", name).replace("\\", "/").rsplit("/", 1)[-1]
    kept = "".join("_" if _is_unsafe(character) else character for character in base).strip()
    if not kept or kept[0] in "-.":
        kept = "_" + kept[1:]
    return _fit(kept)


def _is_unsafe(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] == "C" or category in ("Zl", "Zp") or (category == "Zs" and character != " ")


def _fit(name: str) -> str:
    """Shorten a long name in its middle, so that its extension stays."""
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    stem, dot, extension = name.rpartition(".")
    tail = dot + extension if dot and len(extension.encode()) <= 16 else ""
    stem = stem if tail else name
    while len((stem + tail).encode()) > MAX_NAME_BYTES:
        stem = stem[:-1]
    # A cut can end in a space, which a second look would take away.
    return (stem + tail).rstrip()


def assign_names(manifest: Manifest, given: Mapping[str, FileGiven]) -> tuple[SlotFile, ...]:
    """Give each file of a request its slot and its staged name.

    Raises:
        Refused: ``admission.closed-parameters`` for a slot that is unknown, missing or overfull;
            ``freezing.staged-names`` for two files of one name; ``freezing.bounded`` for too many.
    """
    faults = [
        f"unknown file {slot!r} ({did_you_mean(slot, manifest.files)})"
        for slot in sorted(set(given) - set(manifest.files))
    ]
    assigned: list[SlotFile] = []
    for slot, declared in manifest.files.items():
        sources = _sources(given.get(slot, ()))
        if not sources and declared.required:
            faults.append(f"files.{slot}: missing")
        if len(sources) > 1 and not declared.many:
            faults.append(f"files.{slot}: {len(sources)} files where one is expected")
        for source in sources:
            name = safe_name(declared.name or source.name or source.path)
            assigned.append(
                SlotFile(slot, source.path, name, int(declared.max_bytes), declared.line_ends)
            )
    if faults:
        raise Refused(
            "admission.closed-parameters",
            "INVALID_PARAMETERS",
            because=f"The files for {manifest.tool} are not valid: {'; '.join(faults)}.",
            todo="Correct them all and ask again; nothing was started.",
        )
    if len(assigned) > MAX_FILES:
        raise Refused(
            "freezing.bounded",
            "FILE_TOO_LARGE",
            because=f"{len(assigned)} files; at most {MAX_FILES} go with one action.",
            todo="Pack them into one file, or ask in several requests.",
        )
    _refuse_collisions(assigned, manifest)
    return tuple(assigned)


class LineEnds:
    """Looks for a CR or LF that is no part of a CRLF, in a text that comes in pieces."""

    _BARE = re.compile(rb"(?<!\r)\n|\r(?!\n)")

    def __init__(self) -> None:
        self._carried = b""
        self._lines = 1
        self.bare_at: int | None = None
        """The number of the line that ends so."""

    def look(self, piece: bytes) -> None:
        """Look at the next piece."""
        text = self._carried + piece
        # What follows a CR at the end is still to come.
        self._carried = b"\r" if text.endswith(b"\r") else b""
        self._judge(text.removesuffix(b"\r") if self._carried else text)

    def end(self) -> None:
        """Say that nothing more comes."""
        self._judge(self._carried)

    def _judge(self, text: bytes) -> None:
        if self.bare_at is None and (bare := self._BARE.search(text)):
            self.bare_at = self._lines + text.count(b"\n", 0, bare.start())
        self._lines += text.count(b"\n")


def check_line_ends(file: SlotFile, found: LineEnds) -> None:
    """Refuse a line end that some would read as one and others not.

    Raises:
        Refused: ``freezing.line-ends``.
    """
    if found.bare_at is not None:
        raise Refused(
            "freezing.line-ends",
            "BARE_LINE_END",
            because=f"Line {found.bare_at} of {show_value(file.path)} does not end with CRLF: a "
            "reader that takes it for a line end could find there what was never approved.",
            todo="Write the file with CRLF line ends (`unix2dos`; in Python, email.policy.SMTP).",
        )


def check_size(file: SlotFile, size: int) -> None:
    """Refuse a file larger than its slot takes. A sparse file counts as large as it appears.

    Raises:
        Refused: ``freezing.bounded``.
    """
    if size > file.max_bytes:
        raise Refused(
            "freezing.bounded",
            "FILE_TOO_LARGE",
            because=f"{show_value(file.path)} is {size} bytes; files.{file.slot} takes "
            f"{file.max_bytes} ({show_size(file.max_bytes)}).",
            todo="Hand over a smaller file, or let the manifest's max_bytes say more.",
        )


def check_total(size: int) -> None:
    """Refuse files that are too large together.

    Raises:
        Refused: ``freezing.bounded``.
    """
    if size > MAX_TOTAL:
        raise Refused(
            "freezing.bounded",
            "FILE_TOO_LARGE",
            because=f"The files are {size} bytes together; one action takes {MAX_TOTAL} "
            f"({show_size(MAX_TOTAL)}).",
            todo="Ask in several requests.",
        )


def _sources(given: FileGiven) -> list[SourceFile]:
    entries = given if isinstance(given, tuple | list) else (given,)
    return [SourceFile(entry) if isinstance(entry, str) else entry for entry in entries]


def _refuse_collisions(assigned: list[SlotFile], manifest: Manifest) -> None:
    taken: dict[str, str] = {
        _folded(name.split("/")[0]): f"the tool's own {name!r}" for name in manifest.stage
    }
    for file in assigned:
        # Case and Unicode form are folded: some file systems would let one overwrite the other.
        folded = _folded(file.name)
        if folded in taken:
            raise Refused(
                "freezing.staged-names",
                "FILE_NAME_COLLISION",
                because=f"{show_value(file.path)} would be staged as {file.name!r}, like "
                f"{taken[folded]}.",
                todo="Give one of them another name: `{path: ..., name: ...}` in the request.",
            )
        taken[folded] = show_value(file.path)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
