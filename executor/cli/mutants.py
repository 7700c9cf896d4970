"""Mutants: break rules on purpose, and see their tests go red."""

import os
import platform
import subprocess
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import click

from executor.cli import mutant_reports, papers, signals, sweep, working
from executor.cli.output import print_json, printable, say, warn
from executor.cli.projects import STALE, VOID, declared
from executor.cli.signals import NOTHING_HAPPENED

if TYPE_CHECKING:
    from executor.testing.mutants import Mutant, MutantsFile
    from executor.testing.mutation.packet import Shard
    from executor.testing.mutation.verdicts import Outcome, Verdict


@click.group("mutants", short_help="Break rules on purpose, and see their tests go red.")
def command() -> None:
    """Break rules on purpose, in copies of a project, and see the tests that name them go red.

    Mutants are YAML: an edit, the rule that it breaks, and the tests that must go red. The project
    is the one in the current directory; `[tool.executor.mutants]` in its pyproject.toml says where
    its mutants and tests are. Its files are only ever read.

    \b
    Example:
      executor mutants check
      executor mutants run --family ledger --jobs 2
    """


command.add_command(sweep.command)


@command.command("run", short_help="Run mutants, after their controls.")
@click.option("--family", "families", multiple=True, help="Of files of this name. May be repeated.")
@click.option("--rule", "rules", multiple=True, help="Of this rule. May be repeated.")
@click.option("--id", "names", multiple=True, help="Only the one of this id. May be repeated.")
@click.option("--since", metavar="REV", help="Only what changed since this revision of git.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Mutants that run at the same time.  [default: one for each processor]",
)
@click.option("--shard", "shard_text", metavar="I/N", default="1/1", help="The I-th of N parts.")
@click.option("--packet", metavar="DIR", help="Leave what others need to check the run.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdicts as one JSON object.")
@mutant_reports.options
def run(
    families: tuple[str, ...],
    rules: tuple[str, ...],
    names: tuple[str, ...],
    since: str | None,
    jobs: int | None,
    shard_text: str,
    packet: str | None,
    as_json: bool,
) -> int:
    """Run mutants: the named tests green without each, red with it, and for the right reason.

    First the controls run, a no-op that must live and an edit that breaks everything and must die.
    Every survivor, every timeout and a sample of the kills are looked at a second time, in an
    interpreter that has imported nothing.

    \b
    Example:
      executor mutants run --rule ledger.in-flight
      executor mutants run --shard 1/4 --packet packet-1

    \b
    Exit codes:
      0   every mutant ended as its file says
      1   one did not
      2   the options or the files are not valid; nothing was run
      3   an edit does not apply exactly once: mend it first (`executor mutants check`)
      5   it was interrupted
      70  the run means nothing: a control, the no-op or the edit that must die went wrong
    """
    from executor.testing.mutation import packet as packets
    from executor.testing.mutation import running
    from executor.testing.mutation.reports.entries import standing

    top, settings, files = declared()
    shard = _shard(shard_text)
    chosen = _chosen(files, families, rules, names)
    if since is not None:
        chosen = _changed_since(top, files, chosen, since)
    part = [one for at, one in enumerate(chosen) if at % shard.of == shard.number - 1]
    if not part:
        raise click.UsageError("No mutant is chosen.")
    manifest = packets.candidate_manifest(top, settings.leave_out) if packet else ""
    outcomes: list[Outcome] = []
    done: list[Verdict] = []

    def told(verdict: "Verdict") -> None:
        done.append(verdict)
        if not verdict.as_declared:
            warn(mutant_reports.about(verdict))

    async def work() -> None:
        outcomes.append(
            await running.run(
                top, part, settings, jobs=jobs or len(os.sched_getaffinity(0)), told=told
            )
        )

    with papers.opened(mutant_reports.wanted()) as opened:
        if not mutant_reports.ran(work, done, len(part)):
            return NOTHING_HAPPENED
        [outcome] = outcomes
        found = standing("declared mutants", outcome, mutant_reports.reader(top))
        written = mutant_reports.write(opened, found)
    if packet is not None:
        packets.write(
            Path(packet), outcome, manifest, version=version("sealed-executor"),
            python=platform.python_version(), shard=shard, chosen=chosen,
        )  # fmt: skip
    code = _code(outcome)
    signals.settle(code)
    if as_json:
        print_json(mutant_reports.facts(outcome))
    else:
        mutant_reports.annotate(found)
        mutant_reports.tell(outcome, f"{len(outcome.controls)} controls")
    return code if written else code or 1


