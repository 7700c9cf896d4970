"""The fake command itself: each awkward thing really happens, and a recording is exact.

Plain subprocesses, no executor.  Whatever a fake leaves behind holds the pipe that was its stdout:
that is how it is found here, and ended.
"""

import base64
import hashlib
import json
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

FAKE = Path(__file__).resolve().parents[2] / "fakes" / "fake.py"
PATIENCE_S = 30.0  # only ever spent by a test that fails
SYSTEM_PYTHON = "/usr/bin/python3"

Record = dict[str, Any]


def command(plan: object, *argv: str | bytes) -> list[str | bytes]:
    return [sys.executable, "-I", "-S", str(FAKE), "--plan-json", json.dumps(plan), *argv]


def until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"never seen: {what}"
        time.sleep(0.005)


def stat_of(pid: int) -> list[str]:
    """/proc/PID/stat from the third field on: state, parent, group, session."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def is_asleep(pid: int) -> bool:
    return stat_of(pid)[0] == "S"


class Pipe:
    """Our end of a fake's output; a byte that never comes fails a test, and does not hang it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.name = os.readlink(f"/proc/self/fd/{stream.fileno()}")

    def read(self, count: int = sys.maxsize) -> bytes:
        """``count`` bytes, or all up to the end of file."""
        end, got = time.monotonic() + PATIENCE_S, b""
        while len(got) < count:
            ready, _, _ = select.select([self.stream], [], [], max(0, end - time.monotonic()))
            assert ready, f"neither more nor the end after {len(got)} bytes"
            block = os.read(self.stream.fileno(), min(1 << 20, count - len(got)))
            if not block:
                break
            got += block
        return got

    def close(self) -> None:
        self.stream.close()


