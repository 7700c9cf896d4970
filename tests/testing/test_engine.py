"""Engine: whatever a target does, its case ends with a word that says so, and nothing is left."""

import sys
import tempfile
from pathlib import Path

import psutil
import pytest
import trio

from executor.testing import engine
from executor.testing.engine import run_all
from executor.testing.spec_reading import read_spec
from executor.testing.verdicts import Verdict
from tests.cli.call import PATIENCE_S

HOSTILE = Path(__file__).with_name("hostile.py")
SPEC = """\
executor: spec/1
family: parts
rules:
  - id: parts.one
    statement: One of the parts.
    why: It is tried here.
    scenarios:
      - id: one
        steps: [{run: {as: first}}]
        then: THEN
        control: {given: {request: {parameters: {to: bo}}}, then: {told: {status: delivered}}}
"""
DELIVERED = "{told: {status: delivered}}"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the engine's houses."""
    made = tmp_path / "temporary"
    made.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    return made


def target(mode: str) -> list[str]:
    """Give the words of a hostile target."""
    return [sys.executable, "-IS", str(HOSTILE), mode]


def spec(tmp_path: Path, then: str = DELIVERED) -> Path:
    """Write a spec with this expectation."""
    path = tmp_path / "parts.yaml"
    path.write_text(SPEC.replace("THEN", then))
    return path


async def judged(tmp_path: Path, mode: str, then: str = DELIVERED) -> Verdict:
    """Put a hostile target to one case."""
    path = spec(tmp_path, then)
    with trio.fail_after(PATIENCE_S):
        outcome = await run_all(
            [read_spec(path)], target=target(mode), chosen=lambda case: not case.control
        )
    [verdict] = outcome.verdicts
    return verdict


def running(mode: str) -> list[psutil.Process]:
    """Give the processes of a hostile target that are there."""
    return [
        one
        for one in psutil.process_iter(["cmdline"])
        if (one.info["cmdline"] or [])[-2:] == [str(HOSTILE), mode]
        and one.status() != psutil.STATUS_ZOMBIE
    ]


async def until_gone(mode: str) -> None:
    """Wait until none of them is there; a killed process takes its time to go."""
    with trio.fail_after(PATIENCE_S):
        while running(mode):
            await trio.sleep(0.01)


# rule: proof.never-passed-unseen
@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("dies-at-once", "it ended before it answered 'hello'; its last words: no more"),
        ("can-is-a-text", "its answer to 'hello': Expected `array`"),
        ("has-no-name", "its answer to 'hello': Object missing required field `name`"),
        ("hello-is-nothing", "its answer to 'hello': Expected `object`"),
        ("open-is-a-text", "the answer to 'open' is no object: 'open'"),
        ("talks", "no JSON-RPC: b'I am fine'"),
        ("talks-json", "no JSON-RPC: b'[]'"),
        ("answers-what-nobody-asked", "an answer to nothing"),
        ("answer-is-a-list", "the answer to 'first' is no object: ['delivered']"),
        ("fails", "'run' failed: it is on fire"),
        ("fails-with-a-text", "'run' failed: 'boom'"),
        ("denies-what-it-declared", "'run' failed: Method not found"),
        ("answers-to-a-list", "an answer to nothing"),
        ("talks-deep", "no JSON-RPC"),
    ],
)
async def test_a_faulty_target_is_broken_and_why_is_told(
    tmp_path: Path, mode: str, why: str, temporary: Path
) -> None:
    """What it would have done is not known, and so it has neither passed nor failed."""
    verdict = await judged(tmp_path, mode)

    assert (verdict.word, verdict.failures) == ("broken", ())
    assert why in verdict.why
    await until_gone(mode)
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("mode", ["dies-in-a-run", "is-killed-in-a-run", "closes-its-streams"])
async def test_a_target_that_dies_has_not_answered(tmp_path: Path, mode: str) -> None:
    """Some scenarios kill it: its end is something that can be expected."""
    verdict = await judged(tmp_path, mode)

    assert verdict.word == "failed"
    assert [one.actual for one in verdict.failures] == ["gone"]
    assert (await judged(tmp_path, mode, "{told: {status: gone}, sent: 0}")).word == "passed"
    await until_gone(mode)


