"""Opening: every guard is on without an option, and what is not valid opens nothing."""

import os
import stat
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

import executor
from executor import Config, Receipt, Refused, open_blocking, open_executor
from tests.embedding.programs import options_of, results_on_record
from tests.house import House, recorded


@asynccontextmanager
async def blocking(*args: Any, **options: Any) -> AsyncIterator[Any]:
    """The blocking form, in the shape of the other one."""
    with open_blocking(*args, **options) as opened:
        yield opened


@pytest.fixture(params=[open_executor, blocking], ids=["trio", "blocking"])
def form(request: pytest.FixtureRequest) -> Any:
    """Both ways to open an executor."""
    return request.param


async def run(opened: Any, request: Any) -> Receipt:
    if isinstance(opened, executor.Executor):
        return await opened.run(request)
    receipt: Receipt = await trio.to_thread.run_sync(opened.run, request)
    return receipt


async def test_nothing_but_a_state_directory_is_needed(form: Any, tmp_path: Path) -> None:
    """A guard that must be wired is a guard that is off."""
    state = tmp_path / "deep" / "state"
    async with form(state=state) as opened:
        with pytest.raises(Refused):
            await run(opened, executor.Request(tool="a.b", asked_by=executor.AskedBy(role="r")))

    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert len(list((state / "receipts").iterdir())) == 1


# rule: admission.closed-config
@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("executor: config/1\nroots: []\nrots: []\n", "executor.yaml:3:1: rots: unknown key"),
        ("degraded: yes\n", "executor.yaml:1:1: degraded:"),
        ("retention: 5\n", "executor.yaml:1:1: retention:"),
        (
            "secrets: {a.b: {c: {fil: x}}}\n",
            "executor.yaml:1:21: secrets['a.b'].c.fil:",
        ),
        ("state: a\nstate: b\n", "executor.yaml:2:1:"),
        ("- a\n", "executor.yaml:1:1:"),
        ("executor: config/2\n", "executor.yaml:1:1: executor:"),
    ],
)
async def test_a_configuration_with_a_slip_opens_nothing_and_tells_its_line(
    form: Any, tmp_path: Path, text: str, place: str
) -> None:
    """A misspelt key that is ignored is a guard that somebody believes in."""
    config = tmp_path / "executor.yaml"
    config.write_text("executor: config/1\nstate: state\n")
    async with form(config):
        assert (tmp_path / "state").exists()

    config.write_text(text)
    with pytest.raises(Refused) as no:
        async with form(config, state=tmp_path / "other"):
            pytest.fail("it was opened")

    assert (no.value.rule, no.value.code) == ("admission.closed-config", "INVALID_CONFIG")
    assert place in str(no.value)
    assert not (tmp_path / "other").exists()
    assert not any(thread.name == "executor" for thread in threading.enumerate())


# rule: admission.closed-config
@pytest.mark.parametrize(
    ("secrets", "found"),
    [
        (
            "mail.send: {login: {}}",
            "executor.yaml:1:23: secrets['mail.send'].login:",
        ),
        ("mail.send: {login: {file: a, environment: B}}", "not exactly one source"),
        ("mail.send: {logn: {file: a}}", "Did you mean 'login'?"),
        ("mail.sent: {login: {file: a}}", "Did you mean 'mail.send'?"),
    ],
)
async def test_a_secret_that_nobody_would_get_is_told_at_the_start(
    form: Any, tmp_path: Path, secrets: str, found: str
) -> None:
    """An optional secret under a misspelt name would quietly be left out."""
    path = tmp_path / "executor.yaml"
    path.write_text("secrets: {mail.send: {login: {file: a}}}\n")
    async with form(path, state=tmp_path / "state"):
        pass

    path.write_text(f"secrets: {{{secrets}}}\n")
    with pytest.raises(Refused) as no:
        async with form(path, state=tmp_path / "state"):
            pytest.fail("it was opened")

    assert no.value.code == "INVALID_CONFIG"
    assert found in str(no.value)


# rule: admission.closed-config
async def test_a_configuration_that_cannot_be_read_opens_nothing(form: Any, tmp_path: Path) -> None:
    """Going on with the defaults would drop every deny that was written down."""
    for path in (tmp_path / "missing.yaml", tmp_path):
        with pytest.raises(Refused) as no:
            async with form(path, state=tmp_path / "state"):
                pytest.fail("it was opened")

        assert no.value.code == "INVALID_CONFIG"
        assert str(path) in str(no.value)


# rule: admission.closed-manifest
async def test_a_manifest_with_a_slip_opens_nothing_and_tells_file_and_line(
    form: Any, house: House
) -> None:
    """All files' slips at once."""
    options = options_of(house)
    async with form(**options):
        pass

    (house.manifests / "one.yaml").write_text("executor: manifest/1\ntol: a.b\n")
    (house.manifests / "two.yaml").write_text("executor: manifest/9\n")
    with pytest.raises(Refused) as no:
        async with form(**options):
            pytest.fail("it was opened")

    assert (no.value.rule, no.value.code) == ("admission.closed-manifest", "INVALID_MANIFEST")
    assert "one.yaml:2:1: tol: unknown key" in str(no.value)
    assert "two.yaml:1:1: executor: 'manifest/9'" in str(no.value)


# rule: admission.closed-manifest
async def test_a_tool_that_two_files_declare_opens_nothing(form: Any, house: House) -> None:
    """Which of the two was meant is not for the order of names to say."""
    options = options_of(house)
    (house.manifests / "again.yaml").write_bytes((house.manifests / "test.fake.yaml").read_bytes())

    with pytest.raises(Refused) as no:
        async with form(**options):
            pytest.fail("it was opened")

    assert no.value.code == "INVALID_MANIFEST"
    assert "'test.fake' is declared in" in str(no.value)


