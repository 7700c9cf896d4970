"""The ledger at the command line: whoever has to decide is shown all, whatever else fails."""

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from executor import units
from executor.attempt import Moment
from executor.cli.ledger.parts import resend_until
from executor.manifest import Manifest
from tests.cli.call import Cli, Done, finish, read_terminal, terminal, until
from tests.cli.ledgers import OUTCOMES, SENT, UNCLEAR, ledger, listed, run, states, verifying
from tests.conftest import lacking
from tests.ledger.attempts import MINUTE, attempt, later, rebooted

DOUBT = "doubt --fail-if-any"
OTHER = 65534
AS_ANOTHER = [
    *(sys.executable, "-c"),
    # What it needs is imported first: the interpreter may lie where only root can look.
    "import os, executor.cli.main, executor.cli.commands, executor.cli.ledger\n"
    f"os.setgroups([]); os.setgid({OTHER}); os.setuid({OTHER})\n"
    "executor.cli.main.main()",
]


def shown(cli: Cli, attempt: str, *words: str) -> dict[str, Any]:
    """Give what `show` has for programs."""
    done = ledger(cli, "show", attempt, "--json", *words)
    assert done.code == 0
    found: dict[str, Any] = json.loads(done.out)
    return found


# -- what it was ----------------------------------------------------------------------------------


@pytest.fixture
def copying(cli: Cli) -> list[str]:
    """The words that run a tool with a file and a target; another action each time."""
    cli.house.manifest(
        parameters={name: {"type": "string"} for name in ("plan", "to", "words", "turn")},
        required=["plan", "to"],
        files={"report": {}},
        argv=[["--plan-json", "{plan}", "--", "{files.report}", "{to}"]],
        capabilities=[{"name": "mail:send", "targets": "{to}"}],
        verify={"argv": [["--plan-json", "{plan}"]], "outcomes": OUTCOMES},
    )
    file = cli.house.file("report.txt", "100 EUR\n")
    return cli.fake(UNCLEAR, "-f", f"report={file}", "-p", "to=bo@example.org")


# rule: ledger.unresolved
@pytest.mark.parametrize("receipt", ["filed", "lost"])
def test_what_an_attempt_was_about_is_shown(
    cli: Cli, namespaced: None, copying: list[str], receipt: str
) -> None:
    """Nobody can find out what became of a digest; a lost receipt takes nothing else along."""
    attempt = cli(*copying, "--json").result()["attempt"]
    if receipt == "lost":
        (cli.house.state / "receipts" / f"{attempt}.json").unlink()

    found, people = shown(cli, attempt), ledger(cli, "show", attempt).out

    assert found["parameters"]["to"] == "bo@example.org"
    assert "parameter   to: bo@example.org" in people
    if receipt == "filed":
        digest = sha256(b"100 EUR\n").hexdigest()
        assert found["targets"] == [{"capability": "mail:send", "target": "bo@example.org"}]
        assert found["files"] == [
            {"slot": "report", "name": "report.txt", "size": 8, "sha256": digest}
        ]
        assert "target      mail:send  bo@example.org" in people
        assert f"file        report: report.txt, 8 B, sha256:{digest}" in people
        assert (found["receipt"], found["receipt_path"]) == (
            attempt,
            str(cli.house.state / "receipts" / f"{attempt}.json"),
        )
    else:
        assert (found["targets"], found["files"], found["receipt"]) == ([], [], None)


# rule: ledger.unresolved
def test_what_runs_is_shown_by_the_draft_of_its_receipt(cli: Cli, namespaced: None) -> None:
    """There is no receipt before the end, and somebody asks what has been running for an hour."""
    started = cli.house.root / "started"
    cli.house.manifest(
        isolation=cli.house.manifest().get("isolation", {}) | {"write": [str(cli.house.root)]},
        capabilities=[{"name": "mail:send", "targets": "bo@example.org"}],
    )
    with cli.start(*cli.fake({"sent": str(started), "then": "hang"})) as process:
        until(started.exists, "the start")

        (entry,) = listed(cli)
        found = shown(cli, entry["attempt"])

        process.terminate()
        finish(process)

    assert (found["state"], found["receipt"]) == ("dispatching", None)
    assert found["targets"] == [{"capability": "mail:send", "target": "bo@example.org"}]


