"""JUnit: what came of a run, as the XML that CI servers read.

A test suite is a family, a test case a scenario or its control, under the name of its rule.
"""

from xml.etree import ElementTree

from executor.testing.reports.standing import Standing, standings
from executor.testing.reports.values import shown
from executor.testing.verdicts import Failure, Outcome, Verdict
from executor.visible import printable

MOST = 10_000
"""Characters of a value that are shown."""


def report(outcome: Outcome) -> bytes:
    """Give the document."""
    families: dict[str, list[Standing]] = {}
    for standing in standings(outcome):
        if standing.verdicts:
            families.setdefault(standing.family, []).append(standing)
    root = ElementTree.Element(
        "testsuites",
        _counts(list(outcome.verdicts)) | {"name": "executor verify", "time": _s(outcome.seconds)},
    )
    for family, rules in families.items():
        verdicts = [verdict for standing in rules for verdict in standing.verdicts]
        seconds = sum(verdict.seconds for verdict in verdicts)
        about = {"name": family, "time": _s(seconds)} | _counts(verdicts)
        suite = ElementTree.SubElement(root, "testsuite", about)
        for verdict in verdicts:
            _case(suite, verdict)
    ElementTree.indent(root)
    # Every character that XML does not allow is one that cannot be seen, and was escaped as such.
    document: bytes = ElementTree.tostring(root, encoding="UTF-8", xml_declaration=True)
    return document + b"\n"


def _case(suite: ElementTree.Element, verdict: Verdict) -> None:
    case = verdict.case
    file, _, line = case.where.rpartition(":")
    about = {
        "classname": case.rule.id,
        "name": case.id,
        "file": printable(file),
        "line": line,
        "time": _s(verdict.seconds),
    }
    element = ElementTree.SubElement(suite, "testcase", about)
    match verdict.word:
        case "failed":
            texts = [_failure(failure) for failure in verdict.failures]
            keys = ", ".join(failure.key for failure in verdict.failures)
            inside = _add(element, "failure", f"not as expected: {keys}")
            inside.text = "\n".join(texts)
        case "broken":
            inside = _add(element, "error", verdict.why)
            inside.text = printable(f"{case.where}: {verdict.why}", lines=True)
        case "unsupported" | "skipped":
            _add(element, "skipped", f"{verdict.word}: {verdict.why}")


def _add(element: ElementTree.Element, kind: str, message: str) -> ElementTree.Element:
    about = {"message": printable(message), "type": kind}
    return ElementTree.SubElement(element, kind, about)


def _failure(failure: Failure) -> str:
    return (
        f"{printable(failure.where)}: {printable(failure.key)}\n"
        f"  expected {shown(failure.expected, MOST)}\n"
        f"  actual   {shown(failure.actual, MOST)}"
    )


def _counts(verdicts: list[Verdict]) -> dict[str, str]:
    words = [verdict.word for verdict in verdicts]
    return {
        "tests": str(len(words)),
        "failures": str(words.count("failed")),
        "errors": str(words.count("broken")),
        "skipped": str(words.count("skipped") + words.count("unsupported")),
    }


def _s(seconds: float) -> str:
    return f"{seconds:.3f}"
