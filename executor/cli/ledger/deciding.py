"""Deciding: what became of an attempt in doubt, by word of a person or of its tool."""

from collections.abc import Sequence
from typing import Any

import click

from executor.attempt import Attempt, Note, Settlement
from executor.cli import signals, working
from executor.cli.ledger.parts import (
    check_there,
    find,
    json_option,
    some_text,
    who_option,
    whom,
    with_ledger,
)
from executor.cli.ledger.subject import receipt_path, subject_of
from executor.cli.ledger.words import COLORS, card, in_brackets, what_next
from executor.cli.options import opening, same_store, storing
from executor.cli.output import print_json, printable, say, styled
from executor.effects import clock
from executor.embedding import open_executor
from executor.loading import read_config
from executor.refusal import Refused
from executor.rules import ledger as rules
from executor.rules import manifests
from executor.rules.outcomes import Verdict
from executor.store.ledger import Ledger

UNDECIDED = 4


@click.command("resolve", short_help="Say what became of an unresolved attempt.")
@click.argument("attempt", metavar="ATTEMPT")
@click.option("--delivered", is_flag=True, help="It happened: the same stays refused for a time.")
@click.option("--not-delivered", is_flag=True, help="It did not: the same may be asked again.")
@click.option(
    "--result-id",
    callback=some_text,
    metavar="ID",
    help="With --delivered: the id that the other side gave it.",
)
@click.option(
    "--why",
    callback=some_text,
    required=True,
    metavar="TEXT",
    help="How that is known; goes on record.",
)
@who_option
@json_option
@storing
def resolve(
    attempt: str,
    delivered: bool,
    not_delivered: bool,
    result_id: str | None,
    why: str,
    who: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Say what became of an unresolved attempt, after you found out. It counts as decided then.

    Say --not-delivered only if you know it: the same action can be done again at once.

    \b
    Example:
      executor ledger resolve 0198c5d2a4be --delivered --result-id 4bX2 \\
          --why 'the server has it in its log'
      executor ledger resolve 0198c5d2a4be --not-delivered --why 'asked Bo'
    """
    if delivered == not_delivered:
        raise click.UsageError("Say one of --delivered and --not-delivered.")
    if result_id is not None and not delivered:
        raise click.UsageError("--result-id goes with --delivered.")
    said = Settlement(
        "delivered" if delivered else "released", None, why, by="person", result_id=result_id
    )
    decided: list[Attempt] = []

    async def decide(ledger: Ledger) -> None:
        found = find(ledger, attempt)
        try:
            after = await ledger.decide(found.id, said, clock.moment(), who=whom(who), why=why)
        except Refused as no:
            if no.code != "NOT_UNRESOLVED" or found.state not in ("delivered", "released"):
                raise
            raise _decided_already(found, ledger.notes(found.id)) from None
        decided.append(after)
        signals.settle(0)
        if not as_json:
            about = subject_of(ledger, after).lines()
            say("\n".join(card(after, receipt_path(ledger, after.id), about)))

    try:
        with_ledger(options, decide)
    except signals.Interrupted:
        if not decided:
            raise
    if as_json:
        print_json(decided[0].facts())
    else:
        then = "it happened" if delivered else "it did not happen: the same may be asked again"
        say(f"By word of {printable(whom(who))}, {then}.")
    return 0


@click.command("verify", short_help="Let the tool's own verify command find out.")
@click.argument("attempt", metavar="ATTEMPT")
@who_option
@json_option
@opening
def verify(attempt: str, who: str | None, as_json: bool, **options: Any) -> int:
    """Let the read-only `verify` command of the attempt's tool find out whether it happened.

    A clear answer goes on record and decides an unresolved attempt; any other changes nothing.
    Exits with 0 after a clear answer, with 4 when there was none or the attempt is in doubt all the
    same.

    \b
    Example:
      executor ledger verify 0198c5d2a4be --manifest tools
    """
    answers: list[tuple[Attempt, Verdict, bool]] = []
    check_there(read_config(options["config"]), options["state"])

    async def ask() -> None:
        async with open_executor(**options) as executor:
            found = find(executor.gate.ledger, attempt)
            after, answer = await executor.gate.find_out(found.id, whom(who))
            asked = manifests.verify_of(executor.tools[found.tool].manifest)
            clear = asked is not None and rules.evidence(asked, answer) is not None
            answers.append((after, answer, clear))

    try:
        working.run(ask)
    except signals.Interrupted:
        if not answers:
            raise
    after, answer, clear = answers[0]
    code = 0 if clear and after.state != "unresolved" else UNDECIDED
    signals.settle(code)
    if as_json:
        print_json(_answer(answer) | {"clear": clear, "attempt": after.facts()})
        return code
    clear_words = "it happened" if answer.status == "delivered" else "it did not happen"
    said = clear_words if clear else "no clear answer"
    say(f"The answer of {printable(after.tool)}: {said}{in_brackets(answer.code)}.")
    say(f"  {printable(answer.because)}")
    if answer.result_id:
        say(f"  result id   {printable(answer.result_id)}")
    say(f"Attempt {after.id} is {styled(after.state, COLORS.get(after.state))}.")
    if after.alarm:
        say(styled(f"ALARM: {printable(after.alarm)}.", "red", bold=True))
    if after.state == "unresolved":
        say("\n".join(what_next(after, same_store(options))))
    return code


def _decided_already(attempt: Attempt, notes: Sequence[Note]) -> Refused:
    """Say what an attempt is, and whose word that is."""
    at = "" if attempt.settled is None else f" since {attempt.settled.at}"
    said = [one for one in notes if one.kind in ("resolved", "evidence")]
    match attempt.decided_by:
        case "person" | "evidence" | "resend" if said:
            whose = f"by word of {said[-1].by} ({said[-1].text})"
        case "recovery":
            whose = "since its executor was gone before the start"
        case _:
            whose = "as its run ended"
    return Refused(
        "ledger.unresolved",
        "NOT_UNRESOLVED",
        because=f"Attempt {attempt.id} is {attempt.state}{at}, {whose}. Only what is unresolved "
        "can be decided.",
        todo="Nothing was changed. Leave it, or let evidence speak: `executor ledger verify`.",
    )


def _answer(verdict: Verdict) -> dict[str, Any]:
    return {
        "answer": verdict.status,
        "code": verdict.code,
        "because": verdict.because,
        "result_id": verdict.result_id,
        "reply": verdict.reply,
    }