@pytest.mark.parametrize("words", [["list"], ["doubt"]])
def test_lists_have_the_first_target_where_there_is_room(
    cli: Cli, namespaced: None, copying: list[str], words: list[str]
) -> None:
    """Ids tell people nothing; a narrow terminal has room for little else."""
    cli(*copying)

    wide = ledger(cli, *words).out
    with terminal() as (ours, theirs):
        process = cli.start(
            *("ledger", *words, "--state", str(cli.house.state)),
            stdout=theirs,
            env={"TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "80"},
        )
        narrow = read_terminal(ours, theirs, process)
        finish(process)

    assert "TARGET" in wide
    assert "bo@example.org" in wide
    assert "TARGET" not in narrow


# -- which attempt --------------------------------------------------------------------------------


# rule: ledger.by-attempt
def test_a_refusal_is_told_from_an_attempt(cli: Cli, namespaced: None) -> None:
    """Every result has an id, and not every id is an attempt's."""
    words = cli.fake(SENT)
    first = cli(*words, "--json").result()["attempt"]
    refused = cli(*words, "--json").result()["attempt"]

    done = ledger(cli, "show", refused[:27])
    unknown = ledger(cli, "show", "0" * 28)

    assert (done.code, unknown.code) == (2, 2)
    path = cli.house.state / "receipts" / f"{refused}.json"
    assert f"{refused} is a refusal (DUPLICATE_DELIVERED), not an attempt" in done.err
    assert f"its receipt is {path}" in done.err
    assert first in done.err
    assert "The ledger has no attempt" in unknown.err


# rule: ledger.by-attempt
@pytest.mark.parametrize("text", ["*", "../receipts/*", "?" * 28, "[0-9]*" * 2])
def test_what_is_no_id_is_no_pattern_of_files(cli: Cli, namespaced: None, text: str) -> None:
    """A name from outside is looked for, and nothing else."""
    run(cli, SENT)

    done = ledger(cli, "show", text)

    assert done.code == 2
    assert "receipts" not in done.err.replace(text, "")


# rule: ledger.by-attempt
@pytest.mark.parametrize("words", [["ledger", "show"], ["run", "test.fake", "--allow-duplicate"]])
def test_an_id_that_is_too_short_is_told_so(cli: Cli, namespaced: None, words: list[str]) -> None:
    """ "No attempt" would send people looking for it."""
    attempt = run(cli, SENT)
    where = cli.where if words[0] == "run" else ["--state", str(cli.house.state)]

    short = cli(*words, attempt[:7], *where)

    assert short.code == 2
    assert "Give 8 characters of its id at least" in short.err
    assert shown(cli, attempt[:8])["attempt"] == attempt


# -- other users ----------------------------------------------------------------------------------


@pytest.fixture
def place(cli: Cli) -> Iterator[Path]:
    """A place that everybody can come to, with a state directory in it that is root's."""
    if os.geteuid() != 0:
        lacking("only root can become another user")
    with tempfile.TemporaryDirectory(prefix="executor-test-") as place:
        Path(place).chmod(0o755)
        cli("doctor", *cli.where, "--state", f"{place}/state")
        yield Path(place)


# rule: freezing.private-store
@pytest.mark.parametrize("words", [["list"], ["doubt", "--fail-if-any"], ["check"], ["prune"]])
def test_another_user_is_told_whose_ledger_it_is(cli: Cli, place: Path, words: list[str]) -> None:
    """A monitor that runs as somebody else must not read it as a fault, nor as all being well."""
    asked = ["ledger", *words, "--state", str(place / "state")]
    owner = cli(*asked)

    done = cli(*asked, "--json", program=AS_ANOTHER, cwd="/")
    people = cli(*asked, program=AS_ANOTHER, cwd="/")

    assert owner.code == 0
    assert (done.code, done.result()["code"]) == (3, "STORE_UNAVAILABLE")
    assert done.result()["rule"] == "freezing.private-store"
    for said in (done.result()["because"], people.err):
        assert f"{place / 'state'} belongs to user root (0)" in said
        assert f"{OTHER}" in said


# rule: freezing.private-store
def test_not_even_root_works_on_the_ledger_of_another(cli: Cli, place: Path) -> None:
    """What root made there, its owner could not use any more."""
    os.chown(place / "state", OTHER, OTHER)

    done = cli("ledger", "doubt", "--json", "--state", str(place / "state"))

    assert (done.code, done.result()["code"]) == (3, "STORE_UNAVAILABLE")
    assert f"({OTHER}), and this is user root (0)" in done.result()["because"]


# rule: freezing.private-store
def test_a_directory_on_the_way_that_is_closed_is_named(cli: Cli, place: Path) -> None:
    """The state directory itself cannot be seen then."""
    place.chmod(0o700)
    asked = ["ledger", "doubt", "--json", "--state", str(place / "state")]

    done = cli(*asked, program=AS_ANOTHER, cwd="/")

    assert (done.code, done.result()["code"]) == (3, "STORE_UNAVAILABLE")
    assert f"lies in {place}, which belongs to user root (0)" in done.result()["because"]


# -- a full disk ----------------------------------------------------------------------------------


@pytest.fixture
def small_disk(cli: Cli) -> Iterator[Path]:
    """A disk of 4 MiB under the state directory; give the file that fills it once it is written."""
    state = cli.house.state
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "none", str(state)]
    if os.geteuid() != 0 or subprocess.call(mount):
        lacking("only root can mount a disk")
    yield state / "ballast"
    subprocess.run(["umount", "-l", str(state)], check=True)


