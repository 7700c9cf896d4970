"""Reports: what came of a run is told whole, and nobody else's text passes for ours."""

import base64
import contextlib
import hashlib
import io
import json
import os
import pty
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pytest
import trio

from executor.testing.engine import run_all
from executor.testing.matching import MISSING
from executor.testing.reports import as_json, html, junit, terminal, values
from executor.testing.spec_reading import read_specs
from executor.testing.verdicts import Outcome

HOSTILE = "</pre>]]><script>alert(1)</script>\x1b]0;mine\x07\u202edrowssap\x00\ud800\ufffe&amp;\n0"
SHOWN = "\\x1b]0;mine\\x07\\u202edrowssap\\x00\\ud800\\ufffe"
"""How the part of it that cannot be seen is shown."""
# What it is asked for in `to` decides what this target does; it answers with hostile text.
TARGET = """
import json, sys
HOSTILE = {hostile}
for line in sys.stdin:
    asked = json.loads(line)
    answer = {{}}
    if asked["method"] == "hello":
        answer = {{"name": "liar", "version": "1", "can": ["run"]}}
    elif asked["method"] == "run":
        answer = {{"status": "delivered", "because": HOSTILE}}
        if asked["params"]["request"]["parameters"].get("to") == "nonsense":
            print(HOSTILE.split(chr(10))[0].encode("ascii", "replace").decode(), flush=True)
    print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "result": answer}}), flush=True)
    if asked["method"] == "close":
        break
"""
SPEC = """\
executor: spec/1
family: demo
rules:
  - id: demo.told
    statement: "It is told. </td><script>alert(2)</script>\\x1b]0;mine\\x07\\u202e"
    codes: [SOME_CODE]
    why: A <b>bold</b> reason.
    scenarios:
      - id: it-fails
        why: The target lies.
        steps: [{run: {as: first}}]
        then:
          told:
            status: delivered
            because: what was expected
            absent: 1
          sent: 1
        control:
          given: {request: {parameters: {to: bo}}}
          then: {told: {status: delivered}}
      # About the next one.
      - id: it-is-unsupported
        steps: [{run: {as: first}}, {clock: {passes: 1 h}}]  # </pre><script>alert(3)</script>
        then: {told: {status: delivered}}
        control: {without: clock, then: {told: {status: delivered}}}
  - id: demo.broken
    statement: Nothing is known.
    why: It talks nonsense.
    scenarios:
      - id: it-is-broken
        steps: [{run: {as: first, parameters: {to: nonsense}}}]
        then: {told: {status: delivered}}
        control:
          instead: {first: {run: {as: first}}}
          then: {told: {status: delivered}}
"""
OTHER = """\
executor: spec/1
family: other
rules:
  - id: other.skipped
    statement: The machine lacks what it needs.
    why: It happens.
    scenarios:
      - id: it-is-skipped
        steps: [{run: {as: first}}]
        then: {told: {status: delivered}}
        control: {given: {config: {degraded: true}}, then: {told: {status: delivered}}}
  - {id: other.later, statement: Not yet., why: Time., built: false}
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The spec files."""
    made = tmp_path_factory.mktemp("specs")
    (made / "demo.yaml").write_text(SPEC)
    (made / "other.yaml").write_text(OTHER)
    (made / "target.py").write_text(TARGET.format(hostile=ascii(HOSTILE)))
    return made


@pytest.fixture(scope="module")
def outcome(directory: Path) -> Outcome:
    """A run in which everything comes up that can; one case is called skipped by hand."""
    files = read_specs([directory])
    words = [sys.executable, "-IS", str(directory / "target.py")]

    async def run() -> Outcome:
        return await run_all(files, target=words, jobs=4)

    found = trio.run(run)
    changes: dict[str, dict[str, Any]] = {
        "it-fails": {"kept": f"/kept/{HOSTILE}"},
        "it-is-skipped": {"word": "skipped", "why": f"no sandbox: {HOSTILE}"},
    }
    verdicts = [replace(one, **changes.get(one.case.id, {})) for one in found.verdicts]
    return replace(found, verdicts=tuple(verdicts), target=f"liar {HOSTILE}", seconds=1.5)


def test_what_came_up_is_what_these_tests_are_about(outcome: Outcome) -> None:
    """Else the tests below look for what is not there."""
    assert [(one.case.id, one.word) for one in outcome.verdicts] == [
        ("it-fails", "failed"),
        ("it-fails[control]", "passed"),
        ("it-is-unsupported", "unsupported"),
        ("it-is-unsupported[control]", "passed"),
        ("it-is-broken", "broken"),
        ("it-is-broken[control]", "passed"),
        ("it-is-skipped", "skipped"),
        ("it-is-skipped[control]", "passed"),
    ]