class Started:
    """A fake that was started, and the pipes to it."""

    def __init__(self, plan: object, cwd: Path, argv: list[str | bytes] | None = None) -> None:
        self.process = subprocess.Popen(
            argv or command(plan),
            cwd=cwd,
            env={"KEPT": "yes"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.pid = self.process.pid
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.stdout, self.stderr = Pipe(self.process.stdout), Pipe(self.process.stderr)
        self.pipe = self.stdout.name

    def holders(self) -> list[int]:
        """Every other process with our stdout pipe open, whatever it calls itself."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal() or int(entry.name) == os.getpid():
                continue
            try:
                links = [os.readlink(fd) for fd in (entry / "fd").iterdir()]
            except OSError:  # ended meanwhile, or not ours to see
                continue
            if self.pipe in links:
                found.append(int(entry.name))
        return found

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    def ended(self) -> int:
        return self.process.wait(timeout=PATIENCE_S)

    def clear(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        while left := self.holders():
            for pid in left:
                end(pid)
        self.process.wait()
        self.stdout.close()
        self.stderr.close()


def end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


Start = Callable[..., Started]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    begun: list[Started] = []

    def one(plan: object, argv: list[str | bytes] | None = None) -> Started:
        begun.append(Started(plan, tmp_path, argv))
        return begun[-1]

    yield one
    for fake in begun:
        fake.clear()


Run = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Start a fake in an empty directory with an empty environment, and wait for its end."""

    def one(plan: object, *argv: str | bytes, **how: Any) -> subprocess.CompletedProcess[bytes]:
        with_defaults: dict[str, Any] = {"cwd": tmp_path, "env": {}, "timeout": PATIENCE_S}
        if "stdin" not in how:
            with_defaults["input"] = b""
        if "stdout" not in how:
            with_defaults["capture_output"] = True
        before: list[str] = how.pop("before", [])
        done: subprocess.CompletedProcess[bytes]
        done = subprocess.run([*before, *command(plan, *argv)], **(with_defaults | how))
        return done

    return one


See = Callable[..., Record]


@pytest.fixture
def see(run: Run) -> See:
    """The record of a run.  Other processes' environments stay unread unless a test asks."""

    def one(plan: Record, *argv: str | bytes, **how: Any) -> Record:
        done = run({"record": "stdout", "environs": "none"} | plan, *argv, **how)
        assert (done.returncode, done.stderr) == (0, b"")
        record = json.loads(done.stdout)
        assert isinstance(record, dict)
        return record

    return one


def changed(code: str) -> list[str]:
    """A front for a fake's command line: run ``code``, then become the command."""
    imports = "import os, sys, resource, signal\n"
    become = "\nos.execv(sys.argv[1], sys.argv[1:])"
    return [sys.executable, "-I", "-S", "-c", imports + code + become]


# ---- the plan


def test_an_empty_plan_is_followed_in_silence(run: Run, tmp_path: Path) -> None:
    """The control of every other test: nothing asked, nothing done."""
    done = run({})

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert list(tmp_path.iterdir()) == []


CRASH: Record = {"sent": "sent.log", "then": "sent-then-crash"}

BAD_PLANS: dict[str, tuple[object, str]] = {
    "misspelt-key": ({"recrod": "stdout"}, "unknown key 'recrod'"),
    "not-an-object": (["hang"], "must be an object"),
    "record-neither-stream-nor-path": ({"record": "stdot"}, "record must be"),
    "environs-unknown": ({"record": "stdout", "environs": "all"}, "environs must be"),
    "try-that-nobody-would-read": ({"try": [{"read": "/x"}]}, "without record"),
    "try-unknown": ({"record": "stdout", "try": [{"raed": "/x"}]}, "['raed'] is none of"),
    "try-two-at-once": ({"record": "stdout", "try": [{"read": "/", "write": "/"}]}, "is none of"),
    "try-without-port": ({"record": "stdout", "try": [{"connect": "host"}]}, "host:port"),
    "try-nul-in-path": ({"record": "stdout", "try": [{"read": "a\0b"}]}, "must be a path"),
    "sent-text-without-sent": ({"sent_text": "x"}, "needs sent"),
    "sent-text-of-two-lines": ({"sent": "sent.log", "sent_text": "a\nb"}, "one line"),
    "print-unknown-stream": ({"print": [["stdoot", "x"]]}, "must name stdout or stderr"),
    "print-beside-stdout": ({"print": [["stdout", "x"]], "stdout": "y"}, "beside print"),
    "print-not-pairs": ({"print": ["x"]}, "a list of [stream, what]"),
    "stdout-unknown-shape": ({"stdout": {"repeat": "x"}}, "must be text"),
    "stdout-repeats-nothing": ({"stdout": {"repeat": "", "bytes": 1}}, "must not be empty"),
    "stdout-base64-broken": ({"stdout": {"base64": "!"}}, "base64"),
    "stdout-lone-surrogate": ({"stdout": "\ud800"}, "lone surrogate"),
    "then-unknown-word": ({"then": "hnag"}, "'hnag' is none of"),
    "then-unknown-deed": ({"then": {"exti": 3}}, "['exti'] is none of"),
    "then-unknown-option": ({"then": {"daemon": 1, "daemon_wirtes": "x"}}, "is none of"),
    "then-exit-too-large": ({"then": {"exit": 256}}, "from 0 to 255"),
    "then-exit-true": ({"then": {"exit": True}}, "from 0 to 255"),
    "then-signal-that-does-not-kill": ({"then": {"signal": 18}}, "does not end a process"),
    "then-crash-without-sent": ({"then": "sent-then-crash"}, "needs sent"),
    "then-crash-after-an-answer": (CRASH | {"stdout": "ok"}, "before any print"),
    "then-crash-after-done": (CRASH | {"done": "done"}, "before any print"),
}


@pytest.mark.parametrize(("plan", "why"), BAD_PLANS.values(), ids=BAD_PLANS.keys())
def test_a_plan_with_a_slip_is_refused(run: Run, tmp_path: Path, plan: object, why: str) -> None:
    """A misspelt plan must never look like a pass."""
    done = run(plan)

    assert (done.returncode, done.stdout) == (64, b"")
    assert done.stderr.startswith(b"fake: bad plan: ")
    assert why in done.stderr.decode()
    assert list(tmp_path.iterdir()) == []


def test_a_plan_with_a_slip_is_not_half_followed(run: Run, tmp_path: Path) -> None:
    """The slip comes last, and still nothing was recorded, sent or printed before it was found."""
    good = {"record": "./", "environs": "none", "sent": "sent.log", "stdout": "ok", "done": "done"}
    assert run(good).stdout == b"ok"
    made = list(tmp_path.iterdir())
    assert len(made) == 3
    for path in made:
        path.unlink()

    done = run(good | {"then": "hnag"})

    assert (done.returncode, done.stdout) == (64, b"")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    ["", "{", "{} {}", '{"then": "hang", "then": {"exit": 0}}', '{"stdin_wait": NaN}', "nul"],
)
def test_what_is_not_one_json_object_is_refused(run: Run, tmp_path: Path, text: str) -> None:
    """A key given twice is refused too: the first would be lost."""
    (tmp_path / "plan.json").write_text(text)
    argv = [sys.executable, "-I", "-S", str(FAKE), "--plan", "plan.json"]

    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, timeout=PATIENCE_S)

    assert (done.returncode, done.stdout) == (64, b"")


@pytest.mark.parametrize("argv", [[], ["--plan"], ["--plan", "absent.json"], ["--plan=plan.json"]])
def test_no_plan_is_refused(tmp_path: Path, argv: list[str]) -> None:
    """A fake without its plan does not pass for one that was asked to do nothing."""
    whole = [sys.executable, "-I", "-S", str(FAKE), *argv]

    done = subprocess.run(whole, cwd=tmp_path, capture_output=True, timeout=PATIENCE_S)

    assert (done.returncode, done.stdout) == (64, b"")


def test_a_staged_plan_file_is_followed(tmp_path: Path) -> None:
    """The way of the executor: the plan is a file in the command's directory."""
    (tmp_path / "plan.json").write_text('\n{"stdout": "ok", "then": {"exit": 3}}\n')
    argv = [sys.executable, "-I", "-S", str(FAKE), "x", "--plan", "plan.json", "y"]

    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, timeout=PATIENCE_S)

    assert (done.returncode, done.stdout, done.stderr) == (3, b"ok", b"")


@pytest.mark.skipif(not Path(SYSTEM_PYTHON).exists(), reason=f"no {SYSTEM_PYTHON}")
def test_the_file_is_a_program_by_itself() -> None:
    """A manifest names the file as its command; the first line finds the interpreter."""
    argv = [str(FAKE), "--plan-json", '{"stdout": "ok"}']

    done = subprocess.run(argv, env={}, capture_output=True, timeout=PATIENCE_S)

    assert (done.returncode, done.stdout, done.stderr) == (0, b"ok", b"")


