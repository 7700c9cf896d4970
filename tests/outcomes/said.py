"""Said: manifests and finished commands in a line, for the tests of this family."""

from typing import Any

import msgspec

from executor.finished import End, Finished, Output
from executor.manifest import Manifest
from executor.rules.outcomes import Verdict, classify

REJECTED = {"when": {"exit": 64}, "is": "undelivered", "code": "REJECTED"}


def manifest(*outcomes: dict[str, Any], effect: str = "immediate") -> Manifest:
    """Give a manifest that declares these outcomes."""
    declared: Manifest = msgspec.convert(
        {
            "executor": "manifest/1",
            "tool": "test.pure",
            "summary": "Values only.",
            "command": "true",
            "argv": [],
            "capabilities": [{"name": "compute:pure"}],
            "outcomes": list(outcomes),
            "effect": effect,
        },
        Manifest,
    )
    return declared


def output(said: str | bytes, *, cut: int = 0) -> Output:
    """Give a stream of which all was kept but the last ``cut`` bytes."""
    whole = said.encode("utf-8", "surrogateescape") if isinstance(said, str) else said
    return Output(whole[: len(whole) - cut], len(whole), truncated=cut > 0)


def exited(
    code: int | None, stdout: str | bytes = "", stderr: str | bytes = "", *, cut: int = 0
) -> Finished:
    """Give a command that exited by itself; ``cut`` bytes of its stdout were not kept."""
    return Finished("exited", exit=code, stdout=output(stdout, cut=cut), stderr=output(stderr))


def judged(finished: Finished, *outcomes: dict[str, Any], effect: str = "immediate") -> Verdict:
    """Say what a finished command means under a manifest."""
    return classify(manifest(*outcomes, effect=effect), finished)


def ended(end: End, **facts: Any) -> Finished:
    """Give a command that ended otherwise; its output would mean a rejection."""
    return Finished(end, stdout=output("ERROR rejected\n"), **facts)
