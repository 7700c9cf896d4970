"""24 and 17 with a real command: what it did is looked up in its `sent.log`, not in its words."""

import json
import re
import signal
from typing import Any

import pytest

from executor import Receipt
from tests.house import House

NOT_SENT = re.compile(
    r"\b(not|never|nothing|no)\b[^.\"]*\b(sent|delivered|happen|happened|ran|run|started)\b"
    r"|undelivered|failed|retry|\b(ask|run|send|try)\b[^.\"]*\bagain\b",
    re.IGNORECASE,
)
DELIVERED = {"when": {"exit": 0}, "is": "delivered", "result_id": {"stdout": r"id=(\S+)"}}
NOTHING_SENT = {"when": {"exit": 64}, "is": "undelivered", "code": "NOTHING_SENT"}
REJECTED = {"when": {"stdout": "^ERROR"}, "is": "undelivered", "code": "REJECTED"}


class Sender:
    """A tool that can write a `sent.log` outside of its staging area."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.out = house.root / "out"
        self.out.mkdir()
        self.declare(DELIVERED, NOTHING_SENT)

    def declare(self, *outcomes: dict[str, Any], **changes: Any) -> None:
        """Declare what its ends mean."""
        isolation = self.house.manifest().get("isolation", {})
        isolation["write"] = [str(self.out)]
        self.house.manifest(outcomes=list(outcomes), isolation=isolation, **changes)

    async def run(self, **plan: Any) -> Receipt:
        """Send, and then end as planned."""
        sent = {"record": "stderr", "sent": str(self.out / "sent.log"), "sent_text": "to ana"}
        async with self.house.open(degraded=True) as executor:
            return await executor.run(self.house.request(sent | plan))

    @property
    def sent(self) -> list[str]:
        """What was sent, whatever anybody says."""
        log = self.out / "sent.log"
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture(params=["namespaced", "bare"])
def sender(request: pytest.FixtureRequest, house: House) -> Sender:
    """A tool at the strongest level, and at the one that keeps nothing apart."""
    if request.param == "namespaced":
        request.getfixturevalue("namespaced")
    else:
        house.install("bwrap", "raise SystemExit(1)")  # found first, and of no use
    return Sender(house)


def is_on_record(house: House, receipt: Receipt) -> bool:
    record = house.state / "receipts" / f"{receipt.attempt}.json"
    result = json.loads(record.read_text())["predicate"]["result"]
    return (result["status"], result["code"]) == (receipt.status, receipt.code)


def all_texts(receipt: Receipt) -> str:
    """Everything that anybody is told of it, but the command's own output."""
    told = receipt.result() | {"output": None}
    return json.dumps([receipt.because, receipt.todo, told, receipt.statement()])


def holds(sender: Sender, receipt: Receipt, code: str) -> None:
    assert (receipt.status, receipt.code) == ("unresolved", code)
    assert (receipt.recovery, receipt.exit_code) == ("ask", 4)
    assert NOT_SENT.search(all_texts(receipt)) is None
    assert "It may have happened." in receipt.because
    assert sender.sent == ["to ana"]
    assert is_on_record(sender.house, receipt)


# rule: outcomes.unknown-holds
@pytest.mark.parametrize("code", [1, 75, 127])
async def test_sent_and_then_an_undeclared_exit_is_unknown(sender: Sender, code: int) -> None:
    """24 c and d: sysexits calls 75 a temporary failure, and the message is out."""
    receipt = await sender.run(then={"exit": code})

    holds(sender, receipt, "OUTCOME_UNKNOWN")
    assert receipt.finished is not None
    assert receipt.finished.exit == code


# rule: outcomes.unknown-holds
async def test_sent_and_then_an_undeclared_exit_of_a_scheduled_send_says_so(sender: Sender) -> None:
    """Whoever looks it up must look into the schedule."""
    sender.declare(DELIVERED, effect="scheduled")

    receipt = await sender.run(then={"exit": 1})

    holds(sender, receipt, "SCHEDULE_STATUS_UNKNOWN")


