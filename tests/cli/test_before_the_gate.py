"""Bad input that never becomes a request: told in full, exit 2 or 3, one JSON object."""

import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.call import Cli, finish, until

FILES: dict[str, tuple[str | bytes, str]] = {
    "not-yaml": ("tool: [", "1:8"),
    "two-documents": ("tool: a\n---\ntool: b\n", "2:1"),
    "key-twice": ("tool: a\ntool: b\n", "2:1"),
    "a-tag": ("tool: !!python/object/apply:os.system [id]\n", "1:7"),
    "not-utf8": (b"tool: \xff\n", "1:7"),
    "empty": ("", "1:1"),
    "a-list": ("[1, 2]\n", "1:1"),
    "wrong-type": ("executor: request/1\ntool: 12\nasked_by: {role: a}\n", "2:"),
    "misspelt-key": ("tool: a.b\nasked_by: {role: a}\nparameter: {}\n", "3:1"),
    "other-version": ("executor: request/2\ntool: a.b\nasked_by: {role: a}\n", "1:"),
}


def told(cli: Cli, done: Any, rule: str, code: str) -> dict[str, Any]:
    """The refusal is complete on both streams."""
    result: dict[str, Any] = done.result()
    assert (result["rule"], result["code"], result["status"]) == (rule, code, "refused")
    assert (result["attempt"], result["receipt"]) == (None, None)
    assert f"({code})" in done.err
    assert f"  rule       {rule}, in stage {result['stage']}\n" in done.err
    assert f"  recovery   {result['recovery']}: " in done.err
    assert result["todo"] in done.err
    return result


# rule: admission.closed-request
@pytest.mark.parametrize(("content", "place"), FILES.values(), ids=FILES)
@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_a_request_file_that_is_not_valid_is_refused_at_its_place(
    cli: Cli, content: str | bytes, place: str, suffix: str
) -> None:
    """An agent that wrote it mends it without a person, if it is told where."""
    path = cli.house.root / f"request{suffix}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())

    done = cli("run", path.name, *cli.where, "--json")

    assert done.code == 2
    result = told(cli, done, "admission.closed-request", "INVALID_REQUEST")
    assert f"{path.name}:{place}" in result["because"]
    assert cli.receipts() == []


def test_every_problem_of_a_request_file_is_told_at_once(cli: Cli) -> None:
    """One problem a run makes a long afternoon."""
    (cli.house.root / "request.yaml").write_text("tool: 12\nlevel: []\nsurplus: 1\n")

    because = cli("run", "request.yaml", *cli.where, "--json").result()["because"]

    for key in ("tool", "level", "surplus", "asked_by"):
        assert key in because


def test_a_good_request_file_runs(cli: Cli, namespaced: None) -> None:
    """The twin: one fact right, and it is taken."""
    cli.house.manifest()
    (cli.house.root / "request.yaml").write_text(
        "executor: request/1\ntool: test.fake\nasked_by: {role: assistant}\n"
    )

    done = cli("run", "request.yaml", *cli.where, "--json")

    assert done.code == 0
    assert cli.receipts()[0]["asked_by"] == {"role": "assistant"}


