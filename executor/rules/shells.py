"""Shells, wrappers and shims: commands that hide which program will run. None can be pinned."""

import posixpath
import re

SHELLS = frozenset(
    {
        "ash", "bash", "csh", "dash", "elvish", "fish", "hush", "ksh", "lksh", "mksh", "nu", "oksh",
        "osh", "posh", "powershell", "pwsh", "rbash", "rc", "rksh", "rzsh", "sh", "static-sh",
        "tcsh", "xonsh", "yash", "ysh", "zsh",
    }
)  # fmt: skip
WRAPPERS = frozenset(
    {
        "aa-exec", "at", "batch", "bsdtime", "busybox", "bwrap", "ccache", "cgexec", "chpst",
        "choom", "chroot", "chrt", "coresched", "dbus-run-session", "distcc", "doas", "dumb-init",
        "eatmydata", "entr", "env", "expect", "fakechroot", "fakeroot", "faketime", "find",
        "firejail", "flock", "gdb", "gosu", "i386", "icecc", "ionice", "linux32", "linux64",
        "ltrace", "nice", "nohup", "nsenter", "nsjail", "numactl", "parallel", "perf", "pkexec",
        "prlimit", "proot", "rlwrap", "run-parts", "run0", "runcon", "runuser", "sccache", "script",
        "setarch", "setpriv", "setsid", "setuidgid", "sg", "snap", "softlimit", "ssh-agent",
        "start-stop-daemon", "stdbuf", "strace", "su", "su-exec", "sudo", "systemd-run", "taskset",
        "time", "timeout", "tini", "toybox", "trickle", "uclampset", "unbuffer", "uname26",
        "unshare", "valgrind", "watch", "x86_64", "xargs", "xvfb-run",
    }
)  # fmt: skip
MULTI_CALL = frozenset({"busybox", "toybox"})
"""Programs that are many: the name they are called by, and not an argument, says which."""
_LOADER = re.compile(r"ld[a-z0-9_.-]*\.so(?:\.[0-9]+)*")
_VERSION = re.compile(r"[-._]?[0-9]+(?:[.-][0-9a-z]+)*\Z")
SHIM_MANAGERS = frozenset(
    {
        "aqua-proxy", "asdf", "jenv", "mise", "nodenv", "proto-shim", "pyenv", "rbenv", "rustup",
        "shim_executable", "snap", "volta-shim",
    }
)  # fmt: skip
_SHIM_DIRECTORY = re.compile(
    r"/(?:\.?(?:pyenv|rbenv|nodenv|asdf|jenv|goenv|plenv|phpenv|proto)/(?:[^/]+/)*shims"
    r"|mise/shims|\.volta/bin)/"
)
_RUSTUP_PROXY = re.compile(
    r"/\.?cargo/bin/(?:cargo|cargo-clippy|cargo-fmt|cargo-miri|clippy-driver|rls|rust-analyzer"
    r"|rust-gdb|rust-gdbgui|rust-lldb|rustc|rustdoc|rustfmt)\Z"
)
"""rustup puts itself under each of these names, often as a hard link: no name gives it away."""
_SHIM_TEXT = re.compile(
    rb"(?:exec|\.)\s[^\n]*\b(?:asdf|mise|nodenv|pyenv|rbenv|goenv|jenv|plenv|phpenv)\b[^\n]*exec"
)


def indirection(path: str, real_path: str | None = None) -> tuple[str, str] | None:
    """Say why a command would run another program: (what was found, instead).

    Args:
        path: as it was written or found.
        real_path: with every link followed, once that is known.
    """
    names = [posixpath.basename(path)]
    if real_path is not None and (behind := posixpath.basename(real_path)) not in MULTI_CALL:
        names.append(behind)
    for name in names:
        if _is_one_of(SHELLS, name):
            return (
                f"{name!r} is a shell: it would read its arguments as a program",
                "Name the program itself, or a script with an interpreter line",
            )
        if is_wrapper(name):
            return (
                f"{name!r} is a wrapper: its arguments decide which program runs",
                "Name the program behind it",
            )
    return None


def is_wrapper(name: str) -> bool:
    """Say whether the program of this name runs what its arguments name; a loader does too."""
    return _is_one_of(WRAPPERS, name) or bool(_LOADER.fullmatch(name))


def _is_one_of(names: frozenset[str], name: str) -> bool:
    """Whether it is one of these, or one with its version: ``bash-5.2``, ``zsh-5.9``, ``ksh93``."""
    return name in names or _VERSION.sub("", name) in names


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
        if _RUSTUP_PROXY.search(spelled):
            return "rustup"
    manager = posixpath.basename(real_path)
    if manager in SHIM_MANAGERS and posixpath.basename(path) != manager:
        return manager
    if head.startswith(b"#!") and _SHIM_TEXT.search(head):
        return "a version manager's script"
    return None
