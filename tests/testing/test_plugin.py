"""Plugin: spec files as pytest items, seen in a pytest of their own."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.call import PATIENCE_S, until

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
  - id: demo.other
    statement: Another.
    why: There is more than one.
    scenarios:
      - id: held-nowhere
        steps: [{run: {as: first, pause: nowhere}}]
        then: {told: {status: delivered}}
        control:
          instead: {first: {run: {as: first}}}
          then: {told: {status: delivered}}
"""
SETTINGS = """\
[pytest]
trio_mode = true
filterwarnings = error
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A project with one spec, one test and a YAML file that is no spec."""
    made = tmp_path / "project"
    made.mkdir()
    (made / "pytest.ini").write_text(SETTINGS)
    (made / "demo.yaml").write_text(SPEC)
    (made / "values.yaml").write_text("executor: manifest/1\n")
    (made / "test_own.py").write_text("async def test_own():\n    pass\n")
    return made


def start(place: Path, *words: str, **env: str) -> "subprocess.Popen[str]":
    """Start pytest there, with the plugins that are installed: ours is one of them."""
    usual = {name: value for name, value in os.environ.items() if name not in ("CI", "COLUMNS")}
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words],
        cwd=place,
        env=usual | env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def run(place: Path, *words: str, **env: str) -> tuple[int, str]:
    """Run it to its end; give exit code and output."""
    with start(place, *words, **env) as process:
        out, _ = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out


def change(place: Path, old: str, new: str) -> None:
    """Alter the spec."""
    text = (place / "demo.yaml").read_text()
    assert old in text
    (place / "demo.yaml").write_text(text.replace(old, new))


def test_a_scenario_and_its_control_are_items(place: Path) -> None:
    """They run where a team's other tests run, beside those that need a loop of trio."""
    code, out = run(place, "-v", "-rs")

    assert code == 1, out
    for said in (
        "demo.yaml::asked-again PASSED",
        "demo.yaml::asked-again[control] PASSED",
        "demo.yaml::held-nowhere FAILED",
        "demo.yaml::held-nowhere[control] PASSED",
        "test_own.py::test_own PASSED",
        "unsupported demo.other held-nowhere",
        "cannot do 'point:nowhere'",
        "1 failed, 4 passed",
    ):
        assert said in out


def test_an_expectation_that_is_not_met_is_told_with_its_line(place: Path) -> None:
    """A traceback through our engine would tell a team nothing."""
    change(place, "sent: 1", "sent: 7")

    code, out = run(place, "-k", "asked-again", "--color=yes")

    assert code == 1
    assert (
        "failed demo.once asked-again\n"
        f"  {place}/demo.yaml:11: sent\n    expected 7\n    actual   1\n"
    ) in out
    assert "demo.once: asked-again" in out
    assert "Traceback" not in out
    assert "plugin.py" not in out


def test_a_case_of_which_nothing_is_known_fails(place: Path) -> None:
    """It would stay broken for ever if it were skipped."""
    change(place, "to: bo", 'to: "${nobody.knows}"')

    code, out = run(place, "-k", "demo.once and control")

    assert code == 1
    assert "broken demo.once asked-again[control]\n" in out
    assert "nothing is known of ${nobody.knows}" in out


def test_what_the_machine_lacks_is_skipped_and_fails_where_nothing_may_be_lacking(
    place: Path,
) -> None:
    """On a developer's machine a skip is information, in CI it is a hole."""
    (place / "conftest.py").write_text(
        "from executor.testing import engine, planted\n\n\n"
        "async def missed():\n    return ''\n\n\n"
        "planted.missed = missed\n"
        "engine._lacking = lambda *_: 'it needs the moon'\n"
    )
    words = ("demo.yaml", "-rs", "-k", "demo.once")

    code, out = run(place, *words)
    assert (code, "2 skipped" in out, "it needs the moon" in out) == (0, True, True)

    for ci in ("true", "1", "yes"):
        code, out = run(place, *words, CI=ci)
        assert (code, "2 failed" in out) == (1, True)
    assert run(place, *words, CI="false")[0] == 0


# rule: proof.self-test
def test_a_session_whose_harness_is_blind_is_not_believed(place: Path) -> None:
    """It would be green for ever."""
    (place / "conftest.py").write_text(
        "from executor.testing import planted\n\n\n"
        "async def missed():\n    return 'the lie'\n\n\nplanted.missed = missed\n"
    )

    code, out = run(place, "-k", "demo.once")

    assert (code, "The harness did not find a planted fault: the lie" in out) == (70, True)
    assert "passed" not in out


