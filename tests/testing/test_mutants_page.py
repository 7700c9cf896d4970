"""The page about mutants: its project is the example, and its commands do what it says."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent / "example"
PAGE = (Path(__file__).parents[2] / "docs" / "mutants.md").read_text()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The example, somewhere else."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "postage"))


def mutants(project: Path, *words: str) -> tuple[int, str]:
    """Run the command line there; give its exit code, and stderr before stdout."""
    done = subprocess.run(
        [sys.executable, "-m", "executor", "mutants", *words],
        cwd=project, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr + done.stdout


def test_the_files_of_the_page_are_those_of_the_example() -> None:
    """Whoever copies them has what was tested."""
    shown = re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```\n", PAGE, re.DOTALL)

    assert len(shown) == 3
    for name, text in shown:
        assert (EXAMPLE / name).read_text() == text


def test_its_commands_come_out_as_the_page_says(project: Path) -> None:
    """The counts too; only the times are of one machine."""
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    assert mutants(project, "check") == (0, "3 mutants: all fit.\n")
    code, out = mutants(project, "run")
    assert code == 0
    assert "3 killed; 4 controls" in out
    assert "3 killed; 4 controls" in PAGE

    code, out = mutants(project, "sweep", "--html", "page.html")

    assert code == 0
    score, counts = out.splitlines()[-2:]
    assert score in PAGE
    told = counts.partition(",")[0]
    assert told in PAGE
    for path, content in before.items():
        assert path.read_bytes() == content


def test_what_was_recorded_is_found_out_again_without_a_trace(project: Path) -> None:
    """And a test that is gone is missed."""
    assert mutants(project, "sweep", "--record")[0] == 0

    code, out = mutants(project, "sweep", "--no-trace")
    assert (code, "18 killed, 3 no-tests" in out) == (0, True)

    tests = project / "tests" / "test_postage.py"
    tests.write_text(tests.read_text().replace("def test_label", "def _test_label"))
    code, out = mutants(project, "sweep", "--no-trace")
    assert code == 1
    assert "src/postage.py:label:" in out


def test_tests_that_cannot_be_collected_are_told_as_such(project: Path) -> None:
    """It is the project that has to be mended."""
    (project / "tests" / "test_broken.py").write_text("import no_such_thing\n")

    for words in (["check"], ["run"], ["sweep"]):
        code, out = mutants(project, *words)
        assert code in (2, 70)
        assert "cannot be collected" in out or "cannot be traced" in out
        assert "no_such_thing" in out
        assert "fault of the executor" not in out


def test_an_entry_that_means_nothing_is_stale(project: Path) -> None:
    """It would come to hide something else."""
    listed = project / "mutants" / "equivalent.yaml"
    listed.write_text(listed.read_text().replace("function: label", "function: labels"))

    code, out = mutants(project, "sweep")

    assert code == 3
    assert "mutants/equivalent.yaml:3:5" in out
