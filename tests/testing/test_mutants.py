"""Mutants: a small project of its own, in which every kind of end happens.

Each mutant below ends as its name says, and is told as that.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
import trio

from executor.problems import Faulty
from executor.testing.mutants import Mutant, read_mutants
from executor.testing.mutation import packet, running
from executor.testing.mutation.settings import Settings, read_settings
from executor.testing.mutation.verdicts import Outcome

SHOP = '''\
"""Shop: what it costs."""

RATE = 2


def total(prices):
    result = 0
    for price in prices:
        result += price
    return result


def taxed(price, rate=RATE):
    return price * rate


def unused():
    return 1
'''
TESTS = """\
import os
import pathlib
import subprocess
import sys

import shop


def test_total():
    assert shop.total([1, 2]) == 3


def test_nothing_costs_nothing():
    assert shop.total([]) == 0


def test_taxed():
    assert shop.taxed(3) == 6


def test_taxed_in_a_process_of_its_own():
    said = subprocess.check_output([sys.executable, "-c", "import shop; print(shop.taxed(3))"])
    assert said == b"6\\n"


def test_is_red_anyway():
    assert shop.total([1]) == 2


def test_is_green_every_other_time():
    seen = pathlib.Path(os.environ["SEEN"])
    count = int(seen.read_text()) if seen.exists() else 0
    seen.write_text(str(count + 1))
    assert count % 2