@pytest.mark.parametrize("mode", ["never-answers", "floods"])
async def test_a_case_that_does_not_end_is_broken(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One target must not hold up all others."""
    monkeypatch.setattr(engine, "CASE_S", 2.0)

    verdict = await judged(tmp_path, mode)

    assert verdict.word == "broken"
    assert "did not end within" in verdict.why or "a line of more than" in verdict.why
    await until_gone(mode)


async def test_a_flood_is_not_kept_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line has an end."""
    monkeypatch.setattr("executor.testing.target._LONGEST_LINE", 1 << 20)

    verdict = await judged(tmp_path, "floods")

    assert (verdict.word, verdict.why) == ("broken", "a line of more than 1048576 bytes")


@pytest.mark.parametrize("mode", ["tells-nonsense", "pauses-nowhere", "good"])
async def test_what_was_not_asked_for_is_passed_over(tmp_path: Path, mode: str) -> None:
    """A target may tell more than this protocol knows."""
    assert (await judged(tmp_path, mode)).word == "passed"


async def test_a_ledger_that_cannot_be_read_is_broken(tmp_path: Path) -> None:
    """It is the target's fault, and no finding about the rule."""
    verdict = await judged(tmp_path, "ledger-of-texts", "{ledger: [delivered]}")

    assert verdict.word == "broken"


async def test_what_a_command_leaves_is_seen_and_ended(tmp_path: Path) -> None:
    """Also when it has a session of its own, and no parent any more."""
    verdict = await judged(
        tmp_path, "leaves-a-process", "{left: {processes: 0}, told: {daemon: 0}}"
    )

    found = {one.key: one.actual for one in verdict.failures}
    assert (verdict.word, found["left.processes"]) == ("failed", 1)
    with trio.fail_after(PATIENCE_S):
        while psutil.pid_exists(found["told.daemon"]):
            await trio.sleep(0.01)


async def test_a_target_that_kills_what_stands_above_it_is_broken(tmp_path: Path) -> None:
    """What it left could be anywhere: no process that is found means nothing."""
    then = "{left: {processes: 0}, told: {status: delivered}}"

    verdict = await judged(tmp_path, "kills-its-supervisor", then)

    assert verdict.word == "broken"
    assert "has gone" in verdict.why


async def test_what_a_target_said_last_is_told_where_it_died(tmp_path: Path) -> None:
    """Its traceback is what its author needs."""
    verdict = await judged(tmp_path, "dies-in-a-run")

    assert verdict.why.endswith("its last words: no more")


async def test_a_fault_beside_a_case_takes_no_other_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong in the harness itself."""

    def fail(*_: object) -> None:
        raise RuntimeError("of the harness")

    monkeypatch.setattr("executor.testing.scene.Scene._heard", fail)

    verdict = await judged(tmp_path, "tells-nonsense")

    assert (verdict.word, verdict.why) == ("broken", "RuntimeError: of the harness")


async def test_a_run_that_is_cancelled_waits_for_nobody_and_leaves_nothing(
    tmp_path: Path, temporary: Path
) -> None:
    """Whoever gives up wants to have given up: a target that hangs cannot forbid it."""
    path = spec(tmp_path)
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            files = [read_spec(path)]
            nursery.start_soon(lambda: run_all(files, target=target("never-answers"), jobs=2))
            while len(running("never-answers")) < len(list(files[0].cases())):
                await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
        await until_gone("never-answers")

    assert not list(temporary.iterdir())


async def test_a_target_that_does_not_close_loses_nothing_but_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it did is known by then."""
    monkeypatch.setattr("executor.testing.scene.PATIENCE_S", 0.5)

    assert (await judged(tmp_path, "does-not-close")).word == "passed"
    await until_gone("does-not-close")
