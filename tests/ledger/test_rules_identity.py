"""Identity: what makes two actions the same thing, and what keeps two apart."""

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from executor.frozen import FrozenFile
from executor.manifest import Manifest
from executor.request import AskedBy, Request, SourceFile
from executor.rules.admission import admit
from executor.rules.identity import KEY_DIGITS, NO_KEY, fingerprint, idempotency_key
from executor.rules.manifests import Tool
from tests.ledger.attempts import manifest

TEXT: dict[str, Any] = {"type": "string"}
EMAIL: dict[str, Any] = {"type": "string", "format": "email"}
MAIL = manifest(
    parameters={
        "to": {"type": "array", "items": EMAIL},
        "sender": EMAIL,
        "subject": TEXT,
        "copies": {"type": "integer"},
        "urgent": {"type": "boolean", "default": False},
        "tags": {"type": "array", "items": TEXT},
    },
    files={"body": {}, "attached": {"required": False, "many": True}},
    account="{sender}",
    required=["sender"],
)
BODY = FrozenFile("body", "body.txt", 3, "a" * 64)
ATTACHED = (
    FrozenFile("attached", "one.pdf", 4, "b" * 64),
    FrozenFile("attached", "two.pdf", 5, "c" * 64),
)
FILES = (BODY, *ATTACHED)
GIVEN: dict[str, Any] = {
    "to": ["bo@example.org", "cy@example.org"],
    "sender": "ana@example.org",
    "subject": "Café",
    "copies": 1,
    "tags": ["x", "y"],
}


def of(
    parameters: Mapping[str, Any] = GIVEN,
    files: Sequence[FrozenFile] = FILES,
    tool: Manifest = MAIL,
    sources: Mapping[str, Any] | None = None,
    **request: Any,
) -> str:
    """Give the fingerprint of a request that was really admitted.

    Args:
        files: what will be frozen; each has the name that the request gives it.
        sources: where the request says that they are, if not under their own names.
    """
    paths = {slot: tuple(f"in/{f.name}" for f in files if f.slot == slot) for slot in tool.files}
    given: dict[str, Any] = {
        "tool": tool.tool,
        "asked_by": AskedBy(role="assistant"),
        "parameters": dict(parameters),
        "files": sources or {slot: several for slot, several in paths.items() if several},
    }
    asked = admit(Tool(tool, "0" * 64, "mail.yaml"), Request(**(given | request)))
    frozen = []
    for slot in tool.files:
        names = [file.name for file in asked.files if file.slot == slot]
        copies = [file for file in files if file.slot == slot]
        frozen += [
            FrozenFile(slot, name, copy.size, copy.sha256)
            for name, copy in zip(names, copies, strict=True)
        ]
    return fingerprint(tool, asked, frozen)


def changed(tool: Manifest = MAIL, **changes: Any) -> str:
    return of(GIVEN | changes, tool=tool)


SAME = of()


# -- by default everything ------------------------------------------------------------------------


# rule: ledger.identity
@pytest.mark.parametrize(
    "change",
    [
        {"to": ["bo@example.org"]},
        {"to": ["cy@example.org", "bo@example.org"]},
        {"to": ["bo@example.org", "bo@example.org", "cy@example.org"]},
        {"to": ["bo@example.org", "cy@example.com"]},
        {"to": ["Bo@example.org", "cy@example.org"]},
        {"subject": "Cafe"},
        {"subject": "café"},
        {"subject": "Café "},
        {"subject": ""},
        {"copies": 2},
        {"urgent": True},
        {"tags": ["y", "x"]},
        {"tags": ["xy"]},
        {"tags": ["x", "y", ""]},
        {"tags": []},
    ],
    ids=str,
)
def test_every_parameter_counts_unless_the_manifest_says_which(change: dict[str, Any]) -> None:
    """What was left out of it would be silenced, though it is new."""
    assert of() == SAME

    assert changed(**change) != SAME


