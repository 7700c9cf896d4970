"""The ledger at the command line: what is on record is shown, and what is in doubt is decided."""

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from executor.embedding import WINDOW_VARIABLE as WINDOW
from tests.cli.call import Cli, finish, read_terminal, terminal, until
from tests.cli.ledgers import (
    NOT_SENT,
    OUTCOMES,
    SENT,
    UNCLEAR,
    ledger,
    listed,
    run,
    states,
    verify,
    verifying,
)

# -- what a refused duplicate is told -------------------------------------------------------------


# rule: ledger.delivered
def test_the_same_words_run_again_are_told_what_happened_the_first_time(
    cli: Cli, namespaced: None
) -> None:
    """The caller lost its answer: it is in the refusal, and so is what to do."""
    sent = cli.fake(SENT)
    first = cli(*sent, "--json").result()

    again = cli(*sent, "--json")
    other = cli(*cli.fake(SENT), "--json")

    result = again.result()
    assert (again.code, result["code"], result["recovery"]) == (3, "DUPLICATE_DELIVERED", "stop")
    assert result["earlier"]["attempt"] == first["attempt"]
    assert result["earlier"]["result_id"] == "A1"
    assert result["earlier"]["receipt"] == first["receipt"]
    for part in (
        f"earlier    {first['attempt']}, delivered",
        "result id A1",
        str(cli.house.state / "receipts" / f"{first['receipt']}.json"),
        f"next       executor ledger show {first['attempt']} --state {cli.house.state}",
        f"--allow-duplicate {first['attempt']}",
    ):
        assert part in again.err
    assert other.result()["status"] == "delivered"
    assert states(cli) == ["delivered", "delivered"]


# rule: ledger.unresolved
def test_a_duplicate_of_what_may_have_happened_is_told_how_it_is_found_out(
    cli: Cli, namespaced: None
) -> None:
    """The next command stands there, ready to be copied; where the tool can, it asks the tool."""
    plain = cli.fake(UNCLEAR)
    first = cli(*plain)
    by_hand = cli(*plain)
    (attempt,) = [entry["attempt"] for entry in listed(cli)]
    verifying(cli, SENT)
    with_verify = cli(*plain)

    assert f"next       executor ledger show {attempt}" in first.err
    assert "refused (DUPLICATE_UNRESOLVED)" in by_hand.err
    resolving = f"executor ledger resolve {attempt} --state {cli.house.state} --delivered --why"
    assert f"next       executor ledger show {attempt} --state {cli.house.state}\n" in by_hand.err
    assert resolving in by_hand.err
    assert f"next       executor ledger verify {attempt} --state {cli.house.state}" in (
        with_verify.err
    )
    assert f"--manifest {cli.house.manifests}" in with_verify.err
    assert with_verify.err.index("ledger verify") < with_verify.err.index(resolving)
    assert states(cli) == ["unresolved"]


# rule: ledger.in-flight
def test_a_duplicate_of_what_still_runs_is_told_to_wait_and_how_to_look(
    cli: Cli, namespaced: None
) -> None:
    """Nobody knows yet how it ends; its receipt does not exist."""
    started = cli.house.root / "started"
    cli.house.manifest(
        isolation=cli.house.manifest().get("isolation", {}) | {"write": [str(cli.house.root)]}
    )
    words = cli.fake({"sent": str(started), "then": "hang"})
    with cli.start(*words) as process:
        until(started.exists, "the start")

        again = cli(*words, "--json")
        (entry,) = listed(cli)
        shown = ledger(cli, "show", entry["attempt"])

        process.terminate()
        finish(process)

    result = again.result()
    assert (again.code, result["code"], result["recovery"]) == (3, "DUPLICATE_IN_FLIGHT", "wait")
    assert result["earlier"] == {**result["earlier"], "state": "dispatching", "receipt": None}
    assert f"next       executor ledger show {entry['attempt']}" in again.err
    assert f"owner       process {process.pid}" in shown.out
    assert "receipt     none before its end" in shown.out
    assert states(cli) == ["unresolved"]


