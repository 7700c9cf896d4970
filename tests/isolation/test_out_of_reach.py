"""Out of reach: what decides, what is secret, and what the sandbox itself is made of."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from executor import Config, Refused
from executor.effects import processes
from executor.effects.sandbox.notes import Notes
from executor.frozen import Asked, Endpoint, HostPath, SecretUse
from executor.manifest import Secret, SecretSource
from executor.rules.isolation import Places, check_paths
from executor.rules.spawning import check_secret_hosts
from tests.freezing.shelf import TOP
from tests.house import House

PLACES = Places(("/work", "/staging", "/tmp"), home="/home/ana", state="/var/lib/executor")


def asked(*, read: tuple[str, ...] = (), write: tuple[str, ...] = (), speaks: str = "") -> Asked:
    """Give an action that reaches for some paths, or speaks to a host."""
    return Asked(
        tool="a.b",
        manifest_sha256="",
        parameters={},
        files=(),
        argv=(),
        env={},
        stdin=None,
        stage={},
        account="a",
        targets=(),
        network=(Endpoint(speaks, 25),) if speaks else (),
        read=tuple(HostPath(path, from_request=False) for path in read),
        write=tuple(HostPath(path, from_request=False) for path in write),
    )


# rule: isolation.paths
@pytest.mark.parametrize("path", ["/staging", "/staging/work", "/staging/secrets/token"])
def test_paths_over_the_staging_area_are_refused(path: str) -> None:
    """What lies there would hide the verified files from the command."""
    check_paths(asked(write=("/work/staging",)), PLACES)

    for reach in (asked(read=(path,)), asked(write=(path,))):
        with pytest.raises(Refused) as no:
            check_paths(reach, PLACES)
        assert no.value.code == "PATH_NOT_ALLOWED"


# rule: isolation.paths
@pytest.mark.parametrize(
    ("read", "write"),
    [
        (("/work/a", "/work/a/b"), ()),
        (("/work/a",), ("/work/a/b",)),
        (("/work/a/b",), ("/work/a",)),
        ((), ("/work/a", "/work/a/b/c")),
    ],
)
def test_paths_within_one_another_are_refused(
    read: tuple[str, ...], write: tuple[str, ...]
) -> None:
    """A mount inside a tree that somebody can change is made wherever a link leads."""
    check_paths(asked(read=("/work/a", "/work/ab"), write=("/work/c",)), PLACES)

    with pytest.raises(Refused) as no:
        check_paths(asked(read=read, write=write), PLACES)
    assert "lies within" in no.value.because


# rule: isolation.paths
async def test_paths_of_manifests_and_commands_cannot_be_written(house: House) -> None:
    """Who can write a manifest gives itself a tool."""
    house.manifest()
    source = str(house.file("evil.yaml"))
    notes = house.home / "notes"
    notes.mkdir()
    async with house.open(roots=[house.home]) as executor:

        def copy_to(directory: Path) -> dict[str, object]:
            parameters = {"directory": str(directory), "name": "evil.yaml"}
            return {
                "tool": "file.copy",
                "parameters": parameters,
                "files": {"source": source},
            }

        allowed = await executor.run(house.request(**copy_to(notes)))
        for closed in (house.manifests, house.bin, house.state, house.home):
            with pytest.raises(Refused) as no:
                await executor.run(house.request(**copy_to(closed)))
            assert no.value.code == "PATH_NOT_ALLOWED"

    assert allowed.status == "delivered"


# rule: spawning.secrets
async def test_secrets_own_files_are_not_for_sending(house: House) -> None:
    """An agent that can name the file would mail the password."""
    secret = house.file("smtp-login", "ana:hunter2hunter2")
    secret.chmod(0o600)
    house.manifest(files={"doc": {}}, secrets={"login": {"env": "LOGIN", "required": False}})
    doc = {"doc": str(secret)}
    async with house.open() as executor:
        assert (await executor.run(house.request(files=doc))).status == "delivered"

    config = Config(secrets={"test.fake": {"login": SecretSource(file=str(secret))}})
    async with house.open(config=config) as executor:
        with pytest.raises(Refused) as no:
            await executor.run(house.request(files=doc))

    assert no.value.code == "FILE_OUTSIDE_ROOTS"


# rule: spawning.secrets
@pytest.mark.parametrize(
    ("hosts", "speaks", "allowed"),
    [
        ((), "evil.test", True),
        (("mail.test",), "mail.test", True),
        (("MAIL.test",), "Mail.TEST", True),
        (("mail.test:25",), "mail.test", True),
        (("mail.test:465",), "mail.test", False),
        (("mail.test",), "mail.test.evil.test", False),
        (("mail.test",), "evil.test", False),
        (("mail.test",), "", True),
    ],
)
def test_secrets_go_to_no_host_that_they_are_not_for(
    hosts: tuple[str, ...], speaks: str, allowed: bool
) -> None:
    """A caller names the server; it must not get the company's password by that."""
    use = SecretUse("login", SecretSource(file="x", hosts=hosts), Secret(file=True))
    if allowed:
        check_secret_hosts([use], asked(speaks=speaks), any_host=False)
        return
    with pytest.raises(Refused) as no:
        check_secret_hosts([use], asked(speaks=speaks), any_host=False)
    assert no.value.code == "SECRET_NOT_FOR_HOST"


