"""A manifest that is wrong anywhere does not load, and says all that is wrong at once."""

import re
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from executor.loading import load_tools, pack_files
from executor.problems import Faulty
from executor.refusal import TABLE, Refused
from executor.rules import manifests, outcomes
from tests.admission.forge import GONE, MANIFEST, Place, changed, load, problems

# What is wrong, where it is told, what is found, and what to write instead.
WRONG: list[tuple[str, Place, Any, str, str, str]] = [
    # the shape
    ("unknown-key", ("sumary",), "x", "sumary", "unknown key 'sumary'", "mean 'summary'?"),
    (
        "unknown-inner-key",
        ("parameters", "sender", "formt"),
        "email",
        "parameters.sender.formt",
        "unknown key 'formt'",
        "mean 'format'?",
    ),
    ("missing", ("command",), GONE, "", "'command' is missing", "Add 'command': a string"),
    ("number", ("summary",), 5, "summary", "5 is a whole number", "Write a string"),
    ("empty", ("summary",), "", "summary", "'' has 0 characters", "The least is 1"),
    ("null", ("summary",), None, "summary", "no value stands here", "Write a string"),
    ("boolean", ("summary",), True, "summary", "true is a boolean", "Write a string"),
    ("list", ("parameters",), [], "parameters", "a list stands here", "Write a mapping"),
    ("element", ("argv", 0, 1), 5, "argv[0][1]", "5 is a whole number", "Write a string"),
    ("entry", ("argv", 0), 5, "argv[0]", "5 is a whole number", "a string, a list or a mapping"),
    ("part-key", ("argv", 1, "eech"), "to", "argv[1].eech", "unknown key 'eech'", "mean 'each'?"),
    ("version", ("executor",), "manifest/2", "executor", "not known here", "mean 'manifest/1'?"),
    ("tool-name", ("tool",), "Mail", "tool", "right form", "like 'mail.send'"),
    ("tool-line", ("tool",), "mail.send\n", "tool", "right form", "like 'mail.send'"),
    (
        "parameter-name",
        ("parameters", "To"),
        {"type": "string"},
        "parameters.To",
        "right form",
        "like 'reply_to'",
    ),
    ("env-name", ("env", "path"), "x", "env.path", "right form", "like 'API_HOST'"),
    ("env-line", ("env", "PATH\n"), "x", "env['PATH\\n']", "right form", "like 'API_HOST'"),
    (
        "exit-float",
        ("outcomes", 0, "when", "exit"),
        2.0,
        "outcomes[0].when.exit",
        "2.0 is a number",
        "Write a whole number or a list",
    ),
    (
        "level",
        ("isolation", "level"),
        "nmespaced",
        "isolation.level",
        "not known here",
        "mean 'namespaced'?",
    ),
    (
        "network-word",
        ("isolation", "network"),
        "hots",
        "isolation.network",
        "not known here",
        "mean 'host'?",
    ),
    (
        "network-number",
        ("isolation", "network"),
        5,
        "isolation.network",
        "5 is a whole number",
        "Write a list or 'host'",
    ),
    (
        "reverse",
        ("reverse",),
        {"pattern": "restore_blob"},
        "reverse.pattern",
        "not known here",
        "restore_blob_backup",
    ),
    ("unit", ("limits", "deadline"), 60, "limits.deadline", "whole number", "like '60 s'"),
    ("word-unit", ("limits", "deadline"), "1 hour", "limits.deadline", "right form", "'60 s'"),
    ("bound", ("limits", "processes"), 0, "limits.processes", "out of bounds", "The least is 1"),
    # sizes and durations that no system and no JSON can carry
    ("size", ("limits", "memory"), "9999999 GiB", "limits.memory", "right form", "'25 MiB'"),
    ("days", ("limits", "deadline"), "9999999 d", "limits.deadline", "right form", "'60 s'"),
    ("no-time", ("limits", "deadline"), "0 s", "limits.deadline", "nothing can run", "more than 0"),
    ("no-memory", ("limits", "memory"), "0 B", "limits.memory", "nothing can run", "more than 0"),
    # the command
    ("relative", ("command",), "bin/x", "command", "relative path", "an absolute path"),
    ("shell", ("command",), "/bin/sh", "command", "'sh' is a shell", "the program itself"),
    ("wrapper", ("command",), "xargs", "command", "'xargs' is a wrapper", "program behind it"),
    # parameters
    ("item", ("parameters", "item"), {"type": "string"}, "parameters.item", "the word for", "Ren"),
    ("required", ("required",), ["sendr", "to"], "required[0]", "no parameter", "'sender'?"),
    ("twice", ("required",), ["sender", "to", "to"], "required[2]", "stands twice", "Remove one"),
    ("no-items", ("parameters", "to", "items"), GONE, "parameters.to", "without `items`", "Say"),
    (
        "lists-of-lists",
        ("parameters", "to", "items"),
        {"type": "array", "items": {"type": "string"}},
        "parameters.to.items",
        "a list of lists",
        "scalars",
    ),
    (
        "item-default",
        ("parameters", "to", "items"),
        {"type": "string", "default": "x"},
        "parameters.to.items.default",
        "no item is ever left out",
        "the list itself",
    ),
    (
        "pattern",
        ("parameters", "subject"),
        {"type": "string", "pattern": "(", "default": "x"},
        "parameters.subject.pattern",
        "not a regular expression",
        "Correct",
    ),
    (
        "future-pattern",
        ("parameters", "subject", "pattern"),
        "[[a]",
        "parameters.subject.pattern",
        "not a regular expression: Possible nested set",
        "Correct",
    ),
    (
        "multiple-of-0",
        ("parameters", "subject"),
        {"type": "integer", "multipleOf": 0, "default": 3},
        "parameters.subject.multipleOf",
        "0 is out of bounds",
        "more than 0",
    ),
    (
        "negative-length",
        ("parameters", "subject", "minLength"),
        -1,
        "parameters.subject.minLength",
        "-1 is out of bounds",
        "The least is 0",
    ),
    (
        "crossed-bounds",
        ("parameters", "subject"),
        {"type": "integer", "minimum": 5, "maximum": 4},
        "parameters.subject.minimum",
        "5 is more than maximum",
        "Swap",
    ),
    (
        "no-choice",
        ("parameters", "subject", "enum"),
        [],
        "parameters.subject.enum",
        "a list of 0 items",
        "The least is 1",
    ),
    (
        "enum-type",
        ("parameters", "subject", "enum"),
        ["a", 1],
        "parameters.subject.enum",
        "1 is a whole number",
        "Correct",
    ),
    (
        "const-type",
        ("parameters", "subject", "const"),
        None,
        "parameters.subject.const",
        "no value stands here",
        "Correct",
    ),
    (
        "format-of-a-list",
        ("parameters", "to", "format"),
        "email",
        "parameters.to.format",
        "format says nothing about type array",
        "Remove",
    ),
    (
        "length-of-a-number",
        ("parameters", "subject"),
        {"type": "integer", "maxLength": 3},
        "parameters.subject.maxLength",
        "maxLength says nothing about type integer",
        "Remove",
    ),
    (
        "default",
        ("parameters", "server", "default"),
        "localhost",
        "parameters.server.default",
        "'localhost' is not a URI",
        "Give a default",
    ),
    (
        "default-line",
        ("parameters", "subject", "default"),
        "a\nb",
        "parameters.subject.default",
        "a line break",
        "multiline",
    ),
    # files, stage, stdin
    (
        "file-name",
        ("files", "message", "name"),
        "../x",
        "files.message.name",
        "not a safe file name",
        "Write 'x'",
    ),
    (
        "one-name-for-many",
        ("files", "photos", "name"),
        "x",
        "files.photos.name",
        "one name for many files",
        "Remove",
    ),
    ("stage-out", ("stage", "../x"), "", "stage['../x']", "not a safe relative path", "plain"),
    ("stage-dir", ("stage", "empty/"), "x", "stage['empty/']", "a directory with a text", "remove"),
    ("stage-under-file", ("stage", "etc/curlrc/x"), "", "stage", "in the same place", "another"),
    ("stage-case", ("stage", "ETC/Curlrc"), "", "stage", "in the same place", "another name"),
    ("stdin-none", ("stdin",), {}, "stdin", "not exactly one source", "`file` or `text`"),
    (
        "stdin-both",
        ("stdin",),
        {"file": "message", "text": "x"},
        "stdin",
        "not exactly one source",
        "`file` or `text`",
    ),
    ("stdin-slot", ("stdin",), {"file": "mesage"}, "stdin.file", "no file slot", "'message'?"),
    ("stdin-many", ("stdin",), {"file": "photos"}, "stdin.file", "many files", "a single one"),
    # templates
    ("brace", ("argv", 0, 1), "{", "argv[0][1]", "'{' at character 1", "{{ or }}"),
    ("nothing", ("argv", 0, 1), "{srver}", "argv[0][1]", "refers to nothing", "'server'?"),
    ("stray-item", ("argv", 0, 1), "{item}", "argv[0][1]", "outside of an `each`", "Name the"),
    ("optional", ("argv", 0, 1), "{subject}", "argv[0][1]", "may be absent", "{when: subject"),
    ("bare-list", ("argv", 0, 1), "{to}", "argv[0][1]", "{to} is a list", "{each: to"),
    (
        "many-files",
        ("argv", 0, 1),
        "{files.photos}",
        "argv[0][1]",
        "is a list",
        "{each: files.photos",
    ),
    (
        "secret-in-argv",
        ("argv", 0, 1),
        "--token={secrets.token}",
        "argv[0][1]",
        "put a secret into plain sight",
        "`file: true`",
    ),
    (
        "file-in-account",
        ("account",),
        "{files.message}",
        "account",
        "refers to nothing",
        "sender",
    ),
    ("each-of-one", ("argv", 1, "each"), "sender", "argv[1].each", "not a list", "Use `when`"),
    ("each-unknown", ("argv", 1, "each"), "too", "argv[1].each", "unknown", "'to'?"),
    ("neither", ("argv", 1), {"argv": ["x"]}, "argv[1]", "exactly one of `each` and", "Give one"),
    (
        "both",
        ("argv", 1),
        {"argv": ["x"], "each": "to", "when": "to"},
        "argv[1]",
        "exactly one of `each` and `when`",
        "Give one",
    ),
    (
        "another-in-when",
        ("argv", 1),
        {"when": "to", "argv": ["{subject}"]},
        "argv[1].argv[0]",
        "may be absent",
        "Require it",
    ),
    (
        "optional-account",
        ("account",),
        "{subject}",
        "account",
        "{subject} may be absent",
        "Require it",
    ),
    (
        "endpoint",
        ("isolation", "network"),
        ["mail"],
        "isolation.network[0]",
        "does not name a host and a port",
        "host:port",
    ),
    # identity, environment, secrets
    ("identity", ("identity", 0), "servr", "identity[0]", "'servr' is unknown", "'server'?"),
    ("identity-set", ("identity", 0), {"set": "server"}, "identity[0]", "not a list", "`set`"),
    ("identity-nothing", ("identity",), [], "identity", "every action is the same", "Name what"),
    ("path", ("env", "PATH"), "/x", "env.PATH", "the staging area", "always set"),
    ("pwd", ("env", "PWD"), "/x", "env.PWD", "the staging area", "always set"),
    (
        "loader",
        ("env", "LD_PRELOAD"),
        "{sender}",
        "env.LD_PRELOAD",
        "can make the command run something",
        "fixed value",
    ),
    (
        "git-config",
        ("env", "GIT_CONFIG_VALUE_0"),
        "{sender}",
        "env.GIT_CONFIG_VALUE_0",
        "can make the command run something",
        "fixed value",
    ),
    ("no-way", ("secrets", "token"), {}, "secrets.token", "exactly one way in", "`env: NAME`"),
    (
        "two-ways",
        ("secrets", "token", "file"),
        True,
        "secrets.token",
        "exactly one way in",
        "`env: NAME`",
    ),
    ("secret-env", ("secrets", "token", "env"), "LANG", "secrets.token.env", "set twice", "other"),
    (
        "secrets-env",
        ("secrets", "other"),
        {"env": "TOKEN"},
        "secrets.other.env",
        "set twice",
        "other",
    ),
    (
        "secret-text",
        ("secrets", "token", "text"),
        "Bearer",
        "secrets.token.text",
        "exactly one {secret}",
        "Bearer {secret}",
    ),
    (
        "sources",
        ("secrets", "token", "source"),
        {"file": "/x", "environment": "X"},
        "secrets.token.source",
        "exactly one source",
        "`file`",
    ),
    (
        "source-command",
        ("secrets", "token", "source"),
        {"command": []},
        "secrets.token.source.command",
        "no command",
        "Name a program",
    ),
    # capabilities
    (
        "capability",
        ("capabilities", 0, "name"),
        "mail:sned",
        "capabilities[0].name",
        "not a registered capability",
        "'mail:send'?",
    ),
    ("no-capability", ("capabilities",), [], "capabilities", "0 items", "The least is 1"),
    (
        "two-lists",
        ("capabilities", 0, "targets"),
        "{to}{cc}",
        "capabilities[0].targets",
        "more than one list",
        "an entry of its own",
    ),
    # outcomes
    ("always", ("outcomes", 0, "when"), {}, "outcomes[0].when", "always holds", "which exit"),
    (
        "always-json",
        ("outcomes", 1, "when"),
        {"json": {}},
        "outcomes[1].when.json",
        "an empty mapping",
        "The least is 1",
    ),
    (
        "never",
        ("outcomes", 0, "when", "exit"),
        [],
        "outcomes[0].when.exit",
        "0 items",
        "The least is 1",
    ),
    ("exit-300", ("outcomes", 0, "when", "exit"), 300, "outcomes[0].when.exit", "300", "0 to 128"),
    ("exit-minus", ("outcomes", 0, "when", "exit"), -9, "outcomes[0].when.exit", "-9", "0 to 128"),
    (
        "regex",
        ("outcomes", 0, "when", "stdout"),
        "(",
        "outcomes[0].when.stdout",
        "not a regular expression",
        "Correct",
    ),
    ("no-code", ("outcomes", 1, "code"), GONE, "outcomes[1]", "no `code`", "CONNECT_FAILED"),
    ("a-code", ("outcomes", 0, "code"), "SENT", "outcomes[0].code", "for a delivery", "Remove"),
    ("code-line", ("outcomes", 1, "code"), "TIMED_OUT\n", "outcomes[1].code", "right form", "like"),
    ("two-places", ("outcomes", 0, "result_id", "json"), "id", "outcomes[0].result_id", "", "Give"),
    ("no-place", ("outcomes", 0, "reply"), {}, "outcomes[0].reply", "exactly one place", "Give"),
    # reverse
    ("revertible", ("revertible",), True, "revertible", "but not how", "reverse: {pattern"),
    (
        "unsaid",
        ("reverse",),
        {"pattern": "swap_src_dst"},
        "reverse",
        "not revertible",
        "`revertible: true`",
    ),
    # what is asked beside the action
    (
        "key-goes-nowhere",
        ("idempotency",),
        {"window": "1 h"},
        "idempotency",
        "nothing hands the key on",
        "Put {idempotency_key} into argv",
    ),
    (
        "key-is-not-declared",
        ("env", "KEY"),
        "{idempotency_key}",
        "env.KEY",
        "refers to nothing",
        "",
    ),
    (
        "parameter-called-like-the-key",
        ("parameters", "idempotency_key"),
        {"type": "string"},
        "parameters.idempotency_key",
        "is the word for the key",
        "Rename",
    ),
    (
        "preflight-relative",
        ("preflight",),
        {"argv": [], "when": {"exit": 0}, "command": "bin/look"},
        "preflight.command",
        "is a relative path",
        "absolute path",
    ),
    (
        "preflight-always-finds",
        ("preflight",),
        {"argv": [], "when": {}},
        "preflight.when",
        "a condition that always holds",
        "Say which",
    ),
    (
        "preflight-of-nothing",
        ("preflight",),
        {"argv": ["{nothing}"], "when": {"exit": 0}},
        "preflight.argv[0]",
        "refers to nothing",
        "",
    ),
    (
        "preflight-finds-nowhere",
        ("preflight",),
        {"argv": [], "when": {"exit": 0}, "finds": {"names": {}}},
        "preflight.finds.names",
        "not exactly one place",
        "Give stdout",
    ),
    (
        "verify-of-a-file",
        ("verify",),
        {"argv": ["{files.message}"], "outcomes": [{"when": {"exit": 0}, "is": "delivered"}]},
        "verify.argv[0]",
        "refers to nothing",
        "",
    ),
    (
        "verify-without-a-code",
        ("verify",),
        {"argv": [], "outcomes": [{"when": {"exit": 1}, "is": "undelivered"}]},
        "verify.outcomes[0]",
        "no `code`",
        "Name it",
    ),
    (
        "verify-with-a-code-of-ours",
        ("verify",),
        {"argv": [], "outcomes": [{"when": {"exit": 1}, "is": "undelivered", "code": "CANCELLED"}]},
        "verify.outcomes[0].code",
        "a code of the gate itself",
        "Choose",
    ),
]

