"""Ctrl-C, SIGTERM and SIGHUP, at whatever moment: the right exit code, and nothing left.

Moments inside the executor are named by what the interpreter does there (`moments/`), so that the
signal comes exactly then; moments of the command are seen by its effects.
"""

import json
import os
import signal
import sys
from typing import Any

import pytest

from tests.cli.call import CONTRACT, Cli, Done, finish, until

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
BEFORE: dict[str, dict[str, Any]] = {
    "first imports": {"event": "import", "about": "'click'"},
    "late imports": {"event": "import", "about": "'trio'"},
    "opening the state": {"event": "open", "about": "blobs.lock"},
    "starting the probe": {"event": "subprocess.Popen"},
    "probing": {"event": "resource.prlimit"},
    "copying the file": {"event": "open", "about": "/incoming/"},
    "holding the copy": {"event": "open", "about": "/holds/"},
    "verifying the copy": {"event": "open", "about": "/blobs/"},
}


def prepare(cli: Cli, **changes: Any) -> list[str]:
    """Give the words of a run that freezes a file, and has one effect."""
    isolation = cli.house.manifest().get("isolation", {}) | {"write": [str(cli.house.root)]}
    given: dict[str, Any] = {"isolation": isolation, "files": {"data": {"required": True}}}
    cli.house.manifest(**(given | changes))
    cli.house.file("data.bin", b"x" * 100_000)
    return ["-f", "data=data.bin"]


def sent(cli: Cli) -> bool:
    return (cli.house.root / "sent.log").exists()


def plan(cli: Cli, **more: Any) -> dict[str, Any]:
    return {"sent": str(cli.house.root / "sent.log"), **more}


def told_once(done: Done) -> None:
    """One line tells of the signal, and no fault is among what is told."""
    lines = done.err.splitlines()
    assert sum("SIG" in line for line in lines) == 1, done.err
    assert "Traceback" not in done.err
    assert "fault" not in done.err


# rule: spawning.cancel
@pytest.mark.parametrize(
    ("moment", "number"),
    [
        *((name, SIGNALS[place % 3]) for place, name in enumerate(BEFORE)),
        *(("copying the file", number) for number in SIGNALS),
    ],
)
def test_a_signal_before_the_start_exits_with_5_and_nothing_ran(
    cli: Cli, namespaced: None, moment: str, number: signal.Signals
) -> None:
    """Exit 5 is a proof that others act upon; a traceback would prove nothing."""
    words = [*cli.fake(plan(cli)), *prepare(cli), "--json"]

    done = cli(*words, moment=BEFORE[moment] | {"signal": number})

    assert done.code == 5
    result = done.result()
    assert (result["status"], result["code"]) == ("undelivered", "CANCELLED")
    assert not sent(cli)
    told_once(done)
    cli.nothing_is_left()


def test_a_signal_inside_the_gate_is_on_record(cli: Cli, namespaced: None) -> None:
    """A request that the gate had taken must not vanish without a trace."""
    words = [*cli.fake(plan(cli)), *prepare(cli), "--json"]

    done = cli(*words, moment=BEFORE["copying the file"] | {"signal": signal.SIGTERM})

    (receipt,) = cli.receipts()
    assert receipt["result"]["code"] == "CANCELLED"
    assert done.result()["receipt"] == receipt["attempt"]


SETUP: dict[str, dict[str, Any]] = {
    "starting the sandbox": {"event": "subprocess.Popen"},
    "waiting for the sandbox": {"event": "open", "about": "/stat"},
    "looking at the sandbox": {"event": "open", "about": "/status"},
    "limiting the sandbox": {"event": "resource.prlimit"},
}


@pytest.mark.parametrize("moment", SETUP.values(), ids=SETUP.keys())
def test_a_signal_while_the_sandbox_is_set_up_leaves_no_process(
    cli: Cli, namespaced: None, moment: dict[str, Any]
) -> None:
    """It may just have been let go. Then the code is 4, whether it came as far as its effect."""
    words = [*cli.fake(plan(cli)), *prepare(cli), "--json"]
    after = {} if moment["event"] == "subprocess.Popen" else {"after": cli.mark}
    about = {"about": cli.mark} if moment["event"] == "subprocess.Popen" else {}

    done = cli(*words, moment=moment | after | about | {"signal": signal.SIGTERM})

    assert done.code in ((0, 4) if sent(cli) else (4, 5))
    assert cli.receipts()[0]["result"]["status"] == done.result()["status"]
    told_once(done)
    cli.nothing_is_left()


# rule: spawning.cancel
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_signal_while_the_command_runs_exits_with_4_and_ends_it(
    cli: Cli, namespaced: None, number: signal.Signals
) -> None:
    """The effect may have happened, so nobody may take this for a 'no'."""
    words = [*cli.fake(plan(cli, then="hang")), *prepare(cli), "--json"]
    with cli.start(*words) as process:
        until(lambda: sent(cli), "the effect")
        process.send_signal(number)
        done = finish(process)

    assert done.code == 4
    assert done.result()["code"] == "CANCELLED_WHILE_RUNNING"
    assert cli.receipts()[0]["result"]["code"] == "CANCELLED_WHILE_RUNNING"
    told_once(done)
    cli.nothing_is_left()


