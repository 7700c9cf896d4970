"""Secrets: from their source to the command that declares them, and nowhere else."""

import json
import os
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio

from executor import Receipt, Refused
from executor.config import Config
from executor.effects import secrets
from executor.effects.verifying import Verified
from executor.frozen import SecretUse
from executor.manifest import Secret, SecretSource
from tests.house import House, recorded
from tests.spawning.runs import descriptors, until, writable

VALUE = "hunter2-hunter2 é"


def place(house: House, source: str) -> dict[str, Any]:
    """Put the secret where a source of that kind reads it, and give the source."""
    if source == "environment":
        os.environ["HOUSE_TOKEN"] = VALUE
        return {"environment": "HOUSE_TOKEN"}
    file = house.file("token", VALUE + "\n")
    file.chmod(0o600)
    if source == "file":
        return {"file": str(file)}
    return {"command": ["/bin/cat", str(file)]}


@pytest.fixture(params=["environment", "file", "command"])
def source(request: pytest.FixtureRequest, house: House, monkeypatch: Any) -> dict[str, Any]:
    """One of the three kinds of source, with the secret in it."""
    monkeypatch.setenv("HOUSE_TOKEN", "")
    return place(house, request.param)


def everything_said(house: House, receipt: Receipt) -> str:
    """Give all that is told and recorded about a run, and what stands in the state directory."""
    said = [json.dumps([receipt.result(), receipt.statement()], ensure_ascii=False), repr(receipt)]
    for path in house.state.rglob("*"):
        if path.is_file():
            said.append(path.read_bytes().decode("utf-8", "replace"))
    return "\n".join(said)


# rule: spawning.secrets
async def test_secrets_reach_the_variable_that_declares_them_and_no_argument(
    house: House, options: dict[str, Any], source: dict[str, Any]
) -> None:
    """argv is readable by everyone on the machine."""
    house.manifest(secrets={"token": {"source": source, "env": "TOKEN", "text": "Bearer {secret}"}})
    plan = {
        "stdout": "start\n",
        "try": [{"exec": ["/bin/sh", "-c", 'printf %s "$TOKEN" | tr a-z b-za']}],
        "record": "stdout",
        "stderr": VALUE,
    }

    receipt = await house.run(plan, **options)

    assert receipt.status == "delivered"
    assert receipt.finished is not None
    assert receipt.finished.stderr.text == "[secret]"
    record = json.loads(receipt.finished.stdout.text.splitlines()[0])
    assert record["env"]["TOKEN"] == "Bearer [secret]"
    assert record["try"][0]["stdout"] == "Bfbsfs ivoufs2-ivoufs2 é"
    assert VALUE not in json.dumps(record, ensure_ascii=False)
    assert receipt.statement()["predicate"]["action"]["secrets"] == ["token"]


# rule: spawning.secrets
async def test_secrets_reach_the_file_that_declares_them(
    house: House, options: dict[str, Any], source: dict[str, Any]
) -> None:
    """A file beside the working directory, for the command alone, and gone with it."""
    house.manifest(
        secrets={"token": {"source": source, "file": True, "text": "key={secret}\n"}},
        argv=[["--plan-json", "{plan}", "--", "{secrets.token}"]],
    )
    path = "../secrets/token"
    plan = {
        "record": "stdout",
        "try": [
            {"exec": ["/bin/sh", "-c", f"tr a-z b-za < {path}; stat -c %a {path}"]},
        ],
    }

    receipt = await house.run(plan, **options)

    record = recorded(receipt)
    assert record["argv"] == ["--", "../secrets/token"]
    assert record["try"][0]["stdout"] == "lfz=ivoufs2-ivoufs2 é\n400\n"
    assert record["files"] == []
    assert VALUE not in everything_said(house, receipt)
    assert house.leftovers() == []


# rule: spawning.secrets
async def test_secrets_of_one_tool_are_not_those_of_another(
    house: House, options: dict[str, Any], monkeypatch: Any
) -> None:
    """The command that declares it gets it, and the next one does not."""
    monkeypatch.setenv("HOUSE_TOKEN", VALUE)
    declared = {"token": {"source": {"environment": "HOUSE_TOKEN"}, "env": "TOKEN"}}
    house.manifest(secrets=declared)
    house.manifest(tool="test.other")

    async with house.open(**options) as executor:
        mine = recorded(await executor.run(house.request({"record": "stdout"})))
        others = recorded(
            await executor.run(house.request({"record": "stdout"}, tool="test.other"))
        )

    assert mine["env"]["TOKEN"] == "[secret]"
    assert "TOKEN" not in others["env"]
    assert "HOUSE_TOKEN" not in mine["env"]