LEAKED = ("is not of type", "does not match", "should be", "valid under", "Expected `")
"""How the libraries beneath say it."""


# rule: admission.closed-manifest
@pytest.mark.parametrize(
    ("place", "value", "key", "found", "instead"),
    [pytest.param(*entry[1:], id=entry[0]) for entry in WRONG],
)
def test_one_wrong_entry_fails_the_load_closed_manifest(
    place: Place, value: Any, key: str, found: str, instead: str
) -> None:
    """Who wrote it must be led to the key and told what to write, or they will guess."""
    extra = [(("parameters", "cc"), MANIFEST["parameters"]["to"])] if "cc" in str(value) else []
    extra += [(("required",), ["sender", "to", "cc"])] if extra else []
    assert problems(*extra) == []

    wrong = problems(*extra, (place, value))

    assert wrong, "it loaded"
    told = wrong[0]
    assert (told.file, told.key.startswith(key)) == ("m.yaml", True)
    assert found in told.found
    assert instead in told.instead
    assert len({(one.key, one.found) for one in wrong}) == len(wrong)


@pytest.mark.parametrize("entry", WRONG, ids=lambda entry: entry[0])
def test_what_is_told_is_in_our_words_and_at_the_right_line(entry: Any) -> None:
    """The words of a schema library lead nobody anywhere, and line 1 is where nobody looks."""
    place, value = entry[1], entry[2]
    source = yaml.safe_dump(changed((place, value)), sort_keys=False, allow_unicode=True)

    with pytest.raises(Faulty) as no:
        load(source.encode())

    assert str(no.value)
    for problem in no.value.problems:
        line = str(problem)
        assert re.match(r"m\.yaml:\d+:\d+: \S", line)
        assert line.endswith((".", "?"))
        assert ".." not in line.replace("...", "").replace("../", "")
        assert "?." not in line
        assert not [words for words in LEAKED if words in line]
        if word := re.search(r"[A-Za-z_]+$", problem.key):
            assert word[0] in source.splitlines()[problem.line - 1]


