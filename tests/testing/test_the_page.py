"""The page for teams: its example is run as it stands there, and fails as it says there."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from executor.testing.engine import run_all
from executor.testing.spec_reading import read_specs
from executor.testing.verdicts import Outcome

PAGE = (Path(__file__).parents[2] / "docs" / "scenarios.md").read_text()
FILES: Mapping[str, str] = dict(
    re.findall(r"<!-- file: (\S+) -->\n```yaml\n(.*?)```\n", PAGE, re.DOTALL)
)


async def verify(directory: Path, **changed: str) -> Outcome:
    """Write the files of the page, and run them."""
    for name, text in FILES.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for old, new in changed.items():
            text = text.replace(old, new)
        path.write_text(text)
    return await run_all(read_specs([directory / "specs"]))


async def test_the_example_of_the_page_passes_as_it_says(tmp_path: Path) -> None:
    """Whoever copies it must have something that works."""
    outcome = await verify(tmp_path)

    assert [(one.case.id, one.word, one.failures) for one in outcome.verdicts] == [
        (case.id, "passed", ()) for file in outcome.files for case in file.cases()
    ]
    assert len(outcome.verdicts) == 6


async def test_a_wrong_expectation_is_told_as_the_page_says(tmp_path: Path) -> None:
    """Expected, actual, and where in the YAML it stands."""
    outcome = await verify(tmp_path, **{"FROZEN_COPY_CHANGED}, runs": "FROZEN_COPY}, runs"})

    [failed] = [one for one in outcome.verdicts if one.word == "failed"]
    [failure] = failed.failures
    told = re.search(r"```console\n(specs/deploy\.yaml:.*?)```", PAGE, re.DOTALL)
    assert told is not None
    assert str(failure).replace(f"{tmp_path}/", "") == told[1].rstrip()
    assert outcome.rule_word(failed.case.rule.id) == "failed"


@pytest.mark.parametrize(
    ("declared", "instead", "case"),
    [
        ('"{files.bundle}"', "no-bundle", "the-build-goes-on-meanwhile"),
        ("exit: 3, stderr", "exit: 9, stderr", "the-connection-is-lost-in-the-middle[control]"),
    ],
)
async def test_a_fault_in_the_manifest_turns_a_scenario_red(
    tmp_path: Path, declared: str, instead: str, case: str
) -> None:
    """They must be able to fail, or they say nothing of the manifest."""
    outcome = await verify(tmp_path, **{declared: instead})

    assert case in [one.case.id for one in outcome.verdicts if one.word == "failed"]
