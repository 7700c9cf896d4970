"""`executor verify`: what it runs, what it says, and which exit code it ends with."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import psutil
import pytest

from executor.testing import choosing
from tests.cli.call import PATIENCE_S, TOP, Cli, Done, finish, until
from tests.house import House

SPEC = """\
executor: spec/1
family: demo
rules:
  - id: demo.once
    statement: The same is not sent twice.
    codes: [DUPLICATE_DELIVERED]
    why: Nobody wants it.
    scenarios:
      - id: asked-again
        steps: [{run: {as: first}}, {run: {as: again}}]
        then: {told: {code: DUPLICATE_DELIVERED}, sent: 1}
        control:
          instead: {again: {run: {as: again, parameters: {to: bo}}}}
          then: {told: {status: delivered}, sent: 2}
      - id: held-nowhere
        steps: [{run: {as: first, pause: nowhere}}]
        then: {told: {status: delivered}}
        control:
          instead: {first: {run: {as: first}}}
          then: {told: {status: delivered}}
  - {id: demo.later, statement: Not yet., why: Time., built: false}
"""
LIAR = TOP / "executor" / "testing" / "planted" / "liar.py"
# A target that says where it is, and then never answers.
STILL = """
import json, os, sys, time
from pathlib import Path
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "run":
        Path({mark!r}).write_text(str(os.getpid()))
        time.sleep(300)
    answer = {{"name": "still", "version": "1", "can": ["run"]}}
    print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "result": answer}}), flush=True)
"""


@pytest.fixture
def cli(house: House) -> Cli:
    """The command line, with a spec in the directory where it is called."""
    (house.root / "demo.yaml").write_text(SPEC)
    made = Cli(house)
    made.env.pop("CI", None)
    return made


def change(cli: Cli, old: str, new: str) -> None:
    """Alter the spec."""
    path = cli.house.root / "demo.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def report(done: Done) -> dict[str, Any]:
    """Read the one object on stdout."""
    assert done.out.count("\n") == 1, done
    found: dict[str, Any] = json.loads(done.out)
    return found


# -- how it ends -----------------------------------------------------------------------------------


def test_an_expectation_that_is_not_met_is_told_with_its_line_and_ends_with_one(cli: Cli) -> None:
    """The exit code stops the build, the line says where to look."""
    done = cli("verify", "demo.yaml", "-k", "asked-again")
    assert (done.code, done.err) == (0, "")
    assert "2 cases of 1 rule against executor in" in done.out
    assert "demo  2 passed\n" in done.out
    assert done.out.endswith("Stated and not built yet: 1 rule.\n")

    change(cli, "sent: 1", "sent: 7")

    done = cli("verify", "demo.yaml", "-k", "asked-again")
    assert (done.code, done.err) == (1, "")
    assert "failed demo.once asked-again\n  demo.yaml:11: sent\n    expected 7\n" in done.out
    assert "demo  1 passed, 1 failed\n" in done.out


def test_a_case_that_could_not_be_run_fails_where_nothing_may_be_lacking(cli: Cli) -> None:
    """A build that is green because nothing ran is the worst of builds."""
    done = cli("verify", ".")
    assert done.code == 1
    assert "unsupported executor " in done.out
    assert "\n  demo.once held-nowhere\n" in done.out
    assert "demo  3 passed, 1 unsupported\n" in done.out

    assert cli("verify", ".", "-k", "not nowhere").code == 0


def test_a_run_in_which_nothing_passed_does_not_hold(cli: Cli) -> None:
    """What was not seen to work was not seen."""
    done = cli("verify", ".", "-k", "held-nowhere and not control")

    assert done.code == 1
    assert "demo  1 unsupported\n" in done.out


def test_a_harness_that_misses_a_planted_fault_is_not_believed(cli: Cli) -> None:
    """A checker that is broken finds nothing, and looks like a success."""
    blind = (
        "import executor.testing.matching as m; m.compare = lambda *_, **__: iter(());"
        "from executor.cli.main import main; main()"
    )

    done = cli("verify", ".", program=[sys.executable, "-c", blind])

    assert (done.code, done.out) == (70, "")
    assert "did not find a planted fault" in done.err
    assert "('nothing-was-sent', 'passed', []) instead of " in done.err
    as_json = cli("verify", ".", "--json", program=[sys.executable, "-c", blind])
    assert (as_json.code, report(as_json)["holds"]) == (70, False)


def test_an_interrupted_run_ends_all_that_it_started(cli: Cli, tmp_path: Path) -> None:
    """Ctrl-C reaches everything in the terminal's process group; nothing may be left or shout."""
    mark = tmp_path / "started"
    (cli.house.root / "still.py").write_text(STILL.format(mark=str(mark)))
    words = ("verify", ".", "-k", "asked-again", "--jobs", "1")

    with cli.start(
        *words, "--target", f"{sys.executable} still.py", start_new_session=True
    ) as process:
        until(lambda: mark.exists() and mark.read_text(), "a run")
        os.killpg(process.pid, signal.SIGINT)
        done = finish(process)

    assert (done.code, done.out) == (5, "")
    assert done.err == (
        "executor: SIGINT: ending what runs, and waiting for its end.\n"
        "executor: interrupted; 0 of 2 cases had come to their end.\n"
    )
    until(lambda: not Path(f"/proc/{mark.read_text()}").exists(), "the end of the target")