# rule: admission.closed-manifest
def test_all_problems_are_told_at_once_in_the_order_of_the_file() -> None:
    """A load that tells one fault after another costs its author an evening."""
    wrong = problems(
        (("sumary",), "x"),  # shape
        (("limits", "deadline"), 60),  # shape, of what stands alone
        (("parameters", "sender", "formt"), "email"),
        (("capabilities", 0, "name"), "mail:sned"),  # what only a rule sees
        (("argv", 0, 1), "{srver}"),
        (("outcomes", 1, "code"), "TIMED_OUT"),
    )

    assert [problem.key for problem in wrong] == [
        "parameters.sender.formt",
        "capabilities[0].name",
        "argv[0][1]",
        "outcomes[1].code",
        "limits.deadline",
        "sumary",
    ]
    assert [problem.line for problem in wrong] == sorted(problem.line for problem in wrong)


def test_what_follows_from_a_fault_is_not_told_as_another() -> None:
    """Without its parameters every reference would look wrong; that is noise, not help."""
    wrong = problems((("parameters",), []), (("capabilities", 0, "name"), "mail:sned"))

    assert [problem.key for problem in wrong] == ["parameters"]


def test_a_key_with_control_characters_is_told_escaped() -> None:
    """A message goes to a terminal; it must not steer it."""
    wrong = problems((("a\x1b[2K\u202eb",), 1))

    assert str(wrong[0]).isprintable()
    assert "\\x1b" in str(wrong[0])


