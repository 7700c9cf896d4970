"""Every end is on record, whole and durable, before anybody is told, and without its contents."""

import hashlib
import json
import math
import os
import re
import resource
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import rfc8785
import trio

from executor import AskedBy, Config, Executor, Receipt, Refused, Request, Unverified
from executor.manifest import SecretSource
from executor.receipt import EXIT_CODES
from executor.store.receipts import ROOM_BYTES, Receipts
from executor.units import Duration
from tests.house import House, recorded

SHA256 = re.compile("[0-9a-f]{64}")
ENDS = {
    "delivered": {},
    "undelivered NOTHING_SENT": {"then": {"exit": 64}},
    "unresolved OUTCOME_UNKNOWN": {"then": {"exit": 1}},
    "unresolved COMMAND_KILLED": {"then": {"signal": 9}},
}
REFUSALS: dict[str, dict[str, Any]] = {
    "UNKNOWN_TOOL": {"tool": "test.other"},
    "INVALID_PARAMETERS": {"parameters": {"plan": 1}},
    "FILE_NOT_READABLE": {"files": {"body": "missing.txt"}},
    "SECRET_UNAVAILABLE": {"files": {"body": "body.txt"}},
}


class Listener:
    """Is told of receipts, and looks at once what is on record."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.told: list[Receipt] = []
        self.was_on_record: list[bool] = []

    def __call__(self, receipt: Receipt) -> None:
        self.told.append(receipt)
        there = (self.house.state / "receipts" / f"{receipt.attempt}.json").exists()
        self.was_on_record.append(there and on_record(self.house, receipt) == receipt.statement())


def records(house: House) -> list[Path]:
    return sorted((house.state / "receipts").iterdir())


def on_record(house: House, receipt: Receipt) -> dict[str, Any]:
    statement: dict[str, Any] = json.loads(
        (house.state / "receipts" / f"{receipt.attempt}.json").read_bytes()
    )
    return statement


def end_of(receipt: Receipt) -> str:
    return " ".join(filter(None, (receipt.status, receipt.code)))


# rule: records.receipt
@pytest.mark.parametrize("end", ENDS)
async def test_an_end_of_a_run_is_on_record_before_it_is_told_once(house: House, end: str) -> None:
    """A caller may act on the first word it hears."""
    heard = Listener(house)
    async with house.open(degraded=True) as executor:
        receipt = await executor.run(house.request(ENDS[end]), tell=heard)

    assert end_of(receipt) == end
    assert heard.told == [receipt]
    assert heard.was_on_record == [True]
    assert [path.stem for path in records(house)] == [receipt.attempt]


# rule: records.receipt
@pytest.mark.parametrize("code", REFUSALS)
async def test_a_refusal_is_on_record_before_it_is_told_once(house: House, code: str) -> None:
    """Who asked for what, and was refused by which rule, is what an auditor asks first."""
    with_secret = {"files": {"body": {}}, "secrets": {"token": {"env": "TOKEN"}}}
    has_secret = "files" in REFUSALS[code]
    house.manifest(**(with_secret if has_secret else {}))
    house.file("body.txt")
    sources = {"test.fake": {"token": SecretSource(environment="NOBODY_SET_THIS")}}
    config = Config(secrets=sources if has_secret else {})
    heard = Listener(house)
    async with house.open(config=config, degraded=True) as executor:
        with pytest.raises(Refused) as no:
            await executor.run(house.request(**in_root(house, REFUSALS[code])), tell=heard)

    assert no.value.code == code
    assert heard.told == [no.value.receipt]
    assert heard.was_on_record == [True]
    assert [path.stem for path in records(house)] == [heard.told[0].attempt]
    result = on_record(house, heard.told[0])["predicate"]["result"]
    assert result == {
        "status": "refused",
        "code": code,
        "rule": no.value.rule,
        "stage": no.value.stage,
        "recovery": no.value.recovery,
        "result_id": None,
    }


def in_root(house: House, changes: dict[str, Any]) -> dict[str, Any]:
    if "files" not in changes:
        return changes
    return {"files": {"body": str(house.root / changes["files"]["body"])}}


# rule: records.receipt
@pytest.mark.parametrize("retention", [0, 3600])
async def test_an_action_that_is_given_up_before_its_start_is_on_record(
    house: House, retention: int
) -> None:
    """It is the one cancelled end that proves that nothing ran, also amid our own housekeeping."""
    heard = Listener(house)
    config = Config(retention=Duration(retention))
    async with house.open(config=config, degraded=True) as executor:
        with trio.CancelScope() as scope:
            scope.cancel()
            await executor.run(house.request(), tell=heard)

    assert scope.cancelled_caught
    assert [end_of(receipt) for receipt in heard.told] == ["undelivered CANCELLED"]
    assert heard.was_on_record == [True]
    assert [path.stem for path in records(house)] == [heard.told[0].attempt]


# rule: records.receipt
async def test_an_action_that_is_cancelled_while_it_runs_is_on_record(
    house: House, namespaced: None
) -> None:
    """Its caller is going away; the record is all that is left."""
    out = house.root / "out"
    out.mkdir()
    read = house.manifest().get("isolation", {}).get("read", [])
    house.manifest(isolation={"read": read, "write": [str(out)]})
    heard = Listener(house)

    async with house.open() as executor, trio.open_nursery() as nursery:

        async def ask() -> None:
            plan = {"sent": f"{out}/sent.log", "then": "hang"}
            await executor.run(house.request(plan), tell=heard)

        nursery.start_soon(ask)
        while not (out / "sent.log").exists():
            await trio.sleep(0.01)
        nursery.cancel_scope.cancel()

    assert [end_of(receipt) for receipt in heard.told] == ["unresolved CANCELLED_WHILE_RUNNING"]
    assert heard.was_on_record == [True]
    assert [path.stem for path in records(house)] == [heard.told[0].attempt]


# rule: records.receipt
async def test_a_record_is_canonical_and_only_for_its_owner_to_read(house: House) -> None:
    """A signature is over bytes: everybody must write the same ones."""
    receipt = await house.run(degraded=True)

    (record,) = records(house)
    content = record.read_bytes()
    assert content == rfc8785.dumps(json.loads(content)) + b"\n"
    assert json.loads(content) == receipt.statement()
    assert stat.S_IMODE(record.stat().st_mode) == 0o400
    assert record.stat().st_nlink == 1
    assert stat.S_IMODE(record.parent.stat().st_mode) == 0o700


# rule: records.receipt
@pytest.mark.parametrize("refused", [False, True])
async def test_a_record_has_the_shape_of_an_in_toto_statement(
    house: House, *, refused: bool
) -> None:
    """Others' tools read it: at least one subject, each with a digest, and types that are URIs."""
    house.manifest(files={"body": {}})
    body = house.file("body.txt", "hello")
    async with house.open(degraded=True) as executor:
        given = str(body) if not refused else str(house.root / "missing")
        request = house.request(files={"body": given})
        if refused:
            with pytest.raises(Refused):
                await executor.run(request)
        else:
            await executor.run(request)

    (record,) = records(house)
    statement = json.loads(record.read_bytes())
    assert set(statement) == {"_type", "subject", "predicateType", "predicate"}
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert re.fullmatch("urn:[a-z0-9:-]+", statement["predicateType"])
    assert isinstance(statement["predicate"], dict)
    for subject in statement["subject"]:
        assert set(subject) == {"name", "digest"}
        assert SHA256.fullmatch(subject["digest"]["sha256"])
    named = {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}
    assert len(named) == len(statement["subject"])
    if refused:
        assert list(named) == ["request"]
    else:
        assert named["file:body/body.txt"] == hashlib.sha256(b"hello").hexdigest()
        fake = house.bin / "fake"
        assert named[f"command:{fake}"] == hashlib.sha256(fake.read_bytes()).hexdigest()


