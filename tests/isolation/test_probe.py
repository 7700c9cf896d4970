"""A level is available when a command ran in it and reported what it should."""

import os
import subprocess
from typing import Any

import pytest

from executor import Refused
from executor.effects.sandbox import probe
from executor.finished import Finished, Output
from executor.rules.isolation import Availability
from tests.conftest import lacking
from tests.house import House
from tests.spawning.runs import REAL_BWRAP, STATUS_WIRE, alive, descriptors, no_sandbox, until


async def level(house: House, script: str | None) -> Availability:
    """Put a bwrap first in the trusted directories, and give what the probe says of it."""
    if script is not None:
        house.install("bwrap", script)
    house.manifest()
    async with house.open() as executor:
        return next(entry for entry in executor.levels if entry.level == "namespaced")


RUN_IT = "os.execv(sys.argv[4], sys.argv[4:])"
LIES = {
    "is-only-there": "raise SystemExit(0)",
    "answers-the-version": (
        "import sys\nif '--version' in sys.argv: print('bubblewrap 0.11.0')\nraise SystemExit(0)"
    ),
    "exits-1": "raise SystemExit(1)",
    "just-runs-the-command": "import os, sys\n" + RUN_IT,
    "runs-it-and-claims-an-exit-code": "import os, sys\n"
    + STATUS_WIRE
    + r"""os.write(wire, b'{"child-pid": %d}\n{"exit-code": 0}\n' % os.getpid())"""
    + "\n"
    + RUN_IT,
    "prints-the-report-itself": "import sys\nprint('NoNewPrivs:\\t1\\nCapEff:\\t0')",
    "garbage": "import os, sys\n" + STATUS_WIRE + "os.write(wire, b'\\xff\\n[]\\n{\\n')",
}

DROPPED = {
    "network": ("--unshare-net", "namespaces: net"),
    "processes": ("--unshare-pid", "namespaces: pid"),
    "users": ("--unshare-user", ""),
    "queues": ("--unshare-ipc", "namespaces: ipc"),
    "names": ("--unshare-uts", "namespaces: uts"),
    "capabilities": ("--cap-drop", ""),
}
PASS_ON = """
import os, sys
words = os.pread(int(sys.argv[2]), 1 << 20, 0).split(b"\\0")[:-1]
def replace(words):
{edit}
    return words
wire = os.memfd_create("words", 0)
os.write(wire, b"".join(word + b"\\0" for word in replace(words)))
os.lseek(wire, 0, 0)
os.set_inheritable(wire, True)
os.execv("{bwrap}", ["bwrap", "--args", str(wire), *sys.argv[3:]])
"""


def edited(edit: str) -> str:
    """Give a bwrap that changes the options before it hands them to the real one."""
    indented = "".join(f"    {line}\n" for line in edit.splitlines())
    return PASS_ON.format(edit=indented, bwrap=REAL_BWRAP)


# rule: isolation.probed
async def test_probed_by_a_command_that_ran_the_real_one_is_available(
    house: House, namespaced: None
) -> None:
    """The twin, by itself and behind a wrapper that changes nothing."""
    plain = await level(house, None)
    wrapped = await level(house, edited("pass"))

    assert plain.works
    assert wrapped.works
    assert "filter of system calls" in " ".join(wrapped.missing)


@pytest.fixture
def bwrap() -> None:
    """The test needs a bwrap that works, whatever the executor says of it."""
    words = [REAL_BWRAP, "--unshare-user", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/"]
    if not os.path.exists(REAL_BWRAP) or subprocess.run([*words, "/bin/true"]).returncode:
        lacking("bwrap does not work here")


# rule: isolation.namespaced
async def test_namespaced_level_is_had_wherever_bwrap_works(house: House, bwrap: None) -> None:
    """All that is promised is asked for: what is left out here is found by the probe."""
    found = await level(house, None)

    assert found.works, found.why


# rule: isolation.probed
@pytest.mark.parametrize("lie", LIES)
async def test_probed_by_a_command_one_that_only_pretends_is_not_available(
    house: House, lie: str
) -> None:
    """A sandbox that is quietly absent is worse than none."""
    found = await level(house, LIES[lie])

    assert not found.works
    assert str(house.bin / "bwrap") in found.why
    await until(lambda: alive(house) == [])


# rule: isolation.probed
@pytest.mark.parametrize("dropped", DROPPED)
async def test_probed_by_a_command_one_that_leaves_something_out_is_not_available(
    house: House, namespaced: None, dropped: str
) -> None:
    """Options are wishes; some versions only try them, and some builds do not know them."""
    option, reason = DROPPED[dropped]
    edit = (
        f"at = words.index({option.encode()!r})\ndel words[at:at + {1 + (option == '--cap-drop')}]"
    )

    if dropped == "capabilities" and os.geteuid() != 0:
        pytest.skip("bwrap keeps capabilities only for root")
    if dropped == "names":
        edit += "\nat = words.index(b'--hostname')\ndel words[at:at + 2]"
    if dropped == "users":
        edit += "\nwords.remove(b'--disable-userns') if b'--disable-userns' in words else None"
        if os.geteuid() != 0:
            pytest.skip("bwrap makes a user namespace for all but root, asked or not")
    found = await level(house, edited(edit))

    assert not found.works
    assert reason in found.why


# rule: isolation.probed
@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        ("words[-2:-2] = [b'--bind', b'/usr/share', b'/usr/share']", "it can write /usr/share"),
        ("at = words.index(b'--remount-ro')\ndel words[at:at + 2]", "it can write /dev"),
        ("at = words.index(b'/proc/sys')\ndel words[at - 1:at + 2]", "the kernel's settings"),
        ("words[words.index(b'--clearenv')] = b'--die-with-parent'", "executor's variable MARKED"),
    ],
    ids=["writable-system", "writable-dev", "writable-settings", "environment"],
)
async def test_probed_by_a_command_what_it_saw_inside_is_what_counts(
    house: House, namespaced: None, monkeypatch: Any, edit: str, reason: str
) -> None:
    """From outside everything looks right here."""
    monkeypatch.setenv("MARKED", "1")
    if "clearenv" in edit:
        edit += "\nos.environ['MARKED'] = '1'"

    found = await level(house, edited(edit))

    assert not found.works
    assert reason in found.why


