"""Peers: three programs that speak `target/1`, each really started and spoken to by hand."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest

from executor.testing import engine
from executor.testing.house import House
from executor.testing.spec_reading import read_spec
from executor.testing.verdicts import Verdict
from tests.testing.peers_talk import PEERS, Peer, talking, until
from tools.peers import table

PLAIN, BWRAP, CLI = "plain_subprocess", "plain_bwrap", "executor_cli"
ALL = (PLAIN, BWRAP, CLI)
UNKNOWN_METHOD = -32601


@pytest.fixture
def home(tmp_path: Path) -> House:
    """The usual house of a scenario: the tool `test.post`, whose command is the recording fake."""
    house = House(tmp_path / "house")
    house.build()
    house.declare({})
    house.install("post", {})
    return house


@pytest.fixture(params=ALL)
def any_peer(request: pytest.FixtureRequest, home: House) -> Iterator[Peer]:
    """Each of them, open on the house."""
    if request.param != PLAIN:
        request.getfixturevalue("namespaced")
    with talking(request.param, home) as peer:
        yield peer


@pytest.fixture(params=(PLAIN, BWRAP))
def plain(request: pytest.FixtureRequest, home: House) -> Iterator[Peer]:
    """The two that know nothing, open on the house."""
    if request.param != PLAIN:
        request.getfixturevalue("namespaced")
    with talking(request.param, home) as peer:
        yield peer


@pytest.fixture
def line(namespaced: None, home: House) -> Iterator[Peer]:
    """The executor's command line, open on the house."""
    with talking(CLI, home) as peer:
        yield peer


# -- what the protocol asks of each ----------------------------------------------------------------


def test_an_unknown_method_is_said_to_be_one_and_a_known_one_is_answered(any_peer: Peer) -> None:
    """What a target cannot do must be told apart from what it fails in."""
    assert "run" in any_peer.call("hello", protocol="target/1")["can"]

    no = any_peer.answer(any_peer.ask("make-coffee"))

    assert no["error"]["code"] == UNKNOWN_METHOD
    assert any_peer.run()["status"] == "delivered"


def test_what_a_peer_says_that_it_can_is_known_to_it_and_nothing_else_is(any_peer: Peer) -> None:
    """A claim that is not kept would turn unsupported cases into broken ones."""
    can = any_peer.call("hello", protocol="target/1")["can"]
    methods = {"resolve", "find-out", "prune", "ledger", "receipt", "clock", "resume", "cancel"}

    answers = {one: any_peer.answer(any_peer.ask(one)) for one in methods}

    known = {
        one
        for one, answer in answers.items()
        if answer.get("error", {}).get("code") != UNKNOWN_METHOD
    }
    assert known == methods & set(can)


def test_another_protocol_is_not_taken_for_this_one(any_peer: Peer) -> None:
    """Two that only half understand one another find rules broken that are not."""
    assert "result" in any_peer.answer(any_peer.ask("hello", protocol="target/1"))

    assert "error" in any_peer.answer(any_peer.ask("hello", protocol="target/2"))


def test_a_run_is_answered_as_what_it_came_to(any_peer: Peer) -> None:
    """An answer that does not depend on the command would pass half of all scenarios."""
    home = any_peer.home
    delivered = any_peer.run(parameters={"to": "bo"})
    assert (delivered["status"], delivered["result_id"]) == ("delivered", "m-1")
    assert home.recorded()[0]["argv"] == ["--", "bo"]

    home.plan("post", {"then": {"exit": 64}, "sent": None})
    undelivered = any_peer.run(parameters={"to": "cy"})

    assert (undelivered["status"], undelivered["result_id"]) == ("undelivered", None)
    assert home.sent() == ["sent"]


def test_several_runs_are_under_way_at_once(any_peer: Peer) -> None:
    """Rules about two at a time are not tried by a target that takes one after the other."""
    home = any_peer.home
    home.program("post", MEETING.format(out=str(home.out), many=3))

    asked = [any_peer.start(name, parameters={"to": name}) for name in ("a", "b", "c")]

    answers = [any_peer.answer(number)["result"] for number in asked]
    assert [one["status"] for one in answers] == ["delivered"] * 3