# ---- the record


def test_arguments_are_recorded_byte_for_byte(see: See) -> None:
    """Case 06's control arguments, one that is not UTF-8, and one that looks like a plan."""
    given: list[str | bytes] = ["", "two\nlines", "it's", "--plan", "é", b"a\xffb", "a" * 131071]

    record = see({}, *given)

    assert [os.fsencode(word) for word in record["argv"]] == [os.fsencode(word) for word in given]
    assert record["argv_base64"] == {"5": base64.b64encode(b"a\xffb").decode()}
    assert record["argv0"] == str(FAKE)
    assert record["cmdline"][:4] == [sys.executable, "-I", "-S", str(FAKE)]


def test_the_environment_is_what_the_kernel_handed_over(see: See) -> None:
    """Python in the C locale adds an LC_CTYPE of its own: a test on exact names must not see it."""
    assert see({})["env"] == {}

    record = see({}, env={b"A": b"1", b"B": b"x\xff", b"EMPTY": b""})

    assert record["env"] == {"A": "1", "B": "x\udcff", "EMPTY": ""}
    assert record["env_base64"] == {"B": base64.b64encode(b"x\xff").decode()}
    assert record["env_list"] == ["A=1", "B=x\udcff", "EMPTY="]


def test_the_directory_is_listed_with_every_kind_of_file(see: See, tmp_path: Path) -> None:
    """Names, modes, sizes, hashes, and content when it is small."""
    (tmp_path / "b.txt").write_text("BENIGN")
    (tmp_path / "b.txt").chmod(0o640)
    (tmp_path / "big").write_bytes(b"x" * 5000)
    (tmp_path / "raw").write_bytes(b"\xff\x00")
    (tmp_path / "sub").mkdir(0o755)
    (tmp_path / "sub" / "link").symlink_to("../b.txt")
    os.mkfifo(tmp_path / "sub" / "pipe", 0o600)
    (tmp_path / os.fsdecode(b"odd\xff")).touch()

    record = see({})

    files = {entry["path"]: entry for entry in record["files"]}
    assert record["cwd"] == str(tmp_path)
    assert record["files_cut"] is False
    assert [*files] == ["b.txt", "big", "odd\udcff", "raw", "sub", "sub/link", "sub/pipe"]
    assert files["b.txt"] == {
        "path": "b.txt",
        "type": "file",
        "mode": "0640",
        "size": 6,
        "uid": os.getuid(),
        "gid": os.getgid(),
        "links": 1,
        "sha256": hashlib.sha256(b"BENIGN").hexdigest(),
        "content": "BENIGN",
    }
    assert files["big"]["sha256"] == hashlib.sha256(b"x" * 5000).hexdigest()
    assert (files["big"]["size"], "content" in files["big"]) == (5000, False)
    assert files["raw"]["content_base64"] == base64.b64encode(b"\xff\x00").decode()
    assert files["odd\udcff"]["path_base64"] == base64.b64encode(b"odd\xff").decode()
    assert files["sub/link"]["target"] == "../b.txt"
    assert [files[name]["type"] for name in ("sub", "sub/link", "sub/pipe")] == [
        "dir",
        "link",
        "fifo",
    ]


def test_a_listing_without_end_is_cut_and_says_so(see: See, tmp_path: Path) -> None:
    """Outside a sandbox the directory may be anywhere, and /proc has files without end."""
    assert see({}, cwd="/proc")["files"] == []
    for n in range(2_001):
        (tmp_path / str(n)).symlink_to("x")

    record = see({})

    assert (len(record["files"]), record["files_cut"]) == (2_000, True)


MIB = 1 << 20


@pytest.mark.parametrize(
    ("given", "kept", "at_eof"),
    [(b"", 0, True), (b"hello", 5, True), (b"x" * MIB, MIB, True), (b"x" * (MIB + 1), MIB, False)],
    ids=["empty", "short", "just-the-cap", "over-the-cap"],
)
def test_stdin_is_read_to_its_end_or_the_cap(
    see: See, given: bytes, kept: int, at_eof: bool
) -> None:
    """What does not fit the cap was not read to its end, and the record says so."""
    record = see({}, input=given)

    assert record["stdin"].encode() == given[:kept]
    assert (record["stdin_bytes"], record["stdin_at_eof"]) == (kept, at_eof)


def test_stdin_that_nobody_closes_is_not_at_its_end(see: See) -> None:
    """An executor that leaves stdin open hangs the commands that read it."""
    source, sink = os.pipe()
    try:
        os.write(sink, b"\xfe")
        record = see({"stdin_wait": 0.1}, stdin=source)
    finally:
        os.close(source)
        os.close(sink)

    assert record["stdin_base64"] == base64.b64encode(b"\xfe").decode()
    assert record["stdin_at_eof"] is False


def test_a_closed_stdin_is_unseen_not_empty(see: See) -> None:
    """What could not be looked at is named; it never passes for an empty finding."""
    assert see({})["unseen"] == {}

    record = see({}, before=changed("os.close(0)"))

    assert record["unseen"] == {"stdin": "EBADF"}
    assert "stdin" not in record
    assert "0" not in record["fds"]