# -- the terminal ----------------------------------------------------------------------------------


def test_a_failure_is_told_with_its_line_and_both_values(outcome: Outcome, directory: Path) -> None:
    """Whoever wrote the scenario goes from the message to the line."""
    text = click.unstyle("\n".join(terminal.lines(outcome)))

    assert "failed demo.told it-fails\n" in text
    assert (
        f"  {directory}/demo.yaml:17: sent\n    expected 1\n    actual   0\n"
        f"  {directory}/demo.yaml:15: told.because\n"
        '    expected "what was expected"\n'
    ) in text
    assert (
        f"  {directory}/demo.yaml:16: told.absent\n    expected 1\n    actual   nothing\n" in text
    )
    assert f"broken demo.broken it-is-broken\n  {directory}/demo.yaml:32: no JSON-RPC" in text


def test_what_did_not_run_is_told_with_its_reason_and_never_counts_as_passed(
    outcome: Outcome,
) -> None:
    """An unsupported case that is not seen is taken for a rule that holds."""
    text = click.unstyle("\n".join(terminal.lines(outcome)))

    assert "unsupported liar 1 cannot do 'clock'\n  demo.told it-is-unsupported\n" in text
    assert "skipped no sandbox: " in text
    assert "\n  other.skipped it-is-skipped\n" in text
    assert "\ndemo   3 passed, 1 unsupported, 1 broken, 1 failed\n" in text
    assert "\nother  1 passed, 1 skipped\n" in text
    assert "\n8 cases of 3 rules against liar " in text
    assert text.endswith("Stated and not built yet: 1 rule.")


def test_cases_of_one_reason_are_told_together(outcome: Outcome) -> None:
    """A foreign target cannot do a hundred things for the same reason."""
    again = [one for one in outcome.verdicts if one.word == "unsupported"]
    twice = replace(outcome, verdicts=(*outcome.verdicts, *again))

    text = click.unstyle("\n".join(terminal.lines(twice)))

    assert text.count("unsupported liar 1 cannot do 'clock'") == 1
    assert text.count("  demo.told it-is-unsupported\n") == 2


def test_hostile_text_shows_on_a_terminal_and_does_nothing(outcome: Outcome) -> None:
    """A target's answer could move the cursor and write `8 passed` over what is there."""
    text = "\n".join(terminal.lines(outcome))

    assert SHOWN in text
    without_our_colors = re.sub(r"\x1b\[\d+m", "", text)
    assert {one for one in without_our_colors if not one.isprintable()} == {"\n"}


def test_progress_counts_on_a_terminal_and_is_quiet_elsewhere(outcome: Outcome) -> None:
    """A log of a CI server with a thousand bars is read by nobody."""
    ours, theirs = pty.openpty()
    with open(theirs, "w") as stream, terminal.progress(8, stream) as told:
        for verdict in outcome.verdicts:
            told(verdict)
    shown = b""
    with contextlib.suppress(OSError):  # EIO: all of it was read
        while block := os.read(ours, 65536):
            shown += block
    os.close(ours)
    assert "8/8 1 failed, 1 broken, 1 unsupported, 1 skipped" in click.unstyle(shown.decode())

    elsewhere = io.StringIO()
    with terminal.progress(8, elsewhere) as told:
        told(outcome.verdicts[0])
    assert elsewhere.getvalue() == ""


