"""Shells, wrappers and shims: commands that hide which program will run. None can be pinned."""

import posixpath
import re

SHELLS = frozenset(
    {"sh", "ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "pwsh", "tcsh", "zsh"}
)
WRAPPERS = frozenset(
    {
        "busybox", "chroot", "chrt", "doas", "env", "find", "flock", "ionice", "nice", "nohup",
        "nsenter", "parallel", "prlimit", "runuser", "script", "setpriv", "setsid", "stdbuf", "su",
        "sudo", "taskset", "time", "timeout", "toybox", "unshare", "watch", "xargs",
    }
)  # fmt: skip
SHIM_MANAGERS = frozenset({"asdf", "mise", "nodenv", "pyenv", "rbenv", "rustup", "volta-shim"})
_SHIM_DIRECTORY = re.compile(
    r"/(?:\.?(?:pyenv|rbenv|nodenv|asdf|jenv|goenv|plenv)/(?:[^/]+/)*shims|mise/shims|\.volta/bin)/"
)
_SHIM_TEXT = re.compile(
    rb"(?:exec|\.)\s[^\n]*\b(?:asdf|mise|nodenv|pyenv|rbenv|goenv|jenv)\b[^\n]*exec"
)


def indirection(path: str) -> tuple[str, str] | None:
    """Say why the program called ``path`` would run another one: (what was found, instead)."""
    name = posixpath.basename(path)
    if name in SHELLS:
        return (
            f"{name!r} is a shell: it would read its arguments as a program",
            "Name the program itself, or a script with an interpreter line",
        )
    if name in WRAPPERS:
        return (
            f"{name!r} is a wrapper: its arguments decide which program runs",
            "Name the program behind it",
        )
    return None


def shim(path: str, real_path: str, head: bytes) -> str | None:
    """Name the version manager whose shim this is, or ``None``.

    Args:
        path: as it was found.
        real_path: with every link followed.
        head: the first bytes of the file, 4 KiB are enough.
    """
    for spelled in (path, real_path):
        if found := _SHIM_DIRECTORY.search(spelled):
            return found[0].strip("/")
    manager = posixpath.basename(real_path)
    if manager in SHIM_MANAGERS and posixpath.basename(path) != manager:
        return manager
    if head.startswith(b"#!") and _SHIM_TEXT.search(head):
        return "a version manager's script"
    return None