# rule: spawning.secrets
def test_secrets_for_a_host_go_nowhere_when_all_are_open() -> None:
    """`network: host` names nobody."""
    use = SecretUse("login", SecretSource(file="x", hosts=("mail.test",)), Secret(file=True))
    with pytest.raises(Refused):
        check_secret_hosts([use], asked(), any_host=True)


_KILLED_AT_THE_GATE = """
import os, signal, sys, trio
from executor import AskedBy, Request, open_executor
from executor.effects.sandbox import bubblewrap

def die(self, gate):
    print(self._process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with open_executor(state=sys.argv[1], manifests=[sys.argv[2]]) as executor:
        bubblewrap._Running.let_go = die
        await executor.run(Request(tool="test.true", asked_by=AskedBy(role="r")))

trio.run(main)
"""
_TRUE = """
executor: manifest/1
tool: test.true
summary: Do nothing.
command: "true"
argv: []
capabilities: [{name: "compute:pure"}]
account: a
outcomes: []
"""


# rule: spawning.cancel
async def test_a_sandbox_left_by_a_killed_executor_is_ended_by_the_next(
    house: House, namespaced: None
) -> None:
    """It holds the files and secrets of a run that never was."""
    (house.manifests / "true.yaml").write_text(_TRUE)
    done = subprocess.run(
        [sys.executable, "-c", _KILLED_AT_THE_GATE, str(house.state), str(house.manifests)],
        cwd=TOP,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    leader = int(done.stdout)
    with trio.fail_after(20):
        while leader in processes.in_session(leader):  # bwrap itself goes with its parent
            await trio.sleep(0.01)
    assert processes.in_session(leader)

    async with house.open():
        pass

    with trio.fail_after(20):
        while processes.in_session(leader):
            await trio.sleep(0.01)
    assert list((house.state / "sandboxes").iterdir()) == []


# rule: spawning.cancel
def test_a_note_of_another_process_ends_no_stranger(tmp_path: Path) -> None:
    """A number may have been given to somebody else since."""
    notes = Notes(tmp_path / "notes")
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as stranger:
        try:
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
            for name in (f"{stranger.pid}.1.{boot}", f"{stranger.pid}.x.other-boot", "rubbish"):
                (tmp_path / "notes" / name).touch()
            assert notes.sweep() == 0
            assert stranger.poll() is None

            notes.add(stranger.pid)  # still in use: our own lock
            assert notes.sweep() == 0
        finally:
            stranger.kill()


# rule: isolation.probed
async def test_what_could_not_be_probed_is_not_taken_for_absent(
    house: House, namespaced: None
) -> None:
    """A shortage of the moment would switch the sandbox off for the executor's whole life."""
    house.manifest()
    program = (
        "import resource, sys, trio\n"
        "from executor import Refused, open_executor\n"
        "import executor.embedding, jsonschema, rfc8785\n"
        "async def main():\n"
        "    soft = len(__import__('os').listdir('/proc/self/fd')) + int(sys.argv[2])\n"
        "    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, soft))\n"
        "    try:\n"
        "        async with open_executor(state=sys.argv[1], degraded=True) as executor:\n"
        "            print(max(e.level for e in executor.levels if e.works))\n"
        "    except (Refused, OSError) as no:\n"
        "        print('refused', getattr(no, 'code', no))\n"
        "trio.run(main)\n"
    )
    said = set()
    for spare in (3, 6, 9, 12, 15, 18, 21, 60):
        done = subprocess.run(
            [sys.executable, "-c", program, str(house.state), str(spare)],
            cwd=TOP,
            capture_output=True,
            text=True,
            check=False,
        )
        said.add(done.stdout.strip() or "failed")
    assert "namespaced" in said
    assert "bare" not in said


# rule: admission.closed-config
@pytest.mark.parametrize("kind", ["fifo", "device", "directory", "everybody"])
async def test_a_configuration_that_is_no_private_file_opens_nothing_closed_config(
    house: House, kind: str
) -> None:
    """Reading one could hang, and who can write it decides what runs."""
    path = house.home / "executor.yaml"
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "directory":
            path.mkdir()
        case _:
            path.write_text("degraded: false\n")
            async with house.open(config=path):
                pass
            path.chmod(0o666)

    with pytest.raises(Refused) as no:
        async with house.open(config=path):
            pass
    assert no.value.code == "INVALID_CONFIG"