def test_a_terminal_that_goes_away_does_not_end_the_run(
    outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ssh session that broke must not cost the verdicts."""
    monkeypatch.setenv("FORCE_COLOR", "1")  # else it may be noticed in time, and nothing written
    ours, theirs = pty.openpty()
    stream = open(theirs, "w")  # noqa: SIM115 - closing it fails too
    with terminal.progress(8, stream) as told:
        os.close(ours)
        told(outcome.verdicts[0])
        told(outcome.verdicts[1])
    with pytest.raises(OSError, match="Input/output error"):
        stream.close()


def test_progress_hides_no_fault_of_the_run() -> None:
    """A full disk in the middle of a run is no matter of the terminal."""
    ours, theirs = pty.openpty()
    stream = open(theirs, "w")  # noqa: SIM115 - the terminal is not what fails
    with pytest.raises(OSError, match="full"), terminal.progress(8, stream):
        raise OSError("full")
    stream.close()
    os.close(ours)


# -- JSON ------------------------------------------------------------------------------------------


def test_json_says_all_of_it(outcome: Outcome, directory: Path) -> None:
    """A program decides by it, and may not have to guess."""
    report = json.loads(json.dumps(as_json.report(outcome, holds=False), allow_nan=False))

    assert report["counts"] == {
        "passed": 4,
        "skipped": 1,
        "unsupported": 1,
        "broken": 1,
        "failed": 1,
    }
    assert (report["report"], report["holds"], report["seconds"]) == ("verify/1", False, 1.5)
    assert report["not_built"] == ["other.later"]
    rules = {rule["id"]: rule for rule in report["rules"]}
    assert {name: rule["verdict"] for name, rule in rules.items()} == {
        "demo.told": "failed",
        "demo.broken": "broken",
        "other.skipped": "skipped",
        "other.later": None,
    }
    assert rules["demo.told"]["where"] == f"{directory}/demo.yaml:4"
    assert rules["demo.told"]["codes"] == ["SOME_CODE"]
    case = rules["demo.told"]["cases"][0]
    assert (case["id"], case["scenario"], case["control"]) == ("it-fails", "it-fails", False)
    failures = {failure["key"]: failure for failure in case["failures"]}
    assert failures["sent"] == {
        "where": f"{directory}/demo.yaml:17",
        "key": "sent",
        "expected": 1,
        "actual": 0,
    }
    assert failures["told.absent"]["actual"] == {"$absent": True}
    assert failures["told.because"]["actual"] == HOSTILE
    assert rules["other.skipped"]["cases"][0]["why"] == f"no sandbox: {HOSTILE}"


@pytest.mark.parametrize(
    ("value", "plain", "shown"),
    [
        (1, 1, "1"),
        ("1", "1", '"1"'),
        (True, True, "true"),
        ("true", "true", '"true"'),
        (None, None, "null"),
        (MISSING, {"$absent": True}, "nothing"),
        ("nothing", "nothing", '"nothing"'),
        ("DUPLICATE_DELIVERED", "DUPLICATE_DELIVERED", "DUPLICATE_DELIVERED"),
        ("", "", '""'),
        ("a b", "a b", '"a b"'),
        (b"\xff", "\\xff", '"\\\\xff"'),
        (float("nan"), "nan", "nan"),
        ({1: (2, MISSING)}, {"1": [2, {"$absent": True}]}, '{"1": [2, {"$absent": true}]}'),
        ("x" * 60, "x" * 60, "x" * 40 + "... (60 characters)"),
    ],
)
def test_a_value_is_shown_so_that_it_is_taken_for_no_other(
    value: Any, plain: Any, shown: str
) -> None:
    """`expected 1, actual 1` would be a riddle where one of them is a text."""
    assert values.plain(value) == plain
    assert values.shown(value, 40) == shown


# -- JUnit -----------------------------------------------------------------------------------------


def test_junit_is_read_back_by_a_parser(outcome: Outcome, directory: Path) -> None:
    """A CI server that cannot read it says that there were no tests."""
    root = ElementTree.fromstring(junit.report(outcome))  # noqa: S314 - ours

    suites = {suite.get("name"): suite for suite in root.iter("testsuite")}
    keys = ("tests", "failures", "errors", "skipped")
    assert [root.get(key) for key in keys] == ["8", "1", "1", "2"]
    assert [suites["demo"].get(key) for key in keys] == ["6", "1", "1", "1"]
    assert [suites["other"].get(key) for key in keys] == ["2", "0", "0", "1"]
    cases = {case.get("name"): case for case in root.iter("testcase")}
    assert len(cases) == 8
    assert cases["it-fails"].get("classname") == "demo.told"
    assert cases["it-fails"].get("file") == f"{directory}/demo.yaml"
    kinds = {name: [inside.tag for inside in case] for name, case in cases.items()}
    assert {name: kind for name, kind in kinds.items() if kind} == {
        "it-fails": ["failure"],
        "it-is-unsupported": ["skipped"],
        "it-is-broken": ["error"],
        "it-is-skipped": ["skipped"],
    }
    failure = cases["it-fails"][0]
    assert f"{directory}/demo.yaml:17: sent\n  expected 1\n  actual   0\n" in str(failure.text)
    assert "unsupported: liar 1 cannot do" in str(cases["it-is-unsupported"][0].get("message"))


def test_hostile_text_is_legible_in_junit(outcome: Outcome) -> None:
    """XML has no way to write some characters: the whole report would be lost."""
    root = ElementTree.fromstring(junit.report(outcome))  # noqa: S314 - ours

    cases = {case.get("name"): case for case in root.iter("testcase")}
    for text in (cases["it-fails"][0].text, cases["it-is-skipped"][0].get("message")):
        assert "]]><script>alert(1)</script>" in str(text)
        assert "drowssap" in str(text)
        assert "\u202e" not in str(text)
    assert {element.tag for element in root.iter()} == {
        *("testsuites", "testsuite", "testcase", "failure", "error", "skipped")
    }


# -- HTML ------------------------------------------------------------------------------------------


class _Page(HTMLParser):
    """What a browser would make of the page, near enough."""

    EMPTY = ("meta", "input", "br", "hr", "img", "link")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in self._open:
            self.inside.setdefault(tag, []).append(data)

    def text(self, tag: str) -> str:
        return "".join(self.inside[tag])

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def test_the_page_is_one_file_that_asks_for_nothing(outcome: Outcome) -> None:
    """It is opened from a CI artifact, on a train, and must not tell anyone that it was."""
    text = html.report(outcome)
    page = _Page(text)

    attributes = {name for _, held in page.tags for name in held}
    assert not attributes & {"src", "href", "srcset", "action", "style", "data", "poster"}
    assert not re.search(r"url\(|@import|https?:", text)
    assert not {tag for tag, _ in page.tags} & {"link", "iframe", "img", "object", "base"}
    [policy] = [one["content"] for one in page.all("meta") if one.get("http-equiv")]
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    for tag in ("style", "script"):
        digest = base64.b64encode(hashlib.sha256(page.text(tag).encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_no_text_becomes_a_part_of_the_page(outcome: Outcome) -> None:
    """A scenario comes in a pull request, and the page is opened by whoever may merge it."""
    text = html.report(outcome)
    page = _Page(text)

    assert len(page.all("script")) == 1
    assert page.all("b") == []
    for number in (1, 2, 3):
        assert f"<script>alert({number})</script>" in page.text("table")
    assert SHOWN in page.text("table").replace("\\\\", "\\")
    seen = page.text("html")
    assert all(character.isprintable() or character == "\n" for character in seen)


def test_the_page_holds_each_rule_with_its_cases_failures_and_lines(
    outcome: Outcome, directory: Path
) -> None:
    """A reviewer judges a rule by what stands behind it, without opening five files."""
    page = _Page(html.report(outcome))
    table = page.text("table")

    for said in ("A <b>bold</b> reason.", "SOME_CODE", "The target lies.", "Not yet.", "not built"):
        assert said in table
    assert f"{directory}/demo.yaml:17: sentexpected 1actual 0" in table
    lines = SPEC.split("\n")
    assert f"{directory}/demo.yaml:9" in table
    assert "\n".join(line[6:] for line in lines[8:20]) in page.text("pre")
    assert "About the next one" not in page.text("pre")
    rows = {row["id"]: row for row in page.all("tr") if "id" in row}
    assert {name: (row["data-group"], row["data-verdicts"]) for name, row in rows.items()} == {
        "demo.told": ("demo", "failed,passed,unsupported"),
        "demo.broken": ("demo", "broken,passed"),
        "other.skipped": ("other", "passed,skipped"),
        "other.later": ("other", "not built"),
    }
    assert [held.get("open", "closed") for held in page.all("details")] == [
        *(None, "closed", None, "closed")
    ]


def test_the_page_can_be_read_without_eyes_or_a_wide_screen(outcome: Outcome) -> None:
    """Verdicts are words and not only colors; fields have labels; the table knows its heads."""
    text = html.report(outcome)
    page = _Page(text)

    assert page.all("html") == [{"lang": "en"}]
    assert any(one.get("name") == "viewport" for one in page.all("meta"))
    assert "prefers-color-scheme: dark" in page.text("style")
    assert re.search(r"@media \(max-width: ", page.text("style"))
    assert len(page.all("label")) == len(page.all("select")) + len(page.all("input"))
    assert "".join(page.inside["caption"]).strip()
    assert all(head.get("scope") for head in page.all("th"))
    assert page.all("form") == [
        {"id": "filter", "role": "search", "data-items": "rules", "hidden": None}
    ]


def test_a_page_of_files_that_are_gone_has_no_lines(outcome: Outcome, tmp_path: Path) -> None:
    """The verdicts are worth more than the lines beside them."""
    (tmp_path / "gone.yaml").write_text(SPEC)
    files = read_specs([tmp_path])
    case = next(files[0].cases())
    verdict = replace(outcome.verdicts[0], case=case)
    gone = replace(outcome, files=tuple(files), verdicts=(verdict,))
    assert "pre" in _Page(html.report(gone)).inside

    (tmp_path / "gone.yaml").unlink()

    page = _Page(html.report(gone))
    assert "pre" not in page.inside
    assert "demo.told" in page.text("table")