# rule: ledger.override-beside
def test_an_attempt_that_is_named_as_known_is_stood_beside_and_told(
    cli: Cli, namespaced: None
) -> None:
    """The next replay of the very same words is refused again: it names the older one."""
    words = cli.fake(SENT)
    first = cli(*words, "--json").result()["attempt"]

    beside = cli(*words, "--allow-duplicate", first[:20])
    replay = cli(*words, "--allow-duplicate", first, "--json")

    assert beside.code == 0
    assert f"beside     attempt {first}" in beside.out
    result = replay.result()
    assert (replay.code, result["code"]) == (3, "DUPLICATE_DELIVERED")
    assert result["earlier"]["attempt"] == listed(cli)[0]["attempt"] != first
    assert [entry["beside"] for entry in listed(cli)] == [first, None]


# rule: ledger.override-beside
def test_a_request_file_can_name_the_attempt_that_is_known(cli: Cli, namespaced: None) -> None:
    """A program writes it there, and nobody types it."""
    cli.house.manifest()
    request = {"executor": "request/1", "tool": "test.fake", "asked_by": {"role": "a"}}
    file = cli.house.file("request.json", json.dumps(request))
    first = cli("run", str(file), *cli.where, "--json").result()

    again = cli("run", str(file), *cli.where, "--json")
    file.write_text(json.dumps(request | {"allow_duplicate": first["attempt"]}))
    beside = cli("run", str(file), *cli.where, "--json")

    assert again.result()["code"] == "DUPLICATE_DELIVERED"
    assert (beside.code, beside.result()["ledger"]["beside"]) == (0, first["attempt"])


# rule: ledger.override-beside
def test_an_attempt_that_is_none_at_this_action_is_refused_as_known(
    cli: Cli, namespaced: None
) -> None:
    """A slip in the id must not look as if it had counted."""
    words = cli.fake(SENT)

    done = cli(*words, "--allow-duplicate", "0123456789", "--json")

    assert (done.code, done.result()["code"]) == (3, "UNKNOWN_ATTEMPT")
    assert cli(*words).code == 0


# rule: ledger.window
def test_a_window_of_0_is_said_with_every_end(cli: Cli, namespaced: None) -> None:
    """Whoever switched the guard off, nobody may be unaware of it."""
    off = {"EXECUTOR_DUPLICATE_WINDOW": "0"}
    words = cli.fake(SENT)

    guarded = cli(*words)
    done = cli(*words, env=off)
    as_json = cli(*words, "--json", env=off)

    assert "UNGUARDED" not in guarded.out
    assert (done.code, "UNGUARDED  the window for duplicates is 0" in done.out) == (0, True)
    assert as_json.result()["ledger"]["window_ms"] == 0
    assert cli(*words).code == 3


# rule: ledger.window
def test_a_window_without_a_unit_is_told_with_one_of_its_kind(cli: Cli) -> None:
    """Nobody knows what 5 of a window is, and a size is no help."""
    done = cli("doctor", *cli.where, env={WINDOW: "5"})

    assert done.code == 2
    assert f"{WINDOW}='5': '5' is not a number with a unit, such as 15 min" in done.err


# -- list -----------------------------------------------------------------------------------------


def test_the_list_has_the_newest_first_and_filters(cli: Cli, namespaced: None) -> None:
    """Whoever looks for one of many needs to say which."""
    cli.house.manifest(account=None)
    first = cli(*cli.fake(SENT), "--account", "ana", "--json").result()["attempt"]
    second = cli(*cli.fake(UNCLEAR), "--account", "bo", "--json").result()["attempt"]

    def ids(*words: str) -> list[str]:
        return [entry["attempt"] for entry in listed(cli, *words)]

    claimed = listed(cli)[0]["claimed_at"]
    assert ids() == [second, first]
    assert ids("--limit", "1") == [second]
    assert ids("--in", "delivered") == [first]
    assert ids("--account", "ana") == [first]
    assert ids("--tool", "test.fake") == [second, first]
    assert ids("--tool", "other.tool") == []
    assert ids("--since", "1 h") == [second, first]
    assert ids("--since", claimed) == [second]
    assert ids("--since", "2999-01-01T00:00:00+02:00") == []


