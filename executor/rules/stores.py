"""Stores: on what ground may a ledger stand? What is not known to be good is refused."""

Version = tuple[int, int, int]

_WAL_RESET_FIXED_IN: dict[tuple[int, int], int] = {(3, 44): 6, (3, 50): 7, (3, 51): 3}
"""By release line the first patch with the fix; from 3.52 on every release has it."""

_LOCAL = {
    0x0000EF53: "ext2/3/4",
    0x58465342: "xfs",
    0x9123683E: "btrfs",
    0x2FC12FC1: "zfs",
    0xF2F52010: "f2fs",
    0xCA451A4E: "bcachefs",
    0x3153464A: "jfs",
    0x52654973: "reiserfs",
    0x794C7630: "overlayfs",
    0x01021994: "tmpfs",
}
"""The file systems, by the magic number of statfs(2), on which locks and syncs are the kernel's."""


def has_wal_reset_fix(version: Version) -> bool:
    """Say whether this SQLite keeps what it committed in WAL mode, also in the race of 2026.

    Source: https://sqlite.org/wal.html, "The WAL-Reset Bug".
    """
    if version >= (3, 52, 0):
        return True
    first = _WAL_RESET_FIXED_IN.get(version[:2])
    return first is not None and version[2] >= first


def file_system(magic: int) -> str | None:
    """Name a local file system; ``None`` for a network's, one in user space, or an unknown one."""
    return _LOCAL.get(magic)


def is_private(mode: int, owner: int, user: int) -> bool:
    """Say whether ``user`` can change a file with this mode and owner, and nobody but root can."""
    return owner == user and not mode & 0o022 and mode & 0o600 == 0o600
