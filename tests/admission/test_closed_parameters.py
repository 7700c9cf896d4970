"""Parameters are what the manifest declares, or all that is wrong with them is told at once."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from executor import AskedBy
from executor.manifest import Parameter
from executor.refusal import Refused
from executor.rules import formats, values
from executor.rules.admission import coerce, find_tool
from tests.admission.forge import admit, refused, tool
from tests.house import House

TEXT = {"type": "string"}
COUNT = {"type": "integer", "minimum": 1, "maximum": 9}


# rule: admission.closed-tools
async def test_a_tool_without_a_manifest_is_refused_closed_tools(house: House) -> None:
    """A gate that runs what it does not know is a shell."""
    async with house.open() as executor:
        done = await executor.run(house.request({"record": "stdout"}))
        assert done.status == "delivered"

        with pytest.raises(Refused) as no:
            await executor.run(house.request(tool="test.fak"))

        assert (no.value.rule, no.value.code) == ("admission.closed-tools", "UNKNOWN_TOOL")
        assert no.value.todo.startswith("Did you mean 'test.fake'? A tool of your own needs")
        assert no.value.receipt is not None
        assert no.value.receipt.finished is None


@pytest.mark.parametrize(
    "name", ["", "fake", "test.fake ", "TEST.FAKE", "test.tool\n", 5, [], None]
)
def test_a_name_that_is_nearly_the_tools_is_not_it_closed_tools(name: Any) -> None:
    """A tool is found by its exact name, not by one that looks like it."""
    tools = {"test.tool": tool()}
    assert find_tool(tools, "test.tool") is tools["test.tool"]

    with pytest.raises(Refused) as no:
        find_tool(tools, name)

    assert no.value.code == "UNKNOWN_TOOL"


# rule: admission.closed-parameters
def test_every_fault_of_the_parameters_is_told_at_once_closed_parameters() -> None:
    """Who corrects one fault and is told the next gives up, or gives in to guessing."""
    it = tool(
        {"to": {"type": "array", "items": {"type": "string", "format": "email"}}, "n": COUNT,
         "subject": TEXT, "body": TEXT},
        required=["n", "body"],
        files={"message": {}},
        argv=["x"],
    )  # fmt: skip
    good = {"to": ["a@b.org"], "n": 2, "subject": "x", "body": "y"}
    assert admit(it, good, files={"message": "m"}).parameters == good

    no = refused(
        it,
        {"to": ["a@b.org", "@", 5], "n": 12, "subject": "a\nb", "subjekt": "x"},
        files={"mesage": "m"},
    )

    assert (no.rule, no.code) == ("admission.closed-parameters", "INVALID_PARAMETERS")
    for told in (
        "unknown parameter 'subjekt' (Did you mean 'subject'?)",
        "body: missing",
        "to[1]: '@' is not a plain e-mail address (write it like ana@example.org)",
        "to[2]: 5 is a whole number (write a string)",
        "n: 12 is out of bounds (the most is 9)",
        "subject: a line break, in a field of one line",
        "unknown file 'mesage'",
        "files.message: missing",
    ):
        assert told in no.because


@pytest.mark.parametrize(
    ("declared", "good", "bad"),
    [
        (TEXT, "", 5),
        (TEXT, "a", None),
        (TEXT, "a", ["a"]),
        (TEXT, "a", {"a": "b"}),
        (COUNT, 1, 0),
        (COUNT, 9, 10),
        (COUNT, 2.0, 2.5),
        (COUNT, 1, True),
        (COUNT, 1, "1"),
        ({"type": "integer"}, 2**53 - 1, 2**53),
        ({"type": "integer"}, 1 - 2**53, -(10**400)),
        ({"type": "integer"}, 1e15, 1e300),
        ({"type": "integer", "exclusiveMinimum": 0}, 1, 0),
        ({"type": "number", "exclusiveMaximum": 1}, 0.9, 1.0),
        ({"type": "number", "minimum": 0, "maximum": 1}, 0.5, math.nan),
        ({"type": "number"}, 1e300, math.inf),
        ({"type": "number"}, -1.5, -math.inf),
        ({"type": "number"}, 1, False),
        ({"type": "integer", "multipleOf": 3}, 9, 10),
        ({"type": "boolean"}, True, 1),
        ({"type": "boolean"}, False, "false"),
        ({"type": "string", "minLength": 2, "maxLength": 3}, "abc", "a"),
        ({"type": "string", "minLength": 2, "maxLength": 3}, "ab", "abcd"),
        ({"type": "string", "pattern": "^a"}, "ab", "ba"),
        ({"type": "string", "enum": ["a", "b"]}, "a", "A"),
        ({"type": "integer", "enum": [1, 2]}, 1, 3),
        ({"type": "string", "const": "a"}, "a", "b"),
        ({"type": "array", "items": TEXT}, [], "a"),
        ({"type": "array", "items": TEXT}, ["a"], [["a"]]),
        ({"type": "array", "items": TEXT, "minItems": 1}, ["a"], []),
        ({"type": "array", "items": TEXT, "maxItems": 1}, ["a"], ["a", "b"]),
        ({"type": "array", "items": TEXT, "uniqueItems": True}, ["a", "b"], ["a", "a"]),
        ({"type": "array", "items": COUNT, "uniqueItems": True}, [1, 2], [1, 1.0]),
        ({"type": "array", "items": {"type": "number"}}, [1.5], [math.nan]),
    ],
)  # fmt: skip
def test_a_value_that_breaks_its_schema_is_refused_closed_parameters(
    declared: dict[str, Any], good: Any, bad: Any
) -> None:
    """Each word of the schema is a promise to the command's author."""
    it = tool({"x": declared})
    admit(it, {"x": good})

    no = refused(it, {"x": bad})

    assert (no.rule, no.code) == ("admission.closed-parameters", "INVALID_PARAMETERS")
    assert "x" in no.because
    assert len(no.because) < 1000


