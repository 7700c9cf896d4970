"""Freezer: copy every file of a request, and say what the copies are."""

import errno
import os
import stat
import time
from collections.abc import Callable, Sequence
from functools import partial

import trio

from executor.effects import beneath
from executor.effects.blobs import Blobs, Hold, Incoming, Unreadable
from executor.frozen import FrozenFile, SlotFile
from executor.problems import show_value
from executor.refusal import Refused, Unverified
from executor.rules import freezing

Progress = Callable[[int, int], None]
"""Called with the bytes handled so far and the bytes to handle in all (each is read twice)."""
_CLOCK_REALTIME_COARSE = 5


class Freezer:
    """Freezes files that lie below declared roots.

    Args:
        roots: absolute directories; a root that is a link is what it leads to now.
        base: the directory that relative paths start from.
        private: places that no root opens.
    """

    def __init__(
        self, blobs: Blobs, roots: Sequence[str], base: str, private: Sequence[str] = ()
    ) -> None:
        self.blobs = blobs
        self._private = private
        real = {os.path.normpath(root): os.path.realpath(root) for root in roots}
        real |= {root: root for root in real.values()}
        # The narrowest first: a root below another may be a link, which the wider one refuses.
        self._roots = dict(sorted(real.items(), key=lambda entry: -len(entry[0])))
        self._base = base

    async def freeze(
        self, name: str, files: Sequence[SlotFile], progress: Progress | None
    ) -> tuple[tuple[FrozenFile, ...], Hold]:
        """Copy the files, and hold the copies under ``name``.

        Raises:
            Refused: a rule of the family; nothing is held then.
        """
        return await trio.to_thread.run_sync(partial(self._freeze, name, files, progress))

    def _freeze(
        self, name: str, files: Sequence[SlotFile], progress: Progress | None
    ) -> tuple[tuple[FrozenFile, ...], Hold]:
        if not files:
            return (), Hold()
        opened: list[tuple[SlotFile, int, os.stat_result]] = []
        try:
            for file in files:
                descriptor = self._open(file)
                opened.append((file, descriptor, os.fstat(descriptor)))
            for file, _, facts in opened:
                freezing.check_size(file, facts.st_size)
            freezing.check_total(sum(facts.st_size for _, _, facts in opened))
            step = _stepper(2 * sum(facts.st_size for _, _, facts in opened), progress)
            with self.blobs.freezing() as incoming:
                frozen = tuple(_copy(incoming, *entry, step) for entry in opened)
                return frozen, incoming.keep(name)
        except OSError as failed:
            raise Unverified(
                "freezing.private-store",
                "STORE_UNAVAILABLE",
                because=f"The copy could not be stored: {failed.strerror}.",
                todo="Make room on its disk, or set another state directory, and ask again; "
                "nothing ran.",
            ) from failed
        finally:
            for _, descriptor, _ in opened:
                os.close(descriptor)

    def _open(self, file: SlotFile) -> int:
        """Open a regular file for reading, without ever blocking or following a link."""
        path = os.path.normpath(os.path.join(self._base, file.path))
        root = next((root for root in self._roots if _is_below(path, root)), None)
        if root is None:
            raise _outside(file, f"is below none of {', '.join(self._roots)}")
        whole = os.path.join(self._roots[root], os.path.relpath(path, root))
        for place in self._private:
            if whole == place or _is_below(whole, place):
                raise _outside(file, f"lies in {place}, where nothing is handed over from")
        try:
            # From / on: the root itself may lie where somebody can put a link in its place.
            handle = beneath.open_absolute(whole)
            try:
                _refuse_unless_regular(file, os.fstat(handle).st_mode)
                # The same inode again, now for reading: a handle names it, no path does.
                return os.open(
                    f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
                )
            finally:
                os.close(handle)
        except (OSError, ValueError) as failed:
            code = getattr(failed, "errno", None)
            if code == errno.ELOOP:
                raise _outside(file, "leads over a symbolic link") from None
            if code == errno.EXDEV:
                raise _outside(file, "leads out of its root") from None
            raise _not_readable(file, failed) from None


def _copy(
    incoming: Incoming,
    file: SlotFile,
    descriptor: int,
    facts: os.stat_result,
    step: Callable[[int], None],
) -> FrozenFile:
    _let_the_clock_tick(facts)
    line_ends = freezing.LineEnds()
    try:
        sha256, size = incoming.put(
            descriptor, facts.st_size, step, line_ends.look if file.line_ends else None
        )
    except Unreadable as failed:
        raise _not_readable(file, failed.__cause__) from None
    if size != facts.st_size or _identity(os.fstat(descriptor)) != _identity(facts):
        raise Refused(
            "freezing.stable-source",
            "FILE_CHANGED_WHILE_FREEZING",
            because=f"{show_value(file.path)} changed while it was copied.",
            todo="Wait until nothing writes to it, and ask again.",
        )
    line_ends.end()
    freezing.check_line_ends(file, line_ends)
    return FrozenFile(file.slot, file.name, size, sha256)


def _refuse_unless_regular(file: SlotFile, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    kinds = {
        stat.S_IFDIR: "a directory",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    raise Refused(
        "freezing.regular-files",
        "NOT_A_REGULAR_FILE",
        because=f"{show_value(file.path)} is {kinds.get(stat.S_IFMT(mode), 'no regular file')}.",
        todo="Hand over a file; pack a directory into one first.",
    )


def _not_readable(file: SlotFile, failed: BaseException | None) -> Refused:
    return Refused(
        "freezing.readable-files",
        "FILE_NOT_READABLE",
        because=f"{show_value(file.path)} (files.{file.slot}): "
        f"{getattr(failed, 'strerror', None) or failed}.",
        todo="Check the path and who may read it.",
    )


def _outside(file: SlotFile, found: str) -> Refused:
    return Refused(
        "freezing.inside-roots",
        "FILE_OUTSIDE_ROOTS",
        because=f"{show_value(file.path)} (files.{file.slot}) {found}.",
        todo="Name the file itself below a root, or add its directory to the roots.",
    )


def _is_below(path: str, root: str) -> bool:
    return path.startswith(root.rstrip("/") + "/")


def _identity(facts: os.stat_result) -> tuple[int, ...]:
    return (facts.st_ino, facts.st_dev, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)


def _let_the_clock_tick(facts: os.stat_result) -> None:
    """Wait out the tick in which a file was last written.

    Kernels before 6.13 stamp files by a clock that ticks every few milliseconds. A file written
    twice within one tick shows one time, and the second write would go unseen.
    """
    written = max(facts.st_mtime_ns, facts.st_ctime_ns)
    for _ in range(20):
        if time.clock_gettime_ns(_CLOCK_REALTIME_COARSE) != written:
            return
        time.sleep(0.001)


def _stepper(total: int, progress: Progress | None) -> Callable[[int], None]:
    done = 0

    def step(count: int) -> None:
        nonlocal done
        trio.from_thread.check_cancelled()
        done += count
        if progress is not None:
            progress(done, total)

    return step