def test_a_program_gets_every_attempt_and_people_are_told_of_the_rest(
    cli: Cli, namespaced: None
) -> None:
    """A list that is cut in silence is taken for all there is."""
    ids = [run(cli, SENT) for _ in range(3)]

    short = ledger(cli, "list", "--limit", "2")

    assert [entry["attempt"] for entry in listed(cli)] == ids[::-1]
    assert ids[0] not in short.out
    assert "these are the newest 2" in short.err


def test_a_pipe_gets_whole_ids_and_no_colors(cli: Cli, namespaced: None) -> None:
    """`executor ledger list | grep` has to find what the receipt says."""
    attempt = run(cli, SENT)

    piped = ledger(cli, "list", env={"COLUMNS": "20"})

    head, row = piped.out.splitlines()
    assert head.split() == ["ATTEMPT", "STATE", "CLAIMED", "TOOL", "ACCOUNT", "RESULT"]
    assert (row.split()[0], row.split()[-1]) == (attempt, "A1")
    assert "\x1b" not in piped.out


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_table_fits_its_terminal(cli: Cli, namespaced: None, columns: int) -> None:
    """A line that wraps is no table; what was cut shows it."""
    run(cli, {"stdout": f"id={'x' * 300}\n"})

    with terminal() as (ours, theirs):
        process = cli.start(
            *("ledger", "list", "--state", str(cli.house.state)),
            stdout=theirs,
            env={"TERM": "xterm", "NO_COLOR": "1", "COLUMNS": str(columns)},
        )
        lines = read_terminal(ours, theirs, process).splitlines()
        finish(process)

    assert max(map(len, lines)) <= columns
    assert lines[1].endswith("...")
    assert "delivered" in lines[1]


def test_a_reader_that_goes_away_is_no_fault(cli: Cli, namespaced: None) -> None:
    """`executor ledger list | head -1`"""
    run(cli, SENT)
    program = ["sh", "-c", '"$@" | head -1', "sh", *cli.through_shell("")[4:]]

    done = ledger(cli, "list", "--json", program=program)

    assert (done.out.count("\n"), done.err) == (1, "")


def test_what_a_server_wrote_is_shown_with_escapes(cli: Cli, namespaced: None) -> None:
    """A result id comes from outside, and a terminal obeys what it is shown."""
    nasty = "a\u202eb\x1b[2Jc"
    attempt = run(cli, {"stdout": f"id={nasty}\n"})

    for done in (ledger(cli, "list"), ledger(cli, "show", attempt)):
        assert "\u202e" not in done.out
        assert "\x1b" not in done.out
        assert "a\\u202eb\\x1b[2Jc" in done.out
    assert listed(cli)[0]["result_id"] == nasty


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["list", "--since", "2026-07-12T10:00:00"], "has no zone"),
        (["list", "--since", "2026-99-12"], "is no time"),
        (["list", "--since", "soon"], "is no duration"),
        (["list", "--in", "lost"], "unresolved"),
        (["list", "--limit", "0"], "--limit"),
        (["prune", "--older-than", "30"], "is no duration"),
        (["resolve", "x" * 28, "--why", "so"], "one of --delivered and --not-delivered"),
        (["resolve", "x" * 28, "--delivered", "--not-delivered", "--why", "so"], "one of"),
        (["resolve", "x" * 28, "--delivered"], "--why"),
        (["resolve", "x" * 28, "--delivered", "--why", " "], "--why"),
        (["resolve", "x" * 28, "--not-delivered", "--why", "so", "--result-id", "1"], "goes with"),
    ],
)
def test_words_that_are_not_understood_exit_with_2_and_change_nothing(
    cli: Cli, words: list[str], hint: str
) -> None:
    """With --json a program gets its one object here too."""
    cli("doctor", *cli.where)

    done = ledger(cli, *words, "--json")

    assert (done.code, done.result()["code"]) == (2, "INVALID_REQUEST")
    assert hint in done.err
    assert states(cli) == []


