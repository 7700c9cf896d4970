"""Stores: on what ground a ledger may stand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.rules.stores import Version, file_system, has_wal_reset_fix, is_private

FIXED: dict[Version, bool] = {
    (3, 7, 0): False,
    (3, 8, 3): False,
    (3, 40, 1): False,  # Debian 12, and CPython's own
    (3, 43, 9): False,
    (3, 44, 0): False,
    (3, 44, 5): False,
    (3, 44, 6): True,
    (3, 44, 7): True,
    (3, 45, 0): False,
    (3, 45, 6): False,
    (3, 46, 1): False,  # Debian 13
    (3, 49, 9): False,
    (3, 50, 0): False,
    (3, 50, 6): False,
    (3, 50, 7): True,
    (3, 50, 8): True,
    (3, 51, 0): False,
    (3, 51, 2): False,
    (3, 51, 3): True,
    (3, 51, 10): True,
    (3, 52, 0): True,
    (3, 53, 1): True,
    (3, 54, 0): True,
    (4, 0, 0): True,
}


# rule: ledger.safe-journal
@pytest.mark.parametrize("version", FIXED, ids=str)
def test_a_sqlite_is_trusted_with_its_log_from_the_fix_on(version: Version) -> None:
    """Before it two connections can lose what was committed, and the ledger its last line."""
    assert has_wal_reset_fix(version) == FIXED[version]


# rule: ledger.safe-journal
@given(st.tuples(st.just(3), st.integers(0, 51), st.integers(0, 20)))
def test_only_the_named_lines_have_the_fix_before_all_have_it(version: Version) -> None:
    """A release line that nobody looked at is not taken for fixed."""
    named = version[:2] in {(3, 44), (3, 50), (3, 51)}

    assert has_wal_reset_fix(version) <= named


KNOWN = {
    0xEF53: "ext2/3/4",
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
NOT_LOCAL = {
    "nfs": 0x6969,
    "smb": 0x517B,
    "cifs": 0xFF534D42,
    "smb2": 0xFE534D42,
    "fuse": 0x65735546,
    "9p": 0x01021997,
    "ceph": 0x00C36400,
    "afs": 0x5346414F,
    "gfs2": 0x01161970,
    "ocfs2": 0x7461636F,
    "lustre": 0x0BD00BD0,
    "vboxsf": 0x786F4256,
    "fat": 0x4D44,
    "exfat": 0x2011BAB0,
    "ntfs": 0x5346544E,
    "ramfs": 0x858458F6,
    "proc": 0x9FA0,
    "none": 0,
}


# rule: ledger.sound-store
@pytest.mark.parametrize("magic", KNOWN, ids=KNOWN.values())
def test_a_local_file_system_is_known_by_its_number(magic: int) -> None:
    """Its locks and syncs are the kernel's own."""
    assert file_system(magic) == KNOWN[magic]


# rule: ledger.sound-store
@pytest.mark.parametrize("name", NOT_LOCAL)
def test_a_network_s_file_system_or_one_in_user_space_is_not_taken_for_local(name: str) -> None:
    """There a lock may be held by nobody, and a sync may reach nothing."""
    assert file_system(0xEF53) is not None

    assert file_system(NOT_LOCAL[name]) is None


# rule: ledger.sound-store
@given(st.integers(-(2**63), 2**63))
def test_a_file_system_that_nobody_knows_is_none(magic: int) -> None:
    """The list says what is good; the next network's file system is on no list of bad ones."""
    assert file_system(magic) == KNOWN.get(magic)


# rule: ledger.sound-store
@given(st.integers(0, 0o7777), st.integers(0, 3), st.integers(0, 3))
def test_a_store_is_private_when_nobody_else_can_change_it(
    mode: int, owner: int, user: int
) -> None:
    """Whoever can write a line into the ledger can let anything happen again."""
    others_write = bool(mode & 0o020 or mode & 0o002)
    user_uses = bool(mode & 0o400 and mode & 0o200)

    assert is_private(mode, owner, user) == (owner == user and user_uses and not others_write)


# rule: ledger.sound-store
def test_these_modes_are_private_and_those_are_not() -> None:
    """The same said in numbers that a person would write."""
    for mode in (0o600, 0o700, 0o640, 0o644, 0o100600):
        assert is_private(mode, 1000, 1000)
        assert not is_private(mode, 0, 1000)

    for mode in (0o620, 0o602, 0o660, 0o666, 0o777, 0o1777):
        assert not is_private(mode, 1000, 1000)
