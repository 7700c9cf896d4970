"""What a command in the sandbox can reach: looked at from the inside."""

import json
import os
import socket
from typing import Any

import pytest

from executor import Receipt, Refused
from tests.house import House, interpreter, recorded
from tests.spawning.runs import alive, bwrap_that_can_turn, writable

pytestmark = pytest.mark.usefixtures("namespaced")


# rule: isolation.namespaced
async def test_namespaced_command_is_alone_without_rights_and_without_a_home(house: House) -> None:
    """Own namespaces, no capabilities, nothing to gain, and a system that it cannot change."""
    house.manifest()
    home = os.path.expanduser("~")
    plan = {
        "record": "stdout",
        "environs": "full",
        "try": [
            {"listdir": home},
            {"listdir": str(house.home)},
            {"listdir": "/proc"},
            {"write": "/usr/bin/new"},
            {"write": "/etc/passwd"},
            {"write": "/etc/new"},
            {"write": "/new"},
            {"write": "/dev/new"},
            {"write": "/proc/sys/kernel/hostname"},
            {"write": str(house.bin / "fake")},
            {"write": "new"},
            {"write": "/tmp/new"},
            {"write": "/staging/home/new"},
            {"write": "/dev/shm/new"},
        ],
    }

    seen = recorded(await house.run(plan))

    assert seen["unseen"] == {}
    attempts = {next(iter(one["try"].values())): one for one in seen["try"]}
    assert not attempts[home]["ok"]
    assert sorted(attempts[str(house.home)]["names"]) == ["bin"]  # the command's own place
    pids = [name for name in attempts["/proc"]["names"] if name.isdigit()]
    assert len(pids) == 2
    written = [path for path, one in attempts.items() if "write" in one["try"] and one["ok"]]
    assert written == ["new", "/tmp/new", "/staging/home/new", "/dev/shm/new"]
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(seen["status"][name], 16) == 0
    assert seen["status"]["NoNewPrivs"] == "1"
    assert seen["interfaces"] == ["lo"]
    assert len(seen["environs"]) == 2
    assert seen["sid"] == seen["pid"] or seen["sid"] == 1
    assert (house.bin / "fake").read_text().startswith("#!")


# rule: isolation.namespaced
@pytest.mark.parametrize("name", ["user", "mnt", "pid", "ipc", "uts", "net"])
async def test_namespaced_command_shares_no_namespace(house: House, name: str) -> None:
    """What is shared is in reach."""
    house.manifest()
    link = f"/proc/self/ns/{name}"
    plan = {"record": "stdout", "try": [{"exec": ["/usr/bin/readlink", link]}]}

    seen = recorded(await house.run(plan))

    inside = seen["try"][0]["stdout"].strip()
    assert inside.startswith(f"{name}:[")
    assert inside != os.readlink(link)


# rule: isolation.namespaced
async def test_namespaced_command_cannot_make_itself_strong_again(house: House) -> None:
    """In a user namespace of its own it would hold every capability there is."""
    house.manifest()
    plan = {
        "record": "stdout",
        "try": [
            {"exec": ["/usr/bin/unshare", "--user", "true"]},
            {"exec": ["/usr/bin/mount", "-o", "remount,rw", "/"]},
            {"exec": ["/bin/mount", "-t", "tmpfs", "none", "/staging/work"]},
        ],
    }

    receipt = await house.run(plan)

    assert [one.get("exit") != 0 for one in recorded(receipt)["try"]] == [True] * 3


# rule: isolation.namespaced
async def test_namespaced_command_cannot_write_the_settings_of_the_kernel(house: House) -> None:
    """Root needs no capability for its own files, and some of those name programs to be run."""
    house.manifest(command="looker")
    house.install(
        "looker",
        "import os\n"
        "for top, names, files in os.walk('/proc'):\n"
        "    if top == '/proc':\n"
        "        names[:] = [name for name in names if not name.isdigit()]\n"
        "    for name in files:\n"
        "        path = os.path.join(top, name)\n"
        "        if os.path.islink(path): continue\n"
        "        try: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))\n"
        "        except OSError: continue\n"
        "        print(path)\n"
        "print('id=looked')\n",
    )

    receipt = await house.run({})

    assert receipt.finished is not None
    assert receipt.result_id == "looked"
    assert receipt.finished.stdout.text == "id=looked\n"


