"""Packet: what a run leaves, so that others can check it without believing us.

A directory with the patch, output and verdict of each mutant, the run's log, and two lists of
SHA-256: of the files under test, and of the packet itself.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from executor.testing.mutants import Mutant
from executor.testing.mutation import tree
from executor.testing.mutation.verdicts import Outcome, Verdict

CANDIDATE, PACKET = "candidate-manifest.sha256", "packet-manifest.sha256"
RUN, LOG, MUTANTS = "run.json", "run.log", "mutants"
FORMAT = "executor-mutants-packet/1"


class Shard(msgspec.Struct, frozen=True):
    """Which part of the chosen mutants a run took: the ``number``-th of ``of``."""

    number: int = 1
    of: int = 1


class Result(msgspec.Struct, frozen=True):
    """What a packet says of one mutant. ``exit`` is the code of the process that ran its tests."""

    id: str
    rule: str
    verdict: str
    expected: str
    why: str
    killers: tuple[str, ...]
    exit: int | None
    seconds: float
    how: str

    @classmethod
    def of(cls, verdict: Verdict) -> "Result":
        """Take it from a verdict."""
        found = verdict.judgement
        return cls(
            verdict.mutant.id, verdict.mutant.rule, found.word, verdict.mutant.expect, found.why,
            found.killers, verdict.exit, round(verdict.seconds, 3), verdict.how,
        )  # fmt: skip


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What a packet says of the whole run. ``chosen`` are the ids over all shards."""

    format: str = FORMAT
    executor: str
    python: str
    shard: Shard
    chosen: tuple[str, ...]
    void: str
    seconds: float
    controls: Mapping[str, str]
    results: tuple[Result, ...]


@dataclass(frozen=True, slots=True)
class PacketFault(Exception):
    """A packet that is not what it says; ``found`` lists every point."""

    found: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.found)


def candidate_manifest(top: Path, leave_out: Iterable[str] = ()) -> str:
    """List the files under test: what a copy of the project holds."""
    return _manifest(top, tree.files(top, leave_out))