# rule: admission.closed-manifest
async def test_a_path_without_a_manifest_opens_nothing(form: Any, house: House) -> None:
    """A directory that was moved would silently take its tools along."""
    with pytest.raises(Refused) as no:
        async with form(**options_of(house, manifests=[house.home / "gone"])):
            pytest.fail("it was opened")

    assert no.value.code == "INVALID_MANIFEST"
    assert str(house.home / "gone") in str(no.value)


@pytest.mark.parametrize("fault", ["open to others", "a file", "receipts are a file"])
async def test_a_state_that_cannot_be_kept_private_opens_nothing(
    form: Any, house: House, fault: str
) -> None:
    """Who can write there can write receipts."""
    options = options_of(house)
    async with form(**options):
        pass
    if fault == "open to others":
        house.state.chmod(0o750)
    elif fault == "a file":
        options["state"] = str(house.file("plain"))
    else:
        (house.state / "receipts").rmdir()
        (house.state / "receipts").touch()

    with pytest.raises(Refused) as no:
        async with form(**options):
            pytest.fail("it was opened")

    assert (no.value.rule, no.value.code) == ("freezing.private-store", "STORE_UNAVAILABLE")


# rule: admission.closed-config
async def test_relative_paths_start_from_the_directory_of_the_configuration(
    form: Any, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same file must mean the same from cron, a shell and a service."""
    house.manifest(files={"body": {}}, secrets={"token": {"env": "TOKEN"}})
    house.file("body.txt")
    token = house.home / "token"
    token.write_text("a-secret-of-ours\n")
    token.chmod(0o600)
    trusted = ", ".join(["bin", *house.interpreter_directories()])
    config = house.home / "executor.yaml"
    config.write_text(
        "executor: config/1\nstate: state\nmanifests: [manifests]\nroots: [root]\n"
        f"trusted: [{trusted}]\ndegraded: true\n"
        "secrets: {test.fake: {token: {file: token}}}\n"
    )
    elsewhere = house.home / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)

    async with form(os.path.relpath(config)) as opened:
        body = str(house.root / "body.txt")
        receipt = await run(opened, house.request({"record": "stdout"}, files={"body": body}))

    assert receipt.status == "delivered"
    assert recorded(receipt)["env"]["TOKEN"] == "[secret]"
    assert results_on_record(house) == ["delivered"]
    assert list(elsewhere.iterdir()) == []


async def test_arguments_add_to_a_configuration_or_go_before_it(house: House) -> None:
    """A program can narrow or widen what the operator's file says, in the open."""
    options = options_of(house)
    config = Config(
        state=str(house.home / "unused"),
        manifests=tuple(options["manifests"]),
        trusted=tuple(options["trusted"]),
        degraded=True,
    )
    async with open_executor(config, state=house.state, roots=options["roots"]) as opened:
        assert opened.state == house.state
        assert "test.fake" in opened.tools
        assert "mail.send" in opened.tools
        assert (await opened.run(house.request())).status == "delivered"
    assert not (house.home / "unused").exists()

    async with open_executor(Config(packs=False), state=house.state) as opened:
        assert opened.tools == {}


async def test_degraded_mode_can_be_switched_off_for_one_program(house: House) -> None:
    """What accepts less isolation in a file must not be stuck on."""
    house.install("bwrap", "raise SystemExit(1)")
    options = options_of(house)
    del options["degraded"]
    async with open_executor(Config(degraded=True), **options) as opened:
        assert (await opened.run(house.request())).status == "delivered"

    async with open_executor(Config(degraded=True), degraded=False, **options) as opened:
        with pytest.raises(Refused) as no:
            await opened.run(house.request())

    assert no.value.code == "ISOLATION_UNAVAILABLE"


async def test_two_executors_share_one_state_directory(house: House) -> None:
    """A service and a person at a shell: neither sweeps the other's running work away."""
    house.install("bwrap", "raise SystemExit(1)")  # with staging areas on the disk
    out = house.root / "out"
    out.mkdir()
    house.install(
        "fake",
        "import os, time\n"
        f"open({str(out / 'started')!r}, 'w').close()\n"
        f"while not os.path.exists({str(out / 'go')!r}): time.sleep(0.005)\n"
        "print('id=' + open('body.txt').read())\n",
    )
    house.manifest(files={"body": {}})
    body = house.file("body.txt", "m-7")
    request = house.request(files={"body": str(body)})
    options = options_of(house)
    first: list[Receipt] = []

    async with open_executor(**options) as one, trio.open_nursery() as nursery:

        async def run_first() -> None:
            first.append(await one.run(request))

        nursery.start_soon(run_first)
        while not (out / "started").exists():
            await trio.sleep(0.005)
        async with open_executor(**options) as other:
            (out / "go").touch()
            second = await other.run(house.request(files={"body": str(body)}))

    assert [(receipt.status, receipt.result_id) for receipt in [*first, second]] == [
        ("delivered", "m-7")
    ] * 2
    assert results_on_record(house) == ["delivered"] * 2
    assert house.leftovers() == []


async def test_an_executor_does_many_things_at_once(house: House) -> None:
    """Twenty tasks in one nursery, each with its own receipt."""
    results: dict[int, str | None] = {}
    async with open_executor(**options_of(house)) as opened, trio.open_nursery() as nursery:

        async def one(number: int) -> None:
            receipt = await opened.run(house.request({"stdout": f"id=m-{number}"}))
            results[number] = receipt.result_id

        for number in range(20):
            nursery.start_soon(one, number)

    assert results == {number: f"m-{number}" for number in range(20)}
    assert sys.exc_info() == (None, None, None)