@pytest.mark.parametrize("target", ["", "STILL"])
def test_killed_it_leaves_no_process_and_the_next_run_removes_its_houses(
    cli: Cli, tmp_path: Path, target: str
) -> None:
    """Of a target that ignores the end of its stdin, and of strangers, too."""
    mark, places = tmp_path / "started", tmp_path / "places"
    places.mkdir()
    (cli.house.root / "still.py").write_text(STILL.format(mark=str(mark)))
    change(cli, "steps: [{run: {as: first}}, ", "steps: [{stranger: {}}, {run: {as: first}}, ")
    change(cli, "family: demo", "family: demo\ngiven: {commands: {post: {then: {sleep: 300}}}}")
    words = ["verify", ".", "-k", "asked-again", "--jobs", "2"]
    words += ["--target", f"{sys.executable} still.py"] if target else []
    before = {one.pid for one in psutil.process_iter()}

    with cli.start(*words, env={"TMPDIR": str(places)}, start_new_session=True) as process:
        records = "*/case-*/house/root/out/records/post/*"
        until(lambda: mark.exists() if target else list(places.glob(records)), "a run")
        below = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()

    assert {one.pid for one in below} - before
    until(lambda: not [one for one in below if one.is_running()], "the end of every process")
    assert list(places.glob("executor-cases-*"))
    change(cli, "{then: {sleep: 300}}", "{}")
    assert cli("verify", ".", "-k", "asked-again", env={"TMPDIR": str(places)}).code == 0
    assert not list(places.glob("executor-cases-*"))


# -- what is run -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "cases"),
    [
        ((), 4),
        (("-k", "asked-again"), 2),
        (("-k", "not control"), 2),
        (("-k", "Asked and control"), 1),
        (("-k", "demo.once and not (asked or control)"), 1),
        (("--family", "demo", "-k", "demo.yaml::held"), 2),
    ],
)
def test_cases_are_chosen_by_words_and_by_family(
    cli: Cli, words: tuple[str, ...], cases: int
) -> None:
    """Whoever works on one rule does not wait for all of them."""
    target = f"{sys.executable} -IS {LIAR}"

    found = report(cli("verify", ".", "--json", "--target", target, *words))

    assert sum(found["counts"].values()) == cases


def test_several_files_and_families_are_read(cli: Cli) -> None:
    """A directory is read to its bottom; what is no spec in it is none of our business."""
    below = cli.house.root / "more" / "below"
    below.mkdir(parents=True)
    (below / "other.yaml").write_text(SPEC.replace("demo", "other"))
    (below / "no.yaml").write_text("a: b\n")
    target = f"{sys.executable} -IS {LIAR}"
    words = ("verify", ".", "--json", "-k", "control", "--target", target)

    families = {rule["family"] for rule in report(cli(*words))["rules"]}
    assert families == {"demo", "other"}

    only = report(cli(*words, "--family", "other"))
    assert {rule["family"] for rule in only["rules"]} == {"other"}
    assert only["not_built"] == ["other.later"]