# rule: ledger.identity
@pytest.mark.parametrize("name", ["to", "subject", "copies", "tags"])
def test_a_parameter_that_is_left_out_is_another_action(name: str) -> None:
    """Nothing said is not the same as something said."""
    assert of({key: value for key, value in GIVEN.items() if key != name}) != SAME


# rule: ledger.identity
@pytest.mark.parametrize(
    "files",
    [
        (FrozenFile("body", "body.txt", 3, "d" * 64), *ATTACHED),
        (FrozenFile("body", "other.txt", 3, "a" * 64), *ATTACHED),
        (BODY, ATTACHED[1], ATTACHED[0]),
        (BODY, ATTACHED[0]),
        (BODY, *ATTACHED, FrozenFile("attached", "three.pdf", 5, "c" * 64)),
    ],
    ids=["a byte", "its name", "their order", "one less", "one more"],
)
def test_every_file_counts_by_its_bytes_and_by_the_name_that_is_seen(
    files: tuple[FrozenFile, ...],
) -> None:
    """19: one byte of the file changed is a new action."""
    assert of(files=FILES) == SAME

    assert of(files=files) != SAME


# rule: ledger.identity
@pytest.mark.parametrize(
    "request_only",
    [
        {"note": "please, again"},
        {"asked_by": AskedBy(role="deputy", sender="dan", channel="mail")},
        {"level": "Full"},
        {"allow_duplicate": "a-1"},
        {"account": "ana@example.org"},
        {"parameters": dict(reversed(GIVEN.items()))},
        {"parameters": GIVEN | {"urgent": False}},
        {"parameters": GIVEN | {"copies": 1.0}},
        {
            "sources": {
                "body": (SourceFile("/elsewhere/x", name="body.txt"),),
                "attached": ("tmp1/one.pdf", "tmp2/two.pdf"),
            }
        },
    ],
    ids=lambda one: next(iter(one)),
)
def test_who_asks_when_and_with_which_words_does_not_count(request_only: dict[str, Any]) -> None:
    """19: a time stamp, a note or a path would make every retry look new."""
    assert changed(subject="Other") != SAME

    assert of(**({"parameters": GIVEN} | request_only)) == SAME


# rule: ledger.identity
def test_how_a_manifest_writes_the_command_does_not_count_but_whose_it_is_does() -> None:
    """A tool that is improved between two tries is still the same; another tool is not."""
    better = msgspec.structs.replace(MAIL, summary="Better.", argv=("--to", "{sender}"))
    other = msgspec.structs.replace(MAIL, tool="mail.other")

    assert of(tool=better) == SAME
    assert of(tool=other) != SAME


# -- what `identity` names ------------------------------------------------------------------------


def named(*parts: Any) -> Manifest:
    return msgspec.structs.replace(MAIL, identity=manifest(identity=list(parts)).identity)


# rule: ledger.identity
def test_only_what_identity_names_counts() -> None:
    """A subject with the time in it must not make two of one."""
    tool = named("sender", "files.body")
    same = of(tool=tool)
    assert changed(tool, sender="eva@example.org") != same
    assert of(files=(FrozenFile("body", "body.txt", 3, "d" * 64), *ATTACHED), tool=tool) != same

    assert changed(tool, subject="12:00", copies=3, to=["dan@example.org"], tags=[]) == same
    assert of(files=(FrozenFile("body", "other.txt", 3, "a" * 64),), tool=tool) == same


# rule: ledger.identity
def test_the_account_counts_whatever_identity_names() -> None:
    """No manifest can make one of two customers."""
    tool = named("subject")

    assert changed(tool, sender="eva@example.org") != of(tool=tool)


# rule: ledger.identity
def test_a_set_is_the_same_in_another_order_and_with_one_of_it_twice() -> None:
    """To Bo and Cy is to Cy and Bo; only where the manifest says that order means nothing."""
    tool, in_order = named({"set": "to"}), named("to")
    there, back = ["bo@example.org", "cy@example.org"], ["cy@example.org", "bo@example.org"]

    assert changed(tool, to=there) == changed(tool, to=back) == changed(tool, to=there * 2)
    assert changed(tool, to=there) != changed(tool, to=["bo@example.org"])
    assert changed(in_order, to=there) != changed(in_order, to=back)
    assert changed(in_order, to=there) != changed(in_order, to=there * 2)


