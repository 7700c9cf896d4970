"""The demo, as the newcomer runs it: a pleasure where all is there, honest where it is not."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.call import Cli, Done


@pytest.fixture
def demo(cli: Cli, curl: None, tmp_path: Path) -> Cli:
    """A command line whose temporary files can be looked at."""
    pytest.importorskip("aiosmtpd")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    cli.env["TMPDIR"] = str(temporary)
    return cli


def nothing_stays(demo: Cli) -> None:
    assert list(Path(demo.env["TMPDIR"]).iterdir()) == []
    assert not (demo.house.home / ".local").exists()


def test_the_demo_shows_everything_and_leaves_nothing(demo: Cli, namespaced: None) -> None:
    """It is the first thing that anybody sees of this."""
    done = demo("demo")

    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("\nAll of it held.\n")
    for part in (
        "status delivered",
        "queued as DEMO1",
        "namespaced",
        "refused by ledger.delivered (DUPLICATE_DELIVERED)",
        "result id    DEMO1",
        "refused by freezing.rehash-before-spawn (FROZEN_COPY_CHANGED)",
        "the server still has 1 message",
        "started plainly, it finds the secret in 3 of 3",
        "through the gate, it finds it nowhere",
    ):
        assert part in done.out
    assert "NO " not in done.out
    assert max(map(len, done.out.splitlines())) <= 100
    nothing_stays(demo)


# rule: ledger.delivered
def test_the_caller_that_lost_its_answer_is_told_what_happened_the_first_time(
    demo: Cli, namespaced: None
) -> None:
    """It is the point of the ledger; where somebody switched it off, the demo does not hold."""
    done = demo("demo")
    off = demo("demo", env={"EXECUTOR_DUPLICATE_WINDOW": "0"})

    told = done.out.partition("asks the very same again\n")[2].partition("\n3. ")[0]
    for part in ("DUPLICATE_DELIVERED", "attempt      0", "delivered    2", "DEMO1", "1 message"):
        assert part in told
    assert off.code == 1
    assert "the window for duplicates is set to 0 here" in off.out
    nothing_stays(demo)


def without(demo: Cli, take_away: str, *unshare: str) -> Done:
    """Run the demo in namespaces of its own, in which a Python text took something away."""
    words = ["unshare", *unshare, sys.executable, "-c"]
    tried = subprocess.run([*words, take_away], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"`unshare {' '.join(unshare)}` is not permitted here: {tried.stderr[-200:]}")
    go_on = "import os, sys; os.execv(sys.argv[1], sys.argv[1:])"
    program = [*words, f"{take_away}\n{go_on}", sys.executable, "-m", "executor"]
    return demo("demo", program=program)


def test_without_a_sandbox_it_ends_well_and_says_loudly_what_it_cannot_show(demo: Cli) -> None:
    """In many containers there are no user namespaces; it must not look as if all was shown."""
    script = demo.house.home / "broken"
    script.write_text("#!/bin/sh\nexit 1\n")
    script.chmod(0o755)
    bwrap = shutil.which("bwrap")
    bind = ["mount", "--bind", str(script), bwrap]
    broken = "" if bwrap is None else f"import subprocess; subprocess.run({bind}, check=True)"

    done = without(demo, broken, "--mount")

    assert done.code == 0, done
    assert "NO SANDBOX HERE" in done.out
    assert "NOT SHOWN, there is no sandbox" in done.out
    assert "All of it held" not in done.out
    assert "bare" in done.out
    assert "executor doctor" in done.out.splitlines()[-1]
    nothing_stays(demo)


def test_without_a_network_it_says_why_it_cannot_listen(demo: Cli) -> None:
    """A loopback that is down is a matter of the container, and no fault of ours."""
    done = without(demo, "", "--net")

    assert done.code == 1
    assert "mail server could not listen on 127.0.0.1" in done.err
    assert "Traceback" not in done.err
    nothing_stays(demo)


def test_a_port_that_is_taken_is_said(demo: Cli) -> None:
    """Where one port is all there is, and somebody has it."""
    done = without(demo, _ONE_PORT_AND_IT_IS_TAKEN, "--net")

    assert done.code == 1
    assert "Address already in use" in done.err
    assert "Traceback" not in done.err
    nothing_stays(demo)


_ONE_PORT_AND_IT_IS_TAKEN = """
import fcntl, socket, struct
SIOCSIFFLAGS, UP_AND_RUNNING = 0x8914, 0x41
held = socket.socket()
fcntl.ioctl(held, SIOCSIFFLAGS, struct.pack("16sh", b"lo", UP_AND_RUNNING))
with open("/proc/sys/net/ipv4/ip_local_port_range", "w") as ports:
    ports.write("50000 50000")
held.bind(("127.0.0.1", 50000))
held.listen()
held.set_inheritable(True)
"""


def test_without_its_mail_server_it_says_how_to_get_it(demo: Cli, tmp_path: Path) -> None:
    """The extra is easily forgotten."""
    shadow = tmp_path / "shadow" / "aiosmtpd"
    shadow.mkdir(parents=True)
    (shadow / "__init__.py").write_text("raise ImportError('not installed')\n")

    done = demo("demo", env={"PYTHONPATH": f"{shadow.parent}:{demo.env['PYTHONPATH']}"})

    assert done.code == 1
    assert "pip install '.[demo]'" in done.err
    assert "Traceback" not in done.err
    nothing_stays(demo)


@pytest.mark.parametrize("about", ["demo.look.yaml", "bwrap", "--mail-rcpt", "'cat'"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_an_interrupted_demo_leaves_nothing(
    demo: Cli, namespaced: None, about: str, number: signal.Signals
) -> None:
    """It makes files, a server and processes."""
    event = "open" if about.endswith(".yaml") else "subprocess.Popen"

    done = demo("demo", moment={"event": event, "about": about, "signal": number})

    assert done.code == 5
    assert "the demo was interrupted" in done.err
    assert "Traceback" not in done.err
    nothing_stays(demo)


def test_a_reader_that_goes_away_ends_nothing_badly(demo: Cli, namespaced: None) -> None:
    """`executor demo | head -3`"""
    program = ["sh", "-c", '"$@" | head -3', "sh", *demo.through_shell("")[4:]]

    done = demo("demo", program=program)

    assert done.out.count("\n") == 3
    assert done.err == ""
    nothing_stays(demo)
