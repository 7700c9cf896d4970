"""The environment is built from nothing: what is not declared is not there."""

import json
from typing import Any

from executor.rules import spawning
from tests.house import House, recorded
from tests.spawning.runs import no_sandbox, result, start_executor

BASE = {
    "HOME": "{staging}/home",
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "PWD": "{staging}/work",
    "TMPDIR": "{staging}/tmp",
}


# rule: spawning.minimal-env
def test_minimal_env_is_the_declared_names_and_five_more() -> None:
    """Whatever is in it beyond that came from somewhere that nobody looked at."""
    assert spawning.environment({}) == BASE

    assert spawning.environment({"LANG": "de_DE.UTF-8", "A": "1"}) == BASE | {
        "LANG": "de_DE.UTF-8",
        "A": "1",
    }


# rule: spawning.minimal-env
def test_minimal_env_names_the_staging_area_only_where_the_executor_wrote_it() -> None:
    """A caller's text that looks like our placeholder is plain data."""
    declared = spawning.environment({"A": "{staging}/home", "LANG": "{staging}/work"})

    placed = spawning.place(declared, "/s")

    assert placed == {
        "A": "{staging}/home",
        "HOME": "/s/home",
        "LANG": "{staging}/work",
        "PATH": BASE["PATH"],
        "PWD": "/s/work",
        "TMPDIR": "/s/tmp",
    }


# rule: spawning.minimal-env
async def test_minimal_env_reaches_the_command_and_nothing_of_the_parent(
    house: House, options: dict[str, Any], monkeypatch: Any
) -> None:
    """A service's environment holds the service's keys."""
    monkeypatch.setenv("SUPMARK", "topsecret")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere")
    house.manifest(env={"GREETING": "hello {{staging}}"})

    seen = recorded(await house.run({"record": "stdout"}, **options))

    staging = seen["env"]["HOME"].removesuffix("/home")
    assert seen["unseen"] == {}
    assert seen["cwd"] == f"{staging}/work"
    assert seen["env"] == {
        "GREETING": "hello {staging}",
        "HOME": f"{staging}/home",
        "LANG": "C.UTF-8",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PWD": f"{staging}/work",
        "TMPDIR": f"{staging}/tmp",
    }
    assert len(seen["env_list"]) == len(seen["env"])


# rule: spawning.minimal-env
async def test_minimal_env_of_a_parent_is_found_in_no_process_that_a_sandbox_shows(
    house: House, namespaced: None
) -> None:
    """A supervisor's keys can be read in /proc by whatever shares its processes."""
    house.manifest()

    told, _ = await result(start_executor(house, {"record": "stdout", "environs": "full"}))

    seen = json.loads(told["output"]["stdout"]["text"])
    assert told["status"] == "delivered"
    assert seen["environs"] != {}
    assert "topsecret" not in json.dumps(seen)


# rule: spawning.minimal-env
async def test_minimal_env_without_a_sandbox_says_what_it_cannot_promise(house: House) -> None:
    """The command shares its user with the executor: that cannot be helped, only told."""
    house.manifest()

    told, statement = await result(start_executor(house, {"record": "stdout"}, **no_sandbox(house)))

    seen = json.loads(told["output"]["stdout"]["text"])
    assert "SUPMARK" not in seen["env"]
    assert told["isolation"]["level"] == "bare"
    assert any("processes and secrets too" in entry for entry in told["isolation"]["missing"])
    assert told["isolation"]["missing"] == statement["predicate"]["action"]["isolation"]["missing"]
