"""Plain YAML: every refusal beside its allowed twin, the same text with the one fact put right."""

import json
import pickle
import re
import tracemalloc
from collections.abc import Iterator
from inspect import signature
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from executor.plain_yaml import Document, Mark, Path, PlainYamlError, Value, load

EXACT = 2**53 - 1


def refused(source: bytes | str, **limits: int) -> PlainYamlError:
    with pytest.raises(PlainYamlError) as no:
        load(source, **limits)
    return no.value


def at(error: PlainYamlError) -> tuple[int, int]:
    return error.line, error.column


def value(source: bytes | str) -> Value:
    return load(source).value


# Keys


@pytest.mark.parametrize(
    ("twin", "twice", "place", "first"),
    [
        ("deny: [push]\nallow: []\ndemo: []", "deny: [push]\nallow: []\ndeny: []", (3, 1), 1),
        ("a:\n- b: 1\n  c: 2", "a:\n- b: 1\n  b: 2", (3, 3), 2),
        ("a: {b: {c: 1, d: 2}}", "a: {b: {c: 1, c: 2}}", (1, 15), 1),
        ('x: 1\n"1": 2', 'x: 1\n1: 2\n"1": 3', (3, 1), 2),
        ('{"a": 1,\n"\\u0062": 2}', '{"a": 1,\n"\\u0061": 2}', (2, 1), 1),
        ("? a\n: 1\n? b\n: 2", "? a\n: 1\n? a\n: 2", (3, 3), 1),
    ],
    ids=["top", "nested", "in-brackets", "plain-and-quoted", "escaped", "question-mark"],
)
def test_plain_yaml_key_written_twice_is_refused_with_both_lines(
    twin: str, twice: str, place: tuple[int, int], first: int
) -> None:
    """Whoever reads the first ``deny`` must not be overruled by one further down."""
    load(twin)

    no = refused(twice)

    assert at(no) == place
    assert "again" in no.found
    assert no.found.endswith(f"line {first}")
    assert no.instead == "Keep one of them"


def test_plain_yaml_same_key_in_two_mappings_is_no_repetition() -> None:
    """Every entry of a list has a ``name``."""
    assert value("- {a: 1}\n- {a: 2}") == [{"a": 1}, {"a": 2}]
    assert value("a: {a: {a: 1}}") == {"a": {"a": {"a": 1}}}


def test_plain_yaml_merge_key_is_refused_unless_quoted() -> None:
    """A merge adds entries that no reader sees at that place."""
    assert value('"<<": {deny: []}') == {"<<": {"deny": []}}
    assert value("a: <<") == {"a": "<<"}

    no = refused("a: 1\n<<: {deny: []}")

    assert at(no) == (2, 1)
    assert "merge key" in no.found


@pytest.mark.parametrize(
    ("twin", "text", "place"),
    [
        ("? a\n: 1", "? [a]\n: 1", (1, 3)),
        ('"[a]": 1', "[a]: 1", (1, 1)),
        ('{"{a: 1}": 2}', "{{a: 1}: 2}", (1, 2)),
    ],
)
def test_plain_yaml_collection_as_a_key_is_refused(
    twin: str, text: str, place: tuple[int, int]
) -> None:
    """JSON has no such key, so nothing behind this loader could hold it."""
    load(twin)

    no = refused(text)

    assert at(no) == place
    assert "collection as a key" in no.found


@pytest.mark.parametrize("text", ["a: 1\n?\n: 2", "{a: 1, ? : 2}"])
def test_plain_yaml_entry_without_a_key_is_refused_unless_it_says_so(text: str) -> None:
    """A key that got lost must not become an entry named nothing."""
    assert value('{a: 1, "": 2}') == {"a": 1, "": 2}
    assert "without a key" in refused(text).found


def test_plain_yaml_plain_keys_are_strings_as_written() -> None:
    """A country list keyed ``no``, an exit code keyed ``67``: neither may change its name."""
    text = "no: a\non: b\n67: c\n1.50: d\nnull: e\ntrue: f\n0x1F: g\n2026-01-01: h\n'quoted': i"
    assert value(text) == {
        "no": "a",
        "on": "b",
        "67": "c",
        "1.50": "d",
        "null": "e",
        "true": "f",
        "0x1F": "g",
        "2026-01-01": "h",
        "quoted": "i",
    }


# Anchors, aliases, tags, documents, directives


