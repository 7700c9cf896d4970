"""Fixtures of the packs. Each runs the real command in the real sandbox."""

from pathlib import Path

import pytest

from tests.conftest import lacking
from tests.house import has
from tests.packs.servers import Certificate, make_certificate


@pytest.fixture(autouse=True)
def _sandbox(namespaced: None) -> None: ...


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """A certificate for localhost."""
    if not has("openssl"):
        lacking("openssl is not installed")
    directory: Path = tmp_path_factory.mktemp("certificate")
    return make_certificate(directory)


@pytest.fixture
def nmh() -> None:
    """The test needs the real nmh."""
    if not has("/usr/bin/mh/send"):
        lacking("nmh is not installed")