# rule: spawning.secrets
async def test_secrets_cut_at_the_limit_are_masked_all_the_same(
    house: House, namespaced: None, monkeypatch: Any
) -> None:
    """The limit of the output must not be the way to half a password."""
    monkeypatch.setenv("HOUSE_TOKEN", VALUE)
    house.manifest(
        secrets={"token": {"source": {"environment": "HOUSE_TOKEN"}, "env": "TOKEN"}},
        limits={"output": "10 B"},
        command="sayer",
    )
    house.install(
        "sayer",
        "import os\ntoken = os.environb[b'TOKEN']\n"
        "os.write(1, b'xx' + token)\nos.write(2, 3 * token)\n",
    )

    receipt = await house.run({})

    assert receipt.finished is not None
    assert receipt.finished.stdout.kept == b"xx[secret]"
    assert receipt.finished.stderr.kept == b"[secret]"
    assert receipt.finished.stdout.truncated
    assert "hunter" not in everything_said(house, receipt)


# rule: spawning.secrets
async def test_secrets_said_as_the_result_are_masked_there(
    house: House, namespaced: None, monkeypatch: Any
) -> None:
    """What is taken from the output is taken after the mask."""
    monkeypatch.setenv("HOUSE_TOKEN", VALUE)
    house.manifest(
        secrets={"token": {"source": {"environment": "HOUSE_TOKEN"}, "env": "TOKEN"}},
    )

    receipt = await house.run({"stdout": f"id={VALUE}\n"})

    assert receipt.result_id == "[secret]"


# rule: spawning.secrets
async def test_secrets_do_not_stand_in_the_words_of_the_sandbox(
    house: House, namespaced: None, monkeypatch: Any
) -> None:
    """bwrap has words too, and they are as public as the command's."""
    monkeypatch.setenv("HOUSE_TOKEN", VALUE)
    source = {"environment": "HOUSE_TOKEN"}
    out = writable(
        house,
        secrets={
            "token": {"source": source, "env": "TOKEN"},
            "key": {"source": dict(source), "file": True},
        },
        argv=[
            ["--plan-json", "{plan}", "--", "{secrets.key}"],
            {"each": "words", "argv": ["{item}"]},
        ],
    )
    seen: list[str] = []
    async with house.open() as executor, trio.open_nursery() as nursery:
        plan = {"sent": str(out / "sent"), "then": "hang"}
        nursery.start_soon(executor.run, house.request(plan))
        await until((out / "sent").exists)

        for child in psutil.Process().children(recursive=True):
            seen += child.cmdline()
        nursery.cancel_scope.cancel()

    assert any("--plan-json" in word for word in seen)
    assert not any("hunter2" in word for word in seen)


# rule: spawning.secrets
@pytest.mark.parametrize("mode", [0o644, 0o604, 0o620, 0o602, 0o666])
async def test_secrets_in_a_file_open_to_others_are_refused(house: House, mode: int) -> None:
    """It is no secret any more, and whoever wrote it should learn that."""
    file = house.file("token", VALUE)
    for good in (0o600, 0o400, 0o640):
        file.chmod(good)
        assert await _read({"file": str(file)}) == VALUE

    file.chmod(mode)

    with pytest.raises(Refused) as no:
        await _read({"file": str(file)})
    assert no.value.code == "SECRET_UNAVAILABLE"
    assert "chmod 600" in str(no.value)


async def _read(source: dict[str, Any]) -> str:
    """Read a secret from its source."""
    given = SecretSource(**{k: tuple(v) if isinstance(v, list) else v for k, v in source.items()})
    verified = Verified(None)  # type: ignore[arg-type]
    use = SecretUse("token", given, Secret(env="TOKEN"))
    await secrets.add(verified, [use], "test.fake")
    return verified.secret_environment["TOKEN"]


# rule: spawning.secrets
@pytest.mark.parametrize(
    ("source", "found"),
    [
        ({"environment": "NOT_SET_ANYWHERE"}, "is not set"),
        ({"file": "/nowhere/at/all"}, "No such file"),
        ({"file": "/dev/null"}, "no regular file"),
        ({"file": "/etc"}, "no regular file"),
        ({"command": ["/nowhere/at/all"]}, "No such file"),
        ({"command": ["/bin/false"]}, "exited with 1"),
        ({"command": ["/bin/echo", "abc"]}, "shorter than 4"),
        ({"command": ["/usr/bin/head", "-c", "70000", "/dev/zero"]}, "longer than 65536"),
        ({"command": ["/usr/bin/printf", r"ab\0cdef"]}, "NUL"),
    ],
)
async def test_secrets_that_cannot_be_had_are_named_in_the_refusal(
    source: dict[str, Any], found: str
) -> None:
    """Without it the command would fail in its own way, later and less clearly."""
    assert await _read({"command": ["/bin/echo", "abcd"]}) == "abcd"

    with pytest.raises(Refused) as no:
        await _read(source)

    assert (no.value.rule, no.value.code) == ("spawning.secrets", "SECRET_UNAVAILABLE")
    assert found in no.value.because
    assert "'token' of test.fake" in no.value.because