def test_nothing_selected_is_an_error(cli: Cli) -> None:
    """A misspelt word would look like a rule that holds."""
    done = cli("verify", ".", "-k", "ledgre")
    assert (done.code, done.out) == (2, "")
    assert "Nothing is selected" in done.err

    done = cli("verify", ".", "--family", "ledgre")
    assert (done.code, done.out) == (2, "")
    assert "'ledgre'; known: demo." in done.err


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("", True),
        ("  ", True),
        ("ledger", True),
        ("LEDGER.delivered", True),
        ("quota", False),
        ("not quota", True),
        ("not not quota", False),
        ("quota or ledger", True),
        ("quota and ledger", False),
        ("ledger and not quota", True),
        ("quota and quota or ledger", True),
        ("quota and (quota or ledger)", False),
        ("not (quota or again[control])", False),
        ("android", False),
        ("not_x or specs/ledger.yaml::asked-again", True),
    ],
)
def test_an_expression_means_what_it_means_to_pytest(expression: str, holds: bool) -> None:
    """Fingers know `-k`."""
    text = "specs/ledger.yaml::asked-again[control]\nledger.delivered"

    assert choosing.reader(expression)(text) is holds


@pytest.mark.parametrize(
    "expression", ["(", ")", "a b", "a and", "or a", "not", "a)", "'a'", "()", "(" * 5000]
)
def test_an_expression_that_cannot_be_read_is_refused(expression: str) -> None:
    """Half of an expression may mean the opposite."""
    with pytest.raises(choosing.BadExpression):
        choosing.reader(expression)


# -- what is not valid -----------------------------------------------------------------------------


