"""Freezing: under which name a file is staged."""

import os
import unicodedata
from itertools import permutations
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from executor import units
from executor.frozen import SlotFile
from executor.manifest import Manifest
from executor.refusal import Refused
from executor.request import FileGiven, SourceFile
from executor.rules import freezing
from executor.rules.freezing import MAX_NAME_BYTES, assign_names, safe_name
from tests.house import House, recorded

ANY_NAME = st.text(
    st.one_of(
        st.characters(),
        st.characters(categories=["Cs", "Cc", "Cf", "Zs", "Zl", "Zp", "Mn", "Co"]),
        st.sampled_from("-./\\ _~e\N{COMBINING ACUTE ACCENT}\udcff"),
    ),
    max_size=300,
)


def manifest(**changes: Any) -> Manifest:
    """Give a manifest with one slot for many files."""
    given: dict[str, Any] = {
        "executor": "manifest/1",
        "tool": "test.names",
        "summary": "Take files.",
        "command": "cat",
        "argv": [],
        "capabilities": [{"name": "compute:pure"}],
        "outcomes": [],
        "files": {"doc": {"many": True, "required": False}},
    }
    return msgspec.convert(given | changes, Manifest, dec_hook=units.parse)


def names(*paths: FileGiven, **changes: Any) -> list[str]:
    """Give the names that files are staged under."""
    return [file.name for file in assign_names(manifest(**changes), {"doc": paths})]  # type: ignore[dict-item]


# rule: freezing.staged-names
@given(ANY_NAME)
@example("a" * 199 + " " + "b" * 30)
@example("-rf")
@example(".bashrc")
@example("...")
@example("")
@example(" ")
@example("a/")
@example("é" * 150 + ".txt")
@example("x" * 190 + ".\N{COMBINING ACUTE ACCENT}" * 20)
def test_whatever_a_file_is_called_it_becomes_one_of_the_staged_names_that_are_safe(
    name: str,
) -> None:
    """A name becomes an argument, a path and a line on the approver's page."""
    safe = safe_name(name)

    assert safe_name(safe) == safe
    assert 1 <= len(safe.encode()) <= MAX_NAME_BYTES
    assert safe == os.path.basename(safe)
    assert "\\" not in safe
    assert safe[0] not in "-. "
    assert safe[-1] != " "
    assert unicodedata.normalize("NFC", safe) == safe
    assert all(
        character == " " or unicodedata.category(character)[0] not in "CZ" for character in safe
    )


# rule: freezing.staged-names
@pytest.mark.parametrize(
    ("given_name", "staged"),
    [
        ("report.txt", "report.txt"),
        ("a b.txt", "a b.txt"),
        ("a_b.txt", "a_b.txt"),
        ("Größe – 漢字 😀.pdf", "Größe – 漢字 😀.pdf"),
        ("it's (1) [2] {3} $x; rm.txt", "it's (1) [2] {3} $x; rm.txt"),
        ("e\N{COMBINING ACUTE ACCENT}.txt", "\N{LATIN SMALL LETTER E WITH ACUTE}.txt"),
        ("in/deep/report.txt", "report.txt"),
        ("C:\\deep\\report.txt", "report.txt"),
        (" report.txt ", "report.txt"),
        ("-rf", "_rf"),
        ("--help", "_-help"),
        (" -rf", "_rf"),
        (".bashrc", "_bashrc"),
        (".", "_"),
        ("..", "_."),
        ("...", "_.."),
        ("a/..", "_."),
        ("", "_"),
        ("a/", "_"),
        ("two\nlines.txt", "two_lines.txt"),
        ("tab\there\r.txt", "tab_here_.txt"),
        ("nul\0.txt", "nul_.txt"),
        ("\udcff.txt", "_.txt"),
        ("half\ud800.txt", "half_.txt"),
        ("fdp\N{RIGHT-TO-LEFT OVERRIDE}txt.exe", "fdp_txt.exe"),
        ("zero\N{ZERO WIDTH SPACE}width", "zero_width"),
        ("\N{BYTE ORDER MARK}bom", "_bom"),
        ("tag\N{TAG LATIN CAPITAL LETTER A}", "tag_"),
        ("line\N{LINE SEPARATOR}s", "line_s"),
        ("wide\N{IDEOGRAPHIC SPACE}s", "wide_s"),
        ("escape\x1b[2K", "escape_[2K"),
        ("x" * 300 + ".txt", "x" * 196 + ".txt"),
        ("x" * 300, "x" * 200),
        ("x" * 100 + "." + "y" * 200, "x" * 100 + "." + "y" * 99),
    ],
)
def test_a_name_keeps_what_people_write_and_loses_what_misleads_among_staged_names(
    given_name: str, staged: str
) -> None:
    """The name is shown to a person and read by a command; both must see the same."""
    assert safe_name(given_name) == staged


