"""An executor counts as gone when that is proven, and not before."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import msgspec
import pytest

from executor.attempt import Owner
from executor.effects import processes
from executor.effects.owners import Owners
from tests.conftest import lacking
from tests.ledger.programs.stand import line, program, until


@pytest.fixture
def owners(tmp_path: Path) -> Owners:
    """The owners of a state directory, as this process sees them."""
    return Owners(tmp_path)


def told(process: "subprocess.Popen[str]") -> Owner:
    return msgspec.json.decode(line(process), type=Owner)


def lock_of(directory: Path, owner: Owner) -> Path:
    return directory / "owners" / owner.id


# rule: ledger.owner-gone
def test_an_executor_is_gone_once_it_was_killed(owners: Owners, tmp_path: Path) -> None:
    """Nothing else says so: it had no time to leave word."""
    with program("owner", tmp_path) as process:
        owner = told(process)
        assert not owners.is_gone(owner)

        process.kill()
        process.wait()

        assert lock_of(tmp_path, owner).exists()
        assert owners.is_gone(owner)


# rule: ledger.owner-gone
def test_an_executor_that_ended_by_itself_is_gone(owners: Owners, tmp_path: Path) -> None:
    """It takes its lock with it, and leaves no file behind."""
    with program("owner", tmp_path) as process:
        owner = told(process)
        assert not owners.is_gone(owner)

        process.communicate("")

        assert not lock_of(tmp_path, owner).exists()
        assert owners.is_gone(owner)


# rule: ledger.owner-gone
def test_a_stopped_executor_is_not_gone(owners: Owners, tmp_path: Path) -> None:
    """It goes on when somebody lets it, and with it what it had started."""
    with program("owner", tmp_path) as process:
        owner = told(process)
        os.kill(process.pid, signal.SIGSTOP)
        until(lambda: processes.state(process.pid) == "T", "the stopped executor")

        assert not owners.is_gone(owner)

        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert owners.is_gone(owner)


# rule: ledger.owner-gone
@pytest.mark.parametrize("lock", ["free", "missing"])
def test_03_a_number_that_a_stranger_has_now_is_not_its_owner(
    owners: Owners, tmp_path: Path, lock: str
) -> None:
    """Numbers come round again; the stranger neither is the owner nor is touched."""
    with program("owner", tmp_path) as process:
        owner = told(process)
        assert not owners.is_gone(owner)
        process.kill()
        process.wait()
    if lock == "missing":
        lock_of(tmp_path, owner).unlink()

    with subprocess.Popen(["sleep", "1000"]) as stranger:
        try:
            assert processes.started(stranger.pid) != owner.started

            assert owners.is_gone(msgspec.structs.replace(owner, pid=stranger.pid))

            assert stranger.poll() is None
        finally:
            stranger.kill()


# rule: ledger.owner-gone
def test_an_executor_whose_lock_was_removed_is_not_gone_while_it_lives(
    owners: Owners, tmp_path: Path
) -> None:
    """Whoever cleans up files must not start a thing a second time."""
    with program("owner", tmp_path) as process:
        owner = told(process)
        lock_of(tmp_path, owner).unlink()
        assert not owners.is_gone(owner)

        process.kill()
        process.wait()

        assert owners.is_gone(owner)


# rule: ledger.owner-gone
def test_a_lock_that_was_copied_does_not_free_its_owner(owners: Owners, tmp_path: Path) -> None:
    """A copied state directory holds the name of the lock, and not the lock."""
    with program("owner", tmp_path) as process:
        owner = told(process)
        lock = lock_of(tmp_path, owner)
        lock.unlink()
        lock.touch()

        assert not owners.is_gone(owner)

        process.kill()
        process.wait()
        assert owners.is_gone(owner)


# rule: ledger.owner-gone
def test_an_executor_closed_in_a_living_process_is_gone_to_that_process(owners: Owners) -> None:
    """A service that opens one executor after the other would wait for itself."""
    with owners.registered() as first:
        assert not owners.is_gone(first)

    assert owners.is_gone(first)
    with owners.registered() as second:
        assert owners.is_gone(first)
        assert not owners.is_gone(second)


# rule: ledger.owner-gone
def test_an_executor_is_gone_though_a_fork_of_it_lives(owners: Owners, tmp_path: Path) -> None:
    """The child of a fork shares every lock, and would hold its parent's for ever."""
    with program("owner", tmp_path, "fork") as process:
        owner, child = told(process), int(line(process))
        until(lambda: processes.state(child) == "S", "the child at rest")
        try:
            assert not owners.is_gone(owner)

            process.kill()
            process.wait()

            assert processes.state(child) == "S"
            assert owners.is_gone(owner)
        finally:
            os.kill(child, signal.SIGKILL)