def fill(ballast: Path) -> None:
    with contextlib.suppress(OSError), open(ballast, "ab", buffering=0) as file:
        while file.write(bytes(4096)):
            pass


# rule: ledger.full-disk
def test_a_full_disk_hinders_nobody_from_looking(
    cli: Cli, namespaced: None, small_disk: Path
) -> None:
    """It is then that people look, and a look writes nothing."""
    attempt = run(cli, UNCLEAR)
    usual = ledger(cli, "doubt", "--fail-if-any")
    fill(small_disk)

    looks = {
        words: ledger(cli, *words.split()) for words in ("list", "check", "doubt --fail-if-any")
    }
    show = ledger(cli, "show", attempt)
    decided = ledger(cli, "resolve", attempt, "--delivered", "--why", "so", "--json")

    assert usual.err == ""
    assert [done.code for done in looks.values()] == [0, 0, 4]
    assert (show.code, decided.code) == (0, 3)
    for done in (*looks.values(), show):
        assert "the ledger can only be looked at" in done.err
    assert looks[DOUBT].out == usual.out
    assert "The ledger is sound" in looks["check"].out
    assert decided.result()["code"] == "STORE_UNAVAILABLE"
    small_disk.unlink()
    assert states(cli) == ["unresolved"]


# rule: ledger.unresolved
# rule: ledger.crash
@pytest.mark.parametrize("log", ["left", "gone"])
def test_what_a_killed_executor_left_is_in_doubt_on_a_full_disk_too(
    cli: Cli, namespaced: None, small_disk: Path, log: str
) -> None:
    """It cannot be put on record, and a monitor must not stay green for that."""
    started = cli.house.root / "started"
    cli.house.manifest(
        isolation=cli.house.manifest().get("isolation", {}) | {"write": [str(cli.house.root)]}
    )
    with cli.start(*cli.fake({"sent": str(started), "then": "hang"})) as process:
        until(started.exists, "the start")
        running = ledger(cli, "doubt", "--fail-if-any")
        process.send_signal(signal.SIGKILL)
        finish(process)
    if log == "gone":  # whoever closes it last takes in its log
        with contextlib.closing(sqlite3.connect(cli.house.state / "ledger.db")) as connection:
            connection.execute("SELECT * FROM attempts").fetchall()
    assert (cli.house.state / "ledger.db-wal").exists() == (log == "left")
    fill(small_disk)

    doubt = ledger(cli, "doubt", "--fail-if-any", "--json")

    assert running.code == 0
    assert doubt.code == 4
    assert json.loads(doubt.out)["code"] == "EXECUTOR_GONE"
    assert "could not be settled" in doubt.err
    small_disk.unlink()
    assert states(cli) == ["unresolved"]