MEETING = """
import os, sys, time
open(os.path.join({out!r}, "here-" + sys.argv[2]), "x").close()
while sum(name.startswith("here-") for name in os.listdir({out!r})) < {many}:
    time.sleep(0.01)
"""


def test_the_end_of_stdin_ends_a_peer(any_peer: Peer) -> None:
    """A tester that was killed must not leave its targets behind."""
    assert any_peer.run()["status"] == "delivered"
    assert any_peer.process.poll() is None

    assert any_peer.end() == 0


def test_a_closed_peer_says_so_and_ends(any_peer: Peer) -> None:
    """`restart` waits for both."""
    assert any_peer.process.poll() is None

    assert any_peer.call("close") == {}

    assert any_peer.process.wait() == 0


def test_a_command_finds_nothing_of_the_protocol(any_peer: Peer) -> None:
    """A command that read its caller's requests would take them from the peer."""
    home = any_peer.home
    home.plan("post", {"stdin_wait": 30})

    assert any_peer.run()["status"] == "delivered"

    [record] = home.recorded()
    assert (record["stdin"], record["stdin_at_eof"]) == ("", True)
    assert sorted(record["fds"]) == ["0", "1", "2"]


def test_a_run_that_is_cancelled_ends_and_the_next_one_runs(any_peer: Peer) -> None:
    """The caller that gave up must get an answer all the same."""
    home = any_peer.home
    home.plan("post", {"then": "hang"})
    asked = any_peer.start("one")
    until(lambda: len(home.recorded()) == 1)
    started = any_peer.below()
    assert started

    any_peer.call("cancel", run="one")

    assert any_peer.answer(asked)["result"]["status"] in ("undelivered", "unresolved")
    until(lambda: not any_peer.below())
    home.plan("post", {})
    assert any_peer.run(parameters={"to": "bo"})["status"] == "delivered"


# -- the two that know nothing ---------------------------------------------------------------------


@pytest.mark.parametrize("point", ["freeze", "claim", "look-up", "verify", "dispatch", "spawn"])
def test_a_plain_run_that_is_held_has_not_started(plain: Peer, point: str) -> None:
    """What an attacker does in the meantime has to come before the start."""
    home = plain.home
    source = home.root / "a.txt"
    source.write_text("old")
    asked = plain.start(pause=point, files={"attached": [str(source)]})
    told = plain.until_held()
    assert told["method"] == "paused"
    assert told["params"] == {"run": "one", "point": point, "frozen": {}}
    assert home.recorded() == []

    source.write_text("new")
    plain.call("resume", run="one")

    assert plain.answer(asked)["result"]["status"] == "delivered"
    assert [one["content"] for one in home.recorded()[0]["files"]] == ["new"]


@pytest.mark.parametrize("point", ["settle", "answer"])
def test_a_plain_run_that_is_held_at_its_end_has_sent(plain: Peer, point: str) -> None:
    """A caller that is killed here never hears of it."""
    asked = plain.start(pause=point)

    plain.until_held()

    assert plain.home.sent() == ["sent"]
    plain.call("resume", run="one")
    assert plain.answer(asked)["result"]["status"] == "delivered"


def test_a_held_run_that_is_cancelled_never_starts(plain: Peer) -> None:
    """Whoever gives up before the start must not be sent for."""
    asked = plain.start(pause="spawn")
    plain.until_held()

    plain.call("cancel", run="one")

    assert plain.answer(asked)["result"]["status"] == "undelivered"
    assert plain.run()["status"] == "delivered"
    assert plain.home.sent() == ["sent"]


def test_what_goes_wrong_in_a_plain_run_is_a_failure_and_not_a_fault(plain: Peer) -> None:
    """A script that stops with a traceback has sent nothing, and its caller knows that."""
    assert plain.run()["status"] == "delivered"

    for request in (
        {"tool": "no.such"},
        {"files": {"attached": ["/no/such/file"]}},
        {"parameters": {"to": None, "words": 7}},
    ):
        assert plain.run(**request)["status"] == "undelivered"

    assert plain.home.sent() == ["sent"]