# rule: ledger.identity
def test_a_set_of_files_is_the_same_in_another_order() -> None:
    """Their bytes are what is attached."""
    tool, in_order = named({"set": "files.attached"}), named("files.attached")
    back = (BODY, ATTACHED[1], ATTACHED[0])

    assert of(files=FILES, tool=tool) == of(files=back, tool=tool)
    assert of(files=FILES, tool=in_order) != of(files=back, tool=in_order)
    assert of(files=FILES, tool=tool) != of(files=(BODY, ATTACHED[0]), tool=tool)


# rule: ledger.identity
def test_a_set_that_is_left_out_is_an_empty_one() -> None:
    """Both put nothing into the command; a caller that fills in what is empty asks for the same."""
    tool = named("sender", {"set": "tags"})
    without = {key: value for key, value in GIVEN.items() if key != "tags"}

    assert of(without, tool=tool) == changed(tool, tags=[])

    assert of(without, tool=tool) != changed(tool, tags=["a"])


WITH_SWITCHES = {
    "subject": {"type": "string"},
    "cc": {"type": "array", "items": {"type": "string"}},
    "urgent": {"type": "boolean"},
    "color": {"type": "string", "default": "auto"},
}


# rule: ledger.identity
def test_what_is_as_good_as_left_out_is_the_same_as_left_out() -> None:
    """A model that writes out what is empty, or what is the default, asks for the same thing."""
    tool = manifest(account="ana", parameters=WITH_SWITCHES, required=["subject"])
    plain = {"subject": "hi", "color": "auto"}
    for more in ({"cc": []}, {"urgent": False}, {"cc": [], "urgent": False}):
        assert of(plain | more, tool=tool) == of(plain, tool=tool)

    for other in ({"cc": ["a"]}, {"urgent": True}, {"color": "red"}):
        assert of(plain | other, tool=tool) != of(plain, tool=tool)


# rule: ledger.identity
def test_a_default_is_the_same_in_whatever_form_it_is_written_out() -> None:
    """Whoever leaves it out, and then writes it out in its own way, asks for the same thing."""
    to = EMAIL | {"default": "ana@example.org"}
    tool = manifest(account="ana", parameters={"to": to, "name": TEXT | {"default": "René"}})
    left_out = of({"to": "ana@example.org", "name": "René"}, tool=tool)

    for same in ({"to": "ana@EXAMPLE.org"}, {"name": "Rene\u0301"}):
        given = {"to": "ana@example.org", "name": "René"} | same
        assert of(given, tool=tool) == left_out

    assert of({"to": "ANA@example.org", "name": "René"}, tool=tool) != left_out


# rule: ledger.identity
def test_a_switch_that_is_written_out_counts_when_it_is_off() -> None:
    """The command sees "false" there, and without it nothing."""
    tool = manifest(
        account="ana", parameters={"urgent": {"type": "boolean"}}, env={"URGENT": "{urgent}"}
    )

    assert of({"urgent": False}, tool=tool) != of({}, tool=tool)


# rule: ledger.identity
def test_a_parameter_that_is_added_with_a_default_leaves_old_attempts_what_they_are() -> None:
    """After a crash people upgrade and try again; what is unresolved must still be found."""
    before = manifest(account="ana", parameters={"subject": {"type": "string"}})
    after = manifest(account="ana", parameters=WITH_SWITCHES)

    old = of({"subject": "hi"}, tool=before)

    assert of({"subject": "hi", "color": "auto"}, tool=after) == old
    assert of({"subject": "hi", "color": "red"}, tool=after) != old


NUMBERS = manifest(
    account="ana",
    parameters={"n": {"type": "array", "items": {"type": "number"}}},
    identity=[{"set": "n"}],
)


