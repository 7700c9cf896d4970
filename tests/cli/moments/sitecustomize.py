"""Moments: let something happen to this very process at a named moment of its life.

The interpreter reports what it does as audit events; the moment is one of them. So a signal comes
exactly there, every time, and no test has to be quick.
"""

import json
import os
import sys
from typing import Any

_moment: dict[str, Any] = json.loads(os.environ.pop("EXECUTOR_TEST_MOMENT", "{}"))
_process = os.getpid()
_seen = [0]
_waiting: list[str] = [_moment["after"]] if "after" in _moment else []
_started = [False]


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if not _started[0]:  # count from where the command line takes over
        _started[0] = event == "import" and arguments[0] == "executor.cli.commands"
        if not _started[0]:
            return
    if os.getpid() != _process:
        return
    if _waiting:
        if _waiting[0] in repr(arguments):
            _waiting.clear()
        return
    if event != _moment.get("event", event):
        return
    if _moment.get("about", "") not in repr(arguments):
        return
    _seen[0] += 1
    if _seen[0] in _moment["at"]:
        if "raise" in _moment:
            raise RuntimeError(_moment["raise"])
        os.kill(_process, _moment["signal"])


if _moment:
    sys.addaudithook(_watch)
