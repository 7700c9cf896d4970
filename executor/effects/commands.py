"""Commands: find the program behind a name, once, and pin it by its bytes."""

import os
import pathlib
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field

from executor.effects.blobs import hash_descriptor
from executor.frozen import PinnedCommand, PinnedFile
from executor.problems import show_value
from executor.refusal import Refused
from executor.rules import shells

TRUSTED_DIRECTORIES = (
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
)
_HEAD_BYTES = 4096
_LINE_BYTES = 253
"""Of an interpreter line, behind its ``#!``; the kernel cuts off what is longer."""
_MOST_LINKS = 40
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


@dataclass
class Commands:
    """Finds commands in trusted directories; keeps digests of files that have not changed.

    The kept digests only save work before an approval: what runs is hashed anew every time.
    """

    trusted: Sequence[str] = TRUSTED_DIRECTORIES
    _digests: dict[tuple[int, ...], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.trusted = tuple(map(os.path.abspath, self.trusted))

    def pin(self, command: str) -> PinnedCommand:
        """Find a command and pin it; a script is pinned with its interpreter.

        Raises:
            Refused: ``admission.command-pinned``, ``admission.script-pinned``,
                ``admission.no-shims`` or ``admission.no-shell``.
        """
        found = self.find(command)
        head, pinned = self._inspect(found)
        if not head.startswith(b"#!"):
            if not head.startswith(b"\x7fELF"):
                raise _not_pinnable(
                    "admission.script-pinned",
                    f"{found} is neither a program nor a script with an interpreter line.",
                    "Give the script a first line like #!/usr/bin/python3.",
                )
            return PinnedCommand((pinned,))
        interpreter, argument = self._interpreter(found, head)
        interpreter_head, pinned_interpreter = self._inspect(interpreter, is_interpreter=True)
        if not interpreter_head.startswith(b"\x7fELF"):
            raise _not_pinnable(
                "admission.script-pinned",
                f"{interpreter}, the interpreter of {found}, is no program itself.",
                "Name a program in the interpreter line.",
            )
        prefix = (argument, found) if argument else (found,)
        return PinnedCommand((pinned_interpreter, pinned), prefix)

    def find(self, command: str) -> str:
        """Give the absolute path of an executable in a trusted directory."""
        if "/" in command and not command.startswith("/"):
            raise _untrusted(command, "it is a relative path", self.trusted)
        if command.startswith("/"):
            directory = os.path.dirname(os.path.normpath(command))
            if not any(_is_below(directory, trusted) for trusted in self.trusted):
                raise _untrusted(command, f"{directory} is not a trusted directory", self.trusted)
            candidates = [os.path.normpath(command)]
        else:
            candidates = [os.path.join(directory, command) for directory in self.trusted]
        for candidate in candidates:
            if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
                return candidate
        raise Refused(
            "admission.command-pinned",
            "COMMAND_NOT_FOUND",
            because=f"There is no executable {show_value(command)} in {', '.join(self.trusted)}.",
            todo="Install it, or name its directory among the trusted ones.",
        )

    def _interpreter(self, script: str, head: bytes) -> tuple[str, str]:
        """Give interpreter and argument as the kernel reads the line; ``env NAME`` is looked up."""
        line, newline, _ = head[2:].partition(b"\n")
        words = os.fsdecode(line.replace(b"\t", b" ").strip(b" ")).split(" ", 1)
        if not newline or not words[0] or len(line) > _LINE_BYTES:
            raise _not_pinnable(
                "admission.script-pinned",
                f"{script} has no readable interpreter line.",
                "Write one like #!/usr/bin/python3.",
            )
        interpreter, argument = words[0], words[1].strip(" ") if len(words) > 1 else ""
        if os.path.basename(interpreter) == "env":
            if not argument or argument.startswith("-") or " " in argument or "=" in argument:
                raise _not_pinnable(
                    "admission.script-pinned",
                    f"{script} starts with #!{' '.join(words)}: what that runs is decided later.",
                    "Name the interpreter itself in its first line.",
                )
            return self.find(argument), ""
        if not interpreter.startswith("/"):
            raise _not_pinnable(
                "admission.script-pinned",
                f"{script} names its interpreter by a relative path, {show_value(interpreter)}.",
                "Name it by an absolute path.",
            )
        found = self.find(interpreter)
        names = {os.path.basename(one) for one in (found, os.path.realpath(found))}
        if any(shells.is_wrapper(name) for name in names - shells.MULTI_CALL):
            raise _not_pinnable(
                "admission.script-pinned",
                f"{script} is run by the wrapper {found}, which decides what reads it.",
                "Name the interpreter itself in its first line.",
            )
        return found, argument

    def _inspect(self, path: str, *, is_interpreter: bool = False) -> tuple[bytes, PinnedFile]:
        real = os.path.realpath(path)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(real, flags)
        except OSError as failed:
            raise Refused(
                "admission.command-pinned",
                "COMMAND_NOT_FOUND",
                because=f"{path} cannot be read: {failed.strerror}.",
                todo="A command must be readable to be hashed; correct its permissions.",
            ) from None
        try:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode):
                raise _untrusted(path, f"{real} is no regular file", self.trusted)
            open_to_others = real if _is_others(facts) else _open_directory(path)
            if open_to_others is not None:
                raise _untrusted(path, f"{open_to_others} can be changed by others", self.trusted)
            head = os.pread(descriptor, _HEAD_BYTES, 0)
            if not is_interpreter and (reason := shells.indirection(path, real)):
                raise _not_pinnable("admission.no-shell", f"{path}: {reason[0]}.", f"{reason[1]}.")
            if manager := shells.shim(path, real, head):
                raise _not_pinnable(
                    "admission.no-shims",
                    f"{path} is a shim of {manager}: it decides at run time which program runs.",
                    "Name the program behind it (`pyenv which NAME`, `asdf which NAME`, ...).",
                )
            return head, PinnedFile(path, real, self._digest(descriptor, facts), facts.st_size)
        finally:
            os.close(descriptor)

    def _digest(self, descriptor: int, facts: os.stat_result) -> str:
        key = (
            facts.st_dev,
            facts.st_ino,
            facts.st_size,
            facts.st_mtime_ns,
            facts.st_ctime_ns,
        )
        if key not in self._digests:
            self._digests[key] = hash_descriptor(descriptor, lambda _: None)
        return self._digests[key]


