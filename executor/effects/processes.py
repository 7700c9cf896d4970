"""Processes: who descends from whom, and an end to wait for, by handle and not by number."""

import contextlib
import os
import resource
import signal

import trio

from executor.frozen import limits_as_numbers
from executor.manifest import Limits


def descendants(pid: int) -> list[int]:
    """Give the living descendants of a process, zombies left out."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        for child in _children(waiting.pop()):
            waiting.append(child)
            if state(child) not in ("Z", "X", ""):
                found.append(child)
    return found


def state(pid: int) -> str:
    """Give the one-letter state of a process, or nothing when it is gone."""
    return _fact(pid, 3)


def parent(pid: int) -> int:
    """Give the parent of a process, or 0 when it is gone."""
    return int(_fact(pid, 4) or 0)


def started(pid: int) -> str:
    """Give the clock tick since boot at which a process started, or nothing when it is gone."""
    return _fact(pid, 22)


def _fact(pid: int, number: int) -> str:
    """Give one of the numbered fields of proc_pid_stat(5), from 3 on."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return stat.read().rpartition(b")")[2].split()[number - 3].decode()
    except (OSError, IndexError):
        return ""


def session(pid: int) -> int:
    """Give the session of a process, or 0 when it is gone."""
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


def in_session(number: int) -> list[int]:
    """Give the living processes of a session."""
    every = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in every if session(pid) == number and state(pid) not in ("Z", "X", "")]


def _children(pid: int) -> list[int]:
    try:
        children: list[int] = []
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", "rb") as listed:
                children += map(int, listed.read().split())
        return children
    except FileNotFoundError:
        if not os.path.exists(f"/proc/{pid}/stat"):
            return []
    except OSError:
        return []
    # A kernel without CONFIG_PROC_CHILDREN: look at every process.
    import psutil

    with contextlib.suppress(psutil.NoSuchProcess):
        return [child.pid for child in psutil.Process(pid).children()]
    return []


def ignores(number: int) -> bool:
    """Say whether this process ignores a signal, and so would everything that it starts."""
    with open("/proc/self/status") as status:
        facts = dict(line.split(":\t", 1) for line in status.read().splitlines() if ":\t" in line)
    return bool(int(facts["SigIgn"], 16) >> (number - 1) & 1)


class Handle:
    """A pidfd: it names one process for ever, whoever gets its number later."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.descriptor = os.pidfd_open(pid)

    def __enter__(self) -> "Handle":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def wait(self) -> None:
        """Wait until it has ended (it may still have to be reaped)."""
        await trio.lowlevel.wait_readable(self.descriptor)

    def kill(self) -> None:
        """End it at once."""
        self.signal(signal.SIGKILL)

    def signal(self, number: int) -> None:
        """Send a signal; one that has ended already is no error."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.descriptor, number)

    def how_it_ended(self) -> tuple[int | None, int | None]:
        """Give exit code and signal of a child that has ended, and leave it to be reaped.

        Neither, when the answer went to somebody else: a process that ignores SIGCHLD, or waits
        for every child in one go, has the kernel forget it.
        """
        try:
            facts = os.waitid(os.P_PIDFD, self.descriptor, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:
            facts = None
        if facts is None:
            return None, None
        if facts.si_code == os.CLD_EXITED:
            return facts.si_status, None
        return None, facts.si_status

    def close(self) -> None:
        """Give the handle back."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def belongs(pid: int, session: int, mark: bytes) -> bool:
    """Say whether a living process is in ``session``, or carries ``mark`` in its environment."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            facts = stat.read().rpartition(b")")[2].split()
        if facts[0] in (b"Z", b"X"):
            return False
        if int(facts[3]) == session:
            return True
        with open(f"/proc/{pid}/environ", "rb") as environment:
            return mark in environment.read().split(b"\0")
    except (OSError, IndexError):
        return False


def limit(pid: int, limits: Limits, *, whole_user: bool = False) -> None:
    """Bound a process, and all that it will start.

    Args:
        whole_user: it shares its user's count of processes with everything that this user runs,
            so that count is left alone.
    Raises:
        OSError: the system would not.
    """
    numbers = limits_as_numbers(limits)
    cpu_seconds = max(1, -(-numbers["cpu_ms"] // 1000))
    bounds = {
        # Private memory. RLIMIT_AS would also count what is only reserved, and no program that
        # reserves much (Go, Java, Node) would start.
        resource.RLIMIT_DATA: numbers["memory_bytes"],
        resource.RLIMIT_NPROC: numbers["processes"] + 1,  # the first process of a sandbox counts
        resource.RLIMIT_FSIZE: numbers["file_bytes"],
        resource.RLIMIT_NOFILE: numbers["open_files"],
        resource.RLIMIT_CPU: cpu_seconds,
        # 1 and not 0: where cores go to a program, the kernel takes only 1 for "none".
        resource.RLIMIT_CORE: 1,
    }
    if whole_user:
        del bounds[resource.RLIMIT_NPROC]
    for which, wanted in bounds.items():
        _, hard = resource.prlimit(pid, which)
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.prlimit(pid, which, (most, most))
