"""As JSON: what came of a run, for programs.

One object::

    {
      "report": "verify/1",
      "target": "executor",           # what was tested
      "holds": true,                  # whether the exit code is 0
      "seconds": 12.3,
      "counts": {"passed": 4, "failed": 0, "unsupported": 0, "skipped": 0, "broken": 0},
      "not_built": ["ledger.quota"],  # stated, not built yet
      "rules": [{
        "id": "ledger.delivered", "family": "ledger", "where": "specs/ledger.yaml:12",
        "statement": "...", "why": "...", "codes": ["..."], "built": true,
        "verdict": "passed",          # the worst of its cases; null where none was run
        "cases": [{
          "id": "asked-again[control]", "scenario": "asked-again", "control": true,
          "where": "specs/ledger.yaml:20", "verdict": "passed", "why": "", "seconds": 0.3,
          "kept": null,               # the directory of its house, if it was kept
          "failures": [{"where": "specs/ledger.yaml:21", "key": "told.code",
                        "expected": "...", "actual": {"$absent": true}}]
        }]
      }]
    }

``why`` of a case says why it is unsupported, skipped or broken. What was not there at all is
``{"$absent": true}``.
"""

from typing import Any

from executor.testing.reports.standing import WORDS, Standing, standings
from executor.testing.reports.values import plain
from executor.testing.verdicts import Failure, Outcome, Verdict


def report(outcome: Outcome, *, holds: bool) -> dict[str, Any]:
    """Give the object."""
    return {
        "report": "verify/1",
        "target": outcome.target,
        "holds": holds,
        "seconds": round(outcome.seconds, 3),
        "counts": {word: outcome.counts[word] for word in reversed(WORDS)},
        "not_built": outcome.not_built,
        "rules": [_rule(standing) for standing in standings(outcome)],
    }


def _rule(standing: Standing) -> dict[str, Any]:
    rule = standing.rule
    return {
        "id": rule.id,
        "family": standing.family,
        "where": standing.where,
        "statement": rule.statement,
        "why": rule.why,
        "codes": list(rule.codes),
        "built": rule.built,
        "verdict": standing.word if standing.verdicts else None,
        "cases": [_case(verdict) for verdict in standing.verdicts],
    }


def _case(verdict: Verdict) -> dict[str, Any]:
    case = verdict.case
    return {
        "id": case.id,
        "scenario": case.scenario.id,
        "control": case.control,
        "where": case.where,
        "verdict": verdict.word,
        "why": verdict.why,
        "seconds": round(verdict.seconds, 3),
        "kept": verdict.kept,
        "failures": [_failure(failure) for failure in verdict.failures],
    }


def _failure(failure: Failure) -> dict[str, Any]:
    return {
        "where": failure.where,
        "key": failure.key,
        "expected": plain(failure.expected),
        "actual": plain(failure.actual),
    }
