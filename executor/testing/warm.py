"""Warm: a process that has everything imported, and forks one supervisor for each target.

It has one thread and no event loop, so that forking it is sound, and costs milliseconds where a
fresh interpreter costs a third of a second. The supervisor is the reaper of all that its target
leaves behind: what is still there afterwards was left by that target and by no other.
"""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

_SET_CHILD_SUBREAPER = 36  # prctl(2)
_DESCRIPTORS = 4
_MOST = 1 << 20
Asked = dict[str, Any]
Work = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Pids:
    """The process that answers, and the one above it."""

    supervisor: int
    target: int


class Warm:
    """The process, and the way to it. Use it as a context."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket = ours
        path = os.pathsep.join(entry for entry in sys.path if entry)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "executor.testing.warm", str(theirs.fileno())],
                env=os.environ | {"PYTHONPATH": path},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for us alone, who then end what runs
            )

    def __enter__(self) -> "Warm":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._process.wait()

    def start(
        self,
        streams: Sequence[int],
        directory: str,
        command: Sequence[str] | None = None,
        environment: dict[str, str] | None = None,
        terminal: str | None = None,
    ) -> Pids:
        """Start a target with these descriptors as 0, 1, 2 and so on.

        Args:
            terminal: the path of one that is to be its controlling terminal.
            command: its words; without one the executor itself is the target.
            environment: what it is started with instead of ours. The executor is then started
                afresh too: a forked process shows others the environment of its parent.
        """
        asked: Asked = {
            "directory": directory,
            "command": command,
            "environment": environment,
            "terminal": terminal,
        }
        if command is None and environment is not None:
            asked["command"] = [sys.executable, "-m", "executor.testing.driver"]
            path = os.pathsep.join(entry for entry in sys.path if entry)
            asked["environment"] = {"PYTHONPATH": path} | environment
        socket.send_fds(self._socket, [json.dumps(asked).encode()], list(streams))
        answer = self._socket.recv(_MOST)
        if not answer:
            raise ChildProcessError("the process that starts the targets is gone")
        return Pids(**json.loads(answer))


def serve(descriptor: int) -> None:
    """Start what is asked for until nobody can ask any more."""
    import executor.testing.driver as driver
    from executor.loading import shipped_tools

    shipped_tools()
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)  # of what a supervisor that was killed left
    with socket.socket(fileno=descriptor) as wire:
        while True:
            asked, streams, _, _ = socket.recv_fds(wire, _MOST, _DESCRIPTORS)
            if not asked:
                _end_all()
                return
            _reap()
            _start(wire, json.loads(asked), streams, driver.main)
            for stream in streams:
                os.close(stream)


def _end_all() -> None:
    """End what is below: whoever asked for it has gone, perhaps in the midst of something."""
    import psutil

    for one in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            one.kill()


def _start(wire: socket.socket, asked: Asked, streams: list[int], work: Work) -> None:
    heard, say = os.pipe()
    supervisor = os.fork()
    if not supervisor:
        wire.close()
        os.close(heard)
        _supervise(asked, streams, say, work)
    os.close(say)
    with open(heard, "rb") as told:
        target = int(told.read() or b"0")
    wire.send(json.dumps({"supervisor": supervisor, "target": target}).encode())


def _supervise(asked: Asked, streams: list[int], say: int, work: Work) -> NoReturn:
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)
        target = os.fork()
        if not target:
            os.close(say)
            _become(asked, streams, work)
        os.write(say, str(target).encode())
        os.close(say)
        for stream in streams:
            os.close(stream)
        while True:
            try:
                os.wait()
            except ChildProcessError:
                break
    finally:
        os._exit(0)


def _become(asked: Asked, streams: list[int], work: Work) -> NoReturn:
    code = 70
    try:
        os.setsid()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        for stream in streams:
            if stream >= len(streams):
                os.close(stream)
        if asked["terminal"] is not None:  # the first that a session opens is its own
            os.close(os.open(asked["terminal"], os.O_RDWR))
        os.chdir(asked["directory"])
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        command, environment = asked["command"], asked["environment"]
        if command is not None:
            os.execvpe(  # noqa: S606 - its words are the tester's own
                command[0], command, os.environ if environment is None else environment
            )
        work()
        code = 0
    except BaseException as fault:
        os.write(2, f"{type(fault).__name__}: {fault}\n".encode("utf-8", "backslashreplace"))
    finally:
        os._exit(code)


def _reap() -> None:
    """Let go of supervisors that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


if __name__ == "__main__":
    serve(int(sys.argv[1]))
