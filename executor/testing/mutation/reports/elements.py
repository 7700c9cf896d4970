"""Elements: the mutation-testing-report-schema, which Stryker's viewers and dashboards open.

Source: https://github.com/stryker-mutator/mutation-testing-elements (report schema, version 2).
"""

import json
from collections.abc import Iterable
from typing import Any

from executor.testing.mutation.reports.entries import IGNORED, Entry, Spot, Standing, suite_of

SCHEMA_VERSION = "2"
_STATUS = {
    "killed": "Killed", "survived": "Survived", "timeout": "Timeout", "no-tests": "NoCoverage",
    "invalid": "CompileError", "memory": "RuntimeError", "signal": "RuntimeError",
    "unstable": "RuntimeError", IGNORED: "Ignored",
}  # fmt: skip
"""What has no status of its own keeps its word in the reason."""


def report(standing: Standing, *, version: str) -> bytes:
    """Give the document.

    Args:
        version: of this program.
    """
    tests = {test for one in standing.entries for test in (*one.tests, *one.killers)}
    document = {
        "schemaVersion": SCHEMA_VERSION,
        "thresholds": {
            "high": round(standing.thresholds.high),
            "low": round(standing.thresholds.low),
            "break": round(standing.thresholds.break_),
        },
        "framework": {"name": "sealed-executor", "version": version},
        "files": {
            name: {
                "language": "python" if name.endswith(".py") else "text",
                "source": standing.texts[name],
                "mutants": list(_mutants(spots)),
            }
            for name, spots in standing.by_file().items()
        },
        "testFiles": {
            suite: {
                "tests": [
                    {"id": test, "name": test.partition("::")[2] or test}
                    for test in sorted(tests)
                    if suite_of(test) == suite
                ]
            }
            for suite in sorted({suite_of(test) for test in tests})
        },
    }
    return json.dumps(document, ensure_ascii=False, indent=1).encode() + b"\n"


def _mutants(spots: Iterable[tuple[Entry, Spot]]) -> Iterable[dict[str, Any]]:
    for entry, spot in spots:
        at = entry.spots.index(spot)
        found = {
            "id": entry.id if at == 0 else f"{entry.id}/{at + 1}",
            "mutatorName": entry.kind if entry.kind != "declared" else entry.rule,
            "description": entry.rule,
            "replacement": spot.replacement,
            "status": _STATUS[entry.word],
            "location": {"start": _position(spot.begin), "end": _position(spot.end)},
            "coveredBy": list(entry.tests),
            "killedBy": list(entry.killers),
            "duration": round(1000 * entry.seconds),
        }
        if entry.why or entry.word not in ("killed", "survived"):
            found["statusReason"] = f"{entry.word}: {entry.why}"
        yield found


def _position(place: tuple[int, int]) -> dict[str, int]:
    return {"line": place[0], "column": place[1]}