COLLIDING = [
    ("a/r.pdf", "b/r.pdf"),
    ("r.pdf", "r.pdf"),
    ("R.txt", "r.txt"),
    ("\N{LATIN SMALL LETTER E WITH ACUTE}.txt", "e\N{COMBINING ACUTE ACCENT}.txt"),
    ("STRASSE.txt", "straße.txt"),
    ("\N{LATIN SMALL LIGATURE FI}le.txt", "file.txt"),
    ("\N{FULLWIDTH LATIN SMALL LETTER A}.txt", "A.txt"),
    ("a\nb.txt", "a_b.txt"),
    ("a\udcffb.txt", "a\udcfeb.txt"),
    ("..", "a/.."),
    ("-x", "_x"),
    (".x", "_x"),
    (" r.pdf", "r.pdf"),
    ("x" * 300, "x" * 301),
]
APART = [
    ("a b.txt", "a_b.txt"),
    ("a.txt", "b.txt"),
    ("a.txt", "a.txt.txt"),
    ("\N{LATIN SMALL LETTER E WITH ACUTE}.txt", "e.txt"),
    ("..", "..."),
    ("a", "\N{CYRILLIC SMALL LETTER A}"),
]


# rule: freezing.staged-names
@pytest.mark.parametrize("pair", COLLIDING)
def test_two_files_of_one_name_are_refused_by_staged_names_in_either_order(
    pair: tuple[str, str],
) -> None:
    """One overwrites the other, and the count still looks right."""
    for one, other in permutations(pair):
        assert len(names(one)) == 1
        assert names(one, SourceFile(other, name="another")) == [safe_name(one), "another"]

        with pytest.raises(Refused) as no:
            names(one, other)

        assert (no.value.rule, no.value.code) == ("freezing.staged-names", "FILE_NAME_COLLISION")
        assert repr(one) in no.value.because or "characters" in no.value.because
        assert str(no.value).isprintable()
        assert "name:" in no.value.todo


# rule: freezing.staged-names
@pytest.mark.parametrize("pair", APART)
def test_two_files_of_different_names_keep_their_own_staged_names(pair: tuple[str, str]) -> None:
    """Too strict would be a fault as well."""
    assert len(set(names(*pair))) == 2


# rule: freezing.staged-names
@pytest.mark.parametrize(
    ("stage", "path", "collides"),
    [
        ({"conf": "x"}, "conf", True),
        ({"conf/": ""}, "CONF", True),
        ({"conf/deep/a.txt": "x"}, "conf", True),
        ({"conf/deep/a.txt": "x"}, "a.txt", False),
        ({"conf": "x"}, "conf.txt", False),
    ],
)
def test_a_file_named_like_the_tools_own_is_refused_by_staged_names(
    stage: dict[str, str], path: str, collides: bool
) -> None:
    """The tool's own configuration must not be replaced by an attachment."""
    if not collides:
        assert names(path, stage=stage) == [path]
        return
    assert names("another", stage=stage) == ["another"]

    with pytest.raises(Refused) as no:
        names(path, stage=stage)

    assert no.value.code == "FILE_NAME_COLLISION"
    assert "the tool's own" in no.value.because


# rule: freezing.staged-names
def test_the_name_comes_from_the_manifest_then_the_request_then_the_path_into_staged_names() -> (
    None
):
    """A tool that names its file relies on that name; all of them end up safe."""
    slot = {"doc": {"name": "fixed.txt"}}
    plain: dict[str, Any] = {"doc": {}}

    def one(files: dict[str, Any], source: FileGiven) -> str:
        return assign_names(manifest(files=files), {"doc": source})[0].name

    assert one(plain, "in/a.txt") == "a.txt"
    assert one(slot, "in/a.txt") == "fixed.txt"
    assert one(slot, SourceFile("in/a.txt", name="mine.txt")) == "fixed.txt"
    assert one(plain, SourceFile("in/a.txt", name="mine.txt")) == "mine.txt"
    assert one(plain, SourceFile("in/a.txt", name="../../-x\n")) == "_x_"