@pytest.mark.parametrize(
    ("what", "found"),
    [
        ("missing.yaml", "No such file or directory"),
        ("./no-suffix", "No such file or directory"),
        ("directory.yaml", "Is a directory"),
        ("loop.yaml", "Too many levels of symbolic links"),
        ("name\nwith\x1bodd.yaml", "No such file or directory"),
        ("x" * 300 + ".yaml", "File name too long"),
    ],
)
def test_a_request_file_that_cannot_be_read_is_refused(cli: Cli, what: str, found: str) -> None:
    """The system knows why; it has to be passed on."""
    (cli.house.root / "directory.yaml").mkdir()
    (cli.house.root / "loop.yaml").symlink_to("loop.yaml")

    done = cli("run", what, *cli.where, "--json")

    assert done.code == 2
    assert found in told(cli, done, "admission.closed-request", "INVALID_REQUEST")["because"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read every file")
def test_a_file_without_read_permission_is_refused(cli: Cli) -> None:
    """A wrong mode is the commonest reason."""
    path = cli.house.root / "request.yaml"
    path.write_text("")
    path.chmod(0)

    done = cli("run", path.name, *cli.where, "--json")

    assert "Permission denied" in done.result()["because"]


# rule: admission.closed-config
@pytest.mark.parametrize("command", [["run", "test.fake"], ["doctor"]], ids=["run", "doctor"])
@pytest.mark.parametrize(
    "content", [None, "degarded: true\n", "state: [\n", "roots: /tmp\n", "executor: config/2\n"]
)
def test_a_configuration_that_is_not_valid_opens_nothing(
    cli: Cli, command: list[str], content: str | None
) -> None:
    """A misspelt guard must not be taken for no guard."""
    path = cli.house.root / "executor.yaml"
    if content is not None:
        path.write_text(content)

    done = cli(*command, *cli.where, "--config", str(path), "--json")

    assert done.code == 2
    result = told(cli, done, "admission.closed-config", "INVALID_CONFIG")
    assert str(path) in result["because"]
    assert not (cli.house.state / "receipts").exists()


def test_a_configuration_from_the_environment_is_used(cli: Cli) -> None:
    """`show_envvar` in the help promises it."""
    done = cli("doctor", "--json", env={"EXECUTOR_CONFIG": "nowhere.yaml"})

    assert (done.code, done.result()["code"]) == (2, "INVALID_CONFIG")


# rule: admission.closed-manifest
def test_one_bad_manifest_among_good_ones_opens_nothing(cli: Cli) -> None:
    """Half a set of tools is not what anybody reviewed."""
    cli.house.manifest()
    (cli.house.manifests / "bad.yaml").write_text("tool: x.y\n")

    done = cli(*cli.fake(), "--json")

    assert done.code == 2
    result = told(cli, done, "admission.closed-manifest", "INVALID_MANIFEST")
    assert "bad.yaml:1:1: 'command' is missing" in result["because"]

    (cli.house.manifests / "bad.yaml").unlink()
    assert cli("doctor", *cli.where).code in (0, 1)


@pytest.mark.parametrize("command", [["run", "test.fake"], ["doctor"]], ids=["run", "doctor"])
def test_a_state_directory_that_others_can_read_is_refused(cli: Cli, command: list[str]) -> None:
    """It holds copies of everything that was ever sent."""
    cli.house.manifest()
    cli.house.state.chmod(0o755)

    done = cli(*command, *cli.where, "--json")

    assert done.code == 3
    result = told(cli, done, "freezing.private-store", "STORE_UNAVAILABLE")
    assert "0755" in result["because"]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["frobnicate"], "frobnicate"),
        (["run"], "Missing argument"),
        (["run", "test.fake", "--no-such-option"], "--no-such-option"),
        (["run", "test.fake", "-p", "plan"], "-p name=value"),
        (["run", "test.fake", "-p", "=x"], "-p name=value"),
        (["run", "test.fake", "-f", "data"], "-f name=value"),
        (["run", "request.yaml", "-p", "plan={}"], "a request file has its own"),
        (["run", "test.fake", "--as", ""], "asked_by.role"),
        (["run", "test.fake", "--level", "x" * 201], "level"),
        (["doctor", "surplus"], "surplus"),
        (["manifest", "check"], "Missing argument"),
    ],
)
def test_words_that_are_not_understood_exit_with_2_and_name_the_help(
    cli: Cli, words: list[str], hint: str
) -> None:
    """Also a slip on the command line gets an answer that a program can read."""
    cli.house.manifest()

    done = cli(*words, *(cli.where if words[:1] == ["run"] else []), "--json")

    result = done.result()
    assert done.code == 2
    assert (result["status"], result["code"]) == ("refused", "INVALID_REQUEST")
    assert hint in result["because"]
    assert result["todo"]
    assert done.err


def test_a_tool_whose_name_looks_like_a_file_is_still_a_tool(cli: Cli, namespaced: None) -> None:
    """`backup.json` is a fine name for a tool."""
    cli.house.manifest(tool="backup.json")

    done = cli("run", "backup.json", *cli.where, "--json")

    assert (done.code, done.result()["status"]) == (0, "delivered")


def test_flags_change_what_a_request_file_says(cli: Cli, namespaced: None) -> None:
    """One file serves several roles; the record has to name the one that asked."""
    cli.house.manifest(account=None)
    path = cli.house.root / "request.yaml"
    path.write_text("tool: test.fake\nasked_by: {role: assistant, sender: ana}\n")

    done = cli("run", str(path), "--as", "editor", "--level", "Full", "--account", "a1", *cli.where)

    assert done.code == 0
    (receipt,) = cli.receipts()
    assert receipt["asked_by"] == {"role": "editor", "sender": "ana"}
    assert receipt["level"] == "Full"
    assert receipt["action"]["account"] == "a1"


def test_values_on_the_command_line_get_the_declared_types(cli: Cli, namespaced: None) -> None:
    """A shell has only words; a manifest has numbers, truths and lists."""
    cli.house.manifest(
        parameters={
            "plan": {"type": "string", "default": '{"record": "stdout"}'},
            "count": {"type": "integer"},
            "share": {"type": "number"},
            "loud": {"type": "boolean"},
            "names": {"type": "array", "items": {"type": "string"}},
        },
        required=["count", "share", "loud", "names"],
        argv=[
            ["--plan-json", "{plan}", "--", "{count}", "{share}", "{loud}"],
            {"each": "names", "argv": ["{item}"]},
        ],
        outcomes=[{"when": {"exit": 0}, "is": "delivered"}],
    )
    words = [
        "-p",
        "count=7",
        "-p",
        "share=0.5",
        "-p",
        "loud=true",
        "-p",
        "names=a=b",
        "-p",
        "names=c",
    ]

    done = cli("run", "test.fake", *words, *cli.where, "--json")
    wrong = cli("run", "test.fake", "-p", "count=seven", "-p", "loud=yes", *cli.where, "--json")

    assert done.code == 0, done.err
    recorded = json.loads(done.result()["output"]["stdout"]["text"])
    assert recorded["argv"] == ["--", "7", "0.5", "true", "a=b", "c"]
    assert (wrong.code, wrong.result()["code"]) == (2, "INVALID_PARAMETERS")
    assert "count" in wrong.err
    assert "loud" in wrong.err