def _open_directory(path: str) -> str | None:
    """Give a directory in which others could put another program under this path.

    Looked at are those of the file and of every link that leads to it, and all around them but
    for those in which nobody can touch what is another's (``/tmp``).
    """
    for _ in range(_MOST_LINKS):
        directory = os.path.realpath(os.path.dirname(path))
        for place in (directory, *map(str, pathlib.PurePath(directory).parents)):
            try:
                facts = os.stat(place)
            except OSError:
                return place  # it went while it was looked at
            sticky = facts.st_mode & stat.S_ISVTX and place != directory
            if _is_others(facts) and not sticky:
                return place
        if not os.path.islink(path):
            return None
        path = os.path.join(directory, os.readlink(path))
    return path


def _is_others(facts: os.stat_result) -> bool:
    """Say whether somebody other than root and this user can change what was looked at."""
    return facts.st_uid not in (0, os.geteuid()) or bool(facts.st_mode & _WRITABLE_BY_OTHERS)


def _is_below(path: str, directory: str) -> bool:
    return path == directory.rstrip("/") or path.startswith(directory.rstrip("/") + "/")


def _untrusted(path: str, found: str, trusted: Sequence[str]) -> Refused:
    return Refused(
        "admission.command-pinned",
        "COMMAND_NOT_TRUSTED",
        because=f"{show_value(path)}: {found}.",
        todo=f"Put it into a trusted directory ({', '.join(trusted)}) that only its owner can "
        "write, or add its directory to `trusted` in the configuration.",
    )


def _not_pinnable(rule: str, because: str, todo: str) -> Refused:
    return Refused(rule, "COMMAND_NOT_PINNABLE", because=because, todo=todo)