# rule: freezing.staged-names
def test_files_of_different_slots_are_refused_for_one_name_by_staged_names() -> None:
    """They lie side by side in one directory."""
    slots: dict[str, Any] = {"doc": {}, "other": {}}

    with pytest.raises(Refused) as no:
        assign_names(manifest(files=slots), {"doc": "a/r.pdf", "other": "b/R.PDF"})

    assert no.value.code == "FILE_NAME_COLLISION"


# rule: freezing.bounded
def test_one_file_too_many_is_refused_by_bounded() -> None:
    """Sixty-four go; the sixty-fifth stops all of them."""
    most = [f"{number}.txt" for number in range(freezing.MAX_FILES)]
    assert len(names(*most)) == freezing.MAX_FILES == 64

    with pytest.raises(Refused) as no:
        names(*most, "one more.txt")

    assert (no.value.rule, no.value.code) == ("freezing.bounded", "FILE_TOO_LARGE")
    assert "65 files" in no.value.because


# rule: freezing.staged-names
def test_a_slot_keeps_its_limit_and_its_path_beside_the_staged_names() -> None:
    """The file that is opened is the one that was named."""
    value = manifest(files={"doc": {"max_bytes": "10 B"}})

    assert assign_names(value, {"doc": "in/-a"}) == (SlotFile("doc", "in/-a", "_a", 10),)


# rule: freezing.staged-names
@pytest.mark.parametrize("pair", [*COLLIDING, *APART])
async def test_each_content_arrives_under_the_name_shown_or_none_does_for_staged_names(
    house: House, namespaced: None, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 14, with real files and a real command: two attachments, one name."""
    monkeypatch.chdir(house.root)
    house.manifest(files={"doc": {"many": True}})
    sources = []
    for index, name in enumerate(pair):
        if len(os.fsencode(name)) > 255 or name.endswith(".."):
            name = f"plain{index}"  # no file can be called so; the request's own name can
            sources.append(SourceFile(f"{index}/{name}", name=pair[index][:200]))
        else:
            sources.append(SourceFile(f"{index}/{name}", name=None))
        path = house.root / str(index) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"content {index}")
    async with house.open() as executor:
        request = house.request({"record": "stdout"}, files={"doc": tuple(sources)})
        if pair in COLLIDING:
            with pytest.raises(Refused) as no:
                await executor.run(request)
            assert no.value.code == "FILE_NAME_COLLISION"
            assert no.value.stage == "admit"  # before anybody is asked
            assert list((house.state / "blobs").iterdir()) == []
            return
        receipt = await executor.run(request)

    assert receipt.action is not None
    shown = [file.name for file in receipt.action.files]
    arrived = {file["path"]: file["content"] for file in recorded(receipt)["files"]}
    assert arrived == {shown[0]: "content 0", shown[1]: "content 1"}


# rule: freezing.staged-names
@pytest.mark.parametrize("name", ["\udcff.txt", "two\nlines", "fdp\N{RIGHT-TO-LEFT OVERRIDE}txt"])
async def test_an_odd_name_is_told_escaped_and_staged_safely_by_staged_names(
    house: House, namespaced: None, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is no text must not break the record, nor the screen it is shown on."""
    monkeypatch.chdir(house.root)
    house.manifest(files={"doc": {"many": True}})
    house.file(name, "content")
    async with house.open() as executor:
        receipt = await executor.run(house.request({"record": "stdout"}, files={"doc": (name,)}))
        with pytest.raises(Refused) as no:
            await executor.run(house.request(files={"doc": (f"{name}.missing",)}))

    assert receipt.status == "delivered"
    assert [file["path"] for file in recorded(receipt)["files"]] == [safe_name(name)]
    assert no.value.code == "FILE_NOT_READABLE"
    assert str(no.value).isprintable()