def test_a_file_is_named_by_its_slot(cli: Cli, namespaced: None) -> None:
    """`-f slot=path`, and again for a slot of many."""
    cli.house.manifest(
        files={"data": {"many": True}},
        argv=[["--plan-json", "{plan}", "--"], {"each": "files.data", "argv": ["{item}"]}],
    )
    cli.house.file("a.txt")
    cli.house.file("b=c.txt")

    done = cli(*cli.fake()[:4], *cli.where, "-f", "data=a.txt", "-f", "data=b=c.txt", "--json")

    assert done.code == 0, done.err
    assert [file["name"] for file in cli.receipts()[0]["action"]["files"]] == ["a.txt", "b=c.txt"]


def test_a_working_directory_that_is_gone_is_no_fault(cli: Cli, tmp_path: Path) -> None:
    """Jobs clean up after one another."""
    gone = tmp_path / "gone"
    gone.mkdir()
    script = 'rmdir "$PWD" && exec "$@"'
    program = cli.through_shell("")[4:]
    cli.house.manifest()

    done = cli(
        "run", "nothing.such", "--json", program=["sh", "-c", script, "sh", *program], cwd=gone
    )

    assert done.code == 2
    assert "current directory is gone" in done.result()["because"]


@pytest.fixture
def small_disk(cli: Cli) -> Any:
    """The state directory lies on a disk of 256 KiB."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k,mode=0700", "tmpfs", str(cli.house.state)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"mounting is not permitted here: {mounted.stderr.strip()}")
    yield cli.house.state
    subprocess.run(["umount", "--lazy", str(cli.house.state)], check=True)


def fill(disk: Path) -> None:
    """Leave not a byte."""
    with (disk / "ballast").open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
        while True:
            ballast.write(b"x" * 4096)


# rule: freezing.private-store
def test_a_disk_that_the_copy_fills_refuses_and_leaves_nothing(
    cli: Cli, namespaced: None, small_disk: Path
) -> None:
    """Nothing may start on half a copy; and what does not fit must not stay."""
    cli.house.manifest(files={"data": {"required": True}})
    cli.house.file("data.bin", os.urandom(1_000_000))
    cli.house.file("small.bin", b"x" * 1000)

    done = cli(*cli.fake(), "-f", "data=data.bin", "--json")
    after = cli(*cli.fake(), "-f", "data=small.bin", "--json")

    result = done.result()
    assert (done.code, result["code"]) == (3, "STORE_UNAVAILABLE")
    assert "No space left on device" in done.err
    assert "recovery   fix" in done.err
    assert (after.code, after.result()["status"]) == (0, "delivered")
    cli.nothing_is_left()


def test_a_disk_that_is_full_already_refuses(cli: Cli, namespaced: None, small_disk: Path) -> None:
    """What cannot be put on record may not be told as a fact."""
    cli.house.manifest()
    fill(small_disk)

    done = cli(*cli.fake(), "--json")

    result = done.result()
    assert (done.code, result["code"]) == (3, "STORE_UNAVAILABLE")
    assert result["receipt"] is None
    assert "disk is full" in done.err


# rule: records.receipt
# rule: ledger.full-disk
def test_a_disk_that_fills_up_while_it_runs_costs_neither_the_end_nor_the_receipt(
    cli: Cli, namespaced: None, small_disk: Path
) -> None:
    """The room that was kept goes to the ledger, which writes the receipt as soon as it can."""
    isolation = cli.house.manifest().get("isolation", {}) | {"write": [str(cli.house.root)]}
    cli.house.manifest(isolation=isolation)
    sent = cli.house.root / "sent.log"
    words = cli.fake({"sent": str(sent), "then": "hang"}, "--json")
    with cli.start(*words) as process:
        until(sent.exists, "the effect")
        fill(small_disk)
        process.terminate()
        done = finish(process)
    (small_disk / "ballast").unlink()
    again = cli(*words)

    result = done.result()
    assert (done.code, result["status"]) == (4, "unresolved")
    assert result["code"] == "CANCELLED_WHILE_RUNNING"
    assert (again.code, again.result()["code"]) == (3, "DUPLICATE_UNRESOLVED")
    assert again.result()["earlier"]["attempt"] == result["attempt"]
    assert (cli.house.state / "receipts" / f"{result['attempt']}.json").exists()
    assert sent.read_text().count("\n") == 1
    cli.nothing_is_left()
