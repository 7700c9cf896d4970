"""The command gets 0, 1 and 2, a stdin that was declared, and no terminal."""

import os
import pty
from typing import Any

from tests.house import House, recorded


# rule: spawning.no-fds
async def test_no_fds_beyond_three_even_when_the_executor_has_open_ones(
    house: House, options: dict[str, Any]
) -> None:
    """An inherited descriptor is an open door that no list of paths shows."""
    secret = os.open(house.file("secret"), os.O_RDONLY)
    os.set_inheritable(secret, True)
    try:
        house.manifest(files={"paper": {}}, secrets=_SECRET, stage={"a": "b"})
        async with house.open(**options) as executor:
            seen = recorded(
                await executor.run(
                    house.request({"record": "stdout"}, files={"paper": str(house.file("paper"))})
                )
            )
    finally:
        os.close(secret)

    assert seen["unseen"] == {}
    assert sorted(seen["fds"]) == ["0", "1", "2"]


_SECRET = {"token": {"source": {"environment": "PATH"}, "file": True}}


# rule: spawning.no-fds
async def test_no_fds_and_no_stdin_unless_declared(house: House, options: dict[str, Any]) -> None:
    """A command that asks would wait for ever, or read what was meant for the executor."""
    house.manifest()

    seen = recorded(await house.run({"record": "stdout"}, **options))

    assert seen["stdin"] == ""
    assert seen["stdin_at_eof"] is True
    assert seen["fds"]["0"] == "/dev/null"


# rule: spawning.no-fds
async def test_no_fds_but_a_stdin_that_is_declared_as_text(
    house: House, options: dict[str, Any]
) -> None:
    """The twin: what is declared arrives, to the byte and to its end."""
    house.manifest(stdin={"text": "dear {words0}\n"}, parameters=_WITH_NAME, required=["words0"])

    async with house.open(**options) as executor:
        request = house.request(parameters={"plan": '{"record": "stdout"}', "words0": "Ana é\\n"})
        seen = recorded(await executor.run(request))

    assert seen["stdin"] == "dear Ana é\\n\n"
    assert seen["stdin_at_eof"] is True


_WITH_NAME = {
    "plan": {"type": "string", "default": "{}"},
    "words": {"type": "array", "items": {"type": "string"}, "default": []},
    "words0": {"type": "string"},
}


# rule: spawning.no-fds
async def test_no_fds_but_a_stdin_that_is_declared_as_a_file(
    house: House, options: dict[str, Any]
) -> None:
    """The frozen bytes are read, and read from their start, however often."""
    house.manifest(files={"paper": {}}, stdin={"file": "paper"})
    content = b"\xff\0" * 50_000

    async with house.open(**options) as executor:
        paper = {"paper": str(house.file("paper", content))}
        first = recorded(await executor.run(house.request({"record": "stdout"}, files=paper)))
        second = recorded(await executor.run(house.request({"record": "stdout"}, files=paper)))

    assert first["stdin_bytes"] == second["stdin_bytes"] == len(content)
    assert first["stdin_base64"] == second["stdin_base64"]
    assert first["stdin_at_eof"] is True
    assert first["files"][0]["sha256"] == second["files"][0]["sha256"]


# rule: spawning.no-fds
async def test_no_fds_and_no_terminal_of_the_executor(
    house: House, options: dict[str, Any]
) -> None:
    """A command that can reach the terminal can type into it."""
    house.manifest()
    near, far = pty.openpty()
    try:
        seen = recorded(
            await house.run({"record": "stdout", "try": [{"write": "/dev/tty"}]}, **options)
        )
    finally:
        os.close(near)
        os.close(far)

    assert seen["tty"] is None
    assert seen["sid"] != os.getsid(0)
    assert seen["try"][0]["errno"] == "ENXIO"