def test_an_absent_value_takes_its_default_and_a_given_one_never_does() -> None:
    """A default is what was meant by saying nothing; null is not nothing."""
    it = tool({"n": COUNT | {"default": 3}, "off": {"type": "boolean", "default": False}})

    assert admit(it).parameters == {"n": 3, "off": False}
    assert admit(it, {"n": 4, "off": True}).parameters == {"n": 4, "off": True}
    assert refused(it, {"n": None}).code == "INVALID_PARAMETERS"


def test_numbers_and_booleans_are_written_as_a_command_reads_them() -> None:
    """JSON has one kind of number; `--count=2.0` is not what was meant by 2."""
    it = tool(
        {
            "n": {"type": "integer"},
            "f": {"type": "number"},
            "b": {"type": "boolean"},
            "ns": {"type": "array", "items": {"type": "integer"}},
            "bs": {"type": "array", "items": {"type": "boolean"}},
        }
    )

    asked = admit(it, {"n": 2.0, "f": 0.5, "b": True, "ns": [1.0, -2], "bs": [True, False]})

    assert asked.argv == ("--n=2", "--f=0.5", "--b=true", "--ns=1", "--ns=-2", "--bs=true",
                          "--bs=false")  # fmt: skip
    assert [type(value) for value in asked.parameters["ns"]] == [int, int]


def test_a_switch_that_is_off_leaves_its_part_out_and_is_still_a_value() -> None:
    """`when` asks whether something is wanted; a template writes what was said."""
    it = tool(
        {"v": {"type": "boolean", "default": False}},
        argv=["--verbose={v}", {"when": "v", "argv": ["-v"]}],
    )

    assert admit(it).argv == ("--verbose=false",)
    assert admit(it, {"v": True}).argv == ("--verbose=true", "-v")


def test_an_empty_text_was_given_and_an_absent_one_was_not() -> None:
    """To drop what the caller said, because it is short, is to do something else."""
    it = tool({"subject": TEXT, "to": {"type": "array", "items": TEXT}})

    assert admit(it, {"subject": ""}).argv == ("--subject=",)
    assert admit(it, {"to": ["", "b"]}).argv == ("--to=", "--to=b")
    assert admit(it, {}).argv == ()
    assert admit(it, {"to": []}).argv == ()