# rule: ledger.identity
@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ([1, 2.5, 10], [10, 1.0, 2.5], True),
        ([1, 1.0], [1], True),
        ([0], [-0.0], True),
        ([1, 2], [1, 2.5], False),
        ([1, 10], [110], False),
    ],
)
def test_a_number_is_the_same_however_it_is_written(
    one: list[float], other: list[float], equal: bool
) -> None:
    """JSON knows one kind of number; a caller in another language writes 1.0 for 1."""
    assert (of({"n": one}, (), NUMBERS) == of({"n": other}, (), NUMBERS)) == equal


# -- the listed equivalences ----------------------------------------------------------------------

COMPOSED, DECOMPOSED = "Caf\u00e9", "Cafe\u0301"


# rule: ledger.identity
def test_texts_are_equal_when_they_are_equal_in_nfc() -> None:
    """Two keyboards write one letter as one sign or as two; nobody sees the difference."""
    assert COMPOSED != DECOMPOSED
    assert changed(subject=DECOMPOSED) == changed(subject=COMPOSED) == SAME
    assert changed(tags=[DECOMPOSED]) == changed(tags=[COMPOSED])


# rule: ledger.identity
@pytest.mark.parametrize(
    ("one", "other"),
    [("ﬁne", "fine"), ("x²", "x2"), ("Ａ", "A"), ("straße", "strasse"), ("a\u00a0b", "a b")],
)
def test_what_only_looks_or_sounds_alike_is_not_the_same(one: str, other: str) -> None:
    """NFKC and case folding would silence texts that say something else."""
    assert changed(subject=one) != changed(subject=other)


# rule: ledger.identity
def test_an_address_is_the_same_in_another_case_of_its_domain_only() -> None:
    """Domains know no case; before the @ the receiving host decides, and may tell Bo from bo."""
    assert changed(to=["bo@EXAMPLE.org", "cy@example.ORG"]) == SAME
    assert changed(sender="ana@Example.org") == SAME

    assert changed(to=["BO@example.org", "cy@example.org"]) != SAME
    assert changed(sender="Ana@example.org") != SAME


# rule: ledger.identity
def test_a_text_that_is_declared_as_no_address_keeps_its_case() -> None:
    """It may be a path, or a password hint; nobody said that it has a domain."""
    assert changed(subject="bo@EXAMPLE.org") != changed(subject="bo@example.org")
    assert changed(tags=["bo@EXAMPLE.org"]) != changed(tags=["bo@example.org"])


# -- on whose behalf ------------------------------------------------------------------------------

ASKED = manifest(parameters={"a": TEXT, "b": TEXT})
PAIR = manifest(
    parameters={"a": TEXT, "b": TEXT, "c": TEXT},
    required=["a", "b"],
    account="{a} {b}",
    identity=["c"],
)


# rule: ledger.namespace
def test_the_same_for_two_accounts_is_two_things() -> None:
    """One customer's mail must not silence another's."""
    ana = of({"a": "x"}, (), ASKED, account="ana")

    assert ana == of({"a": "x"}, (), ASKED, account="ana")
    for other in ("bea", "Ana", "ana ", "ana\u200b", "an"):
        assert of({"a": "x"}, (), ASKED, account=other) != ana


# rule: ledger.namespace
def test_an_account_of_the_request_is_none_that_a_manifest_makes_up() -> None:
    """Whoever may write an account into a request would share one that is not its own."""
    fixed = manifest(parameters={"a": TEXT, "b": TEXT}, account="ana")

    assert of({"a": "x"}, (), fixed) != of({"a": "x"}, (), ASKED, account="ana")