"""
MUTANTS = """\
mutants:
  - id: killed-in-new-code
    rule: shop.total
    why: Nothing would cost anything.
    edit: {file: src/shop.py, from: "result += price", to: "result -= price"}
    red: tests/test_shop.py::test_total
  - id: killed-in-a-default
    rule: shop.total
    why: A default is made when the module is imported.
    edit: {file: src/shop.py, from: "RATE = 2", to: "RATE = 3"}
    red: [tests/test_shop.py::test_taxed]
  - id: killed-in-another-process
    rule: shop.total
    why: It is the file that another process reads.
    edit: {file: src/shop.py, from: "price * rate", to: "price + rate"}
    red: tests/test_shop.py::test_taxed_in_a_process_of_its_own
  - id: killed-only-by-both
    rule: shop.total
    why: Either alone changes nothing.
    edit:
      - {file: src/shop.py, from: "result = 0", to: "result = 1"}
      - {file: src/shop.py, from: "return result", to: "return result - 1 + len(list(prices))"}
    red: tests/test_shop.py::test_total
  - id: survived-its-test
    rule: shop.total
    why: Nobody looks.
    edit: {file: src/shop.py, from: "return 1", to: "return 2"}
    red: tests/test_shop.py::test_total
  - id: survived-one-of-two
    rule: shop.total
    why: Each has to go red by itself.
    edit: {file: src/shop.py, from: "result += price", to: "result += price + 1"}
    red: [tests/test_shop.py::test_total, tests/test_shop.py::test_nothing_costs_nothing]
  - id: invalid-syntax
    rule: shop.total
    why: It is no program.
    edit: {file: src/shop.py, from: "result += price", to: "result +="}
    red: tests/test_shop.py::test_total
  - id: invalid-import
    rule: shop.total
    why: It cannot be imported.
    edit: {file: src/shop.py, from: "RATE = 2", to: "import no_such_thing\\nRATE = 2"}
    red: tests/test_shop.py::test_total
  - id: invalid-name
    rule: shop.total
    why: It is a slip.
    edit: {file: src/shop.py, from: "result += price", to: "result += prise"}
    red: tests/test_shop.py::test_total
  - id: invalid-unread
    rule: shop.total
    why: Nobody reads it.
    edit: {file: src/other.py, from: "1", to: "2"}
    red: tests/test_shop.py::test_total
  - id: not-applied-twice
    rule: shop.total
    why: Which of them?
    edit: {file: src/shop.py, from: "price", to: "prices"}
    red: tests/test_shop.py::test_total
  - id: not-applied-at-all
    rule: shop.total
    why: It is gone.
    edit: {file: src/shop.py, from: "discount", to: ""}
    red: tests/test_shop.py::test_total
  - id: timeout
    rule: shop.total
    why: It never ends.
    edit: {file: src/shop.py, from: "result = 0", to: "while True: pass"}
    red: tests/test_shop.py::test_total
  - id: timeout-as-expected
    rule: shop.total
    why: It never ends, and that is said.
    edit: {file: src/shop.py, from: "result = 0", to: "while 1: pass"}
    red: tests/test_shop.py::test_total
    expect: timeout
  - id: memory
    rule: shop.total
    why: It takes all there is.
    edit: {file: src/shop.py, from: "result = 0", to: "result = len(bytearray(1 << 40))"}
    red: tests/test_shop.py::test_total
  - id: signal
    rule: shop.total
    why: It dies.
    edit: {file: src/shop.py, from: "result = 0", to: "import os; os.kill(os.getpid(), 9)"}
    red: tests/test_shop.py::test_total
  - id: no-tests
    rule: shop.total
    why: There is none of that name.
    edit: {file: src/shop.py, from: "result = 0", to: "result = 1"}
    red: tests/test_shop.py::test_of_yesterday
  - id: unstable-red-anyway
    rule: shop.total
    why: It proves nothing.
    edit: {file: src/shop.py, from: "result = 0", to: "result = 1"}
    red: tests/test_shop.py::test_is_red_anyway
  - id: unstable-every-other-time
    rule: shop.total
    why: It proves nothing.
    edit: {file: src/shop.py, from: "result = 0", to: "result = 1"}
    red: tests/test_shop.py::test_is_green_every_other_time
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with code below `src`, and copies in a temporary directory of their own."""
    top = tmp_path / "shop"
    for name, text in {
        "src/shop.py": SHOP,
        "src/other.py": "ONE = 1\n",
        "tests/test_shop.py": TESTS,
        "mutants/shop.yaml": MUTANTS,
    }.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    copies = tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    monkeypatch.setattr("executor.testing.mutation.judging.LIMIT_LEAST_S", 1.0)
    monkeypatch.setattr("executor.testing.mutation.slot.FRESH_S", 3.0)
    return top


def mutants(top: Path, *ids: str) -> list[Mutant]:
    [file] = read_mutants([top / "mutants"])
    return [one for one in file.mutants if not ids or one.id in ids]


async def run(top: Path, *ids: str, **options: Any) -> Outcome:
    return await running.run(top, mutants(top, *ids), read_settings(top), **options)


def snapshot(top: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(top.rglob("*")) if path.is_file()}


# rule: proof.red-for-the-reason
# rule: proof.exact-once
# rule: proof.controls-green
async def test_each_mutant_ends_as_its_name_says_and_the_project_is_only_read(
    project: Path, tmp_path: Path
) -> None:
    """Only a kill counts, and a program that does not start proves nothing."""
    before = snapshot(project)

    outcome = await run(project, jobs=2)

    assert outcome.void == ""
    wrong = [
        (one.mutant.id, one.judgement.word, one.judgement.why)
        for one in outcome.verdicts
        if not one.mutant.id.startswith(one.judgement.word)
    ]
    assert wrong == []
    assert len(outcome.verdicts) == len(mutants(project))
    by_id = {one.mutant.id: one for one in outcome.verdicts}
    assert by_id["killed-in-new-code"].how.startswith("in new code")
    assert by_id["killed-in-a-default"].how.startswith("imported anew")
    assert by_id["timeout-as-expected"].as_declared
    assert not by_id["timeout"].as_declared
    assert "stayed green" in by_id["survived-one-of-two"].judgement.why
    assert by_id["killed-in-new-code"].judgement.killers == ("tests/test_shop.py::test_total",)
    assert snapshot(project) == before
    assert list((tmp_path / "copies").iterdir()) == []


# rule: proof.self-test
async def test_a_no_op_that_dies_makes_the_run_void(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runner that kills everything would kill the no-op too."""
    monkeypatch.setattr(running, "judge", lambda *_: running.Judgement("killed", ""))

    outcome = await run(project, "killed-in-new-code")

    assert outcome.void.startswith("a no-op is killed")
    assert outcome.verdicts == ()