# rule: ledger.sound-store
@pytest.mark.parametrize("harm", ["older", "another", "cut"])
def test_a_full_disk_makes_no_store_sound(
    cli: Cli, namespaced: None, small_disk: Path, harm: str
) -> None:
    """What is looked at without room is looked at no less closely."""
    path = cli.house.state / "ledger.db"
    run(cli, SENT)
    old = path.read_bytes()
    run(cli, SENT)
    if harm == "older":
        path.write_bytes(old)
    elif harm == "another":
        (cli.house.state / "store").write_text(f"sealed-executor {'0' * 32} {1:020d}\n")
    else:
        path.write_bytes(path.read_bytes()[:4096])
    fill(small_disk)

    looked = ledger(cli, "list", "--json")

    assert (looked.code, looked.result()["rule"]) == (3, "ledger.sound-store")


# -- copies ---------------------------------------------------------------------------------------


def copied(cli: Cli, how: str) -> Path:
    """Make a copy as people do."""
    if how == "whole":
        shutil.copytree(cli.house.state, cli.house.home / "backup")
        return cli.house.home / "backup" / "ledger.db"
    copy = cli.house.home / "copy.db"
    with contextlib.closing(sqlite3.connect(cli.house.state / "ledger.db")) as connection:
        connection.execute("VACUUM INTO ?", (str(copy),))
    return copy


def from_copy(cli: Cli, copy: Path, *words: str) -> Done:
    return cli("ledger", *words, "--from", str(copy))


# rule: ledger.sound-store
@pytest.mark.parametrize("how", ["vacuum", "whole"])
def test_a_copy_can_be_looked_at_and_says_that_it_is_one(
    cli: Cli, namespaced: None, how: str
) -> None:
    """A backup is refused in the place of the ledger, and has to be read all the same."""
    attempt = run(cli, SENT)
    copy = copied(cli, how)
    content, beside = copy.read_bytes(), sorted(copy.parent.iterdir())
    later = run(cli, SENT)

    listing = from_copy(cli, copy, "list", "--json")
    show = from_copy(cli, copy, "show", attempt)
    missing = from_copy(cli, copy, "show", later)

    assert [json.loads(line)["attempt"] for line in listing.out.splitlines()] == [attempt]
    for done in (listing, show):
        assert (done.code, f"this is a copy, {copy}" in done.err) == (0, True)
    assert missing.code == 2
    assert f"Attempt {attempt}: delivered" in show.out
    assert ("not beside this copy" in show.out) == (how == "vacuum")
    assert (copy.read_bytes(), sorted(copy.parent.iterdir())) == (content, beside)
    assert {entry["attempt"] for entry in listed(cli)} == {attempt, later}


# rule: ledger.sound-store
def test_what_a_copy_has_in_its_log_is_read_too(cli: Cli, namespaced: None) -> None:
    """Of a killed executor the newest is there, and nowhere else."""
    run(cli, SENT)
    backup = cli.house.home / "backup"
    backup.mkdir()
    with contextlib.closing(sqlite3.connect(cli.house.state / "ledger.db")) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT * FROM attempts").fetchall()
        run(cli, SENT)  # its log stays while somebody reads
        for name in ("ledger.db", "ledger.db-wal"):
            shutil.copy(cli.house.state / name, backup / name)
    assert (backup / "ledger.db-wal").stat().st_size

    done = from_copy(cli, backup / "ledger.db", "list", "--json")

    assert (done.code, done.out.count("\n")) == (0, 2)


# rule: ledger.sound-store
def test_what_is_no_copy_of_a_ledger_is_refused(cli: Cli, namespaced: None) -> None:
    """An empty list would look like one."""
    run(cli, SENT)
    text = cli.house.file("text.db", "not a database at all\n" * 100)
    copy, other = copied(cli, "vacuum"), cli.house.root / "other.db"
    shutil.copy(copy, other)
    with contextlib.closing(sqlite3.connect(other)) as connection:
        connection.execute("PRAGMA application_id = 1")  # another program's, with tables like ours
    damaged = cli.house.file("damaged.db", copy.read_bytes()[:8192] + b"\xa5" * 8192)

    ends = [from_copy(cli, path, "list", "--json") for path in (text, other, damaged)]
    both = cli("ledger", "list", "--from", str(copy), "--state", str(cli.house.state))

    assert [(done.code, done.result()["rule"]) for done in ends] == [(3, "ledger.sound-store")] * 3
    assert (both.code, from_copy(cli, copy, "list").code) == (2, 0)


