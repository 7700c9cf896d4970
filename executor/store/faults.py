"""Faults: the refusals of a store that is not sound, or that cannot be used just now."""

import apsw

from executor.refusal import Refused, Unverified

_NOT_OURS_TO_WRITE = (
    PermissionError,
    apsw.CantOpenError,
    apsw.PermissionsError,
    apsw.ReadOnlyError,
)


def unsound(because: str) -> Unverified:
    """Give the refusal of a store that cannot be relied on."""
    return Unverified(
        "ledger.sound-store",
        "STORE_UNAVAILABLE",
        because=because,
        todo="Nothing was repaired, and nothing runs. Put the ledger back as it was (store, "
        "ledger.db and ledger.db-wal), on a local disk and for this user alone; or begin a new "
        "state directory, which knows nothing of what was delivered before.",
    )


def unavailable(failed: Exception) -> Refused:
    """Give the refusal of a store that could not be used."""
    if isinstance(failed, apsw.CorruptError | apsw.NotADBError | apsw.FormatError | apsw.SQLError):
        return unsound(f"The ledger is damaged: {failed}.")
    found = getattr(failed, "strerror", None) or str(failed) or type(failed).__name__
    if isinstance(failed, _NOT_OURS_TO_WRITE):
        because = f"The ledger cannot be written: {found}."
        todo = (
            "Let the state directory (mode 0700), and ledger.db, ledger.db-wal, ledger.db-shm and "
            "store in it (0600), be this user's to write; then ask again."
        )
    else:
        because = f"The ledger could not be made durable: {found}."
        todo = (
            "Make room on the disk of the state directory, and make sure that nothing else keeps "
            "ledger.db locked; then ask again."
        )
    return Unverified("ledger.full-disk", "STORE_UNAVAILABLE", because=because, todo=todo)