def test_open_descriptors_are_recorded_without_our_own(see: See) -> None:
    """One descriptor too many is a way out of the sandbox."""
    assert [*see({})["fds"]] == ["0", "1", "2"]
    extra = os.open("/etc/passwd", os.O_RDONLY)
    try:
        record = see({}, stdin=subprocess.DEVNULL, pass_fds=[extra])
    finally:
        os.close(extra)

    assert record["fds"].keys() == {"0", "1", "2", str(extra)}
    assert (record["fds"]["0"], record["fds"][str(extra)]) == ("/dev/null", "/etc/passwd")
    assert record["fds"]["1"].startswith("pipe:[")


def test_ids_session_and_lack_of_a_terminal_are_recorded(see: See) -> None:
    """A command in its own session leads it, and cannot reach the caller's terminal."""
    record = see({}, start_new_session=True)

    assert record["pid"] == record["pgid"] == record["sid"]
    assert record["ppid"] == os.getpid()
    assert record["tty"] is None
    assert [record[k] for k in ("uid", "euid", "suid")] == [*os.getresuid()]
    assert [record[k] for k in ("gid", "egid", "sgid")] == [*os.getresgid()]
    assert record["groups"] == os.getgroups()


def test_a_controlling_terminal_is_recorded(see: See) -> None:
    """Through a terminal a command can type into its caller's shell (TIOCSTI)."""
    master, slave = os.openpty()
    try:
        take = f"os.close(os.open({os.ttyname(slave)!r}, os.O_RDWR))"
        record = see({}, before=changed(take), start_new_session=True)
        device = os.fstat(slave).st_rdev
    finally:
        os.close(master)
        os.close(slave)

    assert record["tty"] == f"{os.major(device)}:{os.minor(device)}"


def test_limits_umask_and_signals_are_recorded(see: See) -> None:
    """What a caller sets is seen; what the interpreter sets for itself (SIGPIPE) is not."""
    inherited = {n for n in signal.valid_signals() if signal.getsignal(n) is signal.SIG_IGN}
    inherited -= {signal.SIGPIPE, signal.SIGXFSZ}  # a shell's background jobs ignore SIGINT
    before = see({}, restore_signals=False)
    assert (before["signals_ignored"], before["signals_blocked"]) == (sorted(inherited), [])

    record = see(
        {},
        before=changed(
            "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 65))\n"
            "os.umask(0o077)\n"
            "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])"
        ),
    )

    assert record["limits"]["RLIMIT_NOFILE"] == [64, 65]
    assert record["limits"].keys() == {n for n in dir(resource) if n.startswith("RLIMIT_")}
    assert record["umask"] == "0077"
    assert record["signals_ignored"] == sorted(inherited | {signal.SIGTERM})
    assert record["signals_blocked"] == [signal.SIGUSR1]


def test_an_absent_limit_is_called_unlimited(see: See) -> None:
    """A plain -1 would compare as less than any limit."""
    given = resource.getrlimit(resource.RLIMIT_AS)
    want = ["unlimited" if n == resource.RLIM_INFINITY else n for n in given]

    assert see({})["limits"]["RLIMIT_AS"] == want