def bomb() -> str:
    """Nine anchors of nine aliases each: 300 bytes, and 387 million strings once walked."""
    names = "abcdefghi"
    lines = [f"a: &a [{', '.join(['x'] * 9)}]"]
    for below, name in pairwise(names):
        lines.append(f"{name}: &{name} [{', '.join([f'*{below}'] * 9)}]")
    return "\n".join(lines)


def test_plain_yaml_alias_bomb_is_refused_without_expansion() -> None:
    """Case 56: it is refused for being an alias, not once the memory is gone."""
    assert value(re.sub("&. ", "", bomb()).replace("*", "")) == {
        name: [below] * 9 for below, name in pairwise("xabcdefghi")
    }

    tracemalloc.start()
    try:
        no = refused(bomb())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert at(no) == (1, 4)
    assert no.found == "the anchor 'a'"
    assert peak < 1_000_000


@pytest.mark.parametrize(
    ("twin", "text", "place", "found"),
    [
        ('a: "&x 1"', "a: &x 1", (1, 4), "the anchor 'x'"),
        ("a:\n- 1", "a:\n- &x 1", (2, 3), "the anchor 'x'"),
        ("a: 1\nb: {}", "a: 1\nb: &x {}", (2, 4), "the anchor 'x'"),
        ("a: 1", "&x a: 1", (1, 1), "the anchor 'x'"),
        ("a: [a]", "a: &a [*a]", (1, 4), "the anchor 'a'"),
        ('a: "*x"', "a: *x", (1, 4), "the alias 'x'"),
        ("- 1\n- '*x'", "- 1\n- *x", (2, 3), "the alias 'x'"),
        ('"*x" : 1', "*x : 1", (1, 1), "the alias 'x'"),
    ],
)
def test_plain_yaml_anchor_or_alias_is_refused_unless_quoted(
    twin: str, text: str, place: tuple[int, int], found: str
) -> None:
    """What is approved stands where it is read, once; and there is nothing to expand."""
    load(twin)

    no = refused(text)

    assert at(no) == place
    assert no.found == found


@pytest.mark.parametrize(
    ("twin", "text", "place"),
    [
        ('a: ["id"]', 'a: !!python/object/apply:os.system ["id"]', (1, 4)),
        ('a: "1"', "a: !!str 1", (1, 4)),
        ("a: {b: 1}", "a: !!map {b: 1}", (1, 4)),
        ("- 1\n- 2", "- 1\n- !mine 2", (2, 3)),
        ("a: 1", "a: ! 1", (1, 4)),
        ("a: 1", "!<tag:yaml.org,2002:str> a: 1", (1, 1)),
        ("a:", "a: !!null", (1, 4)),
    ],
)
def test_plain_yaml_any_explicit_tag_is_refused(
    twin: str, text: str, place: tuple[int, int]
) -> None:
    """Tags build objects and change types behind the schema's back."""
    load(twin)

    no = refused(text)

    assert at(no) == place
    assert no.found.startswith("the tag ")


@pytest.mark.parametrize(
    ("twin", "text", "place"),
    [
        ("a: 1\n...\n", "a: 1\n---\nb: 2", (2, 1)),
        ("---\na: 1", "---\na: 1\n---\n", (3, 1)),
        ("a: 1\n# b", "a: 1\n...\n---\nb: 2", (3, 1)),
    ],
)
def test_plain_yaml_second_document_is_refused_even_if_empty(
    twin: str, text: str, place: tuple[int, int]
) -> None:
    """One reader takes the first document, another the last."""
    assert value(twin) == {"a": 1}

    no = refused(text)

    assert at(no) == place
    assert no.found == "a second document"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", (1, 1)),
        ("\n\n", (1, 1)),
        ("# only words", (1, 1)),
        ("---\n", (2, 1)),
        ("--- #", (1, 5)),
    ],
)
def test_plain_yaml_empty_document_is_refused_and_a_written_null_is_not(
    text: str, place: tuple[int, int]
) -> None:
    """A policy file cut down to nothing must not load as a policy with nothing in it."""
    assert value("--- ~") is None
    assert value("''") == ""

    no = refused(text)

    assert no.found == "an empty document"
    assert no.line == place[0]