@pytest.mark.parametrize("words", [["list"], ["doubt", "--fail-if-any"], ["check"], ["prune"]])
def test_a_state_directory_without_a_ledger_is_no_empty_ledger(cli: Cli, words: list[str]) -> None:
    """A slip in the path must not read as "nothing is in doubt", nor begin a ledger there."""
    nowhere = cli.house.home / "nowhere"

    done = cli("ledger", *words, "--state", str(nowhere), "--json")
    cli("doctor", *cli.where, "--state", str(nowhere))
    after = cli("ledger", *words, "--state", str(nowhere))

    assert (done.code, done.result()["status"]) == (2, "refused")
    assert f"There is no ledger in {nowhere}" in done.err
    assert after.code == 0


# -- which attempt --------------------------------------------------------------------------------


# rule: ledger.by-attempt
def test_an_attempt_is_named_by_its_id_or_so_much_of_it_that_no_other_begins_so(
    cli: Cli, namespaced: None
) -> None:
    """Nobody types 28 characters; but a decision must never land on another attempt."""
    attempt = run(cli, UNCLEAR)
    mutilate(cli, attempt, number=1, name="0" * 28)
    too_short = ledger(cli, "resolve", "0" * 7, "--delivered", "--why", "so", "--json")
    mutilate(cli, run(cli, UNCLEAR), number=2, name="0" * 12 + "1" * 16)

    by_prefix = ledger(cli, "show", "0" * 13, "--json")
    of_two = ledger(cli, "resolve", "0" * 12, "--delivered", "--why", "so", "--json")
    unknown = ledger(cli, "resolve", "f" * 28, "--delivered", "--why", "so", "--json")

    assert json.loads(by_prefix.out)["attempt"] == "0" * 28
    assert "Give 8 characters of its id at least" in too_short.err
    for done in (too_short, of_two, unknown):
        assert (done.code, done.result()["code"]) == (2, "UNKNOWN_ATTEMPT")
        assert done.result()["rule"] == "ledger.by-attempt"
    assert "0" * 28 in of_two.err
    assert "0" * 12 + "1" * 16 in of_two.err
    assert states(cli) == ["unresolved", "unresolved"]


def mutilate(cli: Cli, attempt: str, *, number: int, name: str) -> None:
    """Give an attempt another id: nobody can wait for two that begin alike."""
    with contextlib.closing(sqlite3.connect(cli.house.state / "ledger.db")) as connection:
        changed = connection.execute(
            "UPDATE attempts SET id = ? WHERE id = ? AND number = ?", (name, attempt, number)
        )
        assert changed.rowcount == 1
        connection.commit()


# -- show -----------------------------------------------------------------------------------------


def test_all_that_is_known_of_an_attempt_is_shown(cli: Cli, namespaced: None) -> None:
    """Whoever has to decide needs all of it in one place."""
    words = cli.fake(UNCLEAR)
    cli(*words)
    (first,) = [entry["attempt"] for entry in listed(cli)]
    why = "the server has no trace of it"
    ledger(cli, "resolve", first, "--not-delivered", "--why", why, "--as", "ana")
    cli(*words)
    second = listed(cli)[0]["attempt"]

    old = json.loads(ledger(cli, "show", first, "--json").out)
    new = json.loads(ledger(cli, "show", second, "--json").out)
    people = ledger(cli, "show", first).out

    assert (old["state"], new["state"]) == ("released", "unresolved")
    assert [entry["attempt"] for entry in old["later"]] == [second]
    assert [entry["attempt"] for entry in new["earlier"]] == [first]
    assert old["earlier"] == new["later"] == new["notes"] == []
    (note,) = old["notes"]
    assert (note["kind"], note["by"], note["text"]) == ("resolved", "ana", f"released: {why}")
    assert old["receipt"] == first
    assert old["receipt_path"] == str(cli.house.state / "receipts" / f"{first}.json")
    for part in (first, "released", why, "ana", second, old["receipt_path"], old["fingerprint"]):
        assert part in people