def test_a_second_signal_during_the_grace_changes_nothing(cli: Cli, namespaced: None) -> None:
    """Who presses Ctrl-C twice must not lose the end of the tree, nor the record of it."""
    words = [
        *cli.fake(plan(cli, then="ignore-term-and-hang")),
        *prepare(cli, limits={"grace": "1 s"}),
        "--json",
    ]
    with cli.start(*words) as process:
        until(lambda: sent(cli), "the effect")
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        first = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        done = finish(process)

    assert "SIGINT" in first
    assert "SIG" not in done.err
    assert (done.code, done.result()["code"]) == (4, "CANCELLED_WHILE_RUNNING")
    cli.nothing_is_left()


def test_a_signal_after_the_end_changes_nothing_about_it(cli: Cli, namespaced: None) -> None:
    """It was delivered, and that is on record: the code must not say otherwise."""
    words = [*cli.fake(plan(cli)), *prepare(cli), "--json"]
    moment = {"event": "os.remove", "about": "/receipts/", "signal": signal.SIGTERM}

    done = cli(*words, moment=moment)

    assert done.code == 0
    assert done.result()["status"] == "delivered"
    assert sent(cli)


def test_a_result_that_nobody_reads_does_not_hold_a_stopped_executor(
    cli: Cli, namespaced: None
) -> None:
    """A reader that has stopped reading must not make the executor immortal."""
    words = [*cli.fake(plan(cli, stdout={"repeat": "x", "bytes": 300_000})), *prepare(cli)]
    with cli.start(*words, "--json") as process:
        until(cli.receipts, "the receipt")
        until(lambda: _is_asleep(process.pid), "the wait for a reader")
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        until(lambda: process.poll() is not None, "the end")

    assert process.returncode == 0


def _is_asleep(pid: int) -> bool:
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "S"


def test_signals_that_are_ignored_stay_ignored(cli: Cli, namespaced: None) -> None:
    """`nohup executor run ... &` is how people keep a run alive when they log out."""
    words = [*cli.fake(plan(cli, then="hang")), *prepare(cli)]
    program = ["nohup", sys.executable, "-m", "executor"]
    with cli.start(*words, program=program) as process:
        until(lambda: sent(cli), "the effect")
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        done = finish(process)

    assert "SIGHUP" not in done.err
    assert "SIGTERM: ending what runs" in done.err


def test_any_moment_at_all(cli: Cli, namespaced: None) -> None:
    """Moments that nobody thought of: a signal at every so-many-th thing the interpreter does."""
    prepared = [*prepare(cli), "--json"]
    moments = [*range(1, 4000, 700), *range(4500, 6000, 110)]
    for count, at in enumerate(moments):
        (cli.house.root / "sent.log").unlink(missing_ok=True)
        number = SIGNALS[count % 3]

        words = [*cli.fake(plan(cli)), *prepared]
        done = cli(*words, moment={"at": [at, at + 3], "signal": number})

        assert done.code in ((0, 4) if sent(cli) else (4, 5)), (at, done)
        assert done.result()["status"] in ("delivered", "unresolved", "undelivered"), (at, done)
        assert done.err.count("SIG") <= 1, (at, done)
        cli.nothing_is_left()


def test_the_answer_of_the_first_moments_is_one_of_ours(cli: Cli) -> None:
    """It is written by hand, because nothing may be imported there."""
    from executor.cli import signals

    assert set(json.loads(signals.RESULT)) == CONTRACT
    assert signals.RESULT.count("\n") == 1


@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_signal_is_answered_without_anybody_to_tell(
    cli: Cli, namespaced: None, closed: str
) -> None:
    """A daemon without streams has to come to the same end."""
    words = [*cli.fake(plan(cli, then="hang")), *prepare(cli)]
    with cli.start(*words, program=cli.through_shell(closed)) as process:
        until(lambda: sent(cli), "the effect")
        process.send_signal(signal.SIGTERM)
        done = finish(process)

    assert done.code == 4
    cli.nothing_is_left()


def test_a_terminal_that_hangs_up_ends_the_run_in_order(cli: Cli, namespaced: None) -> None:
    """Closing the window sends SIGHUP, and then every write to the terminal fails."""
    words = [*cli.fake(plan(cli, then="hang")), *prepare(cli)]
    ours, theirs = os.openpty()
    with cli.start(
        *words,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=_take_terminal,
    ) as process:
        os.close(theirs)
        until(lambda: sent(cli), "the effect")
        os.close(ours)
        until(lambda: process.poll() is not None, "the end")

    assert process.returncode == 4
    assert cli.receipts()[0]["result"]["code"] == "CANCELLED_WHILE_RUNNING"
    cli.nothing_is_left()


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.mark.parametrize("words", [["doctor"], ["doctor", "--json"]])
def test_an_interrupted_doctor_leaves_nothing(cli: Cli, namespaced: None, words: list[str]) -> None:
    """It starts a real command too."""
    cli.house.manifest()
    moment = {"event": "subprocess.Popen", "signal": signal.SIGINT}

    done = cli(*words, *cli.where, moment=moment)

    assert done.code == 5
    told_once(done)
    if "--json" in words:
        assert done.result()["code"] == "CANCELLED"


def test_an_interrupted_check_has_no_traceback(cli: Cli) -> None:
    """A check reads files, which can take long on a slow disk."""
    cli.house.manifest()
    moment = {"event": "open", "about": "test.fake.yaml", "signal": signal.SIGINT}

    done = cli("manifest", "check", str(cli.house.manifests), moment=moment)

    assert done.code == 5
    assert done.err == "executor: SIGINT: nothing was started.\n"
