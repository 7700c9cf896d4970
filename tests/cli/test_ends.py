"""The end of an action: exit code, one JSON object, and words for people."""

import json
import signal
import subprocess
from typing import Any

import pytest

from executor.refusal import TABLE
from tests.cli.call import Cli, finish, until

ENDS: list[tuple[dict[str, Any], int, str, str | None, str | None]] = [
    ({"stdout": "id=A1\n"}, 0, "delivered", None, None),
    ({"then": {"exit": 64}}, 5, "undelivered", "NOTHING_SENT", "fix"),
    ({"then": {"exit": 9}}, 4, "unresolved", "OUTCOME_UNKNOWN", "ask"),
    ({"then": {"signal": 9}}, 4, "unresolved", "COMMAND_KILLED", "ask"),
]
IDS = ["delivered", "undelivered", "unknown", "killed"]


@pytest.mark.parametrize(("plan", "code", "status", "because", "recovery"), ENDS, ids=IDS)
def test_an_end_has_its_exit_code_and_exactly_one_json_object(
    cli: Cli,
    namespaced: None,
    plan: dict[str, Any],
    code: int,
    status: str,
    because: str | None,
    recovery: str | None,
) -> None:
    """Programs branch on the code and parse stdout: a word too much breaks them."""
    done = cli(*cli.fake(plan), "--json")

    result = done.result()
    assert done.code == code
    assert (result["status"], result["code"], result["recovery"]) == (status, because, recovery)
    assert cli.receipts()[0]["attempt"] == result["receipt"] == result["attempt"]
    cli.nothing_is_left()


# rule: records.receipt
@pytest.mark.parametrize(("plan", "code", "status", "because", "recovery"), ENDS, ids=IDS)
def test_people_read_the_end_its_code_what_helps_and_where_the_receipt_is(
    cli: Cli,
    namespaced: None,
    plan: dict[str, Any],
    code: int,
    status: str,
    because: str | None,
    recovery: str | None,
) -> None:
    """A delivery is an answer (stdout); everything else is news for whoever watches (stderr)."""
    done = cli(*cli.fake(plan))

    said, silent = (done.out, done.err) if code == 0 else (done.err, done.out)
    assert done.code == code
    assert silent == ""
    assert said.startswith("test.fake: ")
    assert because is None or f"({because})" in said
    assert recovery is None or f"\n  recovery   {recovery}: " in said
    assert f"{cli.receipts()[0]['attempt']}.json" in said


def test_a_delivery_with_json_says_nothing_on_stderr(cli: Cli, namespaced: None) -> None:
    """Whoever logs stderr wants silence where all is well; and a reason where it is not."""
    assert cli(*cli.fake(), "--json").err == ""

    assert "OUTCOME_UNKNOWN" in cli(*cli.fake({"then": {"exit": 9}}), "--json").err


def test_what_the_command_said_is_shown_where_it_failed(cli: Cli, namespaced: None) -> None:
    """The command's own words are often the only explanation; its last ones explain best."""
    text = {"stderr": "x" * 3000 + "\nthe reason\n", "then": {"exit": 9}}

    done = cli(*cli.fake(text))

    assert "\n  stderr (its last 2000 characters):\n" in done.err
    assert done.err.endswith("\n    the reason\n")


def test_a_refused_action_exits_with_3_and_tells_rule_code_stage_and_what_to_do(
    cli: Cli,
) -> None:
    """Whoever reads it must be able to act on it without reading our code."""
    cli.house.manifest(files={"data": {"required": True}})
    link = cli.house.root / "link"
    link.symlink_to("/etc/hostname")

    done = cli(*cli.fake(), "-f", "data=link", "--json")

    result = done.result()
    assert done.code == 3
    assert result["status"] == "refused"
    assert result["rule"] == "freezing.inside-roots"
    for part in (
        "test.fake: refused (FILE_OUTSIDE_ROOTS)",
        "rule       freezing.inside-roots, in stage freeze",
        "recovery   fix: ",
        result["todo"],
        f"{result['receipt']}.json",
    ):
        assert part in done.err
    assert cli.receipts()[0]["result"]["code"] == "FILE_OUTSIDE_ROOTS"


# rule: admission.closed-tools
# rule: admission.closed-parameters
@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (["run", "test.fkae"], "UNKNOWN_TOOL", "Did you mean 'test.fake'?"),
        (["run", "nothing.such"], "UNKNOWN_TOOL", "test.fake"),
        (["run", "test.fake", "-p", "paln={}"], "INVALID_PARAMETERS", "plan"),
        (["run", "test.fake", "-p", "plan=1", "-p", "plan=2"], "INVALID_PARAMETERS", "plan"),
        (["run", "test.fake", "-f", "data=x"], "INVALID_PARAMETERS", "data"),
        (["run", "test.fake", "-p", "plan=-x"], "ARGUMENT_LOOKS_LIKE_OPTION", "--"),
    ],
)
def test_a_request_that_is_not_valid_exits_with_2_and_says_what_is(
    cli: Cli, words: list[str], code: str, hint: str
) -> None:
    """Exit 2 tells a caller to repair its words; a refusal (3) is another matter."""
    if code == "ARGUMENT_LOOKS_LIKE_OPTION":
        cli.house.manifest(argv=[["{plan}"]])
    else:
        cli.house.manifest()

    done = cli(*words, *cli.where, "--json")

    assert (done.code, done.result()["code"]) == (2, code)
    assert hint in done.err
    assert cli.receipts()[0]["result"]["code"] == code