def test_capabilities_and_filters_are_the_kernels_words(see: See) -> None:
    """A child started plainly has those of its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    mine = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    names = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"]

    record = see({})

    assert {name: record["status"][name] for name in names} == {name: mine[name] for name in names}


def test_interfaces_and_root_are_recorded(see: See) -> None:
    """What is visible of the host from here: everything."""
    record = see({})

    assert sorted(record["interfaces"]) == sorted(name for _, name in socket.if_nameindex())
    assert record["root"] == sorted(os.listdir("/"))


def test_each_run_leaves_its_own_whole_record(run: Run, tmp_path: Path) -> None:
    """Runs side by side, with equal pids in their sandboxes, never overwrite one another."""
    plan = {"record": "./kept", "environs": "none"}
    (tmp_path / "kept").mkdir()
    together = [
        subprocess.Popen(command(plan, str(n)), cwd=tmp_path, stdin=subprocess.DEVNULL)
        for n in range(8)
    ]
    assert [process.wait(PATIENCE_S) for process in together] == [0] * 8

    assert run(plan, "later").returncode == 0

    names = sorted(entry.name for entry in (tmp_path / "kept").iterdir())
    assert names == [f"record-{n}.json" for n in range(1, 10)]
    records = [json.loads((tmp_path / "kept" / name).read_text()) for name in names]
    assert sorted(record["argv"][0] for record in records) == [*"01234567", "later"]
    assert records[8]["argv"] == ["later"]


def test_the_record_can_go_to_stderr(run: Run) -> None:
    """For a command whose stdout is the answer."""
    done = run({"record": "stderr", "environs": "none", "stdout": "answer"}, "x")

    assert done.stdout == b"answer"
    assert json.loads(done.stderr)["argv"] == ["x"]


def test_a_record_that_cannot_be_kept_ends_the_run_before_its_effect(
    run: Run, tmp_path: Path
) -> None:
    """A test that finds no record must not find an effect either."""
    done = run({"record": "./absent", "environs": "none", "sent": "sent.log", "stdout": "x"})

    assert (done.returncode, done.stdout) == (74, b"")
    assert b"ENOENT" in done.stderr
    assert not (tmp_path / "sent.log").exists()


# ---- things to try


def test_files_are_tried_for_real(see: See, tmp_path: Path) -> None:
    """Each attempt beside one that cannot work, so that ``ok`` means something."""
    (tmp_path / "there").write_text("old\n")
    tries = [
        {"write": "there", "text": "new\n"},
        {"write": "/dev/null"},
        {"write": "no/where"},
        {"read": "there"},
        {"read": "absent"},
        {"read": "/dev/zero"},
        {"listdir": "."},
        {"listdir": "there"},
    ]

    record = see({"try": tries})

    wrote, wrote_device, not_wrote, read, not_read, endless, listed, not_listed = record["try"]
    assert [result["try"] for result in record["try"]] == tries
    assert (wrote["ok"], (tmp_path / "there").read_text()) == (True, "old\nnew\n")
    assert wrote_device["ok"] is True
    assert (not_wrote["ok"], not_wrote["errno"]) == (False, "ENOENT")
    assert (read["ok"], read["content"]) == (True, "old\nnew\n")
    assert read["sha256"] == hashlib.sha256(b"old\nnew\n").hexdigest()
    assert (not_read["ok"], not_read["errno"]) == (False, "ENOENT")
    assert (endless["ok"], endless["cut"]) == (True, True)
    assert (listed["ok"], listed["names"]) == (True, ["there"])
    assert (not_listed["ok"], not_listed["errno"]) == (False, "ENOTDIR")


def test_connections_are_tried_for_real(see: See) -> None:
    """A port that listens, the same one when it no longer does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        where = f"127.0.0.1:{server.getsockname()[1]}"
        assert see({"try": [{"connect": where}]})["try"] == [
            {"try": {"connect": where}, "ok": True}
        ]

    record = see({"try": [{"connect": where}]})

    assert record["try"] == [{"try": {"connect": where}, "ok": False, "errno": "ECONNREFUSED"}]


def test_memory_is_tried_for_real_and_its_lack_survived(see: See) -> None:
    """Under a limit the attempt fails, and the recorder lives to say so."""
    plan = {"try": [{"alloc": 300 << 20}]}
    assert see(plan)["try"] == [{"try": {"alloc": 300 << 20}, "ok": True}]

    limit = "resource.setrlimit(resource.RLIMIT_AS, (200 << 20, 200 << 20))"
    record = see(plan, before=changed(limit))

    assert record["try"] == [{"try": {"alloc": 300 << 20}, "ok": False, "errno": "ENOMEM"}]


def test_forks_are_alive_together_and_gone_afterwards(start: Start) -> None:
    """Children that end one by one would never meet a limit on processes."""
    plan = {"record": "stdout", "environs": "none", "try": [{"fork": 5}]}

    fake = start(plan)

    record = json.loads(fake.stdout.read())  # to the end of file: no child holds the pipe
    assert record["try"] == [{"try": {"fork": 5}, "ok": True, "made": 5}]
    assert fake.ended() == 0


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become a user without processes")
@pytest.mark.skipif(not Path(SYSTEM_PYTHON).exists(), reason=f"no {SYSTEM_PYTHON}")
def test_forks_beyond_a_limit_are_counted() -> None:
    """How many were possible, and why not one more."""
    plan = {"record": "stdout", "environs": "none", "try": [{"fork": 9}]}
    nobody = 100_000 + os.getpid()  # the limit counts a user's processes: this one has no others
    limit = f"resource.setrlimit(resource.RLIMIT_NPROC, (4, 4)); os.setuid({nobody})"
    # As text, not as a file: that user may not enter our directories.
    argv = [SYSTEM_PYTHON, "-I", "-S", "-c", FAKE.read_text(), "--plan-json", json.dumps(plan)]

    done = subprocess.run(
        [*changed(limit), *argv], cwd="/proc", env={}, input=b"", capture_output=True
    )

    [result] = json.loads(done.stdout)["try"]
    assert result == {"try": {"fork": 9}, "ok": False, "made": 3, "errno": "EAGAIN"}


def test_programs_are_tried_for_real(see: See) -> None:
    """Could it be started, how did it end, what did it print, with which environment?"""
    tries = [
        {"exec": ["/bin/sh", "-c", "echo $A; exit 3"]},
        {"exec": ["/bin/sh", "-c", "kill -PIPE $$"]},  # not ignored: that was the interpreter
        {"exec": ["/nowhere/to/be/found"]},
    ]

    record = see({"try": tries}, env={"A": "hello"})

    assert record["try"] == [
        {"try": tries[0], "ok": True, "exit": 3, "stdout": "hello\n"},
        {"try": tries[1], "ok": True, "signal": 13, "stdout": ""},
        {"try": tries[2], "ok": False, "errno": "ENOENT"},
    ]


# ---- the effect


def test_each_run_appends_one_line_to_sent_log(run: Run, tmp_path: Path) -> None:
    """One line per effect; without a text it is the digest of the arguments."""
    assert run({"sent": "sent.log"}, "a", "").returncode == 0
    assert run({"sent": "sent.log", "sent_text": "to ana"}).returncode == 0

    digest = hashlib.sha256(b"a\0\0").hexdigest()
    assert (tmp_path / "sent.log").read_text() == f"{digest}\nto ana\n"


