"""Bubblewrap: the level ``namespaced``, by the system's ``bwrap``.

The command is held back until the sandbox around it has been looked at from outside; only then
it is let go. Three wires lead in, each with one purpose:

- *status*: bwrap says which process is the sandbox's first, and how the command ended.
- *gate*: the command starts when a message comes through, and never when we are gone.
- *lifeline*: bwrap holds its far end; when we are gone, the kernel kills bwrap, and with it, once
  the command was let go, the sandbox.

When we are killed in the milliseconds before that, the sandbox may stay, held back for ever: no
kernel signal but one of its parent's ends the first process of a PID namespace. It is noted, and
ended when the next executor opens on the same state.
"""

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

import trio

from executor.effects import processes, sealing
from executor.effects.processes import Handle
from executor.effects.sandbox import Ended, Running, Streams
from executor.effects.sandbox.notes import Note, Notes
from executor.effects.sealing import Sealed
from executor.effects.verifying import Verified
from executor.manifest import IsolationLevel
from executor.rules import spawning

STAGING = "/staging"
SETUP_POLL_S = 0.0005
SETTLE_S = 2.0
"""bwrap drops its capabilities right after its root is in place: 0.1 s on a very busy machine."""
ROUNDS = 50
"""How often the end of a session is tried; one is enough unless its members start others."""
MOST_SAID = 64 * 1024
"""What bwrap has to say on its status wire is under 1 KiB."""
_SYSTEM_TREES = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SYSTEM_FILES = (
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
)
_NETWORK_FILES = (
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
)
_SEPARATE_NAMESPACES = ("user", "mnt", "pid", "ipc", "uts")