# rule: spawning.secrets
async def test_secrets_that_are_missing_refuse_before_anything_runs(
    house: House, options: dict[str, Any]
) -> None:
    """Nothing of the run is left, and the refusal is on record."""
    house.manifest(
        secrets={"token": {"source": {"environment": "NOT_SET_ANYWHERE"}, "env": "TOKEN"}}
    )
    async with house.open(**options) as executor:
        before = descriptors()

        with pytest.raises(Refused) as no:
            await executor.run(house.request({}))

        assert descriptors() == before
    assert no.value.code == "SECRET_UNAVAILABLE"
    assert no.value.receipt is not None
    assert no.value.receipt.status == "refused"
    assert house.leftovers() == []


# rule: spawning.secrets
async def test_secrets_without_a_source_refuse_unless_they_are_optional(
    house: House, namespaced: None, monkeypatch: Any
) -> None:
    """What the configuration names counts before what the manifest names."""
    monkeypatch.setenv("HOUSE_TOKEN", VALUE)
    open_secret = {"token": {"env": "TOKEN"}}
    configured = Config(secrets={"test.fake": {"token": SecretSource(environment="HOUSE_TOKEN")}})
    house.manifest(secrets=open_secret)
    with pytest.raises(Refused) as no:
        await house.run({})

    given = recorded(await house.run({"record": "stdout"}, config=configured))
    house.manifest(secrets={"token": {"env": "TOKEN", "required": False}})
    left_out = recorded(await house.run({"record": "stdout"}))
    house.manifest(
        secrets={"token": {"env": "TOKEN", "source": {"environment": "NOT_SET_ANYWHERE"}}}
    )
    overruled = recorded(await house.run({"record": "stdout"}, config=configured))

    assert no.value.code == "SECRET_UNAVAILABLE"
    assert given["env"]["TOKEN"] == overruled["env"]["TOKEN"] == "[secret]"
    assert "TOKEN" not in left_out["env"]


# rule: spawning.secrets
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
async def test_secrets_lose_one_line_break_and_no_more(tmp_path: Path, end: str) -> None:
    """Editors end a file with one; a password may end with a space."""
    file = tmp_path / "token"
    file.write_text(f"two\nlines {end}", newline="")
    file.chmod(0o600)

    assert await _read({"file": str(file)}) == "two\nlines "


# rule: spawning.secrets
async def test_secrets_told_by_a_command_that_leaves_a_daemon_are_not_waited_for() -> None:
    """Password managers start agents, and agents keep what they were given open."""
    command = ["/bin/sh", "-c", "sleep 301.25 & echo hunter2"]

    value = await _read({"command": command})

    assert value == "hunter2"
    await until(lambda: not _sleeping("301.25"))


# rule: spawning.secrets
async def test_secrets_told_by_a_command_that_hangs_are_refused(monkeypatch: Any) -> None:
    """A password manager that waits for a person is no source for an executor."""
    monkeypatch.setattr(secrets, "COMMAND_DEADLINE_S", 0.2)
    before = descriptors()

    with pytest.raises(Refused) as no:
        await _read({"command": ["/bin/sh", "-c", "trap '' TERM; sleep 302.25; echo late"]})

    assert "gave no answer" in no.value.because
    await until(lambda: not _sleeping("302.25"))
    after = descriptors()
    assert after.items() <= before.items()


# rule: spawning.secrets
async def test_secrets_being_read_when_the_caller_gives_up_are_undelivered(
    house: House, namespaced: None
) -> None:
    """Nothing ran yet, and the record says so."""
    reached = house.home / "reached"
    house.manifest(
        secrets={
            "token": {
                "env": "TOKEN",
                "source": {"command": ["/bin/sh", "-c", f"touch {reached}; sleep 303.25"]},
            }
        }
    )
    told: list[Receipt] = []
    async with house.open() as executor, trio.open_nursery() as nursery:
        before = descriptors()
        scope = trio.CancelScope()

        async def run() -> None:
            with scope:
                await executor.run(house.request({}), tell=told.append)

        nursery.start_soon(run)
        await until(reached.exists)
        scope.cancel()
    assert scope.cancelled_caught
    assert [(one.status, one.code) for one in told] == [("undelivered", "CANCELLED")]
    await until(lambda: not _sleeping("303.25"))
    after = descriptors()
    assert after.items() <= before.items()


def _sleeping(seconds: str) -> bool:
    """Say whether a sleep of so long is alive."""
    return any(
        seconds in (process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])
    )
