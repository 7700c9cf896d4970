"""Output: what people read, and what programs read.

Nothing here raises: a reader that went away, or a full disk behind stdout, changes nothing about
what was done.
"""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from executor.refusal import Recovery, Refused
from executor.visible import printable as printable

if TYPE_CHECKING:
    from executor.attempt import Earlier
    from executor.receipt import Receipt

MOST_SHOWN = 2000
"""Characters of a command's own output that people are shown."""
NOT_REPAIRED = "Nothing was repaired. Put the ledger back as it was."
_SIGNS = {
    "delivered": ("green", "delivered"),
    "refused": ("red", "refused"),
    "unresolved": ("yellow", "unresolved: it may have happened"),
    "undelivered": ("red", "undelivered: it did not happen"),
    "pending": ("yellow", "waiting for approval"),
}
_RECOVERIES: dict[Recovery, str] = {
    "wait": "wait for the earlier one to end",
    "stop": "do not ask again",
    "ask": "let a person look before it is asked again",
    "fix": "correct what is said above, then ask again",
    "retry": "the same may be asked again as it is",
}
_RESULT_KEYS = (
    "status",
    "code",
    "stage",
    "recovery",
    "result_id",
    "attempt",
    "action_digest",
    "receipt",
    "isolation",
    "rule",
    "because",
    "todo",
    "reply",
    "ledger",
    "earlier",
    "output",
)
_failed: list[str] = []


def say(text: str) -> None:
    """Tell people on stdout."""
    _put(sys.stdout, text)


def note(text: str) -> None:
    """Tell people on stderr, as words of the executor itself."""
    _put(sys.stderr, f"executor: {text}")


def warn(text: str) -> None:
    """Tell people on stderr."""
    _put(sys.stderr, text)


def print_json(value: Any) -> None:
    """Write one JSON object on one line of stdout, whatever the locale."""
    _put(sys.stdout, json.dumps(value, ensure_ascii=True))


def lost() -> bool:
    """Say whether stdout failed, other than by a reader who went away."""
    return bool(_failed)


def styled(text: str, color: str | None = None, *, bold: bool = False, dim: bool = False) -> str:
    """Give a text with color; `say` and its like take it out where no terminal shows it."""
    import click

    return click.style(text, fg=color, bold=bold or None, dim=dim or None)


def tell_receipt(
    receipt: "Receipt", place: str, where: str = "", opening: str = "", until: str | None = None
) -> None:
    """Tell people how an action ended: a delivery on stdout, the rest on stderr.

    Args:
        place: the path of the receipt.
        where: options that lead another command to the same state directory.
        opening: options that open the same executor.
        until: until when an unresolved action goes out again under its key, if it does.
    """
    color, words = _SIGNS[receipt.status]
    lines = _head(printable(receipt.request.tool), words, color, receipt.code)
    lines += sentences(receipt.because, receipt.todo)
    if receipt.rule is not None:
        lines.append(f"  rule       {receipt.rule}, in stage {receipt.stage}")
    lines += _recovery(receipt.recovery)
    if receipt.earlier is not None:
        verifiable = receipt.action is not None and receipt.action.admitted.manifest.verify
        lines += _earlier(receipt.earlier, place, where, opening if verifiable else None)
    elif receipt.status == "unresolved":
        lines.append(f"  next       executor ledger show {receipt.attempt}{where}")
    if until is not None:
        lines.append(
            "  again      asked again just so, it goes out under the same idempotency key,"
        )
        lines.append(f"             until {until}")
    if receipt.result_id:
        lines.append(f"  result id  {printable(receipt.result_id)}")
    if receipt.action is not None:
        lines.append(f"  action     sha256:{receipt.action.digest}")
    if receipt.action is not None and receipt.status != "refused":
        reach = receipt.action.admitted.reach
        lines.append(f"  isolation  {reach.level}, network: {reach.network}")
        lines += [f"             missing: {printable(entry)}" for entry in reach.missing]
    lines += _on_ledger(receipt)
    if receipt.result()["receipt"] is None:
        place = "none: it could not be put on record"
    lines.append(f"  receipt    {printable(place)}")
    if receipt.status == "delivered":
        say("\n".join(lines))
    else:
        warn("\n".join(lines + _said(receipt)))


def refusal_words(no: Refused) -> str:
    """Give the words for people about a refusal that has no receipt."""
    return "\n".join(
        [
            *_head("executor", "refused", "red", no.code),
            *sentences(no.because, no.todo),
            f"  rule       {no.rule}, in stage {no.stage}",
            *_recovery(no.recovery),
        ]
    )