@pytest.mark.parametrize(
    "line", ["%YAML 1.2", "%YAML 1.1", "%TAG ! tag:example.org,2026:", "%UNKNOWN x", "%"]
)
def test_plain_yaml_directive_is_refused_and_the_same_line_in_quotes_is_not(line: str) -> None:
    """``%YAML 1.1`` asks for another language than the one we promise."""
    assert value(f"---\n- '{line}'") == [line]

    no = refused(f"# one\n{line}\n---\na: 1")

    assert at(no) == (2, 1)
    assert "directive" in no.found


# What a scalar means


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("null", None),
        ("Null", None),
        ("NULL", None),
        ("~", None),
        ("", None),
        ("true", True),
        ("True", True),
        ("TRUE", True),
        ("false", False),
        ("False", False),
        ("FALSE", False),
        ("0", 0),
        ("-0", 0),
        ("+12", 12),
        ("-7", -7),
        ("012", 12),
        ("0o17", 15),
        ("0x1aF", 431),
        ("1.5", 1.5),
        ("-.5", -0.5),
        ("+1.", 1.0),
        ("1e3", 1000.0),
        ("1E-2", 0.01),
        ("6.02e+23", 6.02e23),
    ],
)
def test_plain_yaml_core_schema_words_and_numbers_are_values(text: str, meant: object) -> None:
    """A deadline of 60 is a number, and the type is part of what it means."""
    assert repr(value(f"- {text}")) == repr([meant])


@pytest.mark.parametrize(
    "text",
    [
        *("no", "No", "NO", "yes", "on", "off", "y", "n", "nULL", "tRUE", "None"),
        *("1_000", "12:30:45", "1:30", "2026-01-01", "2026-01-01T10:00:00Z", "0b101", "-0x1F"),
        *(
            "0o8",
            "0xG",
            "1e",
            "1e+",
            ".",
            "+",
            "-x",
            "1.2.3",
            "inf",
            "NaN",
            ".Nan",
            "+.nan",
            "=",
            "<<",
        ),
        *("1 000", "\u0661", "\uff11", "http://x/?a=1&b", "a:b", "a#b", "C:\\x"),
    ],
)
def test_plain_yaml_everything_else_stays_a_string(text: str) -> None:
    """The country ``no`` and the version ``1_000`` are what somebody typed."""
    assert value(f"- {text}") == [text]


@pytest.mark.parametrize("text", ["null", "true", "12", "0x1F", "1.5", ".inf", "", "~", "9" * 20])
def test_plain_yaml_quoted_and_block_scalars_are_always_strings(text: str) -> None:
    """Quotes are what every refusal of a number tells people to write."""
    assert value(f'- "{text}"') == [text]
    assert value(f"- '{text}'") == [text]
    assert value(f"- |-\n  {text}\n") == [text]
    assert value(f"- >-\n  {text}\n") == [text]


@pytest.mark.parametrize(
    ("fits", "text"),
    [
        (str(EXACT), str(EXACT + 1)),
        (str(-EXACT), str(-EXACT - 1)),
        (hex(EXACT), hex(EXACT + 1)),
        (oct(EXACT), oct(EXACT + 1)),
        ("0" * 5000 + "1", "1" + "0" * 5000),
        ("0x" + "0" * 5000 + "1", "0x1" + "0" * 5000),
        ("1.7976931348623157e308", "1e309"),
        ("-1.0", "-1e999"),
        ("'.inf'", ".inf"),
        ("'-.Inf'", "-.Inf"),
        ("'+.INF'", "+.INF"),
        ("'.nan'", ".nan"),
        ("'.NaN'", ".NaN"),
        ("'.NAN'", ".NAN"),
    ],
)
def test_plain_yaml_number_that_json_cannot_carry_is_refused(fits: str, text: str) -> None:
    """The digest is over JSON: two amounts that become one double are one approval."""
    load(f"a: 1\nb: {fits}")

    no = refused(f"a: 1\nb: {text}")

    assert at(no) == (2, 4)
    assert "cannot carry exactly" in no.found
    assert no.instead == "Put it in quotes"
    assert value(f"b: '{text}'") == {"b": text}


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (r'"\""', '"'),
        (r'"\\"', "\\"),
        (r'"\/"', "/"),
        (r'"\b\f\n\r\t"', "\b\f\n\r\t"),
        (r'"\u00e9\u00E9"', "éé"),
        (r'"\ud83d\ude00"', "\U0001f600"),
        (r'"\uD83D\uDE00"', "\U0001f600"),
        (r'"\ud800\udc00\udbff\udfff"', "\U00010000\U0010ffff"),
        (r'"\\ud83d"', r"\ud83d"),
        (r'"\udbff\udfff\u0041"', "\U0010ffffA"),
        (r'"\x41\U0001F600\e\a\v\_\N\L\P\ "', "A\U0001f600\x1b\a\v\xa0\x85\u2028\u2029 "),
        ('"a\\\n   b"', "ab"),
        ('"a\\\r\n\n b"', "a\nb"),
        ("\"a 'b' c\"", "a 'b' c"),
    ],
)
def test_plain_yaml_escapes_mean_what_json_and_yaml_say(text: str, meant: str) -> None:
    """Every emoji in a JSON request is a surrogate pair; PyYAML makes two halves of it."""
    assert value(text) == meant
    assert value(f"{{a: {text}}}") == {"a": meant}