# -- resolve --------------------------------------------------------------------------------------


# rule: ledger.unresolved
def test_a_person_decides_what_is_unresolved_and_nothing_else(cli: Cli, namespaced: None) -> None:
    """A word too late must not turn a delivery into none."""
    words = cli.fake(UNCLEAR)
    attempt = cli(*words, "--json").result()["attempt"]
    why = ["--why", "it is in the server's log"]

    by = ["--as", "ana"]
    shown = ledger(cli, "resolve", attempt, "--delivered", "--result-id", "Q7", *why, *by)
    again = ledger(cli, "resolve", attempt, "--not-delivered", *why, "--json")
    replay = cli(*words, "--json")

    assert shown.code == 0
    assert f"Attempt {attempt}: delivered\n" in shown.out
    assert "unresolved" not in shown.out
    assert shown.out.splitlines()[-1] == "By word of ana, it happened."
    assert (again.code, again.result()["code"]) == (3, "NOT_UNRESOLVED")
    assert f"Attempt {attempt} is delivered since " in again.err
    assert "by word of ana (delivered (id 'Q7'): it is in the server's log)" in again.err
    assert replay.result()["code"] == "DUPLICATE_DELIVERED"
    assert replay.result()["earlier"]["result_id"] == "Q7"
    assert states(cli) == ["delivered"]


# rule: ledger.unresolved
def test_what_did_not_happen_by_word_of_a_person_may_be_asked_again(
    cli: Cli, namespaced: None
) -> None:
    """Until somebody says so, it may not."""
    words = cli.fake(UNCLEAR)
    attempt = cli(*words, "--json").result()["attempt"]
    before = cli(*words, "--json").result()

    said = ledger(cli, "resolve", attempt, "--not-delivered", "--why", "asked Bo", "--json")
    after = cli(*words, "--json").result()

    assert before["code"] == "DUPLICATE_UNRESOLVED"
    decided = json.loads(said.out)
    assert (decided["state"], decided["decided_by"]) == ("released", "person")
    assert after["code"] == "OUTCOME_UNKNOWN"
    assert states(cli) == ["released", "unresolved"]


def test_bytes_that_are_no_text_are_put_on_record_with_escapes(cli: Cli, namespaced: None) -> None:
    """An argument can hold any bytes; a database and JSON cannot."""
    attempt = run(cli, UNCLEAR)
    words = ["resolve", attempt, "--delivered", "--why", os.fsdecode(b"caf\xe9")]

    done = ledger(cli, *words, "--result-id", os.fsdecode(b"\xff1"), "--json")

    assert done.code == 0
    assert json.loads(done.out)["result_id"] == "\\xff1"
    assert ledger(cli, "list", "--tool", os.fsdecode(b"\xff")).out == "No attempts.\n"


# -- verify ---------------------------------------------------------------------------------------


