"""Probe: which levels work here? Each runs a real command, which reports what it is inside of.

A program that answers ``--version`` proves nothing.
"""

import os
import re
import secrets
import signal
from collections.abc import Mapping
from dataclasses import dataclass

from executor.effects import processes, spawner, verifying
from executor.effects.blobs import Blobs
from executor.effects.commands import Commands
from executor.effects.sandbox import Sandbox, bare
from executor.effects.sandbox.bare import Bare
from executor.effects.sandbox.bubblewrap import STAGING, Bubblewrap
from executor.effects.sandbox.notes import Notes
from executor.finished import Finished
from executor.frozen import Admitted, Asked, FrozenAction, Reach, digest
from executor.manifest import IsolationLevel, Limits, Manifest
from executor.refusal import Refused, Unverified
from executor.request import AskedBy, Request
from executor.rules import spawning
from executor.rules.isolation import Availability
from executor.units import Duration

_REPORT = ("/proc/self/status", "/proc/net/dev", "/proc/self/mountinfo", "/proc/self/environ")
_WRITABLE = frozenset({STAGING, "/proc"})
_INSTALL = "Install the package bubblewrap (`apt install bubblewrap`, `dnf install bubblewrap`)"


@dataclass(frozen=True, slots=True)
class Probed:
    """The sandboxes that work, and what was found out about every level."""

    sandboxes: Mapping[IsolationLevel, Sandbox]
    found: tuple[Availability, ...]


async def probe(commands: Commands, blobs: Blobs, bare_sandbox: Bare, notes: Notes) -> Probed:
    """Try every level.

    Raises:
        Unverified: ``isolation.probed``: this moment's want of something stood in the way.
    """
    sandboxes: dict[IsolationLevel, Sandbox] = {"bare": bare_sandbox}
    found, bubblewrap = await _bubblewrap(commands, blobs, notes)
    if bubblewrap is not None:
        sandboxes["namespaced"] = bubblewrap
    restricted = Availability("restricted", False, "This version has no backend for it.")
    plain = Availability("bare", True, "No sandbox: every machine can do that.", bare.MISSING)
    return Probed(sandboxes, (found, restricted, plain))


async def _bubblewrap(
    commands: Commands, blobs: Blobs, notes: Notes
) -> tuple[Availability, Bubblewrap | None]:
    def no(why: str) -> tuple[Availability, None]:
        return Availability("namespaced", False, why), None

    try:
        program = commands.find("bwrap")
    except Refused:
        return no(f"There is no bwrap in {', '.join(commands.trusted)}. {_INSTALL}.")
    if processes.ignores(signal.SIGCHLD):
        return no("This process ignores SIGCHLD, so that nobody learns how a command ended.")
    missing = ["a filter of system calls: the kernel's keyrings are in reach"]
    if os.geteuid() == 0:
        missing.append("an unprivileged user: it runs as root, although without capabilities")
        missing.append("the limit of processes, which does not bind root")
    why = ""
    for disable in (True, False):
        sandbox = Bubblewrap(program, notes, disable_user_namespaces=disable)
        try:
            finished = await _run_report(sandbox, commands, blobs)
        except Refused as refused:
            return no(str(refused))
        if finished.end == "exited":
            faults = read_report(finished)
            if faults:
                return no(f"{program} runs commands, but {'; '.join(faults)}.")
            if not disable:
                missing.append("a ban on further user namespaces inside")
            return Availability("namespaced", True, f"{program} works.", tuple(missing)), sandbox
        if finished.passing or finished.end in ("fault", "lost", "timed-out"):
            # Not knowing is no reason to go without: degraded mode would run with no sandbox.
            raise Unverified(
                "isolation.probed",
                "ISOLATION_UNAVAILABLE",
                because=f"The sandbox could not be tried: {finished.detail or finished.end}.",
                todo="Look for what is short on this machine (open files, memory), and try again.",
            )
        why = why or finished.detail
    return no(
        f"{program} is there but does not work here ({why or finished.end}). User namespaces may "
        "be switched off for this user or inside this container."
    )


def read_report(finished: Finished) -> list[str]:
    """Say what the command inside saw that it should not have seen."""
    report = finished.stdout.text
    faults = []
    if finished.exit != 0 or finished.stdout.truncated:
        faults.append(f"the command that reports ended with {finished.exit}")
    for name in ("CapEff", "CapBnd", "CapPrm"):
        value = re.search(rf"^{name}:\t([0-9a-f]+)$", report, re.MULTILINE)
        if value is None or int(value[1], 16):
            faults.append(f"it keeps capabilities ({name})")
    if not re.search(r"^NoNewPrivs:\t1$", report, re.MULTILINE):
        faults.append("it could gain privileges")
    links = set(re.findall(r"^ *([a-z0-9]+):(?: +[0-9]+){16}$", report, re.MULTILINE))
    if links != {"lo"}:
        faults.append(f"it sees the network devices {', '.join(sorted(links)) or 'of nobody'}")
    mounts = re.findall(
        r"^[0-9]+ [0-9]+ [0-9]+:[0-9]+ \S+ (\S+) ([a-z,]+)(?: |$)", report, re.MULTILINE
    )
    writable = {place for place, options in mounts if "ro" not in options.split(",")}
    if not mounts or not any(place == "/" for place, _ in mounts):
        faults.append("it does not tell its mounts")
    if not any(place == "/proc/sys" and place not in writable for place, _ in mounts):
        faults.append("it can write the kernel's settings")
    if extra := {place for place in writable - _WRITABLE if not _is_device(place)}:
        faults.append(f"it can write {', '.join(sorted(extra))}")
    for name in os.environ:
        if f"\n{name}=" in "\n" + report.replace("\0", "\n") and name not in _GIVEN:
            faults.append(f"it sees the executor's variable {name}")
    return faults


_GIVEN = frozenset(spawning.environment({}))


def _is_device(place: str) -> bool:
    """`/dev/null` and its like are bound one by one from the host; `/dev/shm` is scratch."""
    return place.startswith("/dev/")


async def _run_report(sandbox: Sandbox, commands: Commands, blobs: Blobs) -> Finished:
    action = _reporting_action(sandbox.level, commands)
    with await verifying.verify(action, blobs) as verified:
        return await spawner.spawn(verified, sandbox)


def _reporting_action(level: IsolationLevel, commands: Commands) -> FrozenAction:
    manifest = Manifest(
        executor="manifest/1",
        tool="executor.probe",
        summary="Report what a command sees inside of its sandbox.",
        command="cat",
        argv=_REPORT,
        capabilities=(),
        outcomes=(),
        limits=Limits(deadline=Duration(20)),
    )
    asked = Asked(
        tool=manifest.tool,
        manifest_sha256="",
        parameters={},
        files=(),
        argv=_REPORT,
        env={},
        stdin=None,
        stage={},
        account="executor",
        targets=(),
        network=(),
        read=(),
        write=(),
    )
    reach = Reach(
        level=level,
        required=level,
        missing=(),
        network="none",
        endpoints=(),
        read=(),
        write=(),
    )
    admitted = Admitted(
        id=f"probe-{secrets.token_hex(8)}",
        request=Request(tool=manifest.tool, asked_by=AskedBy(role="executor")),
        manifest=manifest,
        asked=asked,
        command=commands.pin("cat"),
        reach=reach,
        secrets=(),
    )
    env = spawning.environment({})
    return FrozenAction(admitted, (), env, digest(admitted, (), env), fingerprint="", key="")