@dataclass
class Bubblewrap:
    """Runs commands in namespaces of their own.

    Args:
        program: the path of bwrap.
        notes: where it is written down which sandboxes there are.
        disable_user_namespaces: bwrap knows how to forbid further ones inside.
    """

    program: str
    notes: Notes
    disable_user_namespaces: bool = True
    level: IsolationLevel = field(default="namespaced", init=False)

    async def start(self, verified: Verified, streams: Streams) -> Running | Ended:
        """Set the sandbox up, look at it, and let the command go."""
        program = verified.commands[0][1]
        if not _is_program(os.pread(program.descriptor, 64, 0)):
            # bwrap would hand it to a shell, as execvp(3) does with what the kernel refuses.
            place = verified.frozen.argv[0]
            return Ended("not-started", detail=f"{place}: Exec format error (ENOEXEC)")
        with contextlib.ExitStack() as ours:
            arguments = _Arguments()
            try:
                self._describe(verified, arguments)
                return await self._start(verified, streams, arguments, ours)
            except OSError as failed:  # the gate is still shut
                return Ended("sandbox-failed", detail=_in_words(failed), passing=True)
            finally:
                arguments.close()

    async def _start(
        self,
        verified: Verified,
        streams: Streams,
        arguments: "_Arguments",
        ours: contextlib.ExitStack,
    ) -> Running | Ended:
        lifeline_near, lifeline_far = _pipe(ours)
        gate_near, gate_far = _gate(ours)
        status_near, status_far = _pipe(ours)
        fds = {"--sync-fd": lifeline_far, "--block-fd": gate_far, "--json-status-fd": status_far}
        for option, descriptor in fds.items():
            arguments.add(option, str(descriptor))
        options = arguments.sealed()
        try:
            # Not through a worker thread, as trio would: bwrap asks the kernel to be killed when
            # its parent goes, and the kernel means the thread that started it.
            process = subprocess.Popen(
                [self.program, "--args", str(options.descriptor), "--", *verified.frozen.argv],
                stdin=streams.stdin,
                stdout=streams.stdout,
                stderr=streams.stderr,
                pass_fds=(*fds.values(), options.descriptor, *arguments.descriptors),
                env={},
                cwd="/",
                start_new_session=True,
                umask=0o022,
            )
        finally:
            options.close()
        try:
            note = self.notes.add(process.pid)
            running = _Running(process, status_near, (lifeline_near, lifeline_far), note)
        except BaseException:
            process.kill()
            process.wait()
            raise
        ours.pop_all()
        os.close(gate_far)
        os.close(status_far)
        try:
            problem = await running.become_ready(verified, arguments.placed)
            if problem is None:
                running.let_go(gate_near)
                return running
            await running.end()
            return Ended("sandbox-failed", detail=problem)
        except BaseException:
            with trio.CancelScope(shield=True):
                await running.end()
            raise
        finally:
            os.close(gate_near)

    def _describe(self, verified: Verified, arguments: "_Arguments") -> None:
        """Write down the sandbox: what is in it, in the order in which it is mounted."""
        frozen = verified.frozen
        reach, limits = frozen.admitted.reach, frozen.admitted.manifest.limits
        add = arguments.add
        for name in ("user", "ipc", "pid", "uts", "cgroup-try"):
            add(f"--unshare-{name}")
        if reach.network == "none":
            add("--unshare-net")
        if self.disable_user_namespaces:
            add("--disable-userns")
        add("--die-with-parent")
        add("--new-session")
        add("--cap-drop", "ALL")
        add("--hostname", "sandbox")
        add("--clearenv")
        environment = spawning.place(frozen.env, STAGING) | verified.secret_environment
        for name, value in environment.items():
            add("--setenv", name, value)
        for tree in _SYSTEM_TREES:
            if os.path.islink(tree):
                add("--symlink", os.readlink(tree), tree)
            elif os.path.isdir(tree):
                add("--ro-bind", tree, tree)
        for file in _SYSTEM_FILES + (() if reach.network == "none" else _NETWORK_FILES):
            add("--ro-bind-try", file, file)
        user, group = os.geteuid(), os.getegid()
        passwd = f"executor:x:{user}:{group}::{STAGING}/home:/bin/false\n"
        arguments.text("/etc/passwd", passwd, 0o444)
        arguments.text("/etc/group", f"executor:x:{group}:\n", 0o444)
        add("--proc", "/proc")
        for place in _kernel_settings():
            add("--ro-bind", place, place)
        add("--dev", "/dev")
        scratch = str(max(int(limits.scratch), 4096))  # a size of 0 would be no limit
        add("--size", scratch, "--tmpfs", "/dev/shm")  # noqa: S108 - in the sandbox
        add("--remount-ro", "/dev")
        add("--perms", "0700", "--size", scratch, "--tmpfs", STAGING)
        for directory in ("home", "tmp", "work", "secrets"):
            add("--perms", "0700", "--dir", f"{STAGING}/{directory}")
        add("--symlink", f"{STAGING.strip('/')}/tmp", "/tmp")  # noqa: S108 - a path in the sandbox
        for name, text in frozen.admitted.asked.stage.items():
            if name.endswith("/"):
                add("--perms", "0700", "--dir", f"{STAGING}/work/{name.rstrip('/')}")
            else:
                arguments.text(f"{STAGING}/work/{name}", text, 0o600)
        for name, sealed in verified.files.items():
            arguments.data(f"{STAGING}/work/{name}", sealed, 0o400)
        for name, sealed in verified.secret_files.items():
            arguments.data(f"{STAGING}/secrets/{name}", sealed, 0o400)
        for path in verified.paths:
            if not path.writes:
                add("--ro-bind", path.path, path.path)
        for command, sealed in verified.commands:
            is_bound = _within(command.path, (*_SYSTEM_TREES, *reach.read))
            arguments.data(command.real_path if is_bound else command.path, sealed, 0o555)
        # Writable trees come last: nothing is made inside a tree that somebody else can change.
        for path in verified.paths:
            if path.writes:
                add("--bind", path.path, path.path)
        add("--remount-ro", "/")
        add("--chdir", f"{STAGING}/work")