FORMATS: dict[str, tuple[list[str], list[str]]] = {
    "email": (
        ["ana@example.org", "a.b+c@x-y.example", "o'neil@example.org", "a@b"],
        [
            "",
            "ana",
            "@example.org",
            "ana@",
            "a@b@c",
            "Ana <ana@example.org>",
            "a b@example.org",
            "a,b@example.org",
            "a;b@example.org",
            '"a"@example.org',
            "a@[192.0.2.1]",
            "a@-x.org",
            ".a@example.org",
            "a..b@example.org",
            "a@example..org",
            "ä@example.org",
            "a@bücher.example",
            "a@example.org\n",
            "a" * 65 + "@example.org",
            "a@" + "b" * 64 + ".org",
            "a@127.1",
        ],
    ),
    "uri": (
        [
            "https://example.org",
            "smtp://localhost:25",
            "ssh://git@example.org/x.git",
            "http://[::1]:8080/",
            "HTTP://EXAMPLE.ORG/a?b=c#d",
            "http://192.0.2.1/",
            "x+y.z-1://h/%20",
        ],
        [
            "",
            "example.org",
            "/path",
            "mailto:a@example.org",
            "file:///etc/passwd",
            "http://",
            "http:///x",
            "http://u:p@example.org/",
            "http://u:@example.org",
            "http://a@b@example.org/",
            "http://good.example\\@evil.example/",
            "http://ev%69l.example/",
            "http://h/%zz",
            "http://h:0",
            "http://h:65536/",
            "http://h:1:2/",
            "http://h:/",
            "http://h:+80/",
            "http://h /",
            "http://h\t/",
            "http://127.1/",
            "http://0x7f.0.0.1/",
            "http://2130706433/",
            "http://[::1%25eth0]/",
            "http://[::1/",
            "http://h]/",
            "ssh://-oProxyCommand=x/",
            "ssh://-oProxyCommand=x@h/",
            "http://h/ü",
            "http://bücher.example/",
            "http://h\n",
            "ext::sh -c x",
            "http://-h/",
        ],
    ),
    "hostname": (
        ["example.org", "localhost", "a-b.c", "xn--bcher-kva.example", "192.0.2.1", "3com.example"],
        [
            "",
            "-a",
            "a-",
            "a_b",
            "a..b",
            ".a",
            "a.",
            "a b",
            "a/b",
            "a" * 64,
            "a." * 127 + "ab",
            "::1",
            "127.1",
            "0177.0.0.1",
            "0x7f",
            "1",
            "bücher.example",
            "example.org\n",
        ],
    ),
    "ipv4": (
        ["192.0.2.1", "255.255.255.255"],
        ["", "192.0.2", "192.0.2.256", "192.0.2.01", "::1", "1.2.3.4\n"],
    ),
    "ipv6": (
        ["::1", "2001:db8::1", "::ffff:192.0.2.1"],
        ["", "192.0.2.1", "fe80::1%eth0", "::1%a b", "[::1]", ":::1", "::1\n"],
    ),
    "date": (
        ["2026-11-30", "2024-02-29"],
        [
            "",
            "20261130",
            "2026-W49-1",
            "2026-02-29",
            "2026-11-30\n",
            "2026-11-30T10:00:00Z",
            "26-11-30",
            "٢٠٢٦-١١-٣٠",
        ],
    ),
    "date-time": (
        ["2026-11-30T10:00:00Z", "2026-11-30t10:00:00.5z", "2026-11-30T10:00:00+01:00"],
        [
            "",
            "2026-11-30",
            "2026-11-30T10:00:00",
            "2026-11-30 10:00:00Z",
            "2026-11-30x10:00:00Z",
            "20261130T100000Z",
            "2026-11-30T25:00:00Z",
            "2026-11-31T10:00:00Z",
            "2026-11-30T10:00Z",
            "2026-11-30T10:00:00+99:00",
            "2026-11-30T10:00:00+0100",
        ],
    ),
    "uuid": (
        ["123e4567-e89b-12d3-a456-426614174000", "123E4567-E89B-12D3-A456-426614174000"],
        [
            "",
            "123e4567e89b12d3a456426614174000",
            "{123e4567-e89b-12d3-a456-426614174000}",
            "urn:uuid:123e4567-e89b-12d3-a456-426614174000",
            "123e4567-e89b-12d3-a456-42661417400g",
            "123e4567-e89b-12d3-a456-4266_1417400",
            "123e4567-e89b-12d3-a456-426614174000\n",
        ],
    ),
}


