"""Output: what people read, and what programs read."""

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from executor.receipt import Receipt
from executor.refusal import Refused

NOTHING_HAPPENED = 5
FAULT = 70
MOST_SHOWN = 2000
"""Characters of a command's own output that people are shown."""
_SIGNS = {
    "delivered": ("green", "delivered"),
    "refused": ("red", "refused"),
    "unresolved": ("yellow", "unresolved: it may have happened"),
    "undelivered": ("red", "did not happen"),
    "pending": ("yellow", "waiting for approval"),
}


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """Survive a reader that went away; what was done keeps its exit code."""
    try:
        yield
    except (BrokenPipeError, ValueError, OSError):
        with contextlib.suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)


def print_json(value: Any) -> None:
    """Write one JSON object on stdout, whatever the locale."""
    with writing():
        sys.stdout.write(json.dumps(value, ensure_ascii=True) + "\n")
        sys.stdout.flush()


def say(text: str) -> None:
    """Tell people on stdout; colours only where a terminal shows them."""
    import click

    with writing():
        click.echo(text)


def tell_receipt(receipt: Receipt, place: str) -> None:
    """Tell people how an action ended: a delivery on stdout, the rest on stderr."""
    import click

    color, words = _SIGNS[receipt.status]
    lines = [click.style(f"{receipt.request.tool}: {words}", fg=color, bold=True)]
    if receipt.code is not None:
        lines[0] += f" ({receipt.code})"
    lines.append(f"  {printable(receipt.because)}")
    if receipt.todo:
        lines.append(f"  {printable(receipt.todo)}")
    if receipt.result_id:
        lines.append(f"  result id  {printable(receipt.result_id)}")
    if receipt.action is not None:
        reach = receipt.action.admitted.reach
        lines.append(f"  action     sha256:{receipt.action.digest}")
        lines.append(f"  isolation  {reach.level}, network {reach.network}")
        lines += [f"             missing: {entry}" for entry in reach.missing]
    lines.append(f"  receipt    {place}")
    if receipt.status != "delivered":
        lines += _said(receipt)
    with writing():
        click.echo("\n".join(lines), err=receipt.status != "delivered")


def refused_result(no: Refused) -> dict[str, Any]:
    """Give the result of a request that was refused before it had a receipt."""
    return {
        "status": "refused",
        "code": no.code,
        "stage": no.stage,
        "recovery": no.recovery,
        "result_id": None,
        "attempt": None,
        "action_digest": None,
        "receipt": None,
        "isolation": None,
        "rule": no.rule,
        "because": no.because,
        "todo": no.todo,
    }


def tell_problem(no: Refused) -> None:
    """Tell people about a refusal that is no action's."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"executor: {printable(str(no))}\n")


def printable(text: str) -> str:
    """Show control, bidirectional and invisible characters as escapes; line breaks stay."""
    return "".join(
        character
        if character.isprintable() or character == "\n"
        else character.encode("unicode_escape").decode()
        for character in text
    )


def _said(receipt: Receipt) -> list[str]:
    if receipt.finished is None:
        return []
    lines = []
    for name in ("stdout", "stderr"):
        text = getattr(receipt.finished, name).kept.decode("utf-8", "backslashreplace").strip()
        if text:
            cut = "" if len(text) <= MOST_SHOWN else f" (first {MOST_SHOWN} characters)"
            lines.append(f"  {name}{cut}:")
            lines += [f"    {printable(line)}" for line in text[:MOST_SHOWN].splitlines()]
    return lines
