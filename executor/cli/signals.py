"""Signals: Ctrl-C, SIGTERM and SIGHUP, at whatever moment they come.

Three times follow one another, and each has its own answer:

- before: nothing was started. Say so and be gone. An exception out of the middle of an import
  would be a traceback.
- while: `executor.cli.working` listens, and ends what runs.
- after: the end is certain, and on record if it was an action's. Only the telling can still be cut
  short, if nobody reads it; the exit code is the end's.

Imports only what the interpreter has loaded anyway: until `watch`, a Ctrl-C is a traceback.
"""

import os
import signal

NOTHING_HAPPENED = 5
NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TELLING_S = 2
"""Seconds that a reader has for the result once a signal came."""
# By hand, because a signal may come while `json` itself is being imported.
RESULT = (
    '{"status": "undelivered", "code": "CANCELLED", "stage": null, "recovery": "retry",'
    ' "result_id": null, "attempt": null, "action_digest": null, "receipt": null,'
    ' "isolation": null, "rule": null, "because": "It was interrupted; nothing was started.",'
    ' "todo": null, "reply": null, "ledger": null, "earlier": null, "output": null}\n'
)
_as_json = False
_begun = False
_heard = False
_code: int | None = None


class Interrupted(Exception):
    """A signal came, and what ran was ended."""


def watch(*, as_json: bool) -> None:
    """Answer signals from now on, but for those that are ignored (`nohup`, `... &` in a script).

    Args:
        as_json: whoever reads stdout expects a result there, whatever the end.
    """
    global _as_json
    _as_json = as_json
    for number in watched():
        signal.signal(number, _answer)


def watched() -> list[signal.Signals]:
    """Give the signals that are not ignored."""
    return [number for number in NUMBERS if signal.getsignal(number) is not signal.SIG_IGN]


def hear(number: int) -> str | None:
    """Give the name of a signal, once: the first is told, and those after it add nothing."""
    global _heard
    name = None if _heard else signal.Signals(number).name
    _heard = True
    return name


def begin() -> None:
    """Say that the gate has the request: what comes of it is no longer certain."""
    global _begun
    _begun = True


def begun() -> bool:
    """Say whether the gate had the request."""
    return _begun


def settle(code: int) -> None:
    """Say that the end is certain: from now on a signal changes nothing about it."""
    global _code
    _code = code


def _answer(number: int, _frame: object) -> None:
    if _code is not None:
        signal.signal(signal.SIGALRM, _leave)
        signal.alarm(TELLING_S)
        return
    _write(2, f"executor: {hear(number) or 'interrupted'}: nothing was started.\n")
    if _as_json:
        _write(1, RESULT)
    os._exit(NOTHING_HAPPENED)


def _leave(_number: int, _frame: object) -> None:
    os._exit(NOTHING_HAPPENED if _code is None else _code)


def _write(descriptor: int, text: str) -> None:
    try:  # noqa: SIM105 - contextlib may not be loaded yet
        os.write(descriptor, text.encode())
    except OSError:
        pass  # there is nobody to tell
