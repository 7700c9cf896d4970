"""Bare: no sandbox at all. Only in degraded mode, which says so.

What is kept even here: the environment, the private working directory, no descriptors, a session
of its own, limits, and the end of every descendant that can be found.
"""

import contextlib
import errno
import logging
import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import trio

from executor.effects import processes, staging
from executor.effects.processes import Handle
from executor.effects.sandbox import Ended, Running, Streams
from executor.effects.verifying import Verified
from executor.manifest import IsolationLevel
from executor.rules import spawning

log = logging.getLogger(__name__)
ROUNDS = 50
"""How often the end of the tree is tried before what is left is reported as left."""
MISSING = (
    "any confinement: it can read and change all that this user can, processes and secrets too",
    "the network bounds: all of the host's network is in reach",
    "the verified bytes: files and command are opened by path again after they were checked",
    "the end of a descendant that hides, and of the whole tree when the executor is killed",
    "limits from the first instruction: they are set right after the start",
)
NOTHING_RAN = {errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ETXTBSY, errno.E2BIG, errno.EPERM}


@dataclass
class Bare:
    """Runs commands as plain children.

    Args:
        directory: where staging areas are made.
    """

    directory: Path
    level: IsolationLevel = field(default="bare", init=False)

    async def start(self, verified: Verified, streams: Streams) -> Running | Ended:
        """Stage the files and start the command."""
        frozen = verified.frozen
        try:
            area = await trio.to_thread.run_sync(
                staging.stage, self.directory, frozen.admitted.id, verified
            )
        except OSError as failed:
            return Ended("sandbox-failed", detail=f"nothing could be staged: {failed.strerror}")
        environment = spawning.place(frozen.env, str(area.path)) | verified.secret_environment
        try:
            await trio.lowlevel.checkpoint_if_cancelled()  # a thread is waited for all the same
            process = subprocess.Popen(
                list(frozen.argv),
                stdin=streams.stdin,
                stdout=streams.stdout,
                stderr=streams.stderr,
                env=environment,
                cwd=area.path / "work",
                start_new_session=True,
                umask=0o022,
            )
        except OSError as failed:
            area.remove()
            if failed.errno in NOTHING_RAN:
                name = errno.errorcode[failed.errno]
                return Ended("not-started", detail=f"{frozen.argv[0]}: {failed.strerror} ({name})")
            return Ended("sandbox-failed", detail=f"the start failed: {failed.strerror}")
        except BaseException:
            area.remove()
            raise
        try:
            running = _Running(process, area)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            area.remove()
            raise
        with contextlib.suppress(OSError):  # it may have ended already
            processes.limit(process.pid, frozen.admitted.manifest.limits, whole_user=True)
        return running


class _Running:
    def __init__(self, process: subprocess.Popen[bytes], area: staging.Area) -> None:
        self._process = process
        self._handle = Handle(process.pid)
        self._area = area
        self._over = False

    async def wait(self) -> Ended:
        await self._handle.wait()
        # Not reaped yet: as long as it is a zombie, nobody else gets its number.
        code, number = self._handle.how_it_ended()
        if code is not None:
            return Ended("exited", exit=code)
        if number is not None:
            return Ended("signalled", signal=number)
        return Ended("lost", detail="Somebody else took the news of how it ended.")

    def signal(self, number: int) -> None:
        with contextlib.ExitStack() as open_handles:
            handles = []
            for pid in self._tree():
                with contextlib.suppress(OSError):
                    handles.append(open_handles.enter_context(Handle(pid)))
            # A number may have become a stranger's before it was held: look again.
            tree = set(self._tree())
            for handle in handles:
                if handle.pid in tree:
                    with contextlib.suppress(PermissionError):
                        handle.signal(number)

    async def end(self) -> int:
        if self._over:
            return 0
        self._over = True
        left: set[int] = set()
        for _ in range(ROUNDS):
            tree = self._tree()
            left |= set(tree) - {self._process.pid}
            if not tree:
                break
            self.signal(signal.SIGKILL)
            await trio.sleep(0.002)
        if self._process.poll() is None:
            log.error("process %d cannot be ended", self._process.pid)
        self._handle.close()
        await trio.to_thread.run_sync(self._area.remove)
        return len(left)

    def _tree(self) -> list[int]:
        """Find every living process of the run: descendants, its session, its staging area."""
        session = self._process.pid
        mark = os.fsencode(f"TMPDIR={self._area.path}/tmp")  # noqa: S108 - in the area
        found = set(processes.descendants(session))
        if processes.state(session) not in ("Z", "X", ""):
            found.add(session)
        for name in os.listdir("/proc"):
            if name.isdigit() and processes.belongs(int(name), session, mark):
                found.add(int(name))
        return sorted(found)