# rule: records.receipt
async def test_the_subject_of_a_request_tells_requests_apart(house: House) -> None:
    """Also a refused one can be shown to be the one that was asked."""
    async with house.open(degraded=True) as executor:
        digests = []
        one, two = house.request({}, "one"), house.request({}, "two")
        for request in (one, two):
            receipt = await executor.run(request)
            digests.append(receipt.statement()["subject"][0]["digest"]["sha256"])
        with pytest.raises(Refused) as again:
            await executor.run(one)
        assert again.value.receipt is not None
        digests.insert(1, again.value.receipt.statement()["subject"][0]["digest"]["sha256"])

    assert digests[0] == digests[1] != digests[2]


# rule: records.receipt
async def test_a_record_holds_digests_and_nothing_of_what_went_in_or_came_out(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records are kept for years, and read by more people than the message was for."""
    monkeypatch.setenv("HOUSE_TOKEN", "MARKER-secret")
    body = house.file("body.txt", "MARKER-file")
    house.manifest(
        files={"body": {}},
        secrets={"token": {"env": "TOKEN"}},
        env={"WORDS": "MARKER-env"},
        stage={"extra.txt": "MARKER-stage"},
        stdin={"text": "MARKER-stdin"},
    )
    config = Config(secrets={"test.fake": {"token": SecretSource(environment="HOUSE_TOKEN")}})
    plan = {"record": "stdout", "stderr": "MARKER-stderr"}
    async with house.open(config=config, degraded=True) as executor:
        request = house.request(plan, "MARKER-word", files={"body": str(body)}, note="MARKER-note")
        receipt = await executor.run(request)

    assert receipt.finished is not None
    seen = receipt.finished.stdout.text + receipt.finished.stderr.text
    for kind in ("file", "env", "stage", "stdin", "stderr", "word"):
        assert f"MARKER-{kind}" in seen  # it was there to be told
    assert "[secret]" in seen
    (record,) = records(house)
    content = record.read_bytes()
    assert b"MARKER" not in content
    assert hashlib.sha256(b"MARKER-file").hexdigest().encode() in content
    assert hashlib.sha256(receipt.finished.stdout.kept).hexdigest().encode() in content


# rule: records.receipt
async def test_a_refusal_tells_the_caller_what_it_does_not_put_on_record(house: House) -> None:
    """The sentence repeats what was wrong; the record has code and rule."""
    house.manifest(files={"body": {}})
    async with house.open(degraded=True) as executor:
        with pytest.raises(Refused) as no:
            await executor.run(house.request(files={"body": "/MARKER.txt"}))

    assert "MARKER.txt" in str(no.value)
    (record,) = records(house)
    assert b"MARKER" not in record.read_bytes()
    assert b"FILE_OUTSIDE_ROOTS" in record.read_bytes()


# rule: records.receipt
@pytest.mark.parametrize(
    "odd",
    [
        {"parameters": {"plan": "\ud800"}},
        {"parameters": {"plan": 2**70}},
        {"parameters": {"plan": -(2**53)}},
        {"parameters": {"plan": math.nan}},
        {"parameters": {"plan": [math.inf, {"a": None}]}},
        {"parameters": {"plan": ...}},  # an Ellipsis, which no JSON can write
        {"parameters": {"plan\udcff": {1: b"\xff"}}},
        {"tool": "test.\udcff"},
        {"tool": "test.other", "asked_by": AskedBy(role="caf\udce9", sender="\ud800")},
        {"tool": "test.other", "level": 2**70},
    ],
    ids=repr,
)
async def test_a_request_that_no_json_can_write_is_refused_and_on_record(
    house: House, odd: dict[str, Any]
) -> None:
    """The odder what was asked, the more it belongs on record; it used to be a traceback."""
    heard = Listener(house)
    async with house.open(degraded=True) as executor:
        with pytest.raises(Refused):
            await executor.run(house.request(**odd), tell=heard)

    assert heard.was_on_record == [True]
    assert [path.stem for path in records(house)] == [heard.told[0].attempt]
    json.dumps(heard.told[0].result(), ensure_ascii=False).encode()


# rule: records.before-telling
async def test_a_receipt_that_cannot_be_filed_is_in_the_ledger_and_not_told_of(
    house: House,
) -> None:
    """The end is on record, so it is told as what it is; the next executor files its receipt."""
    house.install("bwrap", "raise SystemExit(1)")  # without a sandbox a command can do this:
    receipts = house.state / "receipts"
    away = [{"exec": ["/bin/mv", str(receipts), f"{receipts}.gone"]}]
    plan = {"record": "stderr", "try": away, "stdout": "id=m-7"}
    told: list[Receipt] = []
    async with house.open(degraded=True) as executor:
        kept = await executor.run(house.request({"stdout": "id=m-6"}))
        lost = await executor.run(house.request(plan), tell=told.append)

    assert (kept.status, kept.result_id) == ("delivered", "m-6")
    assert (lost.status, lost.result_id) == ("delivered", "m-7")
    assert told == [lost]
    assert lost.result()["receipt"] is None
    assert lost.result()["attempt"] == lost.attempt
    assert not receipts.exists()
    Path(f"{receipts}.gone").rename(receipts)
    assert [path.stem for path in receipts.glob("*.json")] == [kept.attempt]
    async with house.open(degraded=True):
        pass
    assert {path.stem for path in receipts.glob("*.json")} == {kept.attempt, lost.attempt}


# rule: records.before-telling
async def test_an_end_that_cannot_be_put_on_record_is_told_as_unresolved(house: House) -> None:
    """It ran, so it is no refusal; nobody can look it up, so it is no delivery."""
    house.install("bwrap", "raise SystemExit(1)")  # without a sandbox a command can do this:
    ledger = house.state / "ledger.db"
    away = [{"exec": ["/bin/mv", str(ledger), f"{ledger}.gone"]}]
    plan = {"record": "stderr", "try": away, "stdout": "id=m-7"}
    told: list[Receipt] = []
    async with house.open(degraded=True) as executor:
        kept = await executor.run(house.request({"stdout": "id=m-6"}))
        lost = await executor.run(house.request(plan), tell=told.append)

    assert (kept.status, kept.result_id) == ("delivered", "m-6")
    assert (lost.status, lost.code) == ("unresolved", "RECORD_LOST")
    assert (lost.recovery, lost.exit_code) == ("ask", 4)
    assert told == [lost]
    assert "It ended as delivered (id 'm-7')" in lost.because
    assert "was removed or replaced" in lost.because
    assert lost.result()["receipt"] is None
    assert lost.result()["attempt"] == lost.attempt
    receipts = house.state / "receipts"
    assert [path.stem for path in receipts.glob("*.json")] == [kept.attempt]


# rule: records.before-telling
async def test_a_refusal_that_cannot_be_put_on_record_is_a_refusal_and_not_told(
    house: House,
) -> None:
    """Nothing ran, whatever the disk says; but nobody hears of a record that is not there."""
    told: list[Receipt] = []
    async with house.open(degraded=True) as executor:
        break_receipts(house)
        with pytest.raises(Refused) as no:
            await executor.run(house.request(tool="test.other"), tell=told.append)

    assert no.value.code == "UNKNOWN_TOOL"
    assert no.value.receipt is None
    assert told == []


def break_receipts(house: House) -> None:
    (house.state / "receipts").rmdir()
    (house.state / "receipts").write_text("a file now")


# rule: records.before-telling
@pytest.mark.parametrize(
    "fault",
    [
        ValueError("the listener is broken"),
        Refused("admission.closed-tools", "UNKNOWN_TOOL", because="Another run.", todo="None."),
    ],
    ids=["fault", "refusal"],
)
async def test_a_listener_that_fails_takes_nobodys_receipt_away(
    house: House, fault: Exception
) -> None:
    """Losing the answer is how the same thing gets asked twice."""

    def fail(_: Receipt) -> None:
        raise fault

    async with house.open(degraded=True) as executor:
        receipt = await executor.run(house.request({"stdout": "id=m-7"}), tell=fail)
        with pytest.raises(Refused) as no:
            await executor.run(house.request(tool="test.none"), tell=fail)

    assert (receipt.status, receipt.result_id) == ("delivered", "m-7")
    assert no.value.receipt is not None
    assert "test.none" in str(no.value)
    assert on_record(house, receipt)["predicate"]["result"]["status"] == "delivered"
    assert len(records(house)) == 2


# rule: records.receipt
def test_what_is_on_record_is_never_written_over(tmp_path: Path) -> None:
    """The first word about an attempt is the one that was told."""
    receipts = Receipts(tmp_path)
    receipts.add("a", {"status": "delivered"})

    with pytest.raises(Unverified) as no:
        receipts.add("a", {"status": "refused"})

    assert no.value.code == "STORE_UNAVAILABLE"
    assert receipts.path("a").read_bytes() == b'{"status":"delivered"}\n'
    assert [path.name for path in (tmp_path / "receipts").iterdir()] == ["a.json"]


# rule: records.receipt
def test_a_record_that_does_not_fit_is_no_record(tmp_path: Path) -> None:
    """Half a receipt would be read as damage, or worse, as a whole one."""
    receipts = Receipts(tmp_path)
    receipts.add("small", {})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM_BYTES + 100, hard))
    try:
        with pytest.raises(Unverified) as no:
            receipts.add("large", {"text": "x" * 2 * ROOM_BYTES})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert no.value.code == "STORE_UNAVAILABLE"
    assert [path.name for path in (tmp_path / "receipts").iterdir()] == ["small.json"]


# rule: records.receipt
def test_room_that_nobody_uses_any_more_is_given_back(tmp_path: Path) -> None:
    """A killed executor's is free; that of a run under way is not."""
    receipts = Receipts(tmp_path)
    left, used = receipts.reserve("left"), receipts.reserve("used")
    os.close(left.descriptor)  # what the kernel does for one that was killed

    assert Receipts(tmp_path).sweep() == 1
    assert [path.name for path in (tmp_path / "receipts").iterdir()] == ["used.new"]

    receipts.add("used", {}, used)
    assert [path.name for path in (tmp_path / "receipts").iterdir()] == ["used.json"]


# rule: records.before-telling
def test_a_record_is_on_the_disk_before_it_has_its_name(tmp_path: Path, strace: None) -> None:
    """After a power cut a receipt is there and whole, or it was never told."""
    script = (
        "import sys; from pathlib import Path; from executor.store.receipts import Receipts\n"
        "receipts = Receipts(Path(sys.argv[1])); receipts.add('a', {}); print('told', flush=True)"
    )
    trace = tmp_path / "trace"
    calls = "openat,write,fsync,link,linkat,unlink,rename"
    subprocess.run(
        ["strace", "-y", "-e", calls, "-o", trace, sys.executable, "-c", script, tmp_path],
        check=True,
        capture_output=True,
    )

    place = re.escape(str(tmp_path / "receipts"))
    steps = [
        rf'openat\(.*"{place}/a\.new", .*O_EXCL.*, 0400\)',
        rf"write\(\d+<{place}/a\.new>, ",
        rf"fsync\(\d+<{place}/a\.new>\)",
        rf'link(at)?\(.*"{place}/a\.new", .*"{place}/a\.json"',
        rf"fsync\(\d+<{place}>\)",
        r'write\(1.*"told',
    ]
    text = trace.read_text()
    at = -1
    for step in steps:
        found = re.compile(step).search(text, at + 1)
        assert found is not None, f"{step} is not where it should be in:\n{text[-3000:]}"
        at = found.start()


def a_receipt(**changes: Any) -> Receipt:
    given: dict[str, Any] = {
        "attempt": "a",
        "request": Request(tool="test.fake", asked_by=AskedBy(role="tester")),
        "status": "delivered",
        "code": None,
        "because": "It exited with 0.",
        "recovery": None,
        "started_at": "",
        "ended_at": "",
    }
    return Receipt(**(given | changes))


def test_exit_codes_are_as_the_contract_says() -> None:
    """Scripts branch on them."""
    contract = {"delivered": 0, "refused": 3, "unresolved": 4, "undelivered": 5, "pending": 6}

    assert contract == EXIT_CODES
    for status, code in contract.items():
        assert a_receipt(status=status).exit_code == code
    assert a_receipt(status="refused", invalid_input=True).exit_code == 2


async def test_a_result_has_the_keys_of_the_contract(house: House, namespaced: None) -> None:
    """Programs in other languages read it."""
    async with house.open() as executor:
        done = await executor.run(house.request({"record": "stdout"}))
        with pytest.raises(Refused) as no:
            await executor.run(house.request(tool="test.none"))

    result = done.result()
    contract = {
        "status": "delivered",
        "code": None,
        "stage": None,
        "recovery": None,
        "result_id": None,
        "attempt": done.attempt,
        "receipt": done.attempt,
    }
    assert {key: result[key] for key in contract} == contract
    assert SHA256.fullmatch(result["action_digest"])
    assert result["isolation"]["level"] == "namespaced"
    assert isinstance(result["isolation"]["missing"], list)
    assert recorded(done)["argv"] == ["--"]
    assert no.value.receipt is not None
    refused = no.value.receipt.result()
    assert set(refused) == set(result)
    assert (refused["status"], refused["code"]) == ("refused", "UNKNOWN_TOOL")
    assert (refused["stage"], refused["recovery"]) == ("admit", "fix")
    assert refused["action_digest"] is None
    assert refused["isolation"] is None


async def test_output_of_every_byte_is_told_as_text_that_json_can_carry(house: House) -> None:
    """`--json` prints one object, whatever a command wrote."""
    every = bytes(range(256))
    house.install("every", "import os; os.write(1, bytes(range(256)))")
    house.manifest(command="every")
    async with house.open(degraded=True) as executor:
        receipt: Receipt = await run_plain(executor, house)

    assert receipt.finished is not None
    assert receipt.finished.stdout.kept == every
    told = receipt.result()["output"]["stdout"]
    assert told["bytes"] == 256
    assert json.loads(json.dumps(told, ensure_ascii=False).encode()) == told
    assert told["text"].startswith(every[:128].decode())
    assert told["text"].endswith(r"\xfe\xff")


async def run_plain(executor: Executor, house: House) -> Receipt:
    return await executor.run(house.request())
