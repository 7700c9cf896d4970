"""Commands: find the program behind a name, once, and pin it by its bytes."""

import os
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
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


@dataclass
class Commands:
    """Finds commands in trusted directories; keeps digests of files that have not changed.

    The kept digests only save work before an approval: what runs is hashed anew every time.
    """

    trusted: Sequence[str] = TRUSTED_DIRECTORIES
    _digests: dict[tuple[int, ...], str] = field(default_factory=dict)

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
        """Give interpreter and argument, as the kernel reads the line; ``env NAME`` is looked up."""
        line, newline, _ = head[2:].partition(b"\n")
        words = line.decode("utf-8", "surrogateescape").strip().split(None, 1)
        if not newline or not words:
            raise _not_pinnable(
                "admission.script-pinned",
                f"{script} has no readable interpreter line.",
                "Write one like #!/usr/bin/python3.",
            )
        interpreter, argument = words[0], words[1].strip() if len(words) > 1 else ""
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
        return self.find(interpreter), argument

    def _inspect(self, path: str, *, is_interpreter: bool = False) -> tuple[bytes, PinnedFile]:
        real = os.path.realpath(path)
        try:
            descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as failed:
            raise Refused(
                "admission.command-pinned",
                "COMMAND_NOT_FOUND",
                because=f"{path} cannot be read: {failed.strerror}.",
                todo="A command must be readable to be hashed; correct its permissions.",
            ) from None
        try:
            facts = os.fstat(descriptor)
            for owned, mode in ((real, facts.st_mode), _directory(real)):
                if mode & _WRITABLE_BY_OTHERS:
                    raise _untrusted(path, f"{owned} can be written by others", self.trusted)
            head = os.pread(descriptor, _HEAD_BYTES, 0)
            if not is_interpreter:
                for spelled in (path, real):
                    if reason := shells.indirection(spelled):
                        raise _not_pinnable(
                            "admission.no-shell", f"{path}: {reason[0]}.", reason[1] + "."
                        )
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


def _directory(path: str) -> tuple[str, int]:
    directory = os.path.dirname(path)
    return directory, os.stat(directory).st_mode


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