# rule: ledger.evidence
@pytest.mark.parametrize(
    ("answer", "code", "state", "words"),
    [
        (SENT, 0, "delivered", "it happened"),
        (NOT_SENT, 0, "released", "it did not happen"),
        (UNCLEAR, 4, "unresolved", "no clear answer"),
    ],
    ids=["delivered", "undelivered", "unclear"],
)
def test_a_tool_that_can_find_out_is_asked(
    cli: Cli, namespaced: None, answer: dict[str, Any], code: int, state: str, words: str
) -> None:
    """Only a clear answer decides; the exit code says whether there was one."""
    verifying(cli, answer)
    attempt = run(cli, UNCLEAR)

    done = verify(cli, attempt[:20], "--as", "bo")

    assert (done.code, states(cli)) == (code, [state])
    assert words in done.out
    (note,) = json.loads(ledger(cli, "show", attempt, "--json").out)["notes"]
    assert (note["kind"], note["by"]) == ("evidence", "bo")


# rule: ledger.evidence
def test_a_question_that_could_not_be_asked_is_no_answer(cli: Cli, namespaced: None) -> None:
    """That the `verify` command did not start says nothing about the action."""
    broken = cli.house.bin / "broken"
    broken.write_bytes(b"\x7fELF and no more")
    broken.chmod(0o755)
    asked = {"command": "broken", "argv": [["-v"]], "outcomes": OUTCOMES}
    cli.house.manifest(verify=asked)
    attempt = run(cli, UNCLEAR)

    done = verify(cli, attempt)

    assert done.code == 4
    assert "no clear answer (SPAWN_FAILED)" in done.out
    assert "did not happen." not in done.out
    assert states(cli) == ["unresolved"]


# rule: ledger.evidence
def test_a_tool_that_cannot_find_out_says_so(cli: Cli, namespaced: None) -> None:
    """It is no answer, and no fault."""
    attempt = run(cli, UNCLEAR)

    done = verify(cli, attempt, "--json")
    unknown = verify(cli, "f" * 28, "--json")

    assert (done.code, done.result()["code"]) == (3, "NO_VERIFY_COMMAND")
    assert (unknown.code, unknown.result()["code"]) == (2, "UNKNOWN_ATTEMPT")
    assert states(cli) == ["unresolved"]


# rule: ledger.late-result
def test_evidence_against_a_decision_is_an_alarm_and_comes_first(
    cli: Cli, namespaced: None
) -> None:
    """Somebody was wrong, and only a person can find out who."""
    verifying(cli, SENT)
    wrong = run(cli, UNCLEAR)
    ledger(cli, "resolve", wrong, "--not-delivered", "--why", "no trace of it")
    other = run(cli, UNCLEAR)

    done = verify(cli, wrong, "--json")
    doubt = ledger(cli, "doubt", "--json")
    people = ledger(cli, "doubt")

    answer = json.loads(done.out)
    assert (done.code, answer["answer"], answer["clear"]) == (4, "delivered", True)
    assert answer["attempt"]["alarm"] is not None
    found = [json.loads(line) for line in doubt.out.splitlines()]
    assert [entry["attempt"] for entry in found] == [wrong, other]
    assert "2 attempts in doubt, 1 with an alarm" in people.out
    assert "ALARM: " in people.out


# -- doubt, prune, check --------------------------------------------------------------------------


# rule: ledger.unresolved
def test_doubt_is_an_exit_code_for_those_who_ask_for_it(cli: Cli, namespaced: None) -> None:
    """A monitor calls somebody by the code alone."""
    run(cli, SENT)
    calm = ledger(cli, "doubt", "--fail-if-any")
    attempt = run(cli, UNCLEAR)

    asked = ledger(cli, "doubt", "--fail-if-any")
    looked = ledger(cli, "doubt")

    assert (calm.code, calm.out) == (0, "0 attempts in doubt.\n")
    assert (asked.code, looked.code) == (4, 0)
    assert attempt in asked.out