def test_what_we_cannot_do_fails(place: Path) -> None:
    """We can do all that there is a word for: what we cannot do is a slip in the scenario."""
    code, out = run(place, "demo.yaml::held-nowhere", "-k", "not control")

    assert (code, "1 failed" in out) == (1, True)
    assert "unsupported demo.other held-nowhere\n" in out
    assert "cannot do 'point:nowhere'" in out


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("-k", "demo.once"), ["asked-again", "asked-again[control]"]),
        (("-k", "demo.once and not control"), ["asked-again"]),
        (("demo.yaml::asked-again[control]",), ["asked-again[control]"]),
        (("demo.yaml::held-nowhere",), ["held-nowhere", "held-nowhere[control]"]),
        (("-k", "ledger.delivered"), []),
    ],
)
def test_items_are_chosen_by_rule_and_by_name(
    place: Path, words: tuple[str, ...], found: list[str]
) -> None:
    """The id that stands in a failure is pasted behind `pytest`."""
    _, out = run(place, "--collect-only", "-q", *words)

    assert [line for line in out.splitlines() if "::" in line] == [
        f"demo.yaml::{name}" for name in found
    ]


def test_a_faulty_spec_is_an_error_with_its_lines(place: Path) -> None:
    """Were it passed over, its scenarios would be missed by nobody."""
    change(place, "sent: 2", "send: 2")

    code, out = run(place)

    assert code == 2
    assert "ERROR collecting demo.yaml" in out
    assert f"{place}/demo.yaml:14:45: rules[0].scenarios[0].control.then.send: unknown key" in out
    assert "Traceback" not in out


def test_two_scenarios_of_one_name_are_an_error(place: Path) -> None:
    """One of the two could not be asked for."""
    change(place, "id: held-nowhere", "id: asked-again")

    code, out = run(place)

    assert code == 2
    assert f"{place}/demo.yaml:19:9: rules[1].scenarios[0].id: a second 'asked-again'." in out


def test_nothing_is_imported_before_there_is_a_spec(place: Path) -> None:
    """We are loaded in every run of pytest of everybody who has us installed."""
    (place / "demo.yaml").unlink()
    (place / "pytest.ini").write_text("[pytest]\n")
    (place / "test_own.py").write_text(
        "import sys\n\n\ndef test_own():\n"
        "    ours = {name for name in sys.modules if name.split('.')[0] == 'executor'}\n"
        "    assert ours == {'executor', 'executor.testing', 'executor.testing.plugin',\n"
        "                    'executor.testing.recognising'}\n"
        "    assert not {'trio', 'msgspec', 'yaml', 'psutil', 'click'} & set(sys.modules)\n"
    )

    code, out = run(place, "-p", "executor_specs", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")

    assert (code, "1 passed" in out) == (0, True), out


def test_one_process_starts_the_targets_of_the_session(place: Path) -> None:
    """A fresh one for each case would cost a third of a second each, and be left behind."""
    (place / "conftest.py").write_text(
        "import psutil\n\n\n"
        "def helpers():\n"
        "    below = psutil.Process().children()\n"
        "    return [one.pid for one in below if 'executor.testing.warm' in one.cmdline()]\n\n\n"
        "seen = set()\n\n\n"
        "def pytest_runtest_teardown():\n"
        "    seen.update(helpers())\n\n\n"
        "def pytest_configure(config):\n"
        "    config.add_cleanup(lambda: print('helpers', len(seen), 'left', helpers()))\n"
    )

    code, out = run(place, "-s", "-k", "demo.once")

    assert code == 0, out
    assert "helpers 1 left []\n" in out


def test_an_interrupt_ends_the_session_and_all_that_it_started(place: Path, tmp_path: Path) -> None:
    """Ctrl-C means the session, and not this case and then the next one."""
    change(place, "steps: [{run: {as: first}}, ", "steps: [{run: {as: first}}, {run: {as: slow}}, ")
    change(place, "family: demo", "family: demo\ngiven: {commands: {post: {then: {sleep: 300}}}}")
    houses = tmp_path / "houses"
    houses.mkdir()

    with start(place, TMPDIR=str(houses)) as process:
        until(lambda: list(houses.glob("*/case-*/house/root/out/records/post/*")), "a run")
        os.killpg(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 2, out
    assert "KeyboardInterrupt" in out
    assert "failed" not in out
    assert list(houses.glob("executor-*")) == []
    until(lambda: not _processes(houses), "the end of every process")


def _processes(houses: Path) -> list[Any]:
    """Give the processes that work in a house."""
    found = []
    for cwd in Path("/proc").glob("[0-9]*/cwd"):
        try:
            target = os.readlink(cwd)
        except OSError:
            continue
        if target.startswith(str(houses)):
            found.append((cwd, target))
    return found