def test_an_effect_that_fails_is_followed_by_no_answer(run: Run) -> None:
    """The fake never says it sent what it did not send."""
    done = run({"sent": "no/sent.log", "stdout": "queued as 1"})

    assert (done.returncode, done.stdout) == (74, b"")


def test_the_line_is_synced_to_disk(tmp_path: Path) -> None:
    """A crash right after the effect must not lose its trace: one write, one sync."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("no strace")
    log = tmp_path / "trace"
    watch = [strace, "-f", "-y", "-e", "trace=write,fsync", "-o", str(log)]

    done = subprocess.run(
        [*watch, *command({"sent": "sent.log", "sent_text": "to ana", "then": "sent-then-crash"})],
        cwd=tmp_path,
        capture_output=True,
    )
    calls = [line.split(None, 1)[1] for line in log.read_text().splitlines() if "sent.log" in line]
    assert done.returncode == -signal.SIGKILL
    assert [call.partition("(")[0] for call in calls] == ["write", "fsync"]


# ---- the answer


def test_both_streams_are_written_in_the_order_of_the_plan(run: Run) -> None:
    """Both into one pipe, so that the order shows."""
    parts = [
        ["stderr", "one "],
        ["stdout", "two\udcff "],
        ["stderr", {"base64": base64.b64encode(b"\x00\xfe").decode()}],
        ["stdout", {"repeat": "ab", "bytes": 5}],
    ]

    done = run({"print": parts}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    assert done.stdout == b"one two\xff \x00\xfeababa"


def test_stdout_comes_before_stderr_by_default(run: Run) -> None:
    """The short form, for a plan that does not care."""
    plan = {"stderr": "then", "stdout": "first, "}

    done = run(plan, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    assert done.stdout == b"first, then"


def test_a_long_output_is_written_in_blocks() -> None:
    """64 KiB a write: through a socket that keeps the borders of each write."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    plan = {"stdout": {"repeat": "x", "bytes": 3 * 65536 + 5}}
    ours.settimeout(PATIENCE_S)
    with ours, theirs, subprocess.Popen(command(plan), stdout=theirs.fileno()) as fake:
        theirs.close()
        blocks = [*iter(lambda: ours.recv(1 << 20), b"")]
        assert fake.wait(PATIENCE_S) == 0

    assert [len(block) for block in blocks] == [65536, 65536, 65536, 5]
    assert set(b"".join(blocks)) == {ord("x")}


def test_done_is_written_only_after_the_last_byte_was_taken(start: Start, tmp_path: Path) -> None:
    """Case 04: the file shows that the command got rid of all its output."""
    fake = start({"stdout": {"repeat": "x", "bytes": 1 << 20}, "done": "done"})
    until(lambda: is_asleep(fake.pid), "the fake waiting for its reader")
    assert not (tmp_path / "done").exists()

    assert len(fake.stdout.read()) == 1 << 20

    assert fake.ended() == 0
    assert (tmp_path / "done").read_text() == "done\n"


def test_output_to_a_closed_descriptor_is_a_fault_and_said(run: Run) -> None:
    """It neither vanishes nor lands in a file that took the number."""
    done = run({"stdout": "x"}, before=changed("os.close(1)"))

    assert done.returncode == 74
    assert b"EBADF" in done.stderr


# ---- the awkward thing


@pytest.mark.parametrize("code", [0, 1, 75, 255])
def test_exit_n(run: Run, code: int) -> None:
    """The status is the plan's own."""
    done = run({"stdout": "ERROR rejected", "then": {"exit": code}})

    assert (done.returncode, done.stdout) == (code, b"ERROR rejected")


def test_hang_lasts_until_asked_politely(start: Start) -> None:
    """The control of the fake that ignores the polite signal."""
    fake = start({"stdout": "ready", "then": "hang"})
    assert fake.stdout.read(5) == b"ready"
    until(lambda: is_asleep(fake.pid), "the fake asleep")

    fake.send(signal.SIGTERM)

    assert fake.ended() == -signal.SIGTERM


def test_ignore_term_and_hang_takes_a_kill(start: Start) -> None:
    """The output comes after the signals are ignored: who has read it can rely on that."""
    fake = start({"stdout": "ready", "then": "ignore-term-and-hang"})
    assert fake.stdout.read(5) == b"ready"

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        fake.send(number)
    fake.send(signal.SIGKILL)

    # A signal that was not ignored would be the one it died by: it was sent before.
    assert fake.ended() == -signal.SIGKILL


def test_sleep_ends_by_itself_and_writes_late(run: Run, start: Start, tmp_path: Path) -> None:
    """Case 03: what a command does after its caller is gone."""
    assert run({"then": {"sleep": 0, "exit": 4, "sleep_writes": "late.txt"}}).returncode == 4
    assert (tmp_path / "late.txt").read_text() == "late\n"
    (tmp_path / "late.txt").unlink()

    fake = start({"stdout": "ready", "then": {"sleep": 300, "sleep_writes": "late.txt"}})
    assert fake.stdout.read(5) == b"ready"
    until(lambda: is_asleep(fake.pid), "the fake asleep")
    fake.send(signal.SIGKILL)

    assert fake.ended() == -signal.SIGKILL
    assert not (tmp_path / "late.txt").exists()