def test_a_faulty_file_is_told_by_line_and_nothing_runs(cli: Cli, tmp_path: Path) -> None:
    """Half of the scenarios would be taken for all of them."""
    mark = tmp_path / "started"
    (cli.house.root / "still.py").write_text(STILL.format(mark=str(mark)))
    change(cli, "sent: 2", "send: 2")
    (cli.house.root / "other.yaml").write_text(SPEC.replace("steps", "stops"))
    words = ("verify", ".", "--target", f"{sys.executable} still.py")

    done = cli(*words)

    assert (done.code, done.out) == (2, "")
    place = "rules[0].scenarios[0].control.then.send"
    assert f"demo.yaml:14:45: {place}: unknown key 'send'. Did you mean 'sent'?\n" in done.err
    assert "other.yaml:16:9: rules[0].scenarios[1].stops: unknown key 'stops'." in done.err
    found = report(cli(*words, "--json"))
    assert found["holds"] is False
    assert ("demo.yaml", 14) in [(one["file"], one["line"]) for one in found["problems"]]
    assert not mark.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere.yaml",), "nowhere.yaml:1:1: No such file or directory."),
        (("-k", "(once"), "'(once': it ends too early"),
        (("--target", "no-such-program"), "there is no program 'no-such-program'"),
        (("--target", "sh 'x"), "No closing quotation"),
        (("--target", ""), "it is empty"),
        (("--jobs", "0"), "--jobs"),
        (("--junit", "no/such/directory.xml"), "'no/such/directory.xml' cannot be written"),
        (("--html", "."), "'.' cannot be written: Is a directory"),
        (("--junit", "one", "--html", "./one"), "Two reports cannot be written into one file"),
        (("--keep", "demo.yaml"), "'demo.yaml' cannot be written"),
    ],
)
def test_an_option_that_cannot_be_followed_is_told_before_anything_runs(
    cli: Cli, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    """Nobody waits two minutes to hear that the report has no place."""
    mark = tmp_path / "started"
    (cli.house.root / "still.py").write_text(STILL.format(mark=str(mark)))
    target = () if "--target" in words else ("--target", f"{sys.executable} still.py")
    paths = () if words[0].endswith(".yaml") else ("demo.yaml",)

    done = cli("verify", *paths, *target, *words)

    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert not mark.exists()


# -- what is written -------------------------------------------------------------------------------


def test_with_json_stdout_has_one_object(cli: Cli) -> None:
    """A program reads it to its end."""
    change(cli, "sent: 1", "sent: 7")

    done = cli("verify", ".", "--json")

    found = report(done)
    assert (done.code, done.err, found["holds"]) == (1, "", False)
    assert found["counts"] == {
        "passed": 2,
        "skipped": 0,
        "unsupported": 1,
        "broken": 0,
        "failed": 1,
    }
    [failure] = found["rules"][0]["cases"][0]["failures"]
    assert failure == {"where": "demo.yaml:11", "key": "sent", "expected": 7, "actual": 1}


def test_reports_are_written_although_a_case_fails(cli: Cli) -> None:
    """It is then that somebody reads them."""
    change(cli, "sent: 1", "sent: 7")

    done = cli("verify", ".", "--junit", "out.xml", "--html", "out.html")

    assert done.code == 1
    root = ElementTree.parse(cli.house.root / "out.xml").getroot()  # noqa: S314 - ours
    assert [root.get(key) for key in ("tests", "failures", "skipped")] == ["4", "1", "1"]
    page = (cli.house.root / "out.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "expected <code>7</code>" in page


def test_a_report_that_is_lost_is_told_and_fails(cli: Cli) -> None:
    """A full disk must not pass for a report."""
    done = cli("verify", ".", "-k", "asked-again", "--junit", "/dev/full")

    assert done.code == 1
    assert done.err == "executor: /dev/full could not be written: No space left on device.\n"
    assert "demo  2 passed" in done.out


def test_the_files_of_cases_that_did_not_pass_are_kept(cli: Cli) -> None:
    """What the command was given, and what it left, is the beginning of the explanation."""
    change(cli, "sent: 1", "sent: 7")

    done = cli("verify", ".", "-k", "asked-again", "--keep", "kept")

    [kept] = (cli.house.root / "kept").iterdir()
    assert kept.name.startswith("demo-asked-again-")
    assert (kept / "root" / "out" / "sent.log").read_text() == "sent\n"
    assert f"  kept in {kept}\n" in done.out


def test_what_is_kept_takes_nothing_elses_place(cli: Cli) -> None:
    """Twice the same, and a directory of that name that is somebody's own."""
    change(cli, "sent: 1", "sent: 7")
    own = cli.house.root / "demo" / "asked-again"
    own.mkdir(parents=True)
    (own / "notes").write_text("mine")

    for _ in range(2):
        cli("verify", ".", "-k", "asked-again", "--keep", ".")

    assert (own / "notes").read_text() == "mine"
    assert len(list(cli.house.root.glob("demo-asked-again-*"))) == 2


# -- another implementation ------------------------------------------------------------------------


def test_what_another_implementation_cannot_do_is_never_passed(cli: Cli) -> None:
    """A target that can do nothing would be the best of all."""
    (cli.house.root / "liar.py").write_text(LIAR.read_text())
    words = ("verify", ".", "--json", "--target", f"{sys.executable} -IS liar.py")

    found = report(cli(*words))

    cases = {case["id"]: case for case in found["rules"][0]["cases"]}
    assert {name: case["verdict"] for name, case in cases.items()} == {
        "asked-again": "failed",
        "asked-again[control]": "failed",
        "held-nowhere": "unsupported",
        "held-nowhere[control]": "passed",
    }
    assert cases["held-nowhere"]["why"] == "liar 1 cannot do 'point:nowhere'"
    assert cli(*words, "-k", "held", env={"CI": "true"}).code == 0


def test_a_target_in_a_file_here_is_found(cli: Cli) -> None:
    """It is started in the house of its case, where no relative name leads anywhere."""
    (cli.house.root / "liar").write_text(f"#!{sys.executable} -IS\n{LIAR.read_text()}")
    (cli.house.root / "liar").chmod(0o755)

    done = cli("verify", "demo.yaml", "-k", "held and control", "--target", "./liar")

    assert done.code == 0, done
    assert "1 passed" in done.out


# -- for people ------------------------------------------------------------------------------------


def test_it_stands_in_the_help(cli: Cli) -> None:
    """What is not there is not found."""
    assert "  verify " in cli("--help").out


def test_a_reader_that_goes_away_does_not_change_the_verdict(cli: Cli) -> None:
    """`executor verify | head -1` in a script with `pipefail`."""
    ours, theirs = os.pipe()
    os.close(ours)
    with cli.start("verify", ".", "-k", "asked-again", stdout=theirs) as process:
        os.close(theirs)
        _, err = process.communicate(timeout=PATIENCE_S)

    assert (process.returncode, err) == (0, "")


def test_importing_the_command_line_does_not_import_the_harness() -> None:
    """`executor run` starts in a quarter of a second, and stays so."""
    code = (
        "import sys, executor.cli.main, executor.cli.commands, executor.cli.verify;"
        "print([name for name in sys.modules if name.startswith('executor.testing.')])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