# rule: ledger.pruning
def test_pruning_forgets_what_is_old_and_settled_and_nothing_else(
    cli: Cli, namespaced: None
) -> None:
    """What blocks, and what is open, has to stay, whatever was asked."""
    cli(*cli.fake(SENT), env={"EXECUTOR_DUPLICATE_WINDOW": "0"})
    in_doubt, blocking = run(cli, UNCLEAR), run(cli, SENT)
    short = cli.house.file("executor.yaml", "executor: config/1\nledger: {window: 0 s}\n")
    known = ("--manifest", str(cli.house.manifests))

    usual = ledger(cli, "prune", *known)
    inside = ledger(cli, "prune", "--older-than", "0 s", *known)
    unknown = ledger(cli, "prune", "--older-than", "0 s", "--config", str(short))
    outside = ledger(cli, "prune", "--older-than", "0", "--config", str(short), "--json", *known)

    assert usual.out.splitlines()[0] == "0 attempts forgotten, 3 kept:"
    assert inside.out == usual.out
    assert unknown.out.splitlines()[0] == "0 attempts forgotten, 3 kept:"
    assert (told := json.loads(outside.out))["pruned"] == 1
    assert told["kept"] == {**told["kept"], "delivered": 1, "unresolved": 1}
    assert told["why"] == {**told["why"], "inside-its-window": 1, "unresolved": 1, "young": 0}
    assert {entry["attempt"] for entry in listed(cli)} == {in_doubt, blocking}
    assert len(cli.receipts()) == 3


# rule: ledger.pruning
def test_pruning_says_why_what_is_kept_is_kept(cli: Cli, namespaced: None) -> None:
    """ "0 forgotten" alone looks like a fault."""
    off = {WINDOW: "0"}
    short = cli.house.file("executor.yaml", "executor: config/1\nledger: {window: 0 s}\n")
    started = cli.house.root / "started"
    cli.house.manifest(
        isolation=cli.house.manifest().get("isolation", {}) | {"write": [str(cli.house.root)]}
    )
    cli(*cli.fake(SENT), env=off)
    run(cli, UNCLEAR)
    run(cli, SENT)
    with cli.start(*cli.fake({"sent": str(started), "then": "hang"})) as process:
        until(started.exists, "the start")
        known = ("--config", str(short), "--manifest", str(cli.house.manifests))
        done = ledger(cli, "prune", *known)
        by_window = ledger(cli, "prune", *known, env={WINDOW: "1 h"})
        process.terminate()
        finish(process)

    assert [line.split(maxsplit=1) for line in done.out.splitlines()[1:]] == [
        ["1", "on its way"],
        ["1", "unresolved, until somebody decides"],
        ["1", "inside its window"],
        ["1", "settled less than 90 d ago"],
    ]
    assert "     2  inside its window" in by_window.out


def damage(cli: Cli) -> None:
    """Write over the pages of the ledger."""
    path = cli.house.state / "ledger.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = path.stat().st_size
    with path.open("r+b") as database:
        database.seek(4096)
        database.write(b"\xa5" * (size - 4096))


# rule: ledger.sound-store
def test_a_damaged_store_is_found_and_told_with_what_to_do(cli: Cli, namespaced: None) -> None:
    """Nothing is repaired: an emptied ledger would let everything happen again."""
    run(cli, SENT)
    sound = ledger(cli, "check", "--json")
    damage(cli)
    content = (cli.house.state / "ledger.db").read_bytes()

    broken = ledger(cli, "check", "--json")
    people = ledger(cli, "check")
    looked = ledger(cli, "list", "--json")

    assert (sound.code, json.loads(sound.out)["sound"]) == (0, True)
    assert json.loads(sound.out)["counts"]["delivered"] == 1
    found = json.loads(broken.out)
    assert (broken.code, found["sound"]) == (3, False)
    assert "damaged" in found["found"]
    assert "Nothing was repaired" in found["todo"]
    assert (people.code, "NOT sound" in people.out) == (3, True)
    assert (looked.code, looked.result()["code"]) == (3, "STORE_UNAVAILABLE")
    assert (cli.house.state / "ledger.db").read_bytes() == content


# -- doctor ---------------------------------------------------------------------------------------