@pytest.mark.parametrize(
    ("twin", "text", "found"),
    [
        (r"\ud83d\ude00", r"\ud800", r"\ud800, half"),
        (r"\ud83d\ude00", r"\ude00\ud83d", r"\ude00, half"),
        (r"\ud83d\ude00", r"\ud83d\u0041", r"\ud83d, half"),
        (r"\ud83d\ude00", r"\ud83d\ud83d", r"\ud83d, half"),
        (r"\ud83d\ude00", "\\ud83d\\\n\\ude00", r"\ud83d, half"),
        (r"\U0001f600", r"\U0000d83d\U0000de00", r"\U0000d83d, half"),
        (r"\ud83d\ude00", r"\udc85", r"\udc85, half"),
        (r"\U0010ffff", r"\U00110000", r"\U00110000, past"),
        (r"\U0010ffff", r"\Uffffffff", r"\Uffffffff, past"),
        (r"\u0001", r"\u0000", r"\u0000, a NUL"),
        (r"\x01", r"\x00", r"\x00, a NUL"),
        (r"\U00000001", r"\U00000000", r"\U00000000, a NUL"),
        ("0", r"\0", r"\0, a NUL"),
        (r"\\d", r"\d", "no escape"),
        (r"\u0012", r"\u12", "no escape"),
    ],
)
def test_plain_yaml_escape_of_no_character_is_refused(twin: str, text: str, found: str) -> None:
    """A lone surrogate cannot be written as UTF-8, nor a NUL into argv: say so at the door."""
    load(f'- 1\n- "ab{twin}"')

    no = refused(f'- 1\n- "ab{text}"')

    assert at(no) == (2, 6)
    assert found in no.found
    assert "NUL" not in found or no.instead == "Remove it: no text may hold one"


def test_plain_yaml_half_a_character_in_a_key_is_refused() -> None:
    """Keys become names in JSON too."""
    assert value(r'{"\ud83d\ude00": 1}') == {"\U0001f600": 1}
    refused(r'{"\ud83d": 1}')
    refused(r'{"a\u0000": 1}')


# Characters and bytes


@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_plain_yaml_byte_order_mark_at_the_start_is_no_part_of_the_text(bom: str) -> None:
    """Editors on Windows write one, and the first key would carry it."""
    for source in (f"{bom}a: 1\nb: 2", f"{bom}a: 1\nb: 2".encode()):
        read = load(source)
        assert read.value == {"a": 1, "b": 2}
        assert read.mark(("a",)) == Mark(1, 1)
    assert at(refused(f"{bom}a: \x07")) == (1, 4)
    assert at(refused(f"{bom}a: \x07".encode())) == (1, 4)


@pytest.mark.parametrize(
    ("source", "place", "byte"),
    [
        (b"a: 1\nb: \xff", (2, 4), "0xFF"),
        (b"a: 1\r\nb: \xc3\xa9\xe9", (2, 5), "0xE9"),
        (b"\xef\xbb\xbfa: \x80", (1, 4), "0x80"),
        ("a: é".encode("latin-1"), (1, 4), "0xE9"),
        ("a: 1".encode("utf-16"), (1, 1), "0xFF"),
        (b"a: \xed\xa0\x80", (1, 4), "0xED"),
        (b"a: \xc0\xaf", (1, 4), "0xC0"),
    ],
)
def test_plain_yaml_bytes_that_are_not_utf8_are_refused(
    source: bytes, place: tuple[int, int], byte: str
) -> None:
    """In another encoding the same bytes are another text."""
    assert value("a: é😀".encode()) == {"a": "é😀"}

    no = refused(source)

    assert at(no) == place
    assert no.found == f"byte {byte}, which is not UTF-8"


