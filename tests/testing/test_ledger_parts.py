"""What the scenarios of the ledger see and do can come out otherwise."""

from pathlib import Path

import trio

from executor.testing.engine import run_all
from executor.testing.spec_reading import read_spec
from executor.testing.verdicts import Verdict

SPEC = """\
executor: spec/1
family: parts
rules:
  - id: parts.one
    statement: One of the parts.
    why: It is tried here.
    scenarios:
      - id: one
        steps: [{steps}, {{run: {{as: last}}}}]
        then: {{{then}}}
        control: {{without: last, then: {{sent: 1}}}}
"""


async def scenario(tmp_path: Path, steps: str, then: str) -> Verdict:
    """Run one, without its control."""
    path = tmp_path / "parts.yaml"
    path.write_text(SPEC.format(steps=steps, then=then))
    with trio.fail_after(60):
        outcome = await run_all([read_spec(path)], chosen=lambda case: not case.control)
    [verdict] = outcome.verdicts
    return verdict


async def test_a_stranger_that_was_ended_is_not_taken_for_one_that_lives(tmp_path: Path) -> None:
    """Whether recovery ends somebody else's process must be seen."""
    steps = "{stranger: {as: other}}"
    assert (await scenario(tmp_path, steps, "strangers: {other: true}")).word == "passed"

    verdict = await scenario(tmp_path, steps, "strangers: {other: false}")

    assert verdict.word == "failed"
    [failure] = verdict.failures
    assert (failure.key, failure.expected, failure.actual) == ("strangers.other", False, True)


async def test_a_full_disk_is_full_for_the_executor_and_for_nobody_else(tmp_path: Path) -> None:
    """A step that fills nothing would make every promise about it look kept."""
    refused = "told: {status: refused, code: STORE_UNAVAILABLE}"
    full = "{run: {as: first, parameters: {to: bo}}}, {disk: full}"
    assert (await scenario(tmp_path, full, refused)).word == "passed"

    verdict = await scenario(tmp_path, f"{full}, {{disk: roomy}}", refused)

    assert verdict.word == "failed"
    assert [one.actual for one in verdict.failures][:1] == ["delivered"]


async def test_what_is_not_held_cannot_be_let_go(tmp_path: Path) -> None:
    """A slip in a scenario is no finding about the executor."""
    held = "{run: {as: first, parameters: {to: bo}}}, {hold: {file: '${state}/store', by: lock}}"
    told = "told: {status: delivered}"
    assert (await scenario(tmp_path, f"{held}, {{let-go: hold}}", told)).word == "passed"

    assert (await scenario(tmp_path, f"{held}, {{let-go: other}}", told)).word == "broken"


async def test_a_command_line_that_prints_no_json_is_broken(tmp_path: Path) -> None:
    """An answer that is not there must not look like one with nothing in it."""
    doubt = "{command: {words: [ledger, doubt, --json], opens: false, as: doubt}}"
    nothing = "answers: {doubt: {status: ok, printed: []}}"
    first = "{run: {as: first}}"
    assert (await scenario(tmp_path, f"{first}, {doubt}", nothing)).word == "passed"

    plain = doubt.replace(", --json", "")

    assert (await scenario(tmp_path, f"{first}, {plain}", nothing)).word == "broken"