@command.command("check", short_help="See that every edit applies and every test is there.")
@click.option("--json", "as_json", is_flag=True, help="Print what was found as one JSON object.")
def check(as_json: bool) -> int:
    """See that every edit applies exactly once and every named test is there; no test is run.

    \b
    Exit codes:
      0   all of it fits
      1   a named test is not there
      2   the files are not valid
      3   an edit does not apply exactly once: what it is about has changed
    """
    from executor.testing.mutation.checking import collected_ids, faults
    from executor.testing.mutation.slot import WorkerGone

    top, settings, files = declared()
    ids: list[frozenset[str]] = []

    async def work() -> None:
        ids.append(await collected_ids(top, settings))

    try:
        working.run(work)
    except WorkerGone as gone:
        raise click.UsageError(f"The tests cannot be collected:\n{gone}") from None
    found = list(faults(top, files, ids[0]))
    stale = [one for one in found if one.stale]
    if as_json:
        print_json({"faults": [one.facts() for one in found]})
    else:
        for one in found:
            warn(printable(str(one)))
        count = sum(len(file.mutants) for file in files)
        say(f"{count} mutants, {len(found)} faults." if found else f"{count} mutants: all fit.")
    return STALE if stale else bool(found)


@command.command("verify-packet", short_help="Check what a run left.")
@click.argument("directory", metavar="DIR")
@click.option("--replay", is_flag=True, help="Run its mutants again, and compare the verdicts.")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="As for run.")
def verify_packet(directory: str, replay: bool, jobs: int | None) -> int:
    """Check that a packet is whole, is of this very project, and that its patches apply to it.

    \b
    Example:
      executor mutants verify-packet packet --replay

    \b
    Exit codes:
      0   it is
      1   it is not, or a replay disagrees
    """
    from executor.testing.mutation import packet as packets
    from executor.testing.mutation import running

    top, settings, files = declared()
    try:
        left = packets.check(Path(directory), top, settings.leave_out)
    except packets.PacketFault as fault:
        warn(printable(str(fault), lines=True))
        return 1
    say(f"The packet is whole, and of this project: {len(left.results)} mutants.")
    if not replay:
        return 0
    by_id = {one.id: one for file in files for one in file.mutants}
    outcomes: list[Outcome] = []

    async def work() -> None:
        mutants = [by_id[one.id] for one in left.results]
        outcomes.append(
            await running.run(top, mutants, settings, jobs=jobs or len(os.sched_getaffinity(0)))
        )

    working.run(work)
    [outcome] = outcomes
    then = {one.id: one.verdict for one in left.results}
    other = [one for one in outcome.verdicts if one.judgement.word != then[one.mutant.id]]
    for one in other:
        warn(f"{one.mutant.id}: {then[one.mutant.id]} in the packet, now {one.judgement.word}")
    if outcome.void:
        warn(printable(outcome.void, lines=True))
    elif not other:
        say("Each has the same verdict again.")
    return bool(other or outcome.void)


@command.command("merge", short_help="Join the packets of all shards.")
@click.argument("packets", nargs=-1, required=True, metavar="DIR...")
@click.option("--into", required=True, metavar="DIR", help="Where the whole one goes.")
def merge(packets: tuple[str, ...], into: str) -> int:
    """Join the packets of all shards of one run into one; an incomplete set is refused.

    \b
    Example:
      executor mutants merge packet-1 packet-2 --into packet
    """
    from executor.testing.mutation.packet import PacketFault
    from executor.testing.mutation.packet import merge as join

    try:
        whole = join(list(map(Path, packets)), Path(into))
    except PacketFault as fault:
        warn(printable(str(fault), lines=True))
        return 1
    say(f"{len(whole.results)} mutants in {printable(into)}.")
    return 0


def _chosen(
    files: "Sequence[MutantsFile]",
    families: Sequence[str],
    rules: Sequence[str],
    names: Sequence[str],
) -> "list[Mutant]":
    known = {Path(file.path).stem for file in files}
    if unknown := set(families) - known:
        raise click.UsageError(f"No mutants are in {', '.join(sorted(unknown))}.yaml.")
    return [
        one
        for file in files
        if not families or Path(file.path).stem in families
        for one in file.mutants
        if (not rules or one.rule in rules) and (not names or one.id in names)
    ]


def _changed_since(
    top: Path, files: "Sequence[MutantsFile]", chosen: "Sequence[Mutant]", since: str
) -> "list[Mutant]":
    """Keep the mutants whose edited file, test or own file differs from a revision."""
    done = subprocess.run(
        ["git", "diff", "--name-only", "--relative", "--end-of-options", since, "--"],
        cwd=top, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise click.UsageError(f"git cannot compare with {since!r}: {done.stderr.strip()}")
    changed = set(done.stdout.splitlines())
    own = {one.id for file in files if _relative(top, file.path) in changed for one in file.mutants}
    return [
        one
        for one in chosen
        if one.id in own
        or any(edit.file in changed for edit in one.edits)
        or any(red.partition("::")[0] in changed for red in one.reds)
    ]


def _relative(top: Path, path: str) -> str:
    return os.path.relpath(path, top)


def _shard(text: str) -> "Shard":
    from executor.testing.mutation.packet import Shard

    number, slash, of = text.partition("/")
    if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise click.UsageError(f"--shard {text!r}: write it like 1/4.")
    return Shard(int(number), int(of))


def _code(outcome: "Outcome") -> int:
    if outcome.void:
        return VOID
    if any(one.judgement.word == "not-applied" for one in outcome.verdicts):
        return STALE
    return int(not all(one.as_declared for one in outcome.verdicts))