class _Arguments:
    """The options of bwrap and the data they refer to, handed over by descriptor."""

    def __init__(self) -> None:
        self._words: list[str] = []
        self.placed: dict[str, int] = {}
        """The size of every file that bwrap makes, by its place."""
        self.descriptors: list[int] = []

    def add(self, *words: str) -> None:
        self._words += words

    def data(self, place: str, content: Sealed, mode: int) -> None:
        """Let bwrap copy sealed bytes to a read-only file of the sandbox."""
        # A descriptor of its own: two readers of one would share the position.
        descriptor = os.open(f"/proc/self/fd/{content.descriptor}", os.O_RDONLY | os.O_CLOEXEC)
        self.descriptors.append(descriptor)
        self.add("--perms", f"{mode:04o}", "--ro-bind-data", str(descriptor), place)
        self.placed[place] = content.size

    def text(self, place: str, content: str, mode: int) -> None:
        """Let bwrap write a small file of the sandbox, which the command may change."""
        sealed = sealing.seal_bytes(content.encode("utf-8", "surrogateescape"))
        self.descriptors.append(sealed.descriptor)
        self.add("--perms", f"{mode:04o}", "--file", str(sealed.descriptor), place)
        self.placed[place] = sealed.size

    def sealed(self) -> Sealed:
        return sealing.seal_bytes(b"".join(os.fsencode(word) + b"\0" for word in self._words))

    def close(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)


class _Running:
    """A sandbox: bwrap itself outside, its first process inside."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        status: int,
        lifeline: tuple[int, int],
        note: Note,
    ) -> None:
        self._note = note
        self._process = process
        self._outside = Handle(process.pid)
        self._inside: Handle | None = None
        self._status = status
        self._lifeline = lifeline
        self._said = b""
        self._ended: Ended | None = None
        self._let_go = False
        self._over = False
        os.set_blocking(status, False)
        _kill_when_we_are_gone(lifeline[1], process.pid)

    async def become_ready(self, verified: Verified, placed: Mapping[str, int]) -> str | None:
        """Wait until all is set up but the command's start; give what is wrong, if anything."""
        while self._answer("child-pid") is None:
            if not await self._listen():
                return await self._say_why()
        first = self._answer("child-pid") or 0
        try:
            inside = Handle(first)
        except (OSError, OverflowError):
            return await self._say_why()
        if processes.parent(first) != self._process.pid:  # or we would end a stranger
            inside.close()
            return f"bwrap named process {first} as its sandbox, which is not its child"
        self._inside = inside
        _stop_when_it_speaks(self._status, self._process.pid)
        root = f"/proc/{first}/root"
        # It starts out in our own root, which may have a directory of that name too.
        while _same_root(root) or not os.path.isdir(f"{root}{STAGING}/work"):
            if not self._is_alive():
                return await self._say_why()
            await trio.sleep(SETUP_POLL_S)
        patience = trio.current_time() + SETTLE_S
        while problem := _not_confined(first, verified):
            if not self._is_alive():
                return await self._say_why()
            if trio.current_time() > patience:
                return problem
            await trio.sleep(SETUP_POLL_S)
        for path in verified.paths:
            facts = os.stat(root + path.path)
            if (facts.st_dev, facts.st_ino) != path.identity:
                return f"{path.path} was exchanged after it was checked"
        hosts = {os.stat(path).st_dev for path in ("/", *(entry.path for entry in verified.paths))}
        for place, size in placed.items():
            made = os.stat(root + place)
            if made.st_size != size or made.st_dev in hosts:
                return f"{place} is not the verified copy in the sandbox"
        processes.limit(first, verified.frozen.admitted.manifest.limits)
        return None

    def let_go(self, gate: int) -> None:
        """Have the command started."""
        os.write(gate, b"1")
        self._let_go = True

    async def wait(self) -> Ended:
        while self._ended is None:
            if (code := self._answer("exit-code")) is not None:
                self._ended = _by_exit_code(int(code))
            elif not await self._listen():
                await self._outside.wait()
                self._ended = self._without_exit_code()
        return self._ended

    def signal(self, number: int) -> None:
        if self._inside is None:
            return
        for pid in self._descendants():
            with contextlib.suppress(OSError), Handle(pid) as handle:
                # The number could be a stranger's by now; the namespace tells.
                if _namespace(pid, "pid") == _namespace(self._inside.pid, "pid"):
                    handle.signal(number)

    async def end(self) -> int:
        if self._over:
            return 0
        self._over = True
        left = len(self._descendants())
        if self._inside is not None:
            self._inside.kill()  # the kernel ends its whole PID namespace, and waits for it
            await self._inside.wait()
            self._inside.close()
        self._outside.kill()
        await self._outside.wait()
        if not self._let_go:
            await self._end_session()
        self._process.wait()
        self._outside.close()
        os.close(self._status)
        for end in self._lifeline:
            os.close(end)
        self._note.remove()
        return left

    async def _end_session(self) -> None:
        """End what bwrap started before it could say so; its session is known without a word.

        bwrap is not reaped yet, so that the number is still its own.
        """
        for _ in range(ROUNDS):
            found = processes.in_session(self._process.pid)
            if not found:
                return
            for pid in found:
                with contextlib.suppress(OSError), Handle(pid) as handle:
                    if processes.session(pid) == self._process.pid:
                        handle.kill()
                        await handle.wait()

    def _descendants(self) -> list[int]:
        return [] if self._inside is None else processes.descendants(self._inside.pid)

    async def _listen(self) -> bool:
        """Read what bwrap has to say; false when it will say nothing more."""
        await _wait_readable_or_over(self._status, self._outside.descriptor)
        with contextlib.suppress(BlockingIOError):
            heard = os.read(self._status, 4096)
            self._said = (self._said + heard)[-MOST_SAID:]
            return bool(heard)
        return self._is_alive()

    def _is_alive(self) -> bool:
        return processes.state(self._process.pid) not in ("Z", "X", "")

    def _answer(self, key: str) -> int | None:
        for line in self._said.splitlines(keepends=True):
            if line.endswith(b"\n"):
                with contextlib.suppress(ValueError, RecursionError):
                    said = json.loads(line)
                    if isinstance(said, dict) and type(said.get(key)) is int:
                        return int(said[key])
        return None

    def _without_exit_code(self) -> Ended:
        """bwrap tells an exit code only of a command that was really executed."""
        code, number = self._outside.how_it_ended()
        if code is not None:
            return Ended("not-started", detail=f"bwrap ended with {code}")
        return Ended("lost", detail=f"Its sandbox was ended{_by_signal(number)}.")

    async def _say_why(self) -> str:
        self._outside.kill()
        await self._outside.wait()
        code, number = self._outside.how_it_ended()
        how = _by_signal(number) if code is None else f" with {code}"
        return f"bwrap ended{how} before the sandbox was ready"


