"""Fixtures of the command line."""

import pytest

from tests.cli.call import Cli
from tests.house import House


@pytest.fixture
def cli(house: House) -> Cli:
    """The command line, in a house."""
    return Cli(house)
