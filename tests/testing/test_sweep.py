"""Sweep: a small project in which generated mutants come to every kind of end."""

import dataclasses
import tempfile
from pathlib import Path
from typing import Any, cast

import pytest
import trio

from executor.testing.mutation import campaign, sweeping, tracing
from executor.testing.mutation.campaign import Campaign
from executor.testing.mutation.crew import ask
from executor.testing.mutation.generating import Generated, generated
from executor.testing.mutation.judging import judge, judge_any
from executor.testing.mutation.known import (
    Equivalents,
    read_equivalents,
    read_killers,
    write_killers,
)
from executor.testing.mutation.settings import read_settings
from executor.testing.mutation.slot import Answer, Slot, WorkerGone

SHOP = '''\
"""Shop: what it costs."""

from functools import cache

TABLE = []


def table(row):
    TABLE.append(row + 1)


table(1)


def total(prices):
    result = 0
    for price in prices:
        result += price
    return result


@cache
def doubled(price):
    return price * 2


def elsewhere(price):
    return price + 1


def in_a_fixture(price):
    return price + 5


def endless(price):
    while price > 0:
        price -= 1
    return price


def unseen(price):
    return price + 7


def unstable(price):
    return price + 8


def unused():
    return 1 + 1
'''
TESTS = """\
import subprocess
import sys

import pytest
import shop


@pytest.fixture
def price():
    assert shop.in_a_fixture(1) == 6
    return 1


def test_in_a_fixture(price):
    pass


def test_table():
    assert shop.TABLE == [2]


def test_total():
    assert shop.total([1, 2]) == 3


def test_doubled():
    assert shop.doubled(3) == 6


def test_elsewhere():
    said = subprocess.check_output([sys.executable, "-c", "import shop; print(shop.elsewhere(3))"])
    assert said == b"4\\n"


def test_endless():
    assert shop.endless(2) == 0


def test_unseen():
    shop.unseen(1)


def test_unstable():
    assert shop.unstable(1) == 0
"""
RED = "tests/test_shop.py::test_unstable"
PROJECT = """\
[tool.executor.mutants]
imports = ["src"]

[tool.executor.mutants.generated]
"src" = {high = 90, low = 80, break = 70}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, and copies in a temporary directory of their own."""
    top = tmp_path / "shop"
    for name, text in {
        "pyproject.toml": PROJECT,
        "src/shop.py": SHOP,
        "tests/test_shop.py": TESTS,
        "mutants/none.txt": "",
    }.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    copies = tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    monkeypatch.setattr("executor.testing.mutation.judging.LIMIT_LEAST_S", 1.0)
    monkeypatch.setattr("executor.testing.mutation.slot.FRESH_S", 3.0)
    return top


def edits(top: Path, function: str = "") -> list[Generated]:
    """Give the generated mutants of a function, or of all."""
    texts = campaign.sources(top, read_settings(top))
    every = campaign.all_generated(texts, read_settings(top))
    return [one for one in every if not function or one.function == function]


async def sweep(top: Path, mutants: list[Generated], **options: Any) -> Campaign:
    """Sweep."""
    usual: dict[str, Any] = {"equivalents": Equivalents(), "killers": {}, "trace": True, "jobs": 2}
    with trio.fail_after(240):
        return await campaign.run(top, mutants, read_settings(top), **(usual | options))


def words(result: Campaign) -> dict[str, set[str]]:
    """Give what became of the mutants of each function."""
    found: dict[str, set[str]] = {}
    for one in result.outcome.verdicts:
        found.setdefault(one.mutant.rule.rpartition(":")[2], set()).add(one.judgement.word)
    return found


# rule: proof.red-for-the-reason
async def test_generated_mutants_come_to_the_end_that_is_theirs(project: Path) -> None:
    """Wherever the test calls the function: in a fixture, at import, in another process."""
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}

    result = await sweep(project, edits(project))

    assert result.outcome.void == ""
    found = words(result)
    assert found["total"] == found["doubled"] == found["elsewhere"] == {"killed"}
    assert found["table"] == found["in_a_fixture"] == {"killed"}
    assert "survived" in found["unseen"] <= {"survived", "killed"}
    assert {"timeout", "killed"} <= found["endless"]
    assert found["unused"] == {"no-tests"}
    assert found["unstable"] == {"no-tests"}  # its test is red anyway, and proves nothing
    after = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    assert after == before


async def test_what_survives_is_told_with_its_tests(project: Path) -> None:
    """It is a gap in these tests, and in no others."""
    result = await sweep(project, edits(project, "unseen"))

    survived = [one for one in result.outcome.verdicts if one.judgement.word == "survived"]
    assert [one.judgement.why for one in survived] == ["1 of 1 tests stayed green"] * len(survived)
    assert survived
    [score] = result.scores
    assert not score.holds
    assert 0 <= score.per_cent < 70


async def test_a_known_killer_is_tried_alone_and_has_to_kill_again(project: Path) -> None:
    """What is written down is a hint; it is never believed."""
    first = await sweep(project, edits(project, "total"))
    write_killers(project / "mutants", first.killers)
    assert set(first.killers.values()) == {"tests/test_shop.py::test_total"}

    kept = read_killers(project / "mutants")
    again = await sweep(project, edits(project, "total"), killers=kept, trace=False)
    assert words(again) == {"total": {"killed"}}
    wrong = dict.fromkeys(kept, "tests/test_shop.py::test_doubled")
    lost = await sweep(project, edits(project, "total"), killers=wrong, trace=False)
    assert words(lost) == {"total": {"no-tests"}}
    traced = await sweep(project, edits(project, "total"), killers=wrong)
    assert words(traced) == {"total": {"killed"}}
    gone = dict.fromkeys(kept, "tests/test_shop.py::test_of_yesterday")
    assert words(await sweep(project, edits(project, "total"), killers=gone)) == {
        "total": {"killed"}
    }


