"""Reports of mutants: what viewers, CI servers and people are given, made from one run."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from executor.testing.mutants import Edit, Mutant
from executor.testing.mutation.generating import generated
from executor.testing.mutation.judging import Judgement, Word
from executor.testing.mutation.reports import annotations, elements, html, junit, sarif
from executor.testing.mutation.reports.entries import WORDS, Standing, standing
from executor.testing.mutation.verdicts import Outcome, Verdict

SCHEMA = Path(__file__).parent / "schemas" / "mutation-testing-report-schema.json"
SOURCE = """\
def f(a):
    return a == 1, "<script>alert(1)</script>", "%: ,"


def g(a):
    return a
"""
OTHER = "LIMIT = 1\n"
TEXTS = {"src/a.py": SOURCE, "src/b.yaml": OTHER}
TEST = "tests/test_a.py::test_<b>"


def declared(word: Word, edit: tuple[Edit, ...], expect: Any = "killed") -> Verdict:
    """Give the verdict on a mutant that somebody wrote."""
    mutant = Mutant(
        id=f"declared-{word}", rule="a.rule", why="Why.", edit=edit, red=TEST, expect=expect
    )
    patch = "--- a/src/a.py\n+++ b/src/a.py\n-a\n+</pre><script>alert(2)</script>\n"
    return Verdict(mutant, Judgement(word, "Because: 100 %,\nit is", (TEST,)), patch, seconds=0.25)


@pytest.fixture
def run() -> Standing:
    """One mutant of every word, one that edits two files, and one that is ignored."""
    one = (Edit("src/a.py", "return a\n", "return None\n"),)
    two = (Edit("src/a.py", "a == 1", "a == 2"), Edit("src/b.yaml", "1", "2"))
    stale = (Edit("src/a.py", "nowhere", ""),)
    words: list[Word] = [
        "survived", "no-tests", "unstable", "invalid", "memory", "signal", "timeout",
    ]  # fmt: skip
    verdicts = [declared(word, one) for word in words]
    verdicts += [declared("killed", two), declared("not-applied", stale)]
    [ignored, *_] = generated("src/a.py", SOURCE)
    return standing(
        "mutants",
        Outcome(tuple(verdicts), {}, seconds=3.0),
        TEXTS.__getitem__,
        ignored=[(ignored, "Nobody can see it.")],
    )


def test_the_fixture_has_every_word(run: Standing) -> None:
    """A word that no report was tried with may break all of them."""
    assert {one.word for one in run.entries} == set(WORDS)


# -- the schema of mutation testing reports --------------------------------------------------------


def test_elements_are_valid_by_the_schema_of_their_viewers(run: Standing) -> None:
    """Dashboards refuse what is not."""
    document = json.loads(elements.report(run, version="1"))

    validator = jsonschema.Draft7Validator(json.loads(SCHEMA.read_text()))
    assert [one.message for one in validator.iter_errors(document)] == []
    document["files"]["src/a.py"]["mutants"][0]["status"] = "Dead"
    assert list(validator.iter_errors(document))


def test_elements_say_of_each_mutant_where_it_is_and_what_became_of_it(run: Standing) -> None:
    """A mutant of two files is there in both; one that does not apply has no place at all."""
    files = json.loads(elements.report(run, version="1"))["files"]

    found = {one["id"]: one for file in files.values() for one in file["mutants"]}
    assert {one["status"] for one in found.values()} == {
        "Killed", "Survived", "Timeout", "NoCoverage", "CompileError", "RuntimeError", "Ignored",
    }  # fmt: skip
    assert "declared-not-applied" not in found
    killed = found["declared-killed"]
    assert killed["location"] == {
        "start": {"line": 2, "column": 17},
        "end": {"line": 2, "column": 18},
    }
    assert (killed["replacement"], killed["killedBy"]) == ("2", [TEST])
    assert found["declared-killed/2"] in files["src/b.yaml"]["mutants"]
    assert files["src/b.yaml"]["source"] == OTHER


# -- the page --------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Notes the elements of a page, and what is inside its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note it."""
        self.tags.append((tag, dict(attrs)))