@pytest.mark.parametrize(
    ("character", "found"),
    [
        ("\0", "a NUL"),
        ("\x07", "U+0007"),
        ("\x1b", "U+001B"),
        ("\x7f", "U+007F"),
        ("\x9b", "U+009B"),
        ("\ufffe", "U+FFFE"),
        ("\ud800", "U+D800, half"),
        ("\udc85", "U+DC85, half"),
    ],
)
@pytest.mark.parametrize("around", ["a: 1\nb: '{}'", "a: 1\n# {}", "a: 1\rb: {}"])
def test_plain_yaml_character_that_does_not_print_is_refused_anywhere(
    character: str, found: str, around: str
) -> None:
    """A terminal obeys some of them, so a reviewer would not see the text that is loaded."""
    load(around.format("x"))

    no = refused(around.format(character))

    assert at(no) == (2, around.split("1")[1].index("{"))
    assert no.found.startswith(found)


def test_plain_yaml_escape_that_the_refusal_advises_is_allowed() -> None:
    """Advice that does not work is worse than none."""
    assert refused('"\x7f"').instead == r'Write "\u007f" in double quotes'
    assert value(r'"\u007f"') == "\x7f"


@pytest.mark.parametrize("separator", ["\x85", "\u2028", "\u2029"])
def test_plain_yaml_line_separators_of_yaml_1_1_end_no_line(separator: str) -> None:
    """YAML 1.1 ends a comment there: a reviewer sees a comment, the loader an entry."""
    assert value(f"# words{separator}deny: []\nb: 1") == {"b": 1}
    assert value(f"a: x{separator}b") == {"a": f"x{separator}b"}
    assert value(f'"a {separator} b"') == f"a {separator} b"
    assert value(f"'a {separator} b'") == f"a {separator} b"
    assert value(f"|\n  a{separator}b\n") == f"a{separator}b\n"
    assert load(f'["{separator}",\n2]').mark((1,)) == Mark(2, 1)

    assert value("# words\ndeny: []\nb: 1") == {"deny": [], "b": 1}


# JSON texts that PyYAML reads otherwise, or not at all


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ('{\n\t"a": [\n\t\t1,\t2\t]\n\t}\n', {"a": [1, 2]}),
        ('\t{"a": 1}\t\n\t\n', {"a": 1}),
        ("\r\n \t[1]\t# end", [1]),
        ("a:\t1\t# one\n\t# two\n\t\nb: 2", {"a": 1, "b": 2}),
        ('{"a"\n:1,"b" :2,\n"c":\n3}', {"a": 1, "b": 2, "c": 3}),
        (json.dumps({"k" * 5000: ["v" * 5000]}), {"k" * 5000: ["v" * 5000]}),
        ('{"a":{"b":[]},"c":-1.5e-7}', {"a": {"b": []}, "c": -1.5e-7}),
    ],
)
def test_plain_yaml_json_in_any_layout_is_read(text: str, meant: Value) -> None:
    """A request may be JSON, laid out by whichever program wrote it."""
    assert value(text) == meant


@pytest.mark.parametrize(
    ("twin", "tabbed", "place"),
    [
        ("a:\n  b: 1", "a:\n\tb: 1", (2, 1)),
        ("- a\n- b", "- a\n-\tb", (2, 2)),
        ("a: 1\n b", "a: 1\n\tb", (2, 1)),
        ("a:\n  - 1", "a:\n\t- 1", (2, 1)),
        ("a: 1", "\ta: 1", (1, 1)),
    ],
)
def test_plain_yaml_tab_never_indents_a_block(
    twin: str, tabbed: str, place: tuple[int, int]
) -> None:
    """How deep a tab reaches is the editor's opinion."""
    load(twin)

    no = refused(tabbed)

    assert at(no) == place
    assert no.instead == "Indent with spaces"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("[http://x/?q=1, a?, b]", ["http://x/?q=1", "a?", "b"]),
        ("[?a]", ["?a"]),
        ("[is it? yes, or ?]", ["is it? yes", "or ?"]),
        ("{?a: 1}", {"?a": 1}),
        ("{title: Are you sure?}", {"title": "Are you sure?"}),
        ("{? a : 1, ? b : 2}", {"a": 1, "b": 2}),
        ("a?: x?\n? b\n: '?'\nc: |\n  ? d\n", {"a?": "x?", "b": "?", "c": "? d\n"}),
    ],
)
def test_plain_yaml_question_mark_begins_a_key_only_before_a_space(text: str, meant: Value) -> None:
    """``[?a]`` is a list of one string; PyYAML quietly makes a mapping of it."""
    assert value(text) == meant