@pytest.mark.parametrize(
    "code", sorted({row.code for row in TABLE} | outcomes.OWN_CODES), ids=lambda code: code
)
def test_a_code_of_the_gate_is_nobody_elses_closed_manifest(code: str) -> None:
    """A manifest that could say SPAWN_FAILED would release what has happened."""
    assert problems((("outcomes", 1, "code"), "QUEUE_FULL")) == []

    wrong = problems((("outcomes", 1, "code"), code))

    assert [problem.key for problem in wrong] == ["outcomes[1].code"]


def test_the_word_around_a_mistake_may_be_right() -> None:
    """The allowed twins of what is refused above."""
    assert problems() == []
    assert problems((("argv", 1), {"when": "to", "argv": ["--many"]})) == []
    assert problems((("argv", 1), {"each": "files.photos", "argv": ["--photo={item}"]})) == []
    assert problems((("argv", 0, 1), "--key={secrets.key}")) == []
    assert problems((("argv", 0, 1), "{{literal}}")) == []
    assert problems((("env", "LD_PRELOAD"), "/opt/lib/fixed.so")) == []
    assert problems((("env", "LD_PRELOAD"), "{{sender}}")) == []
    assert problems((("isolation", "network"), "host")) == []
    assert problems((("isolation", "network"), ["mail.example.org:25", "[::1]:25"])) == []
    assert problems((("parameters", "subject"), {"type": "boolean", "default": False})) == []
    assert problems((("parameters", "subject", "default"), "a\nb"), _multiline()) == []
    assert problems((("outcomes", 0, "when"), {"json": {"status": None}})) == []
    assert problems((("limits", "deadline"), "999999 d")) == []
    assert problems((("revertible",), True), (("reverse",), {"pattern": "swap_src_dst"})) == []