# rule: ledger.namespace
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("x y", "z"), ("x", "y z")),
        (("x", ""), ("", "x")),
        (('x","y', "z"), ("x", 'y","z')),
        (('x"],["b","y', "z"), ("x", 'y"],["b","z')),
        (("x\\", "z"), ("x", "\\z")),
    ],
)
def test_the_parts_of_an_account_cannot_run_into_one_another(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    """`x y` with `z` writes the same account as `x` with `y z`, and is another customer."""

    def account(pair: tuple[str, str]) -> str:
        return of({"a": pair[0], "b": pair[1]}, (), PAIR)

    assert account(one) == account(one)

    assert account(one) != account(other)


def canonical(text: str) -> str:
    return unicodedata.normalize("NFC", text)


SEPARATORS = st.text(st.sampled_from(' x"\\,:[]{}/|\u0301é\u00e9e'), max_size=4)
pairs = st.tuples(SEPARATORS, SEPARATORS).filter(lambda pair: f"{pair[0]} {pair[1]}".strip())


# rule: ledger.namespace
@settings(deadline=None)
@example(("x", "y "), ("x y", ""))
@example(("e\u0301", "x"), ("\u00e9", "x"))
@given(pairs, pairs)
def test_two_accounts_never_share_a_fingerprint(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    """Whatever separators are in them; equal are only those that are equal in NFC."""
    prints = [of({"a": a, "b": b, "c": "x"}, (), PAIR) for a, b in (one, other)]
    equal = [canonical(text) for text in one] == [canonical(text) for text in other]
    event(f"equal: {equal}")

    assert (prints[0] == prints[1]) == equal


WORDS = manifest(
    account="ana",
    parameters={
        "a": TEXT,
        "b": TEXT,
        "ab": TEXT,
        "n": {"type": "number"},
        "on": {"type": "boolean"},
        "many": {"type": "array", "items": TEXT},
    },
    files={"doc": {"required": False}, "more": {"required": False, "many": True}},
)
HASHES = st.sampled_from(["0" * 64, "1" * 64])
NAMES = ["a.txt", "b.txt", "ab.txt"]
documents = st.lists(st.builds(lambda s: FrozenFile("doc", "a.txt", 1, s), HASHES), max_size=1)
others = st.lists(
    st.builds(lambda n, s: FrozenFile("more", n, 1, s), st.sampled_from(NAMES[1:]), HASHES),
    max_size=2,
    unique_by=lambda file: file.name,
)
requests = st.tuples(
    st.fixed_dictionaries(
        {},
        optional={
            "a": SEPARATORS,
            "b": SEPARATORS,
            "ab": SEPARATORS,
            "n": st.integers(-2, 2) | st.sampled_from([0.5, 1.0, -0.0, 1e20]),
            "on": st.booleans(),
            "many": st.lists(SEPARATORS, max_size=3),
        },
    ),
    documents,
    others,
)


# rule: ledger.identity
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": "x"}, {"b": "x"}),
        ({"a": "x", "b": ""}, {"a": "", "b": "x"}),
        ({"a": "xy", "b": "z"}, {"a": "x", "b": "yz"}),
        ({"a": "b"}, {"ab": ""}),
        ({"many": ["x", "y"]}, {"many": ["x y"]}),
        ({"many": ["x", "y"]}, {"many": ["x", "y", ""]}),
        ({"many": ["x"]}, {"a": "x"}),
        ({"on": True}, {"n": 1}),
    ],
)
def test_what_is_said_under_one_name_is_not_said_under_another(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    """To Bo with copy to Cy is not to Cy with copy to Bo."""
    assert of(one, (), WORDS) == of(dict(one), (), WORDS)

    assert of(one, (), WORDS) != of(other, (), WORDS)


# rule: ledger.identity
def test_a_file_in_another_slot_is_another_thing() -> None:
    """What is attached is not what is said."""
    there, here = (FrozenFile(slot, "a.txt", 1, "0" * 64) for slot in ("doc", "more"))
    assert of({}, (there,), WORDS) == of({}, (there,), WORDS)

    assert of({}, (there,), WORDS) != of({}, (here,), WORDS)


def decomposed(value: Any) -> Any:
    if isinstance(value, str):
        return unicodedata.normalize("NFD", value)
    return [decomposed(item) for item in value] if isinstance(value, list) else value


@st.composite
def twins(draw: st.DrawFn) -> tuple[Any, Any]:
    """Two requests, as often as not the same one, as another keyboard would write it."""
    one = draw(requests)
    if draw(st.booleans()):
        return one, draw(requests)
    parameters, doc, more = one
    return one, ({name: decomposed(value) for name, value in parameters.items()}, doc, more)


def meaning(parameters: dict[str, Any], files: list[FrozenFile]) -> Any:
    """What is asked for, said once more in other words: values that Python compares."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return ("list", tuple(plain(item) for item in value))
        return (type(value) is bool, canonical(value) if isinstance(value, str) else value)

    return (
        {
            name: plain(value)
            for name, value in parameters.items()
            if value is not False and value != []
        },
        [[(f.name, f.sha256) for f in files if f.slot == slot] for slot in ("doc", "more")],
    )


# rule: ledger.identity
@settings(deadline=None, max_examples=300)
@given(twins())
def test_two_requests_share_a_fingerprint_only_when_they_mean_the_same(
    pair: tuple[Any, Any],
) -> None:
    """Too much in it lets a retry through, too little silences what is new."""
    prints, meant = [], []
    for parameters, doc, more in (*pair, pair[0]):
        files = [*doc, *more]
        prints.append(of(parameters, files, WORDS))
        meant.append(meaning(parameters, files))
    event(f"equal: {meant[0] == meant[1]}")

    assert prints[0] == prints[2]
    assert (prints[0] == prints[1]) == (meant[0] == meant[1])


MANY = {"many": {"type": "array", "items": TEXT}}


# rule: ledger.identity
@settings(deadline=None)
@given(st.lists(SEPARATORS, max_size=4), st.lists(SEPARATORS, max_size=4))
def test_two_sets_share_a_fingerprint_only_when_they_hold_the_same(
    one: list[str], other: list[str]
) -> None:
    """Order and repetition are all that a set forgives."""
    tool = manifest(account="ana", parameters=MANY, identity=[{"set": "many"}])

    equal = {canonical(text) for text in one} == {canonical(text) for text in other}

    assert (of({"many": one}, (), tool) == of({"many": other}, (), tool)) == equal
    assert of({"many": one}, (), tool) == of({"many": [*reversed(one), *one]}, (), tool)


# -- the key that a provider gets -----------------------------------------------------------------


# rule: ledger.idempotency-key
def test_the_key_is_the_same_for_the_same_action_and_another_beside_it() -> None:
    """A retry is known again; what a person wants twice must not be taken for one."""
    key = idempotency_key(SAME, None)
    assert key == idempotency_key(SAME, None) == idempotency_key(of(note="again"), None)

    assert idempotency_key(changed(subject="Other"), None) != key
    assert idempotency_key(SAME, "a-1") != key
    assert idempotency_key(SAME, "a-1") != idempotency_key(SAME, "a-2")
    assert idempotency_key(SAME, "a-1") == idempotency_key(SAME, "a-1")


# rule: ledger.idempotency-key
def test_the_key_tells_nothing_and_is_as_long_as_what_stands_in_for_it() -> None:
    """A provider, or a log on the way, must not learn the fingerprint; argv was checked for it."""
    key = idempotency_key(SAME, None)

    assert len(key) == len(NO_KEY) == KEY_DIGITS
    assert int(key, 16)
    assert key not in SAME
    assert key != NO_KEY


# rule: ledger.idempotency-key
def test_the_fingerprint_and_the_key_of_one_action_stay_what_they_are() -> None:
    """An update that changed them would let everything happen again, and no key be known."""
    tool = manifest(parameters={"a": TEXT}, account="ana")

    one = of({"a": "x"}, (), tool)

    assert one == "b4ad3ff64cdc4a8afc266f352a7c01dc2085301a6b976f20b63271f614308f55"
    assert idempotency_key(one, None) == "a592f81012271513ca17725f1bbbf7b1"
