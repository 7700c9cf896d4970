"""What holds at every level is tested at every level that can be had."""

from typing import Any

import pytest

from tests.house import House
from tests.spawning.runs import no_sandbox


@pytest.fixture(params=["namespaced", "bare"])
def options(request: pytest.FixtureRequest, house: House) -> dict[str, Any]:
    """The test runs at both levels; these options open the executor."""
    if request.param == "bare":
        return no_sandbox(house)
    request.getfixturevalue("namespaced")
    return {}