def test_a_command_that_is_not_there_is_refused_with_where_it_was_looked_for(cli: Cli) -> None:
    """PATH is not searched, so the places that are have to be named."""
    cli.house.manifest(command="no-such-command")

    done = cli(*cli.fake(), "--json")

    assert (done.code, done.result()["code"]) == (3, "COMMAND_NOT_FOUND")
    assert str(cli.house.bin) in done.err
    cli.nothing_is_left()


def test_a_fault_before_the_gate_has_the_request_proves_that_nothing_ran(cli: Cli) -> None:
    """A fault must never be taken for an end; but where we know that nothing ran, we say it."""
    planted = {"event": "open", "about": "blobs.lock", "raise": "planted"}

    done = cli(*cli.fake(), "--json", moment=planted)

    result = done.result()
    assert done.code == 70
    assert (result["status"], result["code"]) == ("undelivered", "EXECUTOR_FAULT")
    assert "a fault of the executor itself: RuntimeError: planted" in done.err
    assert "EXECUTOR_DEBUG=1" in done.err


def test_a_fault_inside_the_gate_proves_nothing(cli: Cli, namespaced: None) -> None:
    """Nobody knows how far it came, so nobody may ask again without a look."""
    cli.house.manifest(files={"data": {"required": True}})
    cli.house.file("data.bin")
    planted = {"event": "open", "about": "/holds/", "raise": "planted"}

    done = cli(*cli.fake(), "-f", "data=data.bin", "--json", moment=planted)

    assert done.code == 70
    assert (done.result()["status"], done.result()["recovery"]) == ("unresolved", "ask")
    assert "look before you ask again" in done.err
    cli.nothing_is_left()


def test_a_fault_shows_its_traceback_to_those_who_ask_for_it(cli: Cli) -> None:
    """A report without a place is no report; but it is for us, not for everybody."""
    planted = {"event": "open", "about": "blobs.lock", "raise": "planted"}

    done = cli(*cli.fake(), moment=planted, env={"EXECUTOR_DEBUG": "1"})

    assert done.code == 70
    assert "Traceback" in done.err


def test_every_recovery_has_words_for_people() -> None:
    """A refusal that cannot say what helps would be a fault while it is told."""
    from executor.cli.output import _RECOVERIES

    assert {row.recovery for row in TABLE} <= set(_RECOVERIES)


def test_the_result_without_a_receipt_has_the_keys_of_one_with() -> None:
    """A program reads one shape, however early the end came."""
    from executor.cli import signals
    from executor.cli.output import bare_result

    receipt_keys = set(json.loads(signals.RESULT))
    assert receipt_keys == set(bare_result())


def test_a_killed_executor_takes_the_command_along(cli: Cli, namespaced: None) -> None:
    """A command that outlives its executor acts later, unseen and unrecorded."""
    cli.house.manifest(isolation=_writing(cli))
    sent = cli.house.root / "sent.log"
    words = cli.fake({"sent": str(sent), "then": "hang"})
    with cli.start(*words) as process:
        until(sent.exists, "the effect")
        assert cli.processes()

        process.send_signal(signal.SIGKILL)
        done = finish(process)

    assert done.code == -signal.SIGKILL
    until(lambda: not cli.processes(), "the end of the command")
    assert cli.receipts() == []


def test_the_console_script_is_the_same_program(cli: Cli) -> None:
    """What is installed as `executor` has to be what was tested as `python -m executor`."""
    from importlib.metadata import entry_points

    (script,) = entry_points(group="console_scripts", name="executor")
    program = ["-c", f"from {script.module} import {script.attr} as main; main()"]

    done = cli(*program, "run", "nothing.such", "--json", program=[_python()])
    plain = cli("run", "nothing.such", "--json")

    assert done.code == plain.code == 2
    assert done.result()["code"] == plain.result()["code"] == "UNKNOWN_TOOL"


def _python() -> str:
    import sys

    return sys.executable


def _writing(cli: Cli) -> dict[str, Any]:
    declared = cli.house.manifest().get("isolation", {})
    return declared | {"write": [str(cli.house.root)]}


def test_a_run_needs_no_stdin_and_leaves_it_alone(cli: Cli, namespaced: None) -> None:
    """In a `while read` loop, a program that eats stdin ends the loop after its first line."""
    with cli.start(*cli.fake(), stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        done = finish(process)

    assert done.code == 0