def test_every_format_that_a_manifest_can_name_is_really_checked() -> None:
    """JSON Schema lets an unknown format pass; here the set is closed, and each has its check."""
    named = Parameter.__annotations__["format"]

    assert set(formats.FORMATS) == set(FORMATS)
    assert all(f"{name}" in str(named) for name in FORMATS)


@pytest.mark.parametrize(
    ("name", "text"),
    [(name, text) for name, (good, _) in FORMATS.items() for text in good],
)
def test_a_text_of_its_format_is_taken(name: str, text: str) -> None:
    """The allowed twins: a format that refuses what is right would be switched off."""
    assert admit(tool({"x": {"type": "string", "format": name}}), {"x": text}).argv == (
        f"--x={text}",
    )


# rule: admission.closed-parameters
@pytest.mark.parametrize(
    ("name", "text"),
    [(name, text) for name, (_, bad) in FORMATS.items() for text in bad],
)
def test_a_text_that_two_programs_could_read_apart_is_no_closed_parameters(
    name: str, text: str
) -> None:
    """Policy would decide on one reading, and the command act on another."""
    no = refused(tool({"x": {"type": "string", "format": name, "multiline": True}}), {"x": text})

    assert (no.rule, no.code) == ("admission.closed-parameters", "INVALID_PARAMETERS")
    assert "write it like" in no.because


@given(name=st.sampled_from(sorted(FORMATS)), text=st.text(max_size=40))
@settings(max_examples=300)
def test_a_format_says_yes_or_no_to_any_text(name: str, text: str) -> None:
    """A check that raises is a crash in the middle of the gate."""
    assert formats.FORMATS[name](text) in (True, False)
    assert formats.host_and_port(text) is None or ":" in text


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    ),
    kind=st.sampled_from(["string", "integer", "number", "boolean", "array"]),
)
@settings(max_examples=200)
def test_any_value_is_taken_or_refused_closed_parameters(value: Any, kind: str) -> None:
    """What JSON can say, a caller will say; nothing but a refusal may come of it."""
    declared: dict[str, Any] = {"type": kind}
    if kind == "array":
        declared["items"] = {"type": "string", "multiline": True}
    it = tool({"x": declared})
    try:
        words = admit(it, {"x": value}).argv
    except Refused as no:
        words = ()
        code = no.code
    else:
        code = None
    if code is None:
        assert all(word.startswith("--x=") for word in words)
    else:
        assert code == "INVALID_PARAMETERS"


# rule: admission.closed-parameters
def test_unknown_files_and_wrong_counts_are_refused_closed_parameters() -> None:
    """A file that nobody reads was handed over for a reason."""
    it = tool(files={"one": {}, "many": {"many": True, "required": False}})
    assert [file.path for file in admit(it, files={"one": "a", "many": ("b", "c")}).files] == [
        "a", "b", "c"
    ]  # fmt: skip

    for files, told in (
        ({}, "files.one: missing"),
        ({"one": ("a", "b")}, "2 files where one is expected"),
        ({"one": "a", "two": "b"}, "unknown file 'two'"),
        ({"one": ()}, "files.one: missing"),
    ):
        no = refused(it, files=files)
        assert (no.rule, no.code) == ("admission.closed-parameters", "INVALID_PARAMETERS")
        assert told in no.because