# Limits


def test_plain_yaml_too_many_bytes_are_refused_before_they_are_read() -> None:
    """The limit is of bytes, or a text of wide characters would be four times as long."""
    text = "- " + "é" * 49
    assert len(text.encode()) == 100
    load(text, max_bytes=100)
    load(text.encode(), max_bytes=100)

    for source in (text, text.encode(), "\0" * 100):
        no = refused(source, max_bytes=99)
        assert at(no) == (1, 1)
        assert no.found == "100 bytes, and at most 99 are read"


def test_plain_yaml_the_limits_hold_when_nobody_sets_them() -> None:
    """A guard that someone must remember to wire is a guard that is off."""
    mebibyte = 1024 * 1024
    load('"' + "x" * (mebibyte - 2) + '"')
    assert "bytes" in refused('"' + "x" * (mebibyte - 1) + '"').found

    load("[" * 32 + "]" * 32)
    assert "32 collections" in refused("[" * 33 + "]" * 33).found

    # Reading that many takes 5 s; that the limit holds is shown with a smaller one.
    assert signature(load).parameters["max_nodes"].default == 100_000


@pytest.mark.parametrize(
    ("fits", "deeper", "place"),
    [
        ("[[[1]]]", "[[[[1]]]]", (1, 4)),
        ("{a: {b: {c: 1}}}", "{a: {b: {c: {}}}}", (1, 13)),
        ("a:\n  b:\n  - 1", "a:\n  b:\n  - - 1", (3, 5)),
        ("[[[], [], []], []]", "[[[], [], [[]]], []]", (1, 12)),
    ],
)
def test_plain_yaml_too_deep_is_refused_where_it_gets_too_deep(
    fits: str, deeper: str, place: tuple[int, int]
) -> None:
    """Whatever walks the value later may use Python's stack."""
    load(fits, max_depth=3)

    no = refused(deeper, max_depth=3)

    assert at(no) == place
    assert no.found == "more than 3 collections inside one another"


def test_plain_yaml_depth_uses_no_python_stack() -> None:
    """A higher limit must give an error or a value, never a crash."""
    deep = load("- " * 3000 + "x", max_depth=3000).value
    for _ in range(3000):
        assert isinstance(deep, list)
        [deep] = deep
    assert deep == "x"


def test_plain_yaml_too_many_nodes_are_refused_where_they_get_too_many() -> None:
    """A megabyte of commas would be a hundred megabytes of objects; keys count as well."""
    load("a: [1, 2]\nb: 3", max_nodes=7)

    no = refused("a: [1, 2]\nb: 3", max_nodes=6)

    assert at(no) == (2, 4)
    assert no.found == "more than 6 keys and values"


# Places


def test_plain_yaml_marks_are_at_keys_at_items_and_at_the_root() -> None:
    """Errors of the schema are told by line; a value on a later line belongs to its key."""
    read = load("# words\na:\n  - 1\n  -\n    b: x\n'c': {d:\n  2, e: [[3]]}\n")

    assert dict(read.marks) == {
        (): Mark(2, 1),
        ("a",): Mark(2, 1),
        ("a", 0): Mark(3, 5),
        ("a", 1): Mark(5, 5),
        ("a", 1, "b"): Mark(5, 5),
        ("c",): Mark(6, 1),
        ("c", "d"): Mark(6, 7),
        ("c", "e"): Mark(7, 6),
        ("c", "e", 0): Mark(7, 10),
        ("c", "e", 0, 0): Mark(7, 11),
    }


def test_plain_yaml_place_of_something_missing_is_the_nearest_around_it() -> None:
    """``parameters.to`` is missing: the reader wants to be led to ``parameters``."""
    read = load("# words\n\nparameters:\n- {from: a}\n")

    assert read.mark(("parameters", 0, "from")) == Mark(4, 4)
    assert read.mark(("parameters", 0, "to", "name")) == Mark(4, 3)
    assert read.mark(("parameters", 1)) == Mark(3, 1)
    assert read.mark(("parameters", "0")) == Mark(3, 1)
    assert read.mark(("files",)) == Mark(3, 1)