def write(
    directory: Path,
    outcome: Outcome,
    manifest: str,
    *,
    version: str,
    python: str,
    shard: Shard,
    chosen: Sequence[Mutant],
) -> None:
    """Write the packet of a run; the directory must not be there, or be empty.

    Args:
        manifest: of the candidate, made before the run.
    Raises:
        OSError: it cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise FileExistsError(17, "it is not empty", str(directory))
    (directory / CANDIDATE).write_text(manifest, encoding="utf-8")
    for verdict in outcome.verdicts:
        place = directory / MUTANTS / verdict.mutant.id
        place.mkdir(parents=True)
        (place / "patch.diff").write_text(verdict.patch, encoding="utf-8")
        (place / "output.txt").write_text(verdict.output, encoding="utf-8")
        _write_json(place / "result.json", Result.of(verdict))
    run = Run(
        executor=version,
        python=python,
        shard=shard,
        chosen=tuple(one.id for one in chosen),
        void=outcome.void,
        seconds=round(outcome.seconds, 1),
        controls={name: item.outcome for name, item in sorted(outcome.controls.items())},
        results=tuple(map(Result.of, outcome.verdicts)),
    )
    _write_run(directory, run)


def read(directory: Path) -> Run:
    """Read what a packet says of its run, and check that the packet is whole.

    Raises:
        PacketFault: a file is missing, was added or changed, or is no packet's.
    """
    faults = list(_unlike(directory, PACKET, _packet_files(directory), "the packet"))
    if faults:
        raise PacketFault(tuple(faults))
    try:
        run = msgspec.json.decode((directory / RUN).read_bytes(), type=Run)
    except (OSError, msgspec.DecodeError) as wrong:
        raise PacketFault((f"{RUN}: {wrong}",)) from None
    if run.format != FORMAT:
        raise PacketFault((f"{RUN}: the format {run.format!r} is not {FORMAT!r}",))
    return run


def check(directory: Path, top: Path, leave_out: Iterable[str] = ()) -> Run:
    """Check a packet against the project at ``top``: same files, and every patch applies.

    Raises:
        PacketFault: with every point in which it is not so.
    """
    run = read(directory)
    faults = list(_unlike_text(directory / CANDIDATE, candidate_manifest(top, leave_out), top))
    for result in run.results:
        patch = directory / MUTANTS / result.id / "patch.diff"
        if result.verdict != "not-applied" and (why := _does_not_apply(patch, top)):
            faults.append(f"{result.id}: its patch does not apply: {why}")
    if faults:
        raise PacketFault(tuple(faults))
    return run


def merge(packets: Sequence[Path], into: Path) -> Run:
    """Join the packets of all shards of one run.

    Raises:
        PacketFault: one is not whole, they are of different runs, or a mutant is missing or twice.
        OSError: the new one cannot be written.
    """
    runs = [read(packet) for packet in packets]
    faults = []
    manifests = {(packet / CANDIDATE).read_text(encoding="utf-8") for packet in packets}
    if len(manifests) > 1 or len({run.chosen for run in runs}) > 1:
        faults.append("they are of different candidates, or of different mutants")
    shards = sorted((run.shard.number, run.shard.of) for run in runs)
    if shards != [(number + 1, len(runs)) for number in range(len(runs))]:
        told = ", ".join(f"{number}/{of}" for number, of in shards)
        faults.append(f"the shards are {told}, not each of them once")
    ids = [result.id for run in runs for result in run.results]
    missing = sorted(set(runs[0].chosen) - set(ids)) if runs else []
    if missing and not any(run.void for run in runs):
        faults.append(f"mutants without a verdict: {', '.join(missing)}")
    if len(ids) != len(set(ids)):
        faults.append("mutants with two verdicts")
    if faults:
        raise PacketFault(tuple(faults))
    into.mkdir(parents=True, exist_ok=True)
    if any(into.iterdir()):
        raise FileExistsError(17, "it is not empty", str(into))
    shutil.copy2(packets[0] / CANDIDATE, into / CANDIDATE)
    for packet in packets:
        if (packet / MUTANTS).is_dir():
            shutil.copytree(packet / MUTANTS, into / MUTANTS, dirs_exist_ok=True)
    order = {name: at for at, name in enumerate(runs[0].chosen)}
    results = sorted((one for run in runs for one in run.results), key=lambda one: order[one.id])
    whole = msgspec.structs.replace(
        runs[0],
        shard=Shard(),
        void="; ".join(run.void for run in runs if run.void),
        seconds=round(sum(run.seconds for run in runs), 1),
        controls={name: word for run in runs for name, word in run.controls.items()},
        results=tuple(results),
    )
    _write_run(into, whole)
    return whole


def _write_run(directory: Path, run: Run) -> None:
    _write_json(directory / RUN, run)
    lines = [f"{one.verdict:<12} {one.seconds:>8.2f} s  {one.id}  {one.how}" for one in run.results]
    (directory / LOG).write_text("\n".join([*lines, run.void, ""]), encoding="utf-8")
    files = list(_packet_files(directory))
    (directory / PACKET).write_text(_manifest(directory, files), encoding="utf-8")


def _write_json(path: Path, value: Any) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def _packet_files(directory: Path) -> Iterator[str]:
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        if not path.is_dir() and name != PACKET:
            yield name


def _manifest(top: Path, names: Iterable[str]) -> str:
    return "".join(f"{_sha256(top / name)}  {name}\n" for name in sorted(names))


def _sha256(path: Path) -> str:
    if path.is_symlink():
        return hashlib.sha256(os.fsencode(os.readlink(path))).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unlike(top: Path, manifest: str, names: Iterable[str], what: str) -> Iterator[str]:
    try:
        text = (top / manifest).read_text(encoding="utf-8")
    except OSError as failed:
        yield f"{manifest}: {failed.strerror}"
        return
    yield from _differences(text, _manifest(top, names), what)


def _unlike_text(path: Path, now: str, top: Path) -> Iterator[str]:
    yield from _differences(path.read_text(encoding="utf-8"), now, str(top))


def _differences(then: str, now: str, what: str) -> Iterator[str]:
    before, after = _by_name(then), _by_name(now)
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            yield f"{name} is listed, and not in {what}"
        elif name not in before:
            yield f"{name} is in {what}, and not listed"
        elif before[name] != after[name]:
            yield f"{name} is not the file that was listed"


def _by_name(manifest: str) -> dict[str, str]:
    pairs = (line.partition("  ") for line in manifest.splitlines())
    return {name: digest for digest, _, name in pairs}


def _does_not_apply(patch: Path, top: Path) -> str:
    """Say why a patch does not apply to the project; nothing there is changed."""
    try:
        text = patch.read_text(encoding="utf-8")
    except OSError as failed:
        return str(failed.strerror)
    names = [
        line.removeprefix("--- a/").strip() for line in text.splitlines() if line[:6] == "--- a/"
    ]
    with tempfile.TemporaryDirectory(prefix="executor-patch-") as scratch:
        for name in names:
            (Path(scratch) / name).parent.mkdir(parents=True, exist_ok=True)
            try:
                shutil.copyfile(top / name, Path(scratch) / name)
            except OSError as failed:
                return f"{name}: {failed.strerror}"
        done = subprocess.run(
            ["git", "apply", "--check", "-p1", "--whitespace=nowarn", "-"],
            cwd=scratch,
            input=text,
            text=True,
            capture_output=True,
            env=os.environ | {"GIT_DIR": os.devnull, "GIT_CEILING_DIRECTORIES": "/"},
            check=False,
        )
    return done.stderr.strip() if done.returncode else ""