# rule: proof.self-test
async def test_an_edit_that_breaks_everything_and_lives_makes_the_run_void(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runner that never changes the code would let it live."""
    monkeypatch.setattr(running, "judge", lambda *_: running.Judgement("survived", ""))

    outcome = await run(project, "killed-in-new-code")

    assert outcome.void.startswith("an edit that breaks all of src/shop.py is survived")
    assert outcome.verdicts == ()


async def test_tests_that_cannot_be_collected_make_the_run_void(project: Path) -> None:
    """A red light for every mutant would look like a clean sheet."""
    (project / "tests" / "test_broken.py").write_text("import no_such_thing\n")

    outcome = await run(project, "killed-in-new-code")

    assert "no_such_thing" in outcome.void


PROGRAM = """
import sys, trio
from pathlib import Path
from executor.testing.mutants import read_mutants
from executor.testing.mutation import running
from executor.testing.mutation.settings import Settings
top = Path(sys.argv[1])
[file] = read_mutants([top / "mutants"])
chosen = [one for one in file.mutants if one.id.startswith("timeout")]
print("ready", flush=True)
trio.run(lambda: running.run(top, chosen * 5, Settings(), jobs=2))
"""


@pytest.mark.parametrize("moment", range(3))
async def test_killed_in_the_middle_it_leaves_the_project_as_it_was_and_the_next_run_cleans_up(
    project: Path, tmp_path: Path, moment: int
) -> None:
    """Case 57: a mutant that stays in the source is sabotage."""
    before = snapshot(project)
    copies = tmp_path / "copies"
    environment = os.environ | {"TMPDIR": str(copies)}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(project)], env=environment, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        wanted = ["tree/src/shop.py", "log", "tree/tests/__pycache__"][moment]
        end = time.monotonic() + 60
        while not list(copies.glob(f"*/slot-1/{wanted}")):
            assert time.monotonic() < end
            await trio.sleep(0.01)
        workers = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGKILL)
        process.wait()

    assert snapshot(project) == before
    assert len(list(copies.iterdir())) == 1
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert alive == []
    outcome = await run(project, "killed-in-new-code")
    assert [one.judgement.word for one in outcome.verdicts] == ["killed"]
    assert list(copies.iterdir()) == []


# -- the packet ------------------------------------------------------------------------------------


async def packed(top: Path, into: Path, number: int = 1, of: int = 1, *ids: str) -> Path:
    chosen = mutants(top, *ids)
    part = [one for at, one in enumerate(chosen) if at % of == number - 1]
    manifest = packet.candidate_manifest(top)
    outcome = await running.run(top, part, Settings())
    packet.write(
        into, outcome, manifest, version="1", python="3",
        shard=packet.Shard(number, of), chosen=chosen,
    )  # fmt: skip
    return into


TWO = ("killed-in-new-code", "survived-its-test")


# rule: proof.packet
async def test_a_packet_can_be_checked_against_the_project_and_against_itself(
    project: Path, tmp_path: Path
) -> None:
    """Who was not there need not believe."""
    place = await packed(project, tmp_path / "packet", 1, 1, *TWO)

    run = packet.check(place, project)
    assert [one.verdict for one in run.results] == ["killed", "survived"]

    patch = place / "mutants" / "killed-in-new-code" / "patch.diff"
    kept = patch.read_text()
    patch.write_text(kept.replace("-= price", "*= price"))
    with pytest.raises(packet.PacketFault, match=r"patch\.diff is not the file that was listed"):
        packet.check(place, project)
    patch.write_text(kept)
    (project / "src" / "shop.py").write_text(SHOP.replace("result += price", "result += 1"))
    with pytest.raises(packet.PacketFault) as fault:
        packet.check(place, project)
    assert "src/shop.py is not the file that was listed" in str(fault.value)
    assert "killed-in-new-code: its patch does not apply" in str(fault.value)


# rule: proof.packet
async def test_the_packets_of_all_shards_are_joined_and_an_incomplete_set_is_refused(
    project: Path, tmp_path: Path
) -> None:
    """A missing shard must not look like a clean run."""
    first = await packed(project, tmp_path / "1", 1, 2, *TWO)
    second = await packed(project, tmp_path / "2", 2, 2, *TWO)

    whole = packet.merge([second, first], tmp_path / "whole")
    assert [one.id for one in whole.results] == list(TWO)
    assert packet.check(tmp_path / "whole", project) == whole

    with pytest.raises(packet.PacketFault, match="without a verdict: survived-its-test"):
        packet.merge([first], tmp_path / "half")
    with pytest.raises(packet.PacketFault, match="not each of them once"):
        packet.merge([first, first], tmp_path / "twice")
    assert not (tmp_path / "half").exists()


def test_two_mutants_of_one_id_are_told(project: Path) -> None:
    """A verdict must belong to one of them."""
    other = project / "mutants" / "more.yaml"
    other.write_text(MUTANTS.replace("mutants:\n", "mutants:\n", 1))

    with pytest.raises(Faulty, match="a second mutant 'killed-in-new-code'"):
        read_mutants([project / "mutants"])

    other.unlink()
    assert msgspec.to_builtins(mutants(project, "timeout")[0])["expect"] == "killed"