GOOD = (
    "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"
    "CapBnd:\t0000000000000000\nNoNewPrivs:\t1\n"
    "Inter-|\n face |\n    lo: " + " ".join("0" * 16) + "\n"
    "20 19 0:1 / / ro,nosuid - tmpfs tmpfs rw\n21 20 0:2 / /staging rw - tmpfs tmpfs rw\n"
    "24 20 0:5 / /proc rw - proc proc rw\n25 24 0:6 /sys /proc/sys ro - proc proc rw\n"
    "22 20 0:3 / /dev ro - tmpfs tmpfs rw\n23 22 0:4 /null /dev/null rw - devtmpfs dev rw\n"
    "HOME=/staging/home\0"
)


def read(text: str, **changes: Any) -> list[str]:
    """Read a report."""
    output = Output(text.encode(), len(text))
    return probe.read_report(Finished(**({"end": "exited", "exit": 0, "stdout": output} | changes)))


# rule: isolation.probed
@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("CapEff:\t0000000000000000", "CapEff:\t0000000000000001", "CapEff"),
        ("CapPrm:\t0000000000000000", "CapPrm:\t000001ffffffffff", "CapPrm"),
        ("CapBnd:\t0000000000000000", "CapBnd:\t0000000000200000", "CapBnd"),
        ("CapEff:\t0000000000000000\n", "", "CapEff"),
        ("NoNewPrivs:\t1", "NoNewPrivs:\t0", "gain privileges"),
        ("NoNewPrivs:\t1\n", "", "gain privileges"),
        ("    lo:", "  eth0:", "eth0"),
        ("    lo:", "    lo", "devices of nobody"),
        (" / ro,nosuid", " / rw,nosuid", "it can write /"),
        (" / ro,nosuid", " / nosuid", "it can write /"),
        ("/staging rw", "/home rw", "it can write /home"),
        ("/proc/sys ro", "/proc/sys rw", "kernel's settings"),
        ("/proc/sys ro", "/proc/sys ro - proc proc rw\n26 24 0:6 /irq /proc/irq rw", "/proc/irq"),
        ("/dev/null rw", "/device rw", "/device"),
        ("/proc/sys ro", "/proc/irq ro", "kernel's settings"),
        ("20 19 0:1 / / ro,nosuid - tmpfs tmpfs rw\n", "", "does not tell its mounts"),
    ],
)
def test_probed_by_a_report_every_line_of_which_counts(old: str, new: str, fault: str) -> None:
    """What is not told is not so."""
    assert read(GOOD) == []
    assert GOOD.count(old) == 1

    faults = read(GOOD.replace(old, new))

    assert any(fault in found for found in faults)


# rule: isolation.probed
def test_probed_by_a_report_that_came_to_its_end(monkeypatch: Any) -> None:
    """Half a report is none, and one with our own variables in it is the wrong one."""
    monkeypatch.setenv("MARKED", "1")

    assert read(GOOD, exit=1) != []
    assert read(GOOD, stdout=Output(GOOD.encode(), len(GOOD) + 1, True)) != []
    assert read("") != []
    assert any("MARKED" in found for found in read(GOOD + "MARKED=1\0"))


# rule: isolation.declared
async def test_declared_level_that_is_missing_is_refused_or_told(house: House) -> None:
    """In the result, in the record and on the level itself: nobody has to guess."""
    house.manifest()
    options = no_sandbox(house) | {"degraded": False}

    async with house.open(**options) as executor:
        with pytest.raises(Refused) as no:
            await executor.run(house.request({}))
    receipt = await house.run({}, **no_sandbox(house))

    assert no.value.code == "ISOLATION_UNAVAILABLE"
    assert no.value.receipt is not None
    assert no.value.receipt.status == "refused"
    assert receipt.status == "delivered"
    told = receipt.result()["isolation"]
    recorded = receipt.statement()["predicate"]["action"]["isolation"]
    assert told["level"] == recorded["level"] == "bare"
    assert recorded["required"] == "namespaced"
    assert told["missing"] == recorded["missing"]
    assert told["missing"][0] == "namespaced isolation, which the manifest requires"
    assert any("any confinement" in entry for entry in told["missing"])


# rule: isolation.declared
async def test_declared_level_that_is_had_is_told_with_what_it_lacks(
    house: House, namespaced: None
) -> None:
    """The twin: no degraded mode is needed, and no promise is made that is not kept."""
    receipt = await house.run({})

    told = receipt.result()["isolation"]
    assert told["level"] == "namespaced"
    assert told["network"] == "none"
    assert any(entry.startswith("a filter of system calls") for entry in told["missing"])
    assert not any("requires" in entry for entry in told["missing"])


# rule: isolation.probed
async def test_probed_levels_leave_nothing_behind(house: House, namespaced: None) -> None:
    """An executor is opened for every command of a hook."""
    house.manifest()
    async with house.open():
        pass
    before = descriptors()

    for _ in range(5):
        async with house.open():
            pass

    assert descriptors() == before
    assert house.leftovers() == []