# rule: outcomes.signals
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM])
async def test_sent_and_then_death_by_a_signal_is_unknown(sender: Sender, number: int) -> None:
    """24 e: a crash after the last byte went out looks like one before the first."""
    sender.declare(REJECTED, DELIVERED)

    receipt = await sender.run(stdout="ERROR\n", then={"signal": int(number)})

    holds(sender, receipt, "COMMAND_KILLED")
    assert receipt.finished is not None
    assert receipt.finished.signal == number


# rule: outcomes.signals
async def test_sent_and_then_still_there_at_the_deadline_is_unknown(sender: Sender) -> None:
    """17: the answer was lost, not the message."""
    sender.declare(REJECTED, DELIVERED, limits={"deadline": "1 s", "grace": "1 s"})

    receipt = await sender.run(stdout="ERROR\n", then="hang")

    holds(sender, receipt, "TIMED_OUT")


# rule: outcomes.declared
# rule: outcomes.proven-kept
async def test_exit_0_with_an_error_is_what_the_manifest_makes_of_it(sender: Sender) -> None:
    """24 f: without a pattern for it nobody here can know; with one it is a rejection."""
    sender.declare(DELIVERED)
    unseen = await sender.run(stdout="ERROR rejected\n")
    sender.declare({"when": {"exit": 0, "stdout": "^OK"}, "is": "delivered"})
    unexplained = await sender.run(stdout="ERROR rejected\n")
    sender.declare(REJECTED, DELIVERED)
    seen = await sender.run(stdout="ERROR rejected\n")

    assert (unseen.status, unseen.code) == ("delivered", None)
    assert (unexplained.status, unexplained.code) == ("unresolved", "OUTCOME_UNKNOWN")
    assert (seen.status, seen.code) == ("undelivered", "REJECTED")


# rule: outcomes.proven-kept
async def test_an_exit_that_is_declared_as_nothing_sent_releases(sender: Sender) -> None:
    """24 g: the command's author says what 64 proves, and it keeps its name."""
    receipt = await sender.run(sent="/dev/null", then={"exit": 64})

    assert receipt.finished is not None
    assert b'"argv"' in receipt.finished.stderr.kept  # it ran, and did not stumble over its plan
    assert (receipt.status, receipt.code) == ("undelivered", "NOTHING_SENT")
    assert (receipt.recovery, receipt.exit_code) == ("fix", 5)
    assert sender.sent == []
    assert is_on_record(sender.house, receipt)


# rule: outcomes.conflict
async def test_a_declared_rejection_that_tells_an_id_is_unknown(sender: Sender) -> None:
    """The server has it under that id, whatever the client thinks."""
    receipt = await sender.run(stdout="id=m-7\n", then={"exit": 64})

    holds(sender, receipt, "OUTCOME_CONFLICT")
    assert "'m-7'" in receipt.because


# rule: outcomes.signals
async def test_a_declared_rejection_whose_output_was_cut_is_unknown(sender: Sender) -> None:
    """What would have told of the delivery was read and thrown away."""
    sender.declare(DELIVERED, NOTHING_SENT, limits={"output": "4 KiB"})

    receipt = await sender.run(
        record="stdout", stdout={"repeat": "x", "bytes": 5000}, then={"exit": 64}
    )

    holds(sender, receipt, "OUTPUT_LOST")


# rule: outcomes.declared
async def test_an_id_with_bytes_that_are_no_utf8_reaches_record_and_caller(sender: Sender) -> None:
    """It used to end the run with a traceback, after the message was out."""
    receipt = await sender.run(stdout="caf\udce9 id=\udcff\udcfe7\n")

    assert receipt.status == "delivered"
    assert receipt.finished is not None
    assert receipt.finished.stdout.kept == b"caf\xe9 id=\xff\xfe7\n"
    assert receipt.result_id == r"\xff\xfe7"
    result = json.loads(json.dumps(receipt.result(), ensure_ascii=False).encode())
    assert result["output"]["stdout"]["text"] == "caf\\xe9 id=\\xff\\xfe7\n"
    assert is_on_record(sender.house, receipt)


async def test_the_words_of_not_sent_are_found_where_they_stand(sender: Sender) -> None:
    """A control for every test here that finds none: an end that did prove it says so."""
    receipt = await sender.run(sent="/dev/null", then={"exit": 64})

    assert NOT_SENT.search(all_texts(receipt)) is not None
    assert NOT_SENT.search("It exited with 1. The message was not sent.") is not None
