"""Standard streams that are closed, full, or read by nobody; locales; terminals."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from tests.cli.call import Cli, finish, read_terminal, terminal, until


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("json_", [[], ["--json"]])
def test_closed_streams_change_nothing_about_the_action(
    cli: Cli, namespaced: None, closed: str, json_: list[str]
) -> None:
    """A file that we open would get the free number, and our words would go into it."""
    cli.house.manifest(files={"data": {"required": True}})
    cli.house.file("data.bin", b"y" * 5000)
    words = cli.fake({"then": {"exit": 64}}, "-f", "data=data.bin")

    done = cli(*words, *json_, program=cli.through_shell(closed))

    assert done.code == 5
    assert "Traceback" not in done.err
    (receipt,) = cli.receipts()
    assert receipt["result"]["code"] == "NOTHING_SENT"
    for copy in (cli.house.state / "blobs").glob("??/*"):
        assert hashlib.sha256(copy.read_bytes()).hexdigest() == copy.name
    cli.nothing_is_left()


@pytest.mark.parametrize("words", [["manifest", "schema"], ["--help"], ["--version"], ["doctor"]])
def test_a_closed_stdout_is_no_fault(cli: Cli, words: list[str]) -> None:
    """`>&-` says that nobody wants to know."""
    done = cli(*words, program=cli.through_shell(">&-"))

    assert done.code in (0, 1)  # doctor may have to say no
    assert done.err == ""


def _nobody_reads() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def test_a_reader_that_went_away_does_not_change_the_exit_code(cli: Cli, namespaced: None) -> None:
    """`executor run ... | head -0` delivers all the same, and has to say so."""
    for planned, code in (({}, 0), ({"then": {"exit": 9}}, 4)):
        for json_ in ([], ["--json"]):
            writer = _nobody_reads()

            done = cli(*cli.fake(planned), *json_, stdout=writer)

            os.close(writer)
            assert done.code == code
            assert "Traceback" not in done.err
            assert "BrokenPipe" not in done.err


def test_a_reader_of_stderr_that_went_away_does_not_change_the_exit_code(
    cli: Cli, namespaced: None
) -> None:
    """`2>&1 | grep -m1` closes both."""
    writer = _nobody_reads()

    done = cli(*cli.fake({"then": {"exit": 9}}), "--json", stderr=writer)

    os.close(writer)
    assert done.code == 4
    assert done.result()["code"] == "OUTCOME_UNKNOWN"


def test_a_result_that_cannot_be_written_is_said_and_keeps_the_code_of_the_action(
    cli: Cli, namespaced: None
) -> None:
    """It was delivered. Exit 1 would have somebody send it again."""
    with open("/dev/full", "w") as full:
        done = cli(*cli.fake(), "--json", stdout=full)

    assert done.code == 0
    assert done.err == "executor: stdout could not be written: No space left on device.\n"


def test_a_schema_that_cannot_be_written_is_a_failure(cli: Cli) -> None:
    """Here the output is all there is."""
    with open("/dev/full", "w") as full:
        done = cli("manifest", "schema", stdout=full)

    assert done.code == 1
    assert "No space left on device" in done.err


@pytest.mark.parametrize(
    "locale",
    [
        {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "POSIX", "PYTHONIOENCODING": "latin-1:strict"},
    ],
    ids=["ascii", "c", "latin-1"],
)
def test_a_narrow_locale_shows_escapes_and_never_fails(
    cli: Cli, namespaced: None, locale: dict[str, str]
) -> None:
    """cron and containers have the C locale; what was delivered must not end as a fault there."""
    planned = {"stdout": "id=é漢\n"}

    plain = cli(*cli.fake(planned), env=locale, encoding="latin-1")
    result = cli(*cli.fake(planned), "--json", env=locale).result()

    assert plain.code == 0
    assert "\\u6f22" in plain.out
    assert result["result_id"] == "é漢"
    assert result["output"]["stdout"]["text"] == "id=é漢\n"


def test_a_manifest_with_a_name_that_is_not_utf8_is_told_with_escapes(cli: Cli) -> None:
    """Old file systems have such names; they are no reason to fail."""
    path = os.fsencode(cli.house.root) + b"/caf\xe9.yaml"
    Path(os.fsdecode(path)).write_text("tool: 1\n")

    done = cli("manifest", "check", os.fsdecode(path))

    assert done.code == 2
    assert "caf\\udce9.yaml:1:1: tool:" in done.err


def test_a_tiny_terminal_is_no_fault(cli: Cli, namespaced: None) -> None:
    """COLUMNS=1 is what some build systems set."""
    narrow = {"COLUMNS": "1", "LINES": "1"}

    assert cli("--help", env=narrow).code == 0
    assert cli("run", "--help", env=narrow).code == 0
    assert cli(*cli.fake(), env=narrow).code == 0


def test_colors_are_for_terminals_only(cli: Cli, namespaced: None) -> None:
    """An escape in a log file is noise."""

    def on_a_terminal(**env: str) -> str:
        with terminal() as (ours, theirs):
            process = cli.start(*cli.fake(), stdout=theirs, env=env)
            shown = read_terminal(ours, theirs, process)
            finish(process)
        return shown

    assert "\x1b[" not in cli(*cli.fake()).out
    assert "\x1b[" in on_a_terminal(TERM="xterm")
    assert "\x1b[" not in on_a_terminal(TERM="xterm", NO_COLOR="1")
    assert "\x1b[" not in on_a_terminal(TERM="dumb")


def test_a_long_freeze_is_shown_at_a_terminal_and_nowhere_else(cli: Cli, namespaced: None) -> None:
    """Minutes of silence look like a fault; a bar in a log looks like one too."""
    cli.house.manifest(files={"data": {"max_bytes": "200 MiB"}})
    with (cli.house.root / "big.bin").open("wb") as big:
        big.truncate(80 * 2**20)
    words = ("-f", "data=big.bin")

    with terminal() as (ours, theirs):
        process = cli.start(*cli.fake({}, *words), stderr=theirs, env={"TERM": "xterm"})
        shown = read_terminal(ours, theirs, process)
        assert finish(process).code == 0

    assert "freezing" in shown
    assert cli(*cli.fake({}, *words)).err == ""


def test_a_terminal_that_went_away_during_a_freeze_is_no_fault(cli: Cli, namespaced: None) -> None:
    """The bar cannot be drawn any more; the copy has nothing to do with that."""
    cli.house.manifest(files={"data": {"max_bytes": "200 MiB"}})
    with (cli.house.root / "big.bin").open("wb") as big:
        big.truncate(80 * 2**20)
    with terminal() as (ours, theirs):
        process = cli.start(
            *cli.fake({}, "-f", "data=big.bin", "--json"), stderr=theirs, env={"TERM": "xterm"}
        )
        os.close(theirs)
        os.close(ours)
        done = finish(process)

    assert done.code == 0
    assert json.loads(done.out)["status"] == "delivered"


def test_warnings_and_banners_go_to_stderr(cli: Cli, namespaced: None, tmp_path: Path) -> None:
    """A print in somebody's sitecustomize must not void the result... where we can help it."""
    (tmp_path / "sitecustomize.py").write_text("import warnings; warnings.warn('noise')\n")
    env = {"PYTHONPATH": f"{tmp_path}:{cli.env['PYTHONPATH']}", "PYTHONWARNINGS": "always"}

    done = cli(*cli.fake(), "--json", env=env)

    assert "noise" in done.err
    assert done.code == 0
    assert json.loads(done.out)["status"] == "delivered"


def test_output_is_whole_through_a_slow_pipe(cli: Cli, namespaced: None) -> None:
    """A result larger than a pipe must wait for its reader, not be cut."""
    words = cli.fake({"stdout": {"repeat": "z", "bytes": 200_000}}, "--json")
    with cli.start(*words) as process:
        until(cli.receipts, "the receipt")
        done = finish(process)

    assert done.result()["output"]["stdout"]["bytes"] == 200_000