def test_the_page_asks_nobody_for_anything_and_runs_no_text(run: Standing) -> None:
    """Sources and patches hold whatever somebody wrote."""
    page = Page(html.report(run).decode())

    assert [tag for tag, _ in page.tags].count("script") == 1
    assert not [tag for tag, _ in page.tags if tag in ("link", "img", "iframe", "object", "b")]
    assert not [about for _, about in page.tags if "src" in about or "href" in about]
    [policy] = [about["content"] for tag, about in page.tags if tag == "meta" and "content" in about
                and "default-src" in str(about["content"])]  # fmt: skip
    assert str(policy).startswith("default-src 'none'")


def test_the_page_shows_every_mutant_in_its_place(run: Standing) -> None:
    """What wants looking at is open already."""
    page = Page(html.report(run).decode())

    mutants = [about for tag, about in page.tags if "mutant" in str(about.get("class", "")).split()]
    assert len(mutants) == sum(len(one.spots) or 1 for one in run.entries)
    assert {str(one["data-verdicts"]) for one in mutants} == set(WORDS)
    for one in mutants:
        assert ("open" in one) == (one["data-verdicts"] not in ("killed", "ignored"))


# -- for CI servers --------------------------------------------------------------------------------


def test_junit_has_a_case_for_each_mutant(run: Standing) -> None:
    """And a failure for each that did not end as it should."""
    root = ElementTree.fromstring(junit.report(run))  # noqa: S314 - it is ours

    cases = {one.attrib["name"]: one for one in root.iter("testcase")}
    assert len(cases) == len(run.entries) == int(root.attrib["tests"])
    failed = {name for name, one in cases.items() if one.find("failure") is not None}
    assert len(failed) == int(root.attrib["failures"])
    assert failed == {one.id for one in run.entries if not one.good}
    assert int(root.attrib["skipped"]) == 1


def test_sarif_tells_what_did_not_end_as_it_should(run: Standing) -> None:
    """With a place that code scanning can show."""
    document = json.loads(sarif.report(run, version="1"))

    [only] = document["runs"]
    rules = [one["id"] for one in only["tool"]["driver"]["rules"]]
    found = [one["ruleId"] for one in only["results"]]
    assert document["version"] == "2.1.0"
    assert sorted(found) == sorted(
        f"mutant-{one.word}" for one in run.entries if not one.good and one.spots
    )
    assert [rules[one["ruleIndex"]] for one in only["results"]] == found
    region = only["results"][0]["locations"][0]["physicalLocation"]["region"]
    assert region == {"startLine": 6, "startColumn": 12, "endLine": 6, "endColumn": 13}


def test_annotations_are_one_line_each_whatever_they_say(run: Standing) -> None:
    """A line break would let the text of a mutant give commands to the service."""
    wanting = [one for one in run.entries if not one.good]

    github, azure = list(annotations.github(run)), list(annotations.azure(run))

    assert len(github) == len(azure) == len(wanting)
    for line in (*github, *azure):
        assert re.fullmatch(r"[^\r\n]+", line)
    assert github[0].startswith("::error file=src/a.py,line=6,title=mutant survived::")
    assert "Because: 100 %25,%0Ait is" in github[0]
    assert azure[0].startswith("##vso[task.logissue type=error;sourcepath=src/a.py;linenumber=6]")


@pytest.mark.parametrize(
    ("environment", "service"),
    [
        ({"GITHUB_ACTIONS": "true"}, "github"),
        ({"TF_BUILD": "True"}, "azure"),
        ({"CI": "true"}, None),
        ({}, None),
    ],
)
def test_only_a_service_that_shows_them_gets_annotations(
    environment: dict[str, str], service: str | None
) -> None:
    """Elsewhere they are noise."""
    assert annotations.service(environment) == service
