"""`import executor` costs nearly nothing: hooks are started for every keystroke of an agent."""

import json
import subprocess
import sys

import pytest

import executor

HEAVY = {"trio", "jsonschema", "yaml", "rich", "click", "psutil", "msgspec", "rfc8785", "asyncio"}


def loaded_after(statement: str) -> set[str]:
    program = f"{statement}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


def test_import_executor_loads_nothing_heavy() -> None:
    """Each of them would be paid for by who only wants to say no."""
    assert "executor" in loaded_after("import executor")

    assert loaded_after("import executor") & HEAVY == set()


def test_a_refusal_can_be_named_without_the_rest() -> None:
    """`except Refused` is no reason to load an event loop; what runs something is (a control)."""
    assert loaded_after("from executor import Refused") & HEAVY == set()

    assert loaded_after("from executor import open_executor") >= {"trio", "msgspec"}


@pytest.mark.parametrize("name", executor.__all__)
def test_every_public_name_is_there(name: str) -> None:
    """What is listed can be had, and says whence it comes."""
    assert getattr(executor, name).__module__.startswith("executor.")


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    """As of any module: `hasattr` and misspellings behave."""
    assert not hasattr(executor, "open_exekutor")