def test_plain_yaml_document_cannot_be_given_other_marks() -> None:
    """Values flow through the gate frozen."""
    read = load("a: 1")
    with pytest.raises(TypeError):
        read.marks[()] = Mark(9, 9)  # type: ignore[index]
    with pytest.raises(AttributeError):
        read.value = 2  # type: ignore[misc]


# Errors


@pytest.mark.parametrize(
    ("twin", "text", "place", "instead"),
    [
        ("a: 1\nb: 'c: d'", "a: 1\nb: c: d", (2, 5), "Put text that holds ': ' in quotes"),
        ("a: 1\nb:\nc: 2", "a: 1\nb\nc: 2", (3, 1), "Give the key its ':' on the same line"),
        ("[a, '::1']", "[a, ::1]", (1, 5), "Write a key before the ':'"),
        ("a: 1\nb: 2", ": 1\nb: 2", (1, 1), "Write a key before the ':'"),
        ("a: 1\nb: 2", "a: 1\n...\nb: 2", (3, 1), "Keep one document"),
        ("- a: 1\n  b: 2", "- a: 1\n b: 2", (2, 2), "same indentation"),
        ("a: 'x'", "a: 'x", (1, 6), "Close the quote"),
        ("[1, 2]", "[1, 2", (1, 6), "Close the bracket"),
        ("{a: 1}", "{a: 1", (1, 6), "Close the bracket"),
        ("a: '@x'", "a: @x", (1, 4), "in quotes"),
        ("a: '*?'", "a: *?", (1, 5), "in quotes"),
        ("a: '!e!x'", "a: !e!x y", (1, 4), "in quotes"),
        ("a: {b: 1}", "a: {b: 1]", (1, 9), "in quotes"),
    ],
)
def test_plain_yaml_error_of_the_parser_says_where_and_what_to_write(
    twin: str, text: str, place: tuple[int, int], instead: str
) -> None:
    """Reviewers write YAML without Python; a stack trace is no answer."""
    load(twin)

    no = refused(text)

    assert at(no) == place
    assert no.found
    assert "\\udc" not in no.found
    assert instead in no.instead


def test_plain_yaml_error_of_the_parser_says_where_the_open_thing_begins() -> None:
    """The end of the file is where it shows, not where the bracket is missing."""
    no = refused("a: 1\nb: [1,\n  2\n")
    assert no.line == 4
    assert no.found.endswith("while parsing a flow sequence that begins in line 2")


def test_plain_yaml_error_reads_as_place_fact_advice() -> None:
    """Every caller prints it as it is, and other processes may hand it on."""
    no = refused("a: 1\na: 2")

    assert isinstance(no, ValueError)
    assert str(no) == (
        "line 2, column 1: the key 'a' again, first written in line 1. Keep one of them"
    )
    assert str(pickle.loads(pickle.dumps(no))) == str(no)  # noqa: S301 our own bytes


def test_plain_yaml_error_repeats_foreign_text_short_and_harmless() -> None:
    """A key of a megabyte, or one that moves the cursor, is not for a terminal."""
    key = "\\e[2J" + "k" * 500
    no = refused(f'{{"{key}": 1, "{key}": 2}}')
    assert r"\x1b[2J" in no.found
    assert len(no.found) < 200
    assert len(refused(f"!{'h' * 5000}!x a").found) < 200
    assert "...'" not in refused(f"{{{'k' * 80}: 1, {'k' * 80}: 2}}").found


# Properties

CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
# What YAML wants escaped, json.dumps writes as it is unless it escapes all that is not ASCII.
PRINTABLE = st.characters(
    exclude_categories=["Cs", "Cc"],
    exclude_characters="\ufffe\uffff",
    include_characters="\x01\t\n\r\x1f\x85\u2028\u2029\ufeff?'\"\\/",
)


def json_values(characters: st.SearchStrategy[str]) -> st.SearchStrategy[Value]:
    text = st.text(characters, max_size=20)
    scalars = (
        st.none()
        | st.booleans()
        | st.integers(-EXACT, EXACT)
        | st.floats(allow_nan=False, allow_infinity=False)
        | text
        | st.sampled_from(["no", "<<", "1_000", "~", "- a", "&a", "? ", ": ", "#", "", "---"])
    )
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(text, inner, max_size=5),
        max_leaves=20,
    )