@pytest.mark.parametrize("clean", [False, True], ids=["own-env", "clean-env"])
def test_daemon_shares_nothing_with_its_parent_but_the_pipes(start: Start, clean: bool) -> None:
    """Case 01: found by neither parent, session, name, directory nor, if asked, environment."""
    fake = start({"stdout": "SENT\n", "then": {"daemon": 300, "daemon_clean_env": clean}})

    assert fake.ended() == 0
    assert fake.stdout.read(5) == b"SENT\n"
    [daemon] = fake.holders()
    proc = Path(f"/proc/{daemon}")
    _, parent, group, session, *_ = stat_of(daemon)
    assert int(parent) not in (fake.pid, os.getpid())
    assert fake.pid not in (int(group), int(session))
    assert (proc / "cmdline").read_bytes().strip(b"\0") == b"late-daemon"
    assert (proc / "comm").read_text() == "late-daemon\n"
    assert os.readlink(proc / "cwd") == "/"
    assert {os.readlink(proc / "fd" / n) for n in "12"} == {
        fake.pipe,
        fake.stderr.name,
    }
    assert (b"KEPT=yes" in (proc / "environ").read_bytes()) is not clean

    end(daemon)

    assert (fake.stdout.read(), fake.stderr.read()) == (b"", b"")  # only now the end of file


def test_daemon_writes_late_where_its_parent_stood(start: Start, tmp_path: Path) -> None:
    """The path is taken from the command's directory, not from the daemon's."""
    fake = start({"then": {"daemon": 0, "daemon_writes": "late.txt"}})

    assert fake.ended() == 0
    assert fake.stdout.read() == b""  # the end of file is the daemon's end
    assert (tmp_path / "late.txt").read_text() == "late\n"


def test_children_outlive_their_parent_in_its_session(start: Start) -> None:
    """Plain background children: ``sleep 300 &`` three times."""
    fake = start({"then": {"children": 3}})

    assert fake.ended() == 0
    left = fake.holders()
    assert len(left) == 3
    assert {int(stat_of(pid)[3]) for pid in left} == {fake.pid}


def test_children_end_when_the_plan_says(start: Start) -> None:
    """The pipe reaches its end without anyone's help."""
    fake = start({"then": {"children": 2, "sleep": 0}})

    assert fake.ended() == 0
    assert fake.stdout.read() == b""


def test_flood_lasts_until_its_reader_goes_and_dies_as_a_c_program_does(start: Start) -> None:
    """Of SIGPIPE: the interpreter's own habit of ignoring it is undone."""
    fake = start({"then": "flood"})
    assert fake.stdout.read(8 << 20) == b"x" * (8 << 20)

    fake.stdout.close()

    assert fake.ended() == -signal.SIGPIPE


def test_a_bounded_flood_is_exact(run: Run) -> None:
    """Not one byte more, and then the end."""
    done = run({"then": {"flood": (3 << 20) + 1}})

    assert (done.returncode, len(done.stdout)) == (0, (3 << 20) + 1)


DEADLY = [signal.SIGHUP, signal.SIGINT, signal.SIGABRT, signal.SIGKILL, signal.SIGSEGV]


@pytest.mark.parametrize("number", [*DEADLY, signal.SIGTERM])
def test_signal_n_is_died_by_without_a_core(tmp_path: Path, number: signal.Signals) -> None:
    """Even where the caller ignores or blocks it, and allows cores."""
    allow = (
        f"os.chdir({str(tmp_path)!r})\n"
        "hard = resource.getrlimit(resource.RLIMIT_CORE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))\n"
        f"signal.pthread_sigmask(signal.SIG_BLOCK, [{int(number)}])"
    )
    argv = [*changed(allow), *command({"then": {"signal": int(number)}})]

    status = os.waitpid(os.posix_spawn(argv[0], argv, {}), 0)[1]

    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == number
    assert not os.WCOREDUMP(status)
    assert list(tmp_path.iterdir()) == []


def test_not_utf8(run: Run) -> None:
    """Three bytes that no reader of text can take."""
    done = run({"then": "not-utf8"})

    assert (done.returncode, done.stdout) == (0, b"\xff\xfe\x80")


def test_sent_then_crash_leaves_the_line_and_no_answer(run: Run, tmp_path: Path) -> None:
    """Case 24: it happened, and only the log knows."""
    done = run({"sent": "sent.log", "sent_text": "to ana", "then": "sent-then-crash"})

    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGKILL, b"", b"")
    assert (tmp_path / "sent.log").read_text() == "to ana\n"


def test_sent_then_hang_leaves_the_line_and_no_answer(start: Start, tmp_path: Path) -> None:
    """Case 17: the answer is lost, not the message."""
    fake = start({"sent": "sent.log", "sent_text": "to ana", "then": "sent-then-hang"})
    log = tmp_path / "sent.log"
    until(lambda: log.exists() and log.read_text() == "to ana\n", "the line")
    until(lambda: is_asleep(fake.pid), "the fake asleep")

    fake.send(signal.SIGTERM)

    assert fake.ended() == -signal.SIGTERM
    assert (fake.stdout.read(), fake.stderr.read()) == (b"", b"")
    assert log.read_text() == "to ana\n"