def refused_result(no: Refused) -> dict[str, Any]:
    """Give the result of a request that was refused and has no receipt."""
    return bare_result(
        status="refused",
        code=no.code,
        stage=no.stage,
        recovery=no.recovery,
        rule=no.rule,
        because=no.because.strip(),
        todo=no.todo,
        earlier=None if no.earlier is None else dict(no.earlier.facts()),
    )


def bare_result(**known: Any) -> dict[str, Any]:
    """Give a result of an end that has no receipt: every key that one with a receipt has."""
    nothing = dict.fromkeys(_RESULT_KEYS)
    return nothing | known


def _head(who: str, words: str, color: str, code: str | None) -> list[str]:
    return [styled(f"{who}: {words}", color, bold=True) + (f" ({code})" if code else "")]


def sentences(*texts: str | None) -> list[str]:
    """Indent every line, so that none of them passes for a line of ours."""
    lines = []
    for text in texts:
        first, *more = (text or "").strip().split("\n")
        lines += [f"  {printable(first)}"] if first else []
        lines += [f"    {printable(line)}" for line in more]
    return lines


def _recovery(recovery: Recovery | None) -> list[str]:
    return [] if recovery is None else [f"  recovery   {recovery}: {_RECOVERIES[recovery]}"]


def _earlier(earlier: "Earlier", place: str, where: str, verifying: str | None) -> list[str]:
    """Say what is in the way of a duplicate, and which command comes next.

    Args:
        verifying: options for `executor ledger verify`, if the tool can.
    """
    name = printable(earlier.attempt)
    lines = [f"  earlier    {name}, {earlier.state}"]
    lines[0] += f" ({printable(earlier.code)})" if earlier.code else ""
    settled = f", settled {earlier.settled_at}" if earlier.settled_at else ""
    lines.append(f"             claimed {earlier.claimed_at}{settled}")
    if earlier.result_id:
        lines.append(f"             result id {printable(earlier.result_id)}")
    if earlier.receipt:
        path = Path(place).with_name(f"{earlier.receipt}.json")
        lines.append(f"             receipt {printable(str(path))}")
    match earlier.state:
        case "delivered":
            lines.append(f"  next       executor ledger show {name}{where}")
            lines.append(
                f"             once more on purpose: the same with --allow-duplicate {name}"
            )
        case "unresolved" if verifying is not None:
            lines.append(f"  next       executor ledger verify {name}{verifying}")
            lines += _resolving(name, where)
        case "unresolved":
            lines.append(f"  next       executor ledger show {name}{where}")
            lines += _resolving(name, where)
        case _:
            lines.append(f"  next       executor ledger show {name}{where}")
    return lines


def _resolving(name: str, where: str) -> list[str]:
    return [
        "             or find out yourself, then (--not-delivered if it did not happen)",
        f"             executor ledger resolve {name}{where} --delivered --why '...'",
    ]


def _on_ledger(receipt: "Receipt") -> list[str]:
    """Say where this action is not guarded as usual."""
    lines = []
    ledger = receipt.ledger
    if ledger is not None and ledger.window_ms == 0:
        lines.append(
            styled("  UNGUARDED  the window for duplicates is 0: ", "yellow")
            + "a delivery is no reason to refuse the same"
        )
    if ledger is not None and ledger.beside is not None:
        lines.append(f"  beside     attempt {printable(ledger.beside)}, which it was told to allow")
    if ledger is not None and ledger.resend:
        lines.append("  resend     under the idempotency key of an unresolved attempt")
    return lines


def _said(receipt: "Receipt") -> list[str]:
    if receipt.finished is None:
        return []
    lines = []
    for name in ("stdout", "stderr"):
        text = getattr(receipt.finished, name).kept.decode("utf-8", "backslashreplace").strip()
        if text:
            cut = "" if len(text) <= MOST_SHOWN else f" (its last {MOST_SHOWN} characters)"
            lines.append(f"  {name}{cut}:")
            lines += [f"    {printable(line)}" for line in text[-MOST_SHOWN:].splitlines()]
    return lines


def _put(stream: TextIO, text: str) -> None:
    import click

    if not _shows_color(stream):
        text = click.unstyle(text)
    try:
        stream.write(text + "\n")
        stream.flush()
    except (OSError, ValueError) as failed:
        _give_up(stream, failed)


def _shows_color(stream: TextIO) -> bool:
    try:
        terminal = stream.isatty()
    except ValueError:
        return False
    return terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _give_up(stream: TextIO, failed: Exception) -> None:
    """Let nothing more go to a stream that failed, the interpreter's last flush neither."""
    descriptor = 1 if stream is sys.stdout else 2
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
    if stream is sys.stdout and not isinstance(failed, BrokenPipeError):
        _failed.append(str(failed))
        note(f"stdout could not be written: {getattr(failed, 'strerror', None) or failed}.")