def test_a_plain_run_past_its_deadline_is_a_failure(plain: Peer) -> None:
    """It is what everybody writes, and it is how things are sent twice."""
    plain.home.declare({"limits": {"deadline": "60 s"}})
    assert plain.run()["status"] == "delivered"

    plain.home.declare({"limits": {"deadline": "300 ms"}})
    plain.home.plan("post", {"then": "hang"})

    answer = plain.run()
    assert answer["status"] == "undelivered"
    assert answer["because"].startswith("TimeoutExpired")
    until(lambda: not plain.below())


EVERYTHING: dict[str, Any] = {
    "parameters": {
        "to": {"type": "string"},
        "words": {"type": "array", "items": {"type": "string"}},
        "loud": {"type": "boolean"},
        "quiet": {"type": "boolean"},
        "copies": {"type": "integer", "default": 2},
        "subject": {"type": "string"},
    },
    "files": {
        "attached": {"many": True},
        "body": {"name": "body.txt"},
        "extra": {"required": False},
    },
    "secrets": {
        "token": {"env": "TOKEN", "source": {"environment": "DEPLOY"}, "text": "t {secret}"}
    },
    "required": ["to", "loud"],
    "stage": {"rc": "quiet = yes", "deep/": "", "deep/er": "2"},
    "stdin": {"file": "body"},
    "env": {"FROM_HERE": "{to}/{copies}", "SUBJECT": "{subject}"},
    "argv": [
        "one",
        ["--to={to}", "{{braces}}", "{copies}", "--loud={loud}"],
        {"each": "words", "argv": ["-w", "{item}"]},
        {"each": "files.attached", "argv": ["-a{item}"]},
        {"when": "loud", "argv": ["--loud"]},
        {"when": "quiet", "argv": ["--quiet"]},
        {"when": "subject", "argv": ["{subject}"]},
        {"when": "files.extra", "argv": ["extra", "{files.extra}"]},
        {"when": "secrets.token", "argv": ["with-token"]},
        ["{files.body}"],
    ],
}