# -- what comes next ------------------------------------------------------------------------------


# rule: ledger.evidence
def test_show_says_how_a_tool_of_ones_own_is_asked(cli: Cli, namespaced: None) -> None:
    """Without its manifest `verify` knows no such tool."""
    verifying(cli, SENT)
    attempt, manifests = run(cli, UNCLEAR), str(cli.house.manifests)

    without = ledger(cli, "show", attempt)
    given = ledger(cli, "show", attempt, "--manifest", manifests)
    unknown = cli("ledger", "verify", attempt, "--state", str(cli.house.state))

    command = f"executor ledger verify {attempt} --state {cli.house.state} --manifest"
    assert f"{command} MANIFEST\n" in without.out
    assert f"{command} {manifests}\n" in given.out
    assert (unknown.code, "`--manifest`" in unknown.err) == (2, True)


def keyed(cli: Cli, window: str) -> None:
    """Let the fake's command hand on the key of its action."""
    cli.house.manifest(
        argv=[["--plan-json", "{plan}", "--", "{idempotency_key}"]],
        idempotency={"window": window},
    )


# rule: ledger.idempotency-key
def test_until_when_an_unresolved_action_goes_out_again_under_its_key_is_told(
    cli: Cli, namespaced: None
) -> None:
    """To ask again is the way out then, and after that time it is refused."""
    plain = cli(*cli.fake(UNCLEAR))
    keyed(cli, "10 min")
    first = cli(*cli.fake(UNCLEAR))
    entry = listed(cli)[0]
    manifests = ["--manifest", str(cli.house.manifests)]

    told = ledger(cli, "show", entry["attempt"], *manifests)
    without = ledger(cli, "show", entry["attempt"])

    dispatched = Moment.parse(f"{entry['dispatched_at']} 0 boot".replace("Z ", "+00:00 "))
    until_minute = Moment(dispatched.wall + 600_000, 0, "").at[:16]
    for said in (first.err, told.out):
        assert "under the same idempotency" in said
        assert until_minute in said
    for said in (plain.err, without.out):
        assert "idempotency" not in said


# rule: ledger.idempotency-key
def test_no_time_is_told_when_the_provider_has_forgotten_the_key(
    cli: Cli, namespaced: None
) -> None:
    """Asked again it would be refused."""
    keyed(cli, "1 ms")

    done = cli(*cli.fake(UNCLEAR))
    attempt = listed(cli)[0]["attempt"]
    shown_ = ledger(cli, "show", attempt, "--manifest", str(cli.house.manifests))

    assert "idempotency" not in done.err
    assert "idempotency" not in shown_.out


# rule: ledger.idempotency-key
def test_a_time_is_told_only_where_it_is_certain(cli: Cli) -> None:
    """The provider counts from what it saw first, and no clock goes on over a reboot."""
    changes = cli.house.manifest(idempotency={"window": "10 min"}, argv=[["{idempotency_key}"]])
    manifest = msgspec.convert(changes, Manifest, dec_hook=units.parse)
    plain = msgspec.structs.replace(manifest, idempotency=None)
    earlier = attempt("a-1", "released", key="k")
    found = attempt("a-2", "unresolved", key="k", dispatched=later(8 * MINUTE))
    alarmed = msgspec.structs.replace(found, alarm="released by person, then delivered")
    without = msgspec.structs.replace(found, key="")
    now = later(9 * MINUTE)

    assert resend_until(manifest, found, [found], now) == later(18 * MINUTE).at
    assert resend_until(manifest, found, [earlier, found], now) == later(10 * MINUTE).at
    set_back = later(9 * MINUTE, step=-5 * MINUTE)
    assert resend_until(manifest, found, [earlier, found], set_back) == later(5 * MINUTE).at

    assert resend_until(plain, found, [found], now) is None
    assert resend_until(manifest, alarmed, [alarmed], now) is None
    assert resend_until(manifest, without, [without], now) is None
    assert resend_until(manifest, earlier, [earlier], now) is None
    assert resend_until(manifest, found, [earlier, found], later(10 * MINUTE)) is None
    assert resend_until(manifest, found, [earlier, found], rebooted(9 * MINUTE)) is None