def _multiline() -> tuple[Place, Any]:
    return ("parameters", "subject", "multiline"), True


# rule: admission.closed-manifest
def test_one_bad_manifest_fails_the_whole_load_and_names_the_file(tmp_path: Any) -> None:
    """A tool that is silently left out is missed on the day it is needed."""
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(yaml.safe_dump(MANIFEST))
    assert "mail.send" in load_tools([str(good)], packs=False)
    bad.write_text(yaml.safe_dump(MANIFEST | {"tool": "mail.other", "capabilites": []}))

    with pytest.raises(Refused) as no:
        load_tools([str(tmp_path)], packs=False)

    assert (no.value.rule, no.value.code) == ("admission.closed-manifest", "INVALID_MANIFEST")
    assert f"{bad}:" in no.value.because
    assert "capabilites" in no.value.because
    assert no.value.row.invalid_input


def test_a_tool_declared_twice_fails_the_load(tmp_path: Any) -> None:
    """Whichever of the two won, somebody approved the other."""
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(yaml.safe_dump(MANIFEST))
    assert load_tools([str(tmp_path / "a.yaml")], packs=False)

    with pytest.raises(Refused) as no:
        load_tools([str(tmp_path)], packs=False)

    assert no.value.code == "INVALID_MANIFEST"
    assert "declared in" in no.value.because