# rule: ledger.owner-gone
def test_the_child_of_a_fork_takes_nothing_from_its_parent(owners: Owners, tmp_path: Path) -> None:
    """What is open in the parent is not open in the child, and its end is not the child's."""
    with program("owner", tmp_path, "fork-that-ends") as process:
        owner = told(process)

        assert line(process) == "the child sees it as gone: False"
        assert not owners.is_gone(owner)
        assert lock_of(tmp_path, owner).exists()


@pytest.fixture
def apart() -> list[str]:
    """What runs a program in a PID namespace of its own."""
    words = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0 or not shutil.which("unshare") or subprocess.call([*words, "true"]):
        lacking("a PID namespace cannot be had")
    return words


# rule: ledger.owner-gone
def test_an_executor_in_another_pid_namespace_is_judged_by_its_lock(
    owners: Owners, tmp_path: Path, apart: list[str]
) -> None:
    """Its number means another process here, or none; a container must not look dead."""
    with program("owner", tmp_path, prefix=apart) as process:
        owner = told(process)
        assert owner.pid != process.pid
        assert not owners.is_gone(owner)

        process.kill()
        process.wait()

        until(lambda: owners.is_gone(owner), "the free lock")


# rule: ledger.owner-gone
def test_an_executor_in_another_pid_namespace_without_a_lock_is_never_proven_to_be_gone(
    owners: Owners, tmp_path: Path, apart: list[str]
) -> None:
    """Where nothing can be seen, nothing is proven; a person decides."""
    with program("owner", tmp_path, prefix=apart) as process:
        owner = told(process)
        lock_of(tmp_path, owner).unlink()

        assert not owners.is_gone(owner)

        process.kill()
        process.wait()
        assert not owners.is_gone(owner)


# rule: ledger.owner-gone
def test_a_lock_that_cannot_be_looked_at_is_not_free(owners: Owners, tmp_path: Path) -> None:
    """An error is no proof."""
    with program("owner", tmp_path) as process:
        owner = told(process)
        process.kill()
        process.wait()
    lock = lock_of(tmp_path, owner)
    assert owners.is_gone(owner)

    lock.unlink()
    lock.symlink_to(lock)  # open(2) fails, and not for want of a file

    assert not owners.is_gone(owner)


# rule: ledger.owner-gone
def test_the_files_of_those_that_are_gone_are_swept_and_no_others(
    owners: Owners, tmp_path: Path
) -> None:
    """They would gather for ever; a living one's lock is its life."""
    with program("owner", tmp_path) as dead, program("owner", tmp_path) as living:
        gone, alive = told(dead), told(living)
        dead.kill()
        dead.wait()
        with owners.registered() as mine:
            owners.remove(owners.left())

            left = {path.name for path in (tmp_path / "owners").iterdir()}
            assert left == {alive.id, mine.id}
        assert owners.is_gone(gone)
        assert not owners.is_gone(alive)


# rule: ledger.owner-gone
def test_a_sweep_that_comes_before_the_lock_is_made_up_for(
    owners: Owners, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between a file and its lock another's sweep sees a file that nobody holds."""
    import fcntl

    lock, swept = fcntl.flock, []

    def late(descriptor: int, how: int) -> None:
        if how == fcntl.LOCK_EX and not swept:
            swept.append(True)
            others = Owners(tmp_path)
            others.remove(others.left())
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)

    with owners.registered() as owner:
        assert swept
        assert lock_of(tmp_path, owner).exists()
        assert owners._lock(owner.id) == "held"
