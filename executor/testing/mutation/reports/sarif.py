"""SARIF: the mutants that did not end as they should, for code scanning services (SARIF 2.1.0)."""

import hashlib
import json
from typing import Any

from executor.testing.mutation.reports.entries import Entry, Standing

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def report(standing: Standing, *, version: str) -> bytes:
    """Give the document.

    Args:
        version: of this program.
    """
    wanting = [one for one in standing.entries if not one.good and one.spots]
    kinds = sorted({one.word for one in wanting})
    document = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "sealed-executor",
                        "version": version,
                        "rules": [
                            {"id": f"mutant-{kind}", "shortDescription": {"text": f"mutant {kind}"}}
                            for kind in kinds
                        ],
                    }
                },
                "results": [_result(one, kinds) for one in wanting],
            }
        ],
    }
    return json.dumps(document, ensure_ascii=False, indent=1).encode() + b"\n"


def _result(entry: Entry, kinds: list[str]) -> dict[str, Any]:
    spot = entry.spots[0]
    told = f"{entry.id} ({entry.rule}): {entry.word}: {entry.why}\n\n{entry.patch}"
    return {
        "ruleId": f"mutant-{entry.word}",
        "ruleIndex": kinds.index(entry.word),
        "level": "warning",
        "message": {"text": told},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": spot.file, "uriBaseId": "%SRCROOT%"},
                    "region": {
                        "startLine": spot.begin[0],
                        "startColumn": spot.begin[1],
                        "endLine": spot.end[0],
                        "endColumn": spot.end[1],
                    },
                }
            }
        ],
        "partialFingerprints": {"mutant/v1": hashlib.sha256(entry.id.encode()).hexdigest()},
    }