def test_close_stdout_and_hang_ends_the_stream_but_not_the_process(start: Start) -> None:
    """The end of file is not the end of the command."""
    fake = start({"stdout": "bye", "then": "close-stdout-and-hang"})

    assert fake.stdout.read() == b"bye"
    assert fake.process.poll() is None
    fake.send(signal.SIGTERM)

    assert fake.ended() == -signal.SIGTERM


@pytest.mark.parametrize("count", [1, 2, 25])
def test_fork_bomb_makes_so_many_and_no_more(start: Start, count: int) -> None:
    """Bounded, so that a test that fails does not take the machine with it."""
    fake = start({"then": {"fork-bomb": count}})

    def all_asleep() -> bool:
        return len(found := fake.holders()) > count and all(map(is_asleep, found))

    until(all_asleep, f"{count} more processes, asleep")  # asleep: none of them forks any more

    assert len(fake.holders()) == count + 1


# ---- inside a sandbox


def sandbox(*options: str) -> list[str]:
    bwrap = shutil.which("bwrap")
    if bwrap is None or not Path(SYSTEM_PYTHON).exists():
        pytest.skip(f"no bwrap, or no {SYSTEM_PYTHON}")
    argv = [bwrap, "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr"]
    for name in ("lib", "lib64", "bin"):
        argv += ["--symlink", f"usr/{name}", f"/{name}"]
    argv += ["--ro-bind", str(FAKE), "/fake", "--tmpfs", "/box", "--chdir", "/box"]
    return [*argv, *options]


def seen_in(argv: list[str], plan: object, env: dict[str, str]) -> Record:
    whole = [*argv, "/fake", "--plan-json", json.dumps(plan)]
    done = subprocess.run(whole, env=env, input=b"", capture_output=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (0, b"")
    record = json.loads(done.stdout)
    assert isinstance(record, dict)
    return record


def test_a_bare_sandbox_is_recorded_as_bare(tmp_path: Path) -> None:
    """The executor's usual way: an empty directory, environment, network; no host."""
    (tmp_path / "f").write_text("BENIGN")
    argv = sandbox("--proc", "/proc", "--clearenv", "--ro-bind", str(tmp_path / "f"), "/box/f")
    plan = {"record": "stdout", "try": [{"read": str(FAKE)}, {"connect": "192.0.2.1:9"}]}

    record = seen_in(argv, plan, {})

    assert record["unseen"] == {}
    assert record["env"] == {"PWD": "/box"}
    assert [(entry["path"], entry["content"]) for entry in record["files"]] == [("f", "BENIGN")]
    assert record["interfaces"] == ["lo"]
    assert record["root"] == ["bin", "box", "fake", "lib", "lib64", "proc", "usr"]
    assert [*record["environs"]] == ["1", str(record["pid"])]
    assert [result["errno"] for result in record["try"]] == ["ENOENT", "ENETUNREACH"]


def test_environments_of_others_show_names_and_only_on_request_values() -> None:
    """Case 07: bwrap's own process keeps what it cleared for the command.

    Values are kept only on request: outside a sandbox they are the tester's own secrets.
    """
    argv = sandbox("--proc", "/proc", "--clearenv")
    env = {"SUPMARK": "topsecret"}

    names = seen_in(argv, {"record": "stdout"}, env)
    full = seen_in(argv, {"record": "stdout", "environs": "full"}, env)
    none = seen_in(argv, {"record": "stdout", "environs": "none"}, env)

    assert "SUPMARK" not in names["env"]
    assert names["environs"]["1"] == {"names": ["SUPMARK"]}
    assert "topsecret" not in json.dumps(names)
    assert full["environs"]["1"]["env_list"] == ["SUPMARK=topsecret"]
    assert "environs" not in none


def test_without_proc_the_record_says_what_it_could_not_see() -> None:
    """Unseen is a finding of its own; it never reads as "nothing there"."""
    record = seen_in(sandbox("--clearenv"), {"record": "stdout"}, {})

    assert record["unseen"] == dict.fromkeys(
        ["fds", "status", "env", "tty", "environs", "interfaces"], "ENOENT"
    )
    assert not record.keys() & {"fds", "status", "env", "tty", "environs", "interfaces"}
    assert record["cwd"] == "/box"


def test_an_installed_copy_takes_its_plan_from_its_file_and_no_argument_for_one(
    tmp_path: Path,
) -> None:
    """It stands in the place of a real command, whose arguments are all its own."""
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"record": "stdout"}))
    copy = tmp_path / "curl"
    copy.write_text(FAKE.read_text().replace('PLAN_FILE = ""', f"PLAN_FILE = {str(plan)!r}", 1))
    argv = [sys.executable, "-I", "-S", str(copy), "--plan-json", "{}"]

    done = subprocess.run(argv, capture_output=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL)

    assert json.loads(done.stdout)["argv"] == ["--plan-json", "{}"]
    plan.unlink()
    lost = subprocess.run(argv, capture_output=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL)
    assert (lost.returncode, lost.stdout) == (64, b"")
