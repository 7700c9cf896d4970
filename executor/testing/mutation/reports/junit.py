"""JUnit: a test case for each mutant, under the name of the rule that it breaks."""

from xml.etree import ElementTree

from executor.testing.mutation.reports.entries import IGNORED, Entry, Standing
from executor.visible import printable


def report(standing: Standing) -> bytes:
    """Give the document."""
    root = ElementTree.Element(
        "testsuites", _counts(standing.entries) | {"name": standing.title, "time": _s(standing)}
    )
    suites: dict[str, list[Entry]] = {}
    for entry in standing.entries:
        suites.setdefault(entry.place[0], []).append(entry)
    for name, entries in sorted(suites.items()):
        suite = ElementTree.SubElement(root, "testsuite", {"name": name} | _counts(entries))
        for entry in entries:
            _case(suite, entry)
    ElementTree.indent(root)
    document: bytes = ElementTree.tostring(root, encoding="UTF-8", xml_declaration=True)
    return document + b"\n"


def _case(suite: ElementTree.Element, entry: Entry) -> None:
    file, line = entry.place
    about = {
        "classname": printable(entry.rule), "name": printable(entry.id), "file": printable(file),
        "line": str(line), "time": f"{entry.seconds:.3f}",
    }  # fmt: skip
    case = ElementTree.SubElement(suite, "testcase", about)
    if entry.word == IGNORED:
        ElementTree.SubElement(case, "skipped", {"message": printable(entry.why)})
    elif not entry.good:
        message = printable(f"{entry.word}: {entry.why}")
        failure = ElementTree.SubElement(case, "failure", {"message": message, "type": entry.word})
        failure.text = printable(entry.patch, lines=True)


def _counts(entries: "tuple[Entry, ...] | list[Entry]") -> dict[str, str]:
    return {
        "tests": str(len(entries)),
        "failures": str(sum(not one.good for one in entries)),
        "errors": "0",
        "skipped": str(sum(one.word == IGNORED for one in entries)),
    }


def _s(standing: Standing) -> str:
    return f"{standing.seconds:.3f}"
