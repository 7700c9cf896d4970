"""Freezing: the digest of an action covers whatever could change what happens, and no more."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from executor.frozen import Admitted, Endpoint, FrozenFile, Target, covered, digest
from executor.manifest import Secret, SecretSource
from executor.request import AskedBy, Request, SourceFile
from tests.freezing.values import ENVIRONMENT, FILES, admitted, change, manifest
from tests.house import House

BASE = digest(admitted(), FILES, ENVIRONMENT)
MATTERS: list[tuple[str, Any]] = [
    ("asked.tool", "test.other"),
    ("asked.manifest_sha256", "1" * 64),
    ("asked.argv", ("--to", "bea")),
    ("asked.argv", ("--to", "bo", "")),
    ("asked.argv", ("bo", "--to")),
    ("asked.argv", ("--tobo",)),
    ("asked.argv", ("--to bo",)),
    ("asked.stdin", "hello\n"),
    ("asked.stdin", ""),
    ("asked.stdin", None),
    ("asked.stage", {"conf": "other"}),
    ("asked.stage", {"conf2": "text"}),
    ("asked.stage", {}),
    ("asked.stage", {"conf": "text", "empty/": ""}),
    ("asked.account", "bea"),
    ("asked.targets", ()),
    ("asked.targets.0", Target("mail:send", "bea")),
    ("asked.targets.0", Target("mail:send", None)),
    ("asked.targets.0", Target("mail:draft", "bo")),
    ("command.files.0.sha256", "e" * 64),
    ("command.files.1.sha256", "e" * 64),
    ("command.files.0.path", "/usr/local/bin/python3"),
    ("command.files.1.path", "/usr/local/bin/act"),
    ("command.prefix", ("/usr/bin/act",)),
    ("reach.level", "bare"),
    ("reach.network", "none"),
    ("reach.endpoints", ()),
    ("reach.endpoints.0", Endpoint("localhost", 26)),
    ("reach.endpoints.0", Endpoint("localhost.", 25)),
    ("reach.read", ("/srv",)),
    ("reach.read", ()),
    ("reach.write", ("/srv",)),
    ("reach.write", ()),
    ("secrets", ()),
    ("secrets.0.name", "other"),
    ("secrets.0.source", SecretSource(file="/etc/other")),
    ("secrets.0.source", SecretSource(environment="/etc/key")),
    ("secrets.0.source", SecretSource(command=("/etc/key",))),
    ("secrets.0.declared", Secret(env="OTHER", text="k {secret}")),
    ("secrets.0.declared", Secret(env="KEY", text="{secret}")),
    ("secrets.0.declared", Secret(file=True, text="k {secret}")),
    *(
        ("manifest.limits", manifest(limits=limits).limits)
        for limits in (
            {"deadline": "11 s"},
            {"deadline": "10.001 s"},
            {"deadline": "10 s", "grace": "1 s"},
            {"deadline": "10 s", "grace": "5.001 s"},
            {"deadline": "10 s", "output": "1 B"},
            {"deadline": "10 s", "memory": "1 MiB"},
            {"deadline": "10 s", "processes": 1},
            {"deadline": "10 s", "file_size": "1 MiB"},
            {"deadline": "10 s", "open_files": 16},
            {"deadline": "10 s", "cpu": "9 s"},
            {"deadline": "10 s", "scratch": "1 MiB"},
        )
    ),
]


# rule: freezing.digest-covers-all
@pytest.mark.parametrize(("path", "new"), MATTERS, ids=lambda value: str(value)[:40])
def test_one_thing_that_could_change_the_outcome_changes_what_digest_covers_all_gives(
    path: str, new: Any
) -> None:
    """Anything different is a different action, and needs a yes of its own."""
    assert digest(admitted(), FILES, ENVIRONMENT) == BASE

    assert digest(change(admitted(), path, new), FILES, ENVIRONMENT) != BASE


# rule: freezing.digest-covers-all
def test_no_two_of_these_are_one_action_by_what_digest_covers_all_gives() -> None:
    """None and the empty text, a file and a variable of one name: each is its own."""
    digests = {digest(change(admitted(), *this), FILES, ENVIRONMENT) for this in MATTERS}

    assert len(digests) == len(MATTERS)


# rule: freezing.digest-covers-all
@pytest.mark.parametrize(
    "files",
    [
        (),
        FILES[:1],
        (FILES[1], FILES[0]),
        (FrozenFile("doc", "a.txt", 3, "b" * 64), FILES[1]),
        (FrozenFile("doc", "c.txt", 3, "a" * 64), FILES[1]),
        (FrozenFile("doc2", "a.txt", 3, "a" * 64), FILES[1]),
        (FrozenFile("doc", "a.txt", 4, "a" * 64), FILES[1]),
    ],
)
def test_other_files_change_what_digest_covers_all_gives(files: tuple[FrozenFile, ...]) -> None:
    """One byte, one name, or the order: another message."""
    assert digest(admitted(), files, ENVIRONMENT) != BASE


# rule: freezing.digest-covers-all
@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"HOME": "{staging}/home"},
        {**ENVIRONMENT, "MODE": "live"},
        {**ENVIRONMENT, "MODE": ""},
        {**ENVIRONMENT, "MODE2": "test"},
        {"HOME": "test", "MODE": "{staging}/home"},
    ],
)
def test_another_environment_changes_what_digest_covers_all_gives(
    environment: Mapping[str, str],
) -> None:
    """A variable can say `live` where the approver saw `test`."""
    assert digest(admitted(), FILES, environment) != BASE


SAME: list[tuple[str, Any]] = [
    ("id", "attempt-2"),
    ("request.note", "hurry"),
    ("request.files", {"doc": ("elsewhere/a.txt", "elsewhere/b.txt")}),
    ("request.asked_by", AskedBy(role="assistant", channel="http", sender="ana")),
    ("asked.files.0.path", "elsewhere/a.txt"),
    ("reach.missing", ()),
    ("manifest.summary", "Do it, please."),
]


# rule: freezing.digest-covers-all
@pytest.mark.parametrize(("path", "new"), SAME, ids=lambda value: str(value)[:40])
def test_what_cannot_change_the_outcome_stays_out_of_what_digest_covers_all_gives(
    path: str, new: Any
) -> None:
    """Case 19. A volatile field in the key makes every retry look new."""
    assert digest(change(admitted(), path, new), FILES, ENVIRONMENT) == BASE


# rule: freezing.digest-covers-all
def test_the_order_of_keys_does_not_matter_to_what_digest_covers_all_gives() -> None:
    """JSON objects have none."""
    backwards = dict(reversed(ENVIRONMENT.items()))
    one = change(admitted(), "asked.stage", {"a": "1", "b": "2"})
    other = change(admitted(), "asked.stage", {"b": "2", "a": "1"})
    assert list(backwards) != list(ENVIRONMENT)

    assert digest(admitted(), FILES, backwards) == BASE
    assert digest(one, FILES, ENVIRONMENT) == digest(other, FILES, ENVIRONMENT)


# rule: freezing.digest-covers-all
def test_values_are_covered_by_digest_and_never_appear_in_what_digest_covers_all_writes() -> None:
    """What is covered is put on record and shown; a value could be private."""
    told = json.dumps(covered(admitted(), FILES, ENVIRONMENT))

    for private in ("hello", "{staging}/home", "k {secret}"):
        assert private not in told
        assert hashlib.sha256(private.encode()).hexdigest() in told


# rule: freezing.digest-covers-all
def test_the_digest_is_of_the_canonical_form_that_digest_covers_all_promises() -> None:
    """Anybody can compute it again, in any language."""
    whole = covered(admitted(), FILES, ENVIRONMENT)

    assert hashlib.sha256(rfc8785.dumps(whole)).hexdigest() == BASE
    again = json.loads(json.dumps(whole, ensure_ascii=False))
    assert hashlib.sha256(rfc8785.dumps(again)).hexdigest() == BASE


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
WORDS = st.lists(TEXT, max_size=4).map(tuple)


# rule: freezing.digest-covers-all
@given(WORDS, WORDS, TEXT, TEXT)
def test_parts_cannot_run_into_one_another_in_what_digest_covers_all_gives(
    argv: tuple[str, ...], other_argv: tuple[str, ...], account: str, other_account: str
) -> None:
    """Two actions have one digest only if they are one action."""

    def of(words: tuple[str, ...], whom: str) -> str:
        whole: Admitted = change(admitted(), "asked.argv", words)
        return digest(change(whole, "asked.account", whom), FILES, ENVIRONMENT)

    same = (argv, account) == (other_argv, other_account)
    assert (of(argv, account) == of(other_argv, other_account)) == same


# rule: freezing.digest-covers-all
async def test_the_gate_gives_one_digest_to_one_action_by_digest_covers_all(
    house: House, namespaced: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same through the real stages, from other places and with other words around it."""
    monkeypatch.chdir(house.root)
    declared: dict[str, Any] = {
        "files": {"doc": {}},
        "env": {"FLAVOUR": "{flavour}"},
        "stdin": {"text": "{words_in}"},
        "stage": {"conf": "mode={mode}\n"},
        "account": None,
        "parameters": {
            "plan": {"type": "string", "default": "{}"},
            "words": {"type": "array", "items": {"type": "string"}, "default": []},
            "mode": {"type": "string", "default": "test"},
            "flavour": {"type": "string", "default": "plain"},
            "words_in": {"type": "string", "default": "in"},
        },
    }
    house.manifest(**declared)
    for place in ("here", "there"):
        house.file(f"{place}/a.txt", "same")
    house.file("other/a.txt", "Same")
    house.file("here/b.txt", "same")

    async with house.open() as executor:
        gate = executor.gate
        count = 0

        async def of(
            path: Any = "here/a.txt", account: str = "ana", note: str | None = None, **words: Any
        ) -> str:
            nonlocal count
            count += 1
            request = Request(
                "test.fake",
                AskedBy(role="assistant"),
                parameters=words,
                files={"doc": path},
                account=account,
                note=note,
            )
            frozen, hold = await gate.freeze(gate.admit(f"attempt-{count}", request))
            hold.release()
            return frozen.digest

        base = await of()
        same = [
            await of(),
            await of("there/a.txt"),
            await of(str(Path.cwd() / "here/a.txt")),
            await of(SourceFile("here/b.txt", name="a.txt")),
            await of(note="hurry"),
            await of(mode="test", plan="{}"),
        ]
        different = [
            await of("other/a.txt"),
            await of("here/b.txt"),
            await of(account="bea"),
            await of(mode="live"),
            await of(flavour="sweet"),
            await of(words_in="In"),
            await of(words=["x"]),
            await of(words=["x", ""]),
            await of(words=["x", "y"]),
            await of(words=["x y"]),
        ]
        house.install("fake", (house.bin / "fake").read_text().split("\n", 1)[1] + "\n")
        different.append(await of())

    house.manifest(**declared, summary="Do something else.")
    async with house.open() as executor:
        gate = executor.gate
        different.append(await of())

    assert set(same) == {base}
    assert len({base, *different}) == len(different) + 1