def _kill_when_we_are_gone(far_end: int, bwrap: int) -> None:
    """Have the kernel kill bwrap when the last reader of this pipe is gone, which is us."""
    fcntl.fcntl(far_end, fcntl.F_SETOWN, bwrap)
    fcntl.fcntl(far_end, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(far_end, fcntl.F_SETFL, fcntl.fcntl(far_end, fcntl.F_GETFL) | os.O_ASYNC)


def _stop_when_it_speaks(near_end: int, bwrap: int) -> None:
    """Have the kernel stop bwrap in the very write by which it tells the exit code.

    It would exit next, and take the sandbox with it, before anybody could count what the command
    left behind. `end` kills it anyway.
    """
    fcntl.fcntl(near_end, fcntl.F_SETOWN, bwrap)
    fcntl.fcntl(near_end, fcntl.F_SETSIG, signal.SIGSTOP)
    fcntl.fcntl(near_end, fcntl.F_SETFL, fcntl.fcntl(near_end, fcntl.F_GETFL) | os.O_ASYNC)


def _kernel_settings() -> Iterator[str]:
    """Give what in /proc is about the machine and can be written, if only by its owner.

    Its owner is root, capabilities or not: a sandbox of root could write the kernel's
    ``core_pattern``, and have any program run outside. bwrap covers a few of them by itself.
    """
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit() or entry.is_symlink():
                continue
            if entry.is_dir() or entry.stat().st_mode & 0o222:
                yield entry.path


def _is_program(head: bytes) -> bool:
    """Say whether a file begins like an ELF program of this machine.

    Source: elf(5)
    """
    if len(head) < 64 or head[:4] != b"\x7fELF" or head[4] not in (1, 2) or head[5] not in (1, 2):
        return False
    if head[18:20] not in _machines():
        return False
    order: Literal["little", "big"] = "little" if head[5] == 1 else "big"
    sizes_at, entry_size = (42, 32) if head[4] == 1 else (54, 56)
    return (
        int.from_bytes(head[16:18], order) in (2, 3)
        and int.from_bytes(head[sizes_at : sizes_at + 2], order) == entry_size
        and int.from_bytes(head[sizes_at + 2 : sizes_at + 4], order) > 0
    )


@cache
def _machines() -> frozenset[bytes]:
    """Give what ELF calls this machine: what our own program says, and its 32-bit kin."""
    with open("/proc/self/exe", "rb") as ours:
        machine = ours.read(20)[18:20]
    kin = {b"\x3e\x00": b"\x03\x00", b"\xb7\x00": b"\x28\x00"}  # x86-64: i386, arm64: arm
    return frozenset({machine, kin.get(machine, machine)})


def _same_root(root: str) -> bool:
    ours, theirs = os.stat("/"), os.stat(root + "/")
    return (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino)


def _not_confined(first: int, verified: Verified) -> str | None:
    """Look at the sandbox from outside; say in which way it does not confine."""
    wanted = list(_SEPARATE_NAMESPACES)
    if verified.frozen.admitted.reach.network == "none":
        wanted.append("net")
    shared = [name for name in wanted if _namespace(first, name) == _namespace(os.getpid(), name)]
    if shared:
        return f"the sandbox shares the host's namespaces: {', '.join(shared)}"
    facts = dict(
        line.split(":\t", 1)
        for line in _read(f"/proc/{first}/status").splitlines()
        if ":\t" in line
    )
    if any(int(facts[name], 16) for name in ("CapEff", "CapPrm", "CapBnd")):
        return "the sandbox left capabilities"
    if facts["NoNewPrivs"] != "1":
        return "the sandbox lets programs gain privileges"
    return None


def _namespace(pid: int, name: str) -> int:
    return os.stat(f"/proc/{pid}/ns/{name}").st_ino


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()


def _by_exit_code(code: int) -> Ended:
    """bwrap tells the death by signal n as 128 + n; no command is believed to exit so by itself."""
    if 128 < code <= 128 + signal.SIGRTMAX:
        return Ended("signalled", signal=code - 128)
    return Ended("exited", exit=code)


def _by_signal(number: int | None) -> str:
    return "" if number is None else f" by signal {number}"


def _in_words(failed: OSError) -> str:
    reason = failed.strerror or str(failed)
    return f"{failed.filename}: {reason}" if failed.filename else reason


def _gate(ours: contextlib.ExitStack) -> tuple[int, int]:
    """Open the gate; closed with ``ours``.

    A pipe would not do: bwrap goes on when it reads the end of one, as it would when we are
    killed, in whatever order the kernel closes what we held. Datagrams have no end.
    """
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    near, far = (end.detach() for end in ends)
    ours.callback(_close, near)
    ours.callback(_close, far)
    return near, far


def _pipe(ours: contextlib.ExitStack) -> tuple[int, int]:
    """Open a pipe; closed with ``ours``, as long as that was not emptied."""
    near, far = os.pipe2(os.O_CLOEXEC)
    ours.callback(_close, near)
    ours.callback(_close, far)
    return near, far


def _close(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        os.close(descriptor)


def _within(path: str, trees: Iterable[str]) -> bool:
    return any(path == tree or path.startswith(tree.rstrip("/") + "/") for tree in trees)


async def _wait_readable_or_over(descriptor: int, handle: int) -> None:
    async def wait_for(one: int) -> None:
        await trio.lowlevel.wait_readable(one)
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_for, descriptor)
        nursery.start_soon(wait_for, handle)