def test_every_shipped_manifest_loads() -> None:
    """What we ship is held to the same rule."""
    assert set(load_tools([])) == {path.stem for path in pack_files()}


# rule: admission.closed-manifest
@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_a_manifest_broken_anywhere_is_told_and_never_escapes(data: st.DataObject) -> None:
    """An exception of another kind would be a crash at the start, with no place in the file."""
    manifest = changed()
    for _ in range(data.draw(st.integers(1, 3))):
        at, places = manifest, list(_places(manifest))
        place = data.draw(st.sampled_from(places))
        for step in place[:-1]:
            at = at[step]
        what = data.draw(st.sampled_from(["replace", "remove", "rename", "copy"]))
        if what == "remove" or (what == "rename" and not isinstance(place[-1], str)):
            del at[place[-1]]
        elif what == "rename":
            at[data.draw(_texts)] = at.pop(place[-1])
        elif what == "copy":
            at[place[-1]] = changed()[data.draw(st.sampled_from(sorted(MANIFEST)))]
        else:
            at[place[-1]] = data.draw(_values)
        if not manifest:
            return
    faulty = _faulty(manifest)
    if faulty is not None:
        assert manifests.refusal(faulty).code == "INVALID_MANIFEST"
        assert faulty.problems
        assert all(problem.line >= 1 and problem.found for problem in faulty.problems)