@pytest.mark.parametrize(
    ("kind", "texts", "meant"),
    [
        ("string", ["5"], "5"),
        ("integer", ["5"], 5),
        ("integer", ["-5"], -5),
        ("integer", ["5.0"], "5.0"),
        ("integer", ["٥"], "٥"),
        ("integer", ["5\n"], "5\n"),
        ("integer", ["9" * 16], "9" * 16),
        ("number", ["1.5"], 1.5),
        ("number", ["nan"], "nan"),
        ("number", ["1e5"], "1e5"),
        ("boolean", ["true"], True),
        ("boolean", ["false"], False),
        ("boolean", ["yes"], "yes"),
        ("string", ["a", "b"], ["a", "b"]),
        ("array", ["1", "x"], [1, "x"]),
    ],
)
def test_a_word_of_a_command_line_means_its_type_or_stays_a_text(
    kind: str, texts: list[str], meant: Any
) -> None:
    """What is not clearly a number is left for the schema to refuse."""
    items = Parameter(type="integer") if kind == "array" else None

    found = coerce(Parameter(type=kind, items=items), texts)  # type: ignore[arg-type]

    assert (found, type(found)) == (meant, type(meant))


# -- the request itself ---------------------------------------------------------------------------


class _Odd:
    pass


# rule: admission.closed-request
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"asked_by": None}, "asked_by"),
        ({"asked_by": AskedBy(role="")}, "role"),
        ({"asked_by": AskedBy(role=" ")}, "asked_by.role: ' ' says nothing"),
        ({"asked_by": AskedBy(role="a\ud800")}, "asked_by.role: half of a surrogate pair"),
        ({"asked_by": AskedBy(role="a", channel="b\nc")}, "asked_by.channel: a line break"),
        ({"asked_by": AskedBy(role="a", sender="b\0c")}, "asked_by.sender: a NUL"),
        ({"level": "\x00"}, "level: a NUL"),
        ({"level": 5}, "level"),
        ({"account": "\n"}, "account: a line break"),
        ({"account": ""}, "account"),
        ({"parameters": []}, "parameters"),
        ({"parameters": {5: "x"}}, "parameters"),
        ({"parameters": {"x": _Odd()}}, "form of one"),
        ({"files": {"x": 5}}, "files"),
        ({"executor": "request/2"}, "executor"),
    ],
)
def test_a_request_that_is_none_is_refused_closed_request(
    changes: dict[str, Any], told: str
) -> None:
    """A program can hand over what no file could hold; it must not become a crash, or a role."""
    it = tool({"x": TEXT}, account="a")
    assert admit(it, {"x": "y"}).account == "a"

    no = refused(it, **changes)

    assert (no.rule, no.code) == ("admission.closed-request", "INVALID_REQUEST")
    assert told in no.because


def test_a_list_within_itself_is_refused_closed_request() -> None:
    """No depth of a value may become a crash."""
    endless: list[Any] = []
    endless.append(endless)

    assert refused(tool({"x": TEXT}), {"x": endless}).code == "INVALID_REQUEST"


def test_what_a_caller_changes_after_asking_changes_nothing() -> None:
    """The action is what was asked, not what the caller's list has become since."""
    to = ["a"]
    asked = admit(tool({"to": {"type": "array", "items": TEXT}}), {"to": to})

    to.append("b")

    assert asked.parameters == {"to": ["a"]}
    assert asked.argv == ("--to=a",)


def test_a_tuple_of_a_program_is_a_list() -> None:
    """The allowed twin: JSON has one kind of list."""
    asked = admit(tool({"to": {"type": "array", "items": TEXT}}), {"to": ("a", "b")})

    assert asked.argv == ("--to=a", "--to=b")


def test_faults_of_a_value_are_told_with_their_place() -> None:
    """`to` has forty items; which one?"""
    parameter = Parameter(type="array", items=Parameter(type="string", max_length=1))

    assert values.faults(parameter, ["a", "bb"]) == ["[1]: 'bb' has 2 characters (the most is 1)"]
    assert values.line_faults(parameter, ["a", "\n"]) == [
        "[1]: a line break, in a field of one line"
    ]
