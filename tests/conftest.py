"""Fixtures. What this machine lacks is said: a skip with its reason, a failure under CI=true."""

import os
import signal
from pathlib import Path

import pytest
import trio

from executor import open_executor
from tests.house import House, has

# A shell's background job ignores both, and so would everything that the tests start.
for number, answer in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, answer)


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A place to run an executor in."""
    return House(tmp_path / "house")


def lacking(reason: str) -> None:
    """Skip, or fail where nothing may be lacking."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def _namespaced(tmp_path_factory: pytest.TempPathFactory) -> str:
    async def ask() -> str:
        async with open_executor(state=tmp_path_factory.mktemp("probe") / "state") as executor:
            level = next(entry for entry in executor.levels if entry.level == "namespaced")
            return "" if level.works else level.why

    return trio.run(ask)


@pytest.fixture
def namespaced(_namespaced: str) -> None:
    """The test needs namespaced isolation."""
    if _namespaced:
        lacking(f"namespaced isolation is not to be had: {_namespaced}")


@pytest.fixture
def curl() -> None:
    """The test needs the real curl."""
    if not has("curl"):
        lacking("curl is not installed")


@pytest.fixture
def git() -> None:
    """The test needs the real git."""
    if not has("git"):
        lacking("git is not installed")


@pytest.fixture
def strace() -> None:
    """The test needs strace."""
    if not has("strace"):
        lacking("strace is not installed")