LAYOUTS = st.sampled_from(
    [{}, {"indent": 2}, {"indent": "\t"}, {"indent": 0}, {"separators": (",", ":")}]
)


@given(json_values(CHARACTERS), LAYOUTS)
def test_plain_yaml_any_json_value_comes_back_from_ascii_json(
    before: Value, layout: dict[str, object]
) -> None:
    """The same request, written by a program or by hand, is the same action."""
    text = json.dumps(before, **layout)  # type: ignore[arg-type]
    assert repr(load(text, max_depth=99).value) == repr(before)
    assert repr(load(text.encode(), max_depth=99).value) == repr(before)


@given(json_values(PRINTABLE), LAYOUTS)
@example("a \u2028 b\x85 \u2029", {})
def test_plain_yaml_any_json_value_comes_back_from_unicode_json(
    before: Value, layout: dict[str, object]
) -> None:
    """JavaScript writes characters as they are, line separators among them."""
    text = json.dumps(before, ensure_ascii=False, **layout)  # type: ignore[arg-type]
    assert repr(load(text, max_depth=99).value) == repr(before)


def loaded_or_refused(source: bytes | str) -> Document | PlainYamlError:
    try:
        return load(source)
    except PlainYamlError as no:
        return no


def check(source: bytes | str) -> None:
    read = loaded_or_refused(source)
    if isinstance(read, PlainYamlError):
        assert min(at(read)) >= 1
        assert read.found
        assert read.instead
        str(read).encode()
        return
    again = json.dumps(read.value, allow_nan=False)
    again.encode()
    assert repr(value(again)) == repr(read.value)
    assert set(read.marks) == set(paths(read.value))


STRUCTURE = st.text(
    st.sampled_from("\0\t\n\r  aU0x1e!\"#%&'*,-.:<>?@[]`{|}~\\\x85\u2028\ufeffé\ud800"),
    max_size=40,
)


@given(st.binary(max_size=200))
def test_plain_yaml_no_bytes_raise_anything_else(source: bytes) -> None:
    """A caller catches one error; any other is a crash of the gate."""
    check(source)


@settings(deadline=None)  # the long examples take their time
@given(STRUCTURE | st.text())
@example(r'"\U00110000"')
@example(r'"\UFFFFFFFF"')
@example("1" * 5000)
@example("[" * 2000)
@example("{" * 2000)
@example("- " * 2000)
@example("? " * 2000)
@example('"\\')
@example("%YAML " + "9" * 5000 + ".1\n---\na")
@example("|" + "9" * 5000)
def test_plain_yaml_no_text_raises_anything_else(source: str) -> None:
    """What loads is plain JSON, survives a second reading, and has a place for each part."""
    check(source)


def paths(value: Value, path: Path = ()) -> Iterator[Path]:
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from paths(inner, (*path, index))


def part(value: Value, path: Path) -> Value:
    for step in path:
        assert isinstance(value, list | dict)
        value = value[step]  # type: ignore[index]
    return value


def written_at(text: str, mark: Mark) -> str:
    return text.split("\n")[mark.line - 1][mark.column - 1 :]


@given(json_values(CHARACTERS), LAYOUTS)
def test_plain_yaml_every_mark_points_at_what_it_names(
    before: Value, layout: dict[str, object]
) -> None:
    """An error that names the wrong line costs more than one without a line."""
    text = json.dumps(before, **layout)  # type: ignore[arg-type]
    read: Document = load(text, max_depth=99)

    assert set(read.marks) == set(paths(before))
    for path, mark in read.marks.items():
        is_entry = path and isinstance(path[-1], str)
        shown = json.dumps(path[-1] if is_entry else part(before, path), **layout)  # type: ignore[arg-type]
        assert written_at(text, mark).startswith(shown.split("\n")[0])


@given(st.integers(0, 30), st.sampled_from(["\n", "\r\n", "\r", "\u2028\n"]))
def test_plain_yaml_every_error_counts_the_lines_before_it(lines: int, ending: str) -> None:
    """Whatever ends the lines, and wherever the error comes from."""
    above = f"# words{ending}" * lines
    for text in ("a: &x 1", "a: @", 'a: "\\q"', "a: \x07", "a: 1e999"):
        assert refused(above + text).line == lines + 1
        assert refused((above + text).encode()).line == lines + 1