# rule: isolation.network
async def test_network_is_out_of_reach_unless_declared(house: House) -> None:
    """Not to the world, not to this machine, and not to its abstract sockets."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        plan = {"record": "stdout", "try": [{"connect": f"127.0.0.1:{port}"}]}
        house.manifest()
        closed = await house.run(plan)
        tree = interpreter()[1]
        house.manifest(isolation={"network": "host", **({"read": [tree]} if tree else {})})

        opened = await house.run(plan)

    assert not recorded(closed)["try"][0]["ok"]
    assert recorded(closed)["interfaces"] == ["lo"]
    assert closed.result()["isolation"]["network"] == "none"
    assert recorded(opened)["try"][0]["ok"]
    assert opened.result()["isolation"]["network"] == "host"


# rule: isolation.network
async def test_network_of_abstract_sockets_is_out_of_reach(house: House) -> None:
    """They have no path that could be hidden."""
    name = f"house-{os.getpid()}"
    house.manifest(command="caller")
    house.install(
        "caller",
        "import socket, sys\n"
        "try:\n"
        f"    socket.socket(socket.AF_UNIX).connect('\\0{name}')\n"
        "    print('id=reached')\n"
        "except OSError as failed:\n"
        "    print('id=' + type(failed).__name__)\n",
    )
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{name}")
        server.listen()

        receipt = await house.run({})

    assert receipt.result_id == "ConnectionRefusedError"


# rule: isolation.paths
async def test_paths_declared_are_reached_as_declared_and_nothing_beside_them(
    house: House,
) -> None:
    """A directory to write, one to read, and their neighbours."""
    out = writable(house, isolation={"read": _read(house, house.root / "shared")})
    (house.root / "shared").mkdir()
    house.file("shared/text", "one")
    house.file("secret", "two")
    house.file("out/there", "three")
    plan = {
        "record": "stdout",
        "try": [
            {"write": str(out / "new"), "text": "new"},
            {"write": str(out / "there"), "text": "more"},
            {"read": str(house.root / "shared/text")},
            {"write": str(house.root / "shared/new")},
            {"read": str(house.root / "secret")},
            {"write": str(house.root / "new")},
            {"listdir": str(house.root)},
        ],
    }

    made, changed, read, below, secret, beside, listed = recorded(await house.run(plan))["try"]

    assert made["ok"]
    assert changed["ok"]
    assert (out / "new").read_text().strip() == "new"
    assert (out / "there").read_text().startswith("three")
    assert read["content"] == "one"
    assert (below["ok"], below["errno"]) == (False, "EROFS")
    assert (secret["ok"], secret["errno"]) == (False, "ENOENT")
    assert not beside["ok"] or not (house.root / "new").exists()
    assert sorted(listed["names"]) in (["out", "shared"], ["new", "out", "shared"])


def _read(house: House, *paths: Any) -> list[str]:
    tree = interpreter()[1]
    return [*map(str, paths), *([tree] if tree else [])]


# rule: isolation.paths
async def test_paths_that_are_missing_or_links_are_refused_before_the_start(house: House) -> None:
    """A link would say later where it leads."""
    out = writable(house)
    async with house.open() as executor:
        assert (await executor.run(house.request({}))).status == "delivered"
        out.rmdir()
        for make in (lambda: None, lambda: out.symlink_to(house.state)):
            make()

            with pytest.raises(Refused) as no:
                await executor.run(house.request({}))

            assert (no.value.rule, no.value.code) == ("isolation.paths", "PATH_NOT_FOUND")


# rule: isolation.paths
@pytest.mark.parametrize("instead", ["link", "directory", "nothing"])
async def test_paths_exchanged_after_the_check_start_nothing(house: House, instead: str) -> None:
    """Between the look and the mount lies a moment that belongs to whoever can write there."""
    turned = bwrap_that_can_turn(house)
    out = writable(house)
    victim = house.root / "victim"
    victim.mkdir()
    make = {
        "link": f"os.symlink({str(victim)!r}, {str(out)!r})",
        "directory": f"os.mkdir({str(out)!r})",
        "nothing": "pass",
    }
    plan = {"sent": str(out / "sent.log")}
    async with house.open() as executor:
        honest = await executor.run(house.request(plan))
        # It looks like the real one, and the exchange happens just before it mounts.
        turned.write_text(f"os.rename({str(out)!r}, {str(out) + '.old'!r})\n{make[instead]}\n")

        receipt: Receipt = await executor.run(house.request(plan))

    assert honest.status == "delivered"
    assert (receipt.status, receipt.code) == ("undelivered", "SANDBOX_FAILED")
    assert list(victim.iterdir()) == []
    assert len((out.with_name("out.old") / "sent.log").read_text().splitlines()) == 1
    assert alive(house) == []


# rule: isolation.paths
async def test_paths_of_the_executors_state_are_refused_to_a_manifest(house: House) -> None:
    """A command that can write receipts can write what it likes into them."""
    house.manifest(isolation={"read": _read(house, house.state)})

    with pytest.raises(Refused) as no:
        await house.run({})

    assert no.value.code == "PATH_NOT_ALLOWED"


# rule: isolation.paths
async def test_paths_of_other_manifests_are_not_opened_for_this_one(house: House) -> None:
    """What one tool may write is not what another may."""
    out = writable(house, tool="test.writer")
    house.manifest()
    plan = {"record": "stdout", "try": [{"write": str(out / "new")}]}

    async with house.open() as executor:
        seen = recorded(await executor.run(house.request(plan)))
        twin = recorded(await executor.run(house.request(plan, tool="test.writer")))

    assert not (seen["try"][0]["ok"] and (out / "new").exists() and not twin["try"][0]["ok"])
    assert twin["try"][0]["ok"]
    assert json.dumps(seen["try"][0]) != json.dumps(twin["try"][0])


# rule: freezing.verified-bytes
async def test_a_command_in_an_opened_tree_is_the_verified_copy_all_the_same(
    house: House, namespaced: None
) -> None:
    """Opening its directory for reading must not put the unverified file back in its place."""
    shared = house.root / "shared"
    shared.mkdir()
    house.bin.rename(shared / "bin")
    (shared / "bin" / "beside").write_text("beside")
    house.manifest(isolation={"read": _read(house, shared)})
    directories = [shared / "bin", *house.interpreter_directories()]
    async with house.open(trusted=directories) as executor:
        gate = executor.gate
        plan = {"try": [{"read": str(shared / "bin" / "beside")}], "record": "stdout"}
        frozen, hold = await gate.freeze(gate.admit("one", house.request(plan)))
        with hold, await gate.verify(frozen) as verified:
            fake = shared / "bin" / "fake"
            fake.write_text(fake.read_text().replace("import errno", "raise SystemExit(9)"))
            finished = await gate.spawn(verified)

    assert (finished.end, finished.exit) == ("exited", 0)
    assert b"beside" in finished.stdout.kept