async def test_an_equivalent_is_not_run_and_must_be_there(project: Path) -> None:
    """A list that nobody weeds would hide whatever comes to look like it."""
    (project / "mutants/equivalent.yaml").write_text(
        "equivalent:\n"
        "  - {file: src/shop.py, function: unseen, from: +, to: '-', why: Nobody looks.}\n"
        "  - {file: src/shop.py, function: gone, from: +, to: '-', why: Nobody looks.}\n"
    )
    known, mutants = read_equivalents(project / "mutants"), edits(project, "unseen")

    result = await sweep(project, mutants, equivalents=known)

    [(ignored, why)] = result.ignored
    assert (ignored.original, ignored.replacement, why) == ("+", "-", "Nobody looks.")
    assert len(result.outcome.verdicts) == len(mutants) - 1
    [stale] = known.stale(edits(project))
    assert (stale.line, stale.found) == (3, "no edit of src/shop.py:gone is this one")


async def test_a_no_op_that_dies_makes_the_sweep_void(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runner that kills everything would be the best one."""
    monkeypatch.setattr("executor.testing.mutation.crew.NO_OP", "\n1 / 0\n")

    result = await sweep(project, edits(project, "total"))

    assert result.outcome.void.startswith("a no-op is killed")
    assert result.outcome.verdicts == ()


async def test_an_edit_that_breaks_all_and_lives_makes_the_sweep_void(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runner that finds nothing out would call every test a bad one."""
    monkeypatch.setattr(
        "executor.testing.mutation.crew.break_all", lambda source: source + "\n# broken\n"
    )

    result = await sweep(project, edits(project, "total"))

    assert "breaks all of src/shop.py is survived" in result.outcome.void


async def test_a_runner_that_dies_has_killed_nothing() -> None:
    """Its end says nothing of the tests that it should have run."""

    class Dying:
        async def run(self, *_: Any, **__: Any) -> Answer:
            raise WorkerGone

    answer = await ask(cast("Slot", Dying()), ["tests/test_shop.py::test_total"], 1.0)

    assert judge_any(answer).word == judge(["tests/test_shop.py::test_total"], answer).word
    assert judge_any(answer).word == "invalid"


async def test_a_test_that_turned_red_since_kills_nothing(project: Path) -> None:
    """What was green when it was traced may be red by now, with the mutant or without."""
    mutants = [dataclasses.replace(one, reds=(RED,)) for one in edits(project, "unstable")]
    assert mutants

    outcome = await sweeping.sweep(project, mutants, {RED: 0.01}, read_settings(project))

    assert {one.judgement.word for one in outcome.verdicts} == {"unstable"}


async def test_a_budget_leaves_tests_out_and_says_so(project: Path) -> None:
    """A survivor that was not put to all its tests may be none."""
    more = "".join(f"def test_more_{n}():\n    shop.unseen({n})\n\n\n" for n in range(30))
    (project / "tests/test_shop.py").write_text(f"{TESTS}\n\n{more}")

    result = await sweep(project, edits(project, "unseen"), budget=0.0)

    [why] = {one.judgement.why for one in result.outcome.verdicts if one.judgement.word[0] == "s"}
    assert why == "1 of 31 tests stayed green"


async def test_a_trace_knows_the_tests_of_a_function_in_whatever_process(project: Path) -> None:
    """A test that has not entered a function cannot be red because of it."""
    texts = campaign.sources(project, read_settings(project))

    found = await tracing.trace(project, texts, read_settings(project), 2, lambda *_: None)

    def tests(function: str) -> set[str]:
        return {
            one.removeprefix("tests/test_shop.py::") for one in found.tests("src/shop.py", function)
        }

    assert tests("total") == {"test_total"}
    assert tests("elsewhere") == {"test_elsewhere"}
    assert tests("in_a_fixture") == {"test_in_a_fixture"}
    assert tests("unused") == set()
    assert tests("unstable") == set()  # it is red without any mutant
    assert "src/shop.py:table" in found.imported
    assert tests("table") >= {"test_total", "test_doubled", "test_elsewhere"}


def test_texts_for_people_are_left_alone_unless_they_are_wanted(project: Path) -> None:
    """Which words a message has is seldom a promise."""
    (project / "src/words.py").write_text(
        "def a(x):\n    raise ValueError('not so', f'or { x }', x, 'CODE')\n"
    )

    def texts() -> set[str]:
        own = campaign.sources(project, read_settings(project))
        found = campaign.all_generated(own, read_settings(project))
        return {one.original.strip(" ,") for one in found if one.file == "src/words.py"}

    left = texts()
    assert "CODE" in left
    assert not [one for one in left if "not so" in one]
    section = "[tool.executor.mutants]\n"
    wanted = PROJECT.replace(section, f"{section}messages = true\n", 1)
    (project / "pyproject.toml").write_text(wanted)
    assert "not so" in texts()


def test_killers_are_written_in_one_order(tmp_path: Path) -> None:
    """A change of one line is a difference of one line."""
    kept = {"b.py:f:1": "t::x", "a.py:g:2-2": "t::x", "a.py:g:2": "t::a[b:c]"}

    write_killers(tmp_path, kept)

    first = (tmp_path / "killers.json").read_bytes()
    assert read_killers(tmp_path) == kept
    write_killers(tmp_path, dict(reversed(kept.items())))
    assert (tmp_path / "killers.json").read_bytes() == first


def test_a_mutant_with_its_tests_is_the_same_mutant() -> None:
    """Its tests are no part of what it is."""
    [one, *_] = generated("a.py", "def f(a):\n    return a == 1\n")

    assert dataclasses.replace(one, reds=("t",)).id == one.id