def test_a_plain_run_is_given_what_the_executor_gives(
    namespaced: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a competent script shows what the executor is for; a straw man shows nothing."""
    monkeypatch.setenv("DEPLOY", "made-up")
    seen = {}
    for name in (CLI, PLAIN, BWRAP):
        home = House(tmp_path / name)
        home.build()
        home.declare(EVERYTHING)
        home.install("post", {})
        for file in ("a.txt", "b.txt", "message"):
            (home.root / file).write_text(f"content of {file}")
        with talking(name, home) as peer:
            answer = peer.run(
                parameters={"to": "$(id) *", "words": ["x y", ""], "loud": True, "quiet": False},
                files={
                    "attached": [
                        str(home.root / "a.txt"),
                        {"path": str(home.root / "b.txt"), "name": "c.txt"},
                    ],
                    "body": str(home.root / "message"),
                },
            )
        assert answer["status"] == "delivered", answer
        [record] = home.recorded()
        seen[name] = (
            record["argv"],
            record["stdin"],
            [(one["path"], one.get("content")) for one in record["files"]],
            {key: record["env"].get(key) for key in ("FROM_HERE", "SUBJECT", "TOKEN")},
        )

    assert seen[PLAIN] == seen[CLI]
    assert seen[BWRAP] == seen[CLI]
    assert seen[CLI][0][0] == "one"


def test_a_plain_bwrap_has_no_network_and_writes_only_where_that_is_declared(
    namespaced: None, home: House
) -> None:
    """What it holds it must be seen to hold: the table would be unfair otherwise."""
    elsewhere = home.root / "elsewhere"
    tries = [{"write": str(elsewhere)}, {"write": str(home.out / "declared")}]
    home.plan("post", {"try": tries})
    with talking(PLAIN, home) as peer:
        peer.run()
    assert [one["ok"] for one in home.recorded()[0]["try"]] == [True, True]

    with talking(BWRAP, home) as peer:
        peer.run()

    record = home.recorded()[1]
    assert [one["ok"] for one in record["try"]] == [False, True]
    assert record["interfaces"] == ["lo"]


# -- the executor's command line -------------------------------------------------------------------


def test_the_command_line_tells_what_is_on_record(line: Peer) -> None:
    """What it says of an attempt has to be what the ledger and the receipt say."""
    assert line.call("ledger") == {"attempts": []}
    first = line.run()
    line.home.plan("post", {"then": {"exit": 64}})
    line.run(parameters={"to": "bo"})

    attempts = line.call("ledger")["attempts"]

    assert [one["state"] for one in attempts] == ["delivered", "released"]
    assert attempts[0]["attempt"] == first["attempt"]
    receipt = line.call("receipt", attempt=first["receipt"])
    assert receipt["predicate"]["result"]["status"] == "delivered"
    assert line.call("receipt", attempt="0" * 28) is None


def test_the_command_line_lets_a_person_decide_once(line: Peer) -> None:
    """Deciding is the only way out of an unresolved attempt."""
    line.home.plan("post", {"then": {"exit": 1}})
    unresolved = line.run()
    assert unresolved["status"] == "unresolved"
    word = {"attempt": unresolved["attempt"], "delivered": True, "result_id": "m-9"}

    decided = line.call("resolve", **word, who="ana", why="Bo has it")

    assert (decided["status"], decided["state"]) == ("ok", "delivered")
    assert decided["result_id"] == "m-9"
    again = line.call("resolve", **word, who="ana", why="Bo has it")
    assert (again["status"], again["code"]) == ("refused", "NOT_UNRESOLVED")


def test_the_command_line_finds_out_what_the_tool_knows(line: Peer) -> None:
    """A clear answer decides; it must not be lost on the way through a command line."""
    clear_answer = {"when": {"exit": 0}, "is": "delivered"}
    line.home.declare({"verify": {"command": "look", "argv": [], "outcomes": [clear_answer]}})
    line.home.program("look", "raise SystemExit(1)")
    line.home.plan("post", {"then": {"exit": 1}})
    attempt = line.run()["attempt"]
    unclear = line.call("find-out", attempt=attempt, who="ana")
    assert (unclear["status"], unclear["state"]) == ("ok", "unresolved")

    line.home.program("look", "raise SystemExit(0)")
    clear = line.call("find-out", attempt=attempt, who="ana")

    assert (clear["status"], clear["state"]) == ("ok", "delivered")


def test_the_command_line_forgets_only_what_is_old(line: Peer) -> None:
    """Pruning through it must mean what it means in a program."""
    line.home.declare({"ledger": {"window": "0 s"}})
    line.home.plan("post", {"then": {"exit": 64}})
    line.run()

    assert line.call("prune", keep_s=3600.0)["pruned"] == 0
    assert line.call("prune", keep_s=0.0)["pruned"] == 1

    assert line.call("ledger") == {"attempts": []}


def test_the_command_line_passes_on_that_nothing_could_be_opened(line: Peer) -> None:
    """A refusal to open is an answer, not a fault of the peer."""
    assert line.run()["status"] == "delivered"

    (line.home.manifests / "broken.yaml").write_text("executor: manifest/1\ntool: t.t\nguard: no\n")

    assert line.run(parameters={"to": "bo"})["code"] == "INVALID_MANIFEST"
    assert line.home.sent() == ["sent"]


def test_the_command_line_can_be_held_before_it_answers(line: Peer) -> None:
    """All is done then, and on record; only the caller does not know yet."""
    asked = line.start(pause="answer")

    line.until_held()

    assert line.home.sent() == ["sent"]
    assert [one["state"] for one in line.call("ledger")["attempts"]] == ["delivered"]
    line.call("resume", run="one")
    assert line.answer(asked)["result"]["status"] == "delivered"


def test_a_run_under_way_is_ended_and_answered_when_the_command_line_is_closed(line: Peer) -> None:
    """Stopping the executor leaves nothing in flight, whoever stands in front of it."""
    line.home.plan("post", {"then": "hang"})
    asked = line.start()
    until(lambda: len(line.home.recorded()) == 1)

    closed = line.ask("close")

    assert line.answer(asked)["result"]["status"] == "unresolved"
    assert line.answer(closed)["result"] == {}
    assert line.process.wait() == 0


def test_the_executor_is_killed_with_the_program_in_front_of_it(line: Peer) -> None:
    """`kill` in a scenario means the executor; one that lived on would settle its run."""
    line.home.plan("post", {"then": "hang"})
    line.start()
    until(lambda: len(line.home.recorded()) == 1)
    started = line.below()
    assert started

    line.process.send_signal(signal.SIGKILL)

    until(lambda: not any(one.is_running() for one in started))
    line.home.plan("post", {})
    with talking(CLI, line.home) as after:
        assert after.run()["code"] == "DUPLICATE_UNRESOLVED"


# -- the same scenarios, put to each ---------------------------------------------------------------

SCENARIOS = """
executor: spec/1
family: peers
given: {files: {a.txt: approved}}
rules:
  - id: peers.environment
    statement: A command does not see the environment of whoever starts it.
    why: It has the keys in it.
    scenarios:
      - id: a-key-of-the-parents
        given: {environment: {DEPLOY_KEY: made-up}}
        steps: [{run: {}}]
        then: {told: {status: delivered}, record: {env: {$not: {$contains: DEPLOY_KEY}}}}
        control:
          given: {environment: {DEPLOY_KEY: null}}
          then: {told: {status: delivered}, sent: 1}
  - id: peers.bytes
    statement: What was there when it was asked for is what is sent.
    why: Somebody writes into it meanwhile.
    scenarios:
      - id: the-source-is-altered-before-the-start
        given: {request: {files: {attached: ["${root}/a.txt"]}}}
        steps:
          - run: {as: held, pause: spawn}
          - write: {file: a.txt, content: altered!}
          - resume: held
        then: {told: {status: delivered}, files: {a.txt: approved}}
        control:
          without: write
          then: {told: {status: delivered}, files: {a.txt: approved}}
  - id: peers.once
    statement: The same is not sent twice.
    why: The caller lost its answer.
    scenarios:
      - id: asked-again
        steps: [{run: {as: first}}, {run: {as: again}}]
        then: {answers: {again: {status: refused}}, sent: 1}
        control:
          instead: {again: {run: {as: again, parameters: {to: bo}}}}
          then: {answers: {again: {status: delivered}}, sent: 2}
  - id: peers.record
    statement: What was sent is on record.
    why: Somebody will ask.
    scenarios:
      - id: one-that-went-wrong
        given: {commands: {post: {then: {exit: 1}}}}
        steps: [{run: {}}]
        then: {ledger: [unresolved], sent: 1}
        control:
          given: {commands: {post: {then: {exit: 0}}}}
          then: {told: {status: delivered}, ledger: [delivered], sent: 1}
"""


class Put(Protocol):
    """Gives the verdicts on one target, by rule, scenario first and control second."""

    async def __call__(self, target: str | None) -> dict[str, list[Verdict]]: ...


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """Four rules, each with a scenario and its control."""
    path = tmp_path / "peers.yaml"
    path.write_text(SCENARIOS)
    return path


@pytest.fixture
def put(namespaced: None, spec: Path) -> Put:
    """Put the scenarios to a target."""

    async def to(target: str | None) -> dict[str, list[Verdict]]:
        words = None if target is None else (sys.executable, str(PEERS / f"{target}.py"))
        outcome = await engine.run_all([read_spec(spec)], target=words, jobs=2)
        found: dict[str, list[Verdict]] = {}
        for verdict in outcome.verdicts:
            found.setdefault(verdict.case.rule.id.removeprefix("peers."), []).append(verdict)
        return found

    return to


def words(found: dict[str, list[Verdict]]) -> dict[str, list[str]]:
    return {rule: [one.word for one in verdicts] for rule, verdicts in found.items()}


def broken_expectations(found: dict[str, list[Verdict]]) -> dict[str, set[str]]:
    return {
        rule: {failure.key for one in verdicts for failure in one.failures}
        for rule, verdicts in found.items()
    }


async def test_the_executor_holds_what_the_scenarios_of_this_file_ask(put: Put) -> None:
    """Or else what the others fail in would prove nothing."""
    found = words(await put(None))

    assert set(found) == {"environment", "bytes", "once", "record"}
    assert all(one == ["passed", "passed"] for one in found.values())


async def test_a_plain_subprocess_fails_in_what_is_meant_and_its_controls_pass(put: Put) -> None:
    """A failure for another reason would say nothing about the rule."""
    found = await put(PLAIN)

    assert broken_expectations(found) == {
        "environment": {"record.env"},
        "bytes": {"files.a.txt"},
        "once": {"answers.again.status", "sent"},
        "record": set(),
    }
    for rule in ("environment", "bytes", "once"):
        assert words(found)[rule] == ["failed", "passed"]


async def test_what_a_plain_subprocess_cannot_be_asked_is_unsupported_and_never_passed(
    put: Put,
) -> None:
    """It has no ledger: nobody knows what one of it would say."""
    assert words(await put(None))["record"] == ["passed", "passed"]

    assert words(await put(PLAIN))["record"] == ["unsupported", "unsupported"]


async def test_a_plain_bwrap_is_given_credit_for_the_environment_alone(put: Put) -> None:
    """What a sandbox does hold has to show, or the table is an advertisement."""
    found = await put(BWRAP)

    assert words(found)["environment"] == ["passed", "passed"]
    assert words(found)["bytes"] == words(found)["once"] == ["failed", "passed"]


async def test_the_command_line_holds_what_it_can_be_asked(put: Put) -> None:
    """It is the same executor; only a run cannot be held in the middle."""
    assert words(await put(CLI)) == {
        "environment": ["passed", "passed"],
        "bytes": ["unsupported", "unsupported"],
        "once": ["passed", "passed"],
        "record": ["passed", "passed"],
    }


# -- the table -------------------------------------------------------------------------------------


def compare(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(PEERS / "compare"), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_table_has_a_line_for_each_rule_and_a_column_for_each_target(
    namespaced: None, spec: Path
) -> None:
    """One look has to show who promises what."""
    done = compare(str(spec), "--jobs", "2")

    assert done.returncode == 0, done.stderr
    rows = [re.split(r"\s{2,}", line) for line in done.stdout.split("\n\n")[0].splitlines()]
    assert rows == [
        ["rule", "executor", "executor-cli", "plain-subprocess", "plain-bwrap"],
        ["peers.environment", "holds 2", "holds 2", "FAILS 1/2", "holds 2"],
        ["peers.bytes", "holds 2", "cannot say 2/2", "FAILS 1/2", "FAILS 1/2"],
        ["peers.once", "holds 2", "holds 2", "FAILS 1/2", "FAILS 1/2"],
        ["peers.record", "holds 2", "holds 2", "cannot say 2/2", "cannot say 2/2"],
    ]


def test_as_json_each_failure_is_told_with_its_place(namespaced: None, spec: Path) -> None:
    """Whoever keeps the table over time reads it with a program."""
    done = compare(str(spec), "--json", "--only", "plain-subprocess", "-k", "asked-again")

    targets = json.loads(done.stdout)["targets"]
    assert list(targets) == ["plain-subprocess"]
    rules = {one["id"]: one for one in targets["plain-subprocess"]["rules"]}
    scenario, control = rules["peers.once"]["cases"]
    assert (scenario["verdict"], control["verdict"]) == ("failed", "passed")
    assert scenario["failures"][0]["key"] == "answers.again.status"
    assert rules["peers.bytes"]["cases"] == []


def test_a_spec_that_is_not_valid_is_told_and_nothing_is_compared(
    namespaced: None, spec: Path
) -> None:
    """A table of half of the rules looks like one of all."""
    assert compare(str(spec), "--only", "executor", "-k", "asked-again").returncode == 0

    spec.write_text(SCENARIOS.replace("sent: 2", "snet: 2"))

    done = compare(str(spec), "--only", "executor", "-k", "asked-again")
    assert (done.returncode, done.stdout) == (2, "")
    assert "snet" in done.stderr


async def test_a_target_that_breaks_is_neither_right_nor_wrong_in_the_table(
    spec: Path,
) -> None:
    """A target that ends at once would otherwise look like one that refuses."""
    run = partial(engine.run_all, [read_spec(spec)], chosen=lambda one: "once" in one.rule.id)
    whole = {"it": await run(target=(sys.executable, str(PEERS / f"{PLAIN}.py")))}
    assert "FAILS 1/2" in "\n".join(table.lines(whole)), "\n".join(table.reasons(whole))

    gone = {"it": await run(target=("true",))}

    assert "broken 2/2" in "\n".join(table.lines(gone))