def _faulty(manifest: Any) -> Faulty | None:
    try:
        load(manifest)
    except Faulty as faulty:
        return faulty
    return None


_ODD = (
    "", "{", "{to}", "{item}", "{files.message}", "{secrets.key}", "(", "to", "a\nb", "-x",
    "files.photos", "host", "delivered", "array", "integer", "PATH", "0 s", "../x", "a/b/",
)  # fmt: skip
_texts = st.sampled_from(_ODD) | st.text(max_size=8)
_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**60), 2**60),
        st.floats(),
        _texts,
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(_texts, inner, max_size=3)
    ),
    max_leaves=6,
)


def _places(value: Any, path: Place = ()) -> Any:
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for step, inner in entries:
        yield (*path, step)
        if isinstance(inner, dict | list):
            yield from _places(inner, (*path, step))


@given(source=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_a_manifest_or_faulty(source: bytes) -> None:
    """A manifest may come from anywhere."""
    with pytest.raises(Faulty):
        load(source)


# rule: ledger.idempotency-key
@pytest.mark.parametrize(
    ("changes", "valid"),
    [
        ({"argv": ["--key", "{idempotency_key}"]}, True),
        ({"env": {"KEY": "{idempotency_key}"}}, True),
        ({"stage": {"key.txt": "{idempotency_key}"}}, True),
        ({"stdin": {"text": "{idempotency_key}"}}, True),
        ({"argv": [{"when": "note", "argv": ["{idempotency_key}"]}]}, False),
        ({"env": {"KEY": "{note} {idempotency_key}"}}, False),
        ({"env": {"KEY": "{{idempotency_key}}"}}, False),
    ],
)
def test_a_key_that_may_not_reach_the_provider_fails_the_load(
    changes: dict[str, Any], valid: bool
) -> None:
    """The provider would take the resend for another, and do it twice."""
    manifest = {
        "executor": "manifest/1",
        "tool": "test.key",
        "summary": "Hand a key on.",
        "command": "true",
        "argv": [],
        "parameters": {"note": {"type": "string"}},
        "capabilities": [{"name": "compute:pure"}],
        "account": "ana",
        "outcomes": [],
        "idempotency": {"window": "1 h"},
    }

    source = yaml.safe_dump(manifest | changes).encode()
    try:
        load(source)
        found = []
    except Faulty as faulty:
        found = [one.key for one in faulty.problems]

    assert found == ([] if valid else ["idempotency"])