def doctor(cli: Cli, **env: str) -> tuple[int, dict[str, Any], str]:
    as_json = cli("doctor", *cli.where, "--json", env=env)
    people = cli("doctor", *cli.where, env=env)
    assert people.code == as_json.code
    found: dict[str, Any] = json.loads(as_json.out)["ledger"]
    return as_json.code, found, people.out


def test_doctor_says_how_the_ledger_is(cli: Cli, namespaced: None) -> None:
    """A deployment asks one command for everything."""
    run(cli, SENT)
    run(cli, UNCLEAR)

    code, found, people = doctor(cli)

    assert (code, found["sound"], found["in_doubt"], found["alarms"]) == (0, True, 1, 0)
    assert found["counts"] == {"delivered": 1, "unresolved": 1}
    assert found["path"] == str(cli.house.state / "ledger.db")
    assert (found["window_ms"], found["window_forced"]) == (900_000, False)
    assert "a delivery blocks the same for 15 min" in people
    assert "1 in doubt" in people
    assert f"SQLite {found['sqlite']}, journal {found['journal']}" in people
    assert ("IN MEMORY" in people) == (found["file_system"] == "tmpfs")


# rule: ledger.sound-store
def test_doctor_says_loudly_that_the_ledger_is_in_memory(cli: Cli) -> None:
    """Every sync succeeds there, and a reboot makes everything possible again."""
    memory = Path("/dev/shm") / f"executor-{os.getpid()}"
    try:
        done = cli("doctor", *cli.where, "--state", str(memory))
        as_json = cli("doctor", *cli.where, "--state", str(memory), "--json")
    finally:
        shutil.rmtree(memory, ignore_errors=True)

    assert json.loads(as_json.out)["ledger"]["file_system"] == "tmpfs"
    assert "IN MEMORY: it lies on tmpfs, and a reboot wipes it" in done.out


# rule: ledger.window
def test_doctor_says_loudly_that_a_window_is_0(cli: Cli) -> None:
    """By whoever it was set, and for one tool alone too."""
    cli.house.manifest(ledger={"window": "0 s"})

    _, usual, people = doctor(cli)
    _, forced, told = doctor(cli, EXECUTOR_DUPLICATE_WINDOW="0")

    assert usual["other_windows_ms"] == {"test.fake": 0}
    assert "test.fake: UNGUARDED" in people
    assert (forced["window_ms"], forced["window_forced"]) == (0, True)
    assert "UNGUARDED: the window is 0, forced by EXECUTOR_DUPLICATE_WINDOW" in told


# rule: ledger.sound-store
def test_doctor_says_what_is_wrong_with_a_store_and_all_else_beside(cli: Cli) -> None:
    """It is asked because something is wrong: then it must not give up."""
    cli("doctor", *cli.where)
    damage(cli)

    code, found, people = doctor(cli)

    assert (code, found["sound"]) == (1, False)
    assert "damaged" in found["wrong"]
    assert "NOT SOUND" in people
    assert "Isolation, each level tried" in people
    assert str(cli.house.state) in people


@pytest.fixture
def old_sqlite(cli: Cli) -> Path:
    """An interpreter in which the SQLite says that it is of before the fix."""
    site = cli.house.home / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import apsw\napsw.sqlite_lib_version = lambda: '3.51.2'\n"
    )
    return site


# rule: ledger.safe-journal
def test_doctor_says_that_a_rollback_journal_is_used_and_why(cli: Cli, old_sqlite: Path) -> None:
    """It is slower, and whoever wonders has to find the reason."""
    _, usual, _ = doctor(cli)
    for left in cli.house.state.glob("*"):
        subprocess.run(["rm", "-r", str(left)], check=True)

    _, found, people = doctor(cli, PYTHONPATH=f"{old_sqlite}:{cli.env['PYTHONPATH']}")

    assert (usual["journal"], usual["wal_reset_fix"]) == ("wal", True)
    assert (found["journal"], found["wal_reset_fix"]) == ("persist", False)
    assert "WAL-reset bug" in people
