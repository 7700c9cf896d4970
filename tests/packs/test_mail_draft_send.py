"""mail.draft.send, by the real nmh: the first send consumes the draft that a second would need."""

import os
from pathlib import Path

import pytest
import trio

from executor import Executor, Receipt, Request
from executor.embedding import WINDOW_VARIABLE
from tests.house import House
from tests.packs.servers import Reply, Wire, free_port, real_server, smtp
from tests.packs.shipped import end, opened
from tests.packs.stores import DRAFT, Store, on_record, refused

pytestmark = pytest.mark.usefixtures("nmh")
TOOL = "mail.draft.send"
SOON = {"deadline: 300 s": "deadline: 2 s"}
SHORT = {"output: 1 MiB": "output: 512 B"}
NO_WINDOW = {"identity: [store, draft]": "identity: [store, draft]\nledger: {window: 0 s}"}
BLIND = DRAFT.replace(b"Subject", b"Bcc: e@example.org\nSubject")


@pytest.fixture
def store(house: House) -> Store:
    """A mail store with one draft."""
    made = Store(house)
    made.draft()
    return made


def sending(store: Store, port: int, **changes: str) -> Request:
    """Ask for the draft to be sent to a server on this machine."""
    return store.request(TOOL, {"server": "127.0.0.1", "port": port}, **changes)


async def send(
    house: House, store: Store, port: int, changes: dict[str, str] | None = None
) -> Receipt:
    """Open an executor, and send the draft once."""
    async with opened(house, TOOL, changes) as executor:
        return await executor.run(sending(store, port))


# -- delivered, and gone --------------------------------------------------------------------------


# rule: outcomes.declared
async def test_a_draft_that_the_server_takes_is_delivered_and_consumed(
    house: House, store: Store
) -> None:
    """Who would get it was looked up first, and is in the receipt."""
    with real_server() as mailbox:
        receipt = await send(house, store, mailbox.port)

    assert end(receipt) == ("delivered", None)
    assert (receipt.result_id, receipt.reply) == ("17", "250 OK id=17")
    assert receipt.found == {"recipients": ["bo at example.org", "cy at example.org"]}
    [(recipients, message)] = mailbox.received
    assert recipients == ["bo@example.org", "cy@example.org"]
    assert message.endswith(b"\r\n\r\nhello\r\n")
    assert store.drafts == set()


# rule: outcomes.declared
async def test_blind_recipients_are_looked_up_and_get_the_message_too(
    house: House, store: Store
) -> None:
    """nmh writes them a message of their own, which is part of the same send."""
    store.draft(BLIND)
    with real_server() as mailbox:
        receipt = await send(house, store, mailbox.port)

    assert end(receipt) == ("delivered", None)
    assert receipt.found is not None
    assert "e at example.org[BCC]" in receipt.found["recipients"]
    assert [to for to, _ in mailbox.received] == [
        ["bo@example.org", "cy@example.org"],
        ["e@example.org"],
    ]


# rule: ledger.delivered
async def test_a_replay_is_told_of_the_delivery_that_consumed_the_draft(
    house: House, store: Store
) -> None:
    """Its caller lost the answer; "no such draft" would make somebody write it again."""
    with real_server() as mailbox:
        async with opened(house, TOOL) as executor:
            request = sending(store, mailbox.port)
            first = await executor.run(request)
            no = await refused(executor, request)

    assert (no.rule, no.code) == ("ledger.delivered", "DUPLICATE_DELIVERED")
    assert no.earlier is not None
    assert (no.earlier.attempt, no.earlier.result_id) == (first.attempt, "17")
    assert len(mailbox.received) == 1


# rule: ledger.better-known
@pytest.mark.parametrize("by", ["manifest", "environment"])
async def test_after_the_window_the_look_up_fails_and_the_ledger_knows_better(
    house: House, store: Store, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """The window is over, so nothing blocks; the draft is gone, and it is known why."""
    if by == "environment":
        monkeypatch.setenv(WINDOW_VARIABLE, "0")
    with real_server() as mailbox:
        async with opened(house, TOOL, NO_WINDOW if by == "manifest" else None) as executor:
            request = sending(store, mailbox.port)
            first = await executor.run(request)
            no = await refused(executor, request)
            replay = on_record(executor, no)

    assert no.code == "DUPLICATE_DELIVERED"
    assert no.earlier is not None
    assert no.earlier.attempt == first.attempt
    assert replay.state == "released"  # the window did not block it: it came as far as the look-up
    assert len(mailbox.received) == 1


# rule: ledger.better-known
async def test_a_draft_that_somebody_else_consumed_is_not_found(house: House, store: Store) -> None:
    """The twin: of this the ledger knows nothing, so the look-up has the word."""
    store.consume()
    async with opened(house, TOOL) as executor:
        no = await refused(executor, sending(store, free_port()))

    assert (no.rule, no.code) == ("ledger.better-known", "LOOKUP_FAILED")
    assert "No such file" in no.because


# rule: ledger.identity
async def test_another_draft_is_another_mail_and_another_server_is_not(
    house: House, store: Store
) -> None:
    """A draft is what is sent; the way it takes is not."""
    store.draft(name="d2")
    with real_server() as mailbox, real_server() as other:
        async with opened(house, TOOL) as executor:
            first = await executor.run(sending(store, mailbox.port))
            second = await executor.run(
                store.request(TOOL, {"draft": "d2", "server": "127.0.0.1", "port": mailbox.port})
            )
            store.draft()
            no = await refused(executor, sending(store, other.port))

    assert (first.status, second.status) == ("delivered", "delivered")
    assert no.code == "DUPLICATE_DELIVERED"
    assert (len(mailbox.received), len(other.received)) == (2, 0)


# -- the look-up ----------------------------------------------------------------------------------


async def until_opened(pipe: Path) -> int:
    """Wait until somebody reads from a named pipe; gives the other end."""
    while True:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            await trio.sleep(0.01)


# rule: ledger.claim-first
# rule: ledger.in-flight
# rule: ledger.bail-out-releases
async def test_the_draft_is_claimed_before_it_is_looked_up_and_released_when_that_fails(
    house: House, store: Store
) -> None:
    """Two that look up at the same time would both find it, and both send it."""
    draft = store.path / "drafts" / "d1"
    draft.unlink()
    os.mkfifo(draft)
    ends = []
    with real_server() as mailbox:
        async with opened(house, TOOL) as executor:
            request = sending(store, mailbox.port)

            async def first() -> None:
                ends.append(await refused(executor, request))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(first)
                pipe = await until_opened(draft)
                while_it_looks = await refused(executor, request)
                os.close(pipe)  # the draft is empty

            [failed] = ends
            assert while_it_looks.code == "DUPLICATE_IN_FLIGHT"
            assert while_it_looks.earlier is not None
            assert while_it_looks.earlier.state == "reserved"
            assert failed.code == "LOOKUP_FAILED"
            assert on_record(executor, failed).state == "released"
            assert mailbox.received == []

            draft.unlink()
            store.draft()
            assert (await executor.run(request)).status == "delivered"
    assert len(mailbox.received) == 1


# rule: ledger.better-known
# rule: ledger.bail-out-releases
async def test_a_draft_that_never_existed_is_not_found_and_leaves_nothing_that_blocks(
    house: House, store: Store
) -> None:
    """Whoever forgot to write it writes it, and asks again."""
    store.consume()
    with real_server() as mailbox:
        async with opened(house, TOOL) as executor:
            request = sending(store, mailbox.port)
            for _ in range(2):
                no = await refused(executor, request)
                assert no.code == "LOOKUP_FAILED"
                assert mailbox.received == []
            store.draft()

            assert (await executor.run(request)).status == "delivered"
    assert len(mailbox.received) == 1


# rule: ledger.better-known
@pytest.mark.parametrize(
    ("draft", "why"),
    [
        (DRAFT.replace(b"To: ", b"To: <<<>>, "), "1 address unparsable"),
        (DRAFT.replace(b"To: ", b"X-To: "), "no addressees"),
        (DRAFT.replace(b"From: ", b"X-From: "), "re-format message"),
        (DRAFT.replace(b"To: ", b"Dcc: f@example.org\nTo: "), "re-format message"),
    ],
    ids=["unreadable", "nobody", "no-sender", "dcc"],
)
async def test_a_draft_whose_recipients_are_not_all_known_is_not_sent(
    house: House, store: Store, draft: bytes, why: str
) -> None:
    """nmh's send passes over an address that it cannot read, and goes on to the others."""
    store.draft(draft)
    with real_server() as mailbox:
        async with opened(house, TOOL) as executor:
            no = await refused(executor, sending(store, mailbox.port))

    assert no.code == "LOOKUP_FAILED"
    assert why in no.because
    assert (mailbox.received, store.drafts) == ([], {"d1"})


# -- proven: nothing was sent ---------------------------------------------------------------------


def close(wire: Wire) -> None:
    wire.close()


def reset(wire: Wire) -> None:
    wire.reset()


def hang(wire: Wire) -> None:
    wire.hang()


# rule: outcomes.proven-kept
# rule: ledger.release-allowlist
@pytest.mark.parametrize(
    ("replies", "code", "reply"),
    [
        ({"greeting": b"554 not you\r\n"}, "SERVER_REFUSED", "554 not you"),
        ({"EHLO": b"550 no\r\n", "HELO": b"550-no\r\n550 no\r\n"}, "SERVER_REFUSED", "550 no"),
        ({"MAIL": b"553-who\r\n553 are you\r\n"}, "SENDER_REJECTED", "553 are you"),
        ({"cy@example.org": b"550 5.1.1 unknown\r\n"}, "RECIPIENT_REJECTED", "550 5.1.1 unknown"),
        ({"cy@example.org": b"451 greylisted\r\n"}, "RECIPIENT_DEFERRED", "451 greylisted"),
        ({"DATA": b"451 not now\r\n"}, "DATA_REJECTED", "451 not now"),
        ({"message": b"554-5.7.1 a\r\n554 5.7.1 spam\r\n"}, "MESSAGE_REJECTED", "554 5.7.1 spam"),
        ({"greeting": close}, "CONNECTION_LOST", None),
        ({"MAIL": reset}, "CONNECTION_LOST", None),
        ({"RCPT": close}, "CONNECTION_LOST", None),
        ({"DATA": reset}, "CONNECTION_LOST", None),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
async def test_a_no_leaves_the_draft_and_the_same_may_be_asked_again(
    house: House, store: Store, replies: dict[str, Reply], code: str, reply: str | None
) -> None:
    """A server that says no, or goes before it asked for the message, has nothing of it."""
    async with opened(house, TOOL) as executor:
        with smtp(**replies) as server:
            no = await executor.run(sending(store, server.port))

        assert end(no) == ("undelivered", code)
        assert no.reply == reply
        assert on_record(executor, no).state == "released"
        assert store.drafts == {"d1"}
        with smtp() as server:
            assert end(await executor.run(sending(store, server.port))) == ("delivered", None)
        assert len(server.messages) == 1


# rule: outcomes.proven-kept
@pytest.mark.parametrize(
    ("server", "code"),
    [("127.0.0.1", "CONNECT_FAILED"), ("localhost", "CONNECT_FAILED"),
     ("nowhere.invalid", "RESOLVE_FAILED")],
)  # fmt: skip
async def test_a_server_that_is_not_there_is_undelivered(
    house: House, store: Store, server: str, code: str
) -> None:
    """Nobody was there to take it. A name below .invalid never resolves (RFC 6761)."""
    async with opened(house, TOOL) as executor:
        request = store.request(TOOL, {"server": server, "port": free_port()})
        receipt = await executor.run(request)

    assert end(receipt) == ("undelivered", code)
    assert store.drafts == {"d1"}


# rule: outcomes.proven-kept
async def test_a_draft_that_nmh_will_not_send_is_undelivered(house: House, store: Store) -> None:
    """It says so before it speaks to anybody; who reads it can mend the draft."""
    store.draft(DRAFT.replace(b"Subject", b"Attach: /nowhere\nSubject"))
    with smtp() as server:
        receipt = await send(house, store, server.port)

    assert end(receipt) == ("undelivered", "DRAFT_UNSENDABLE")
    assert receipt.reply is not None
    assert receipt.reply.startswith("mhbuild: Unable to open /nowhere")
    assert (server.commands, store.drafts) == ([], {"d1"})


# -- unknown --------------------------------------------------------------------------------------


# rule: outcomes.unknown-holds
# rule: ledger.unresolved
@pytest.mark.parametrize("key", ["middle", "message"])
@pytest.mark.parametrize("how", [close, reset])
async def test_a_connection_lost_behind_the_message_is_unresolved_and_so_is_every_replay(
    house: House, store: Store, key: str, how: Reply
) -> None:
    """nmh says "message not delivered to anyone"; the server may have all of it."""
    store.draft(DRAFT + b"x\n" * 2**20)
    with smtp(**{key: how}) as server:
        async with opened(house, TOOL) as executor:
            request = sending(store, server.port)
            first = await executor.run(request)
            asked = len(server.commands)
            no = await refused(executor, request)

    assert end(first) == ("unresolved", "OUTCOME_UNKNOWN")
    assert first.finished is not None
    assert "not delivered to anyone" in first.finished.stderr.text
    assert (no.rule, no.code) == ("ledger.unresolved", "DUPLICATE_UNRESOLVED")
    assert no.earlier is not None
    assert no.earlier.attempt == first.attempt
    assert len(server.commands) == asked


# rule: outcomes.unknown-holds
@pytest.mark.parametrize(
    "said", [b"451 later\r\n", b"251 will forward\r\n", b"354 go on\r\n", b"999 no\r\n"]
)
async def test_any_other_last_word_is_unresolved(house: House, store: Store, said: bytes) -> None:
    """A relay says "later" too when it lost sight of what it had already passed on."""
    with smtp(message=said) as server:
        receipt = await send(house, store, server.port)

    assert receipt.status == "unresolved"
    assert receipt.code == ("MESSAGE_DEFERRED" if said[:1] == b"4" else "OUTCOME_UNKNOWN")
    assert len(server.messages) == 1


# rule: outcomes.unknown-holds
async def test_a_no_to_the_blind_recipients_message_is_unresolved(
    house: House, store: Store
) -> None:
    """The others have theirs by then."""
    store.draft(BLIND)
    said = iter([b"250 ok\r\n", b"554 spam\r\n"])
    with smtp(message=lambda wire: wire.say(next(said))) as server:
        receipt = await send(house, store, server.port)

    assert end(receipt) == ("unresolved", "OUTCOME_UNKNOWN")
    assert len(server.messages) == 2


# rule: outcomes.unknown-holds
@pytest.mark.parametrize("key", ["greeting", "EHLO", "RCPT"])
async def test_text_of_the_server_cannot_make_a_lost_message_undelivered(
    house: House, store: Store, key: str
) -> None:
    """It may write what it likes into a reply of many lines."""
    code = b"220" if key == "greeting" else b"250"
    lies = [b"=> RCPT TO:<x>", b"550 no", b"send: message not delivered to anyone", b"<= 550 no",
            b"post: problem initializing server; [BHST] Connection to"]  # fmt: skip
    chatter = b"".join(code + b"-" + lie + b"\r\n" for lie in lies) + code + b" ok\r\n"
    with smtp(**{key: chatter}, message=close) as server:
        receipt = await send(house, store, server.port)

    assert end(receipt) == ("unresolved", "OUTCOME_UNKNOWN")
    assert len(server.messages) == 1


# rule: outcomes.signals
async def test_a_server_that_says_nothing_more_is_unresolved_at_the_deadline(
    house: House, store: Store
) -> None:
    """We ended it, so nobody says how far it came."""
    with smtp(message=hang) as server:
        receipt = await send(house, store, server.port, SOON)

    assert end(receipt) == ("unresolved", "TIMED_OUT")


# -- finding out ----------------------------------------------------------------------------------


async def unresolved(executor: Executor, store: Store, port: int) -> Receipt:
    """Send it so that nobody knows whether it arrived."""
    receipt = await executor.run(sending(store, port))
    assert end(receipt)[0] == "unresolved", (end(receipt), receipt.because)
    return receipt


# rule: ledger.evidence
async def test_a_draft_that_was_consumed_is_evidence_that_it_was_sent(
    house: House, store: Store
) -> None:
    """nmh moves it away once the server has taken the message, and never before."""
    with smtp(greeting=b"220-z\r\n" * 100 + b"220 ok\r\n") as server:
        async with opened(house, TOOL, SHORT) as executor:
            first = await unresolved(executor, store, server.port)
            assert store.drafts == set()

            found, answer = await executor.gate.find_out(first.attempt, "ana")
            no = await refused(executor, sending(store, server.port))

    assert answer.status == "delivered"
    assert (found.state, found.decided_by) == ("delivered", "evidence")
    assert no.code == "DUPLICATE_DELIVERED"
    assert len(server.messages) == 1


# rule: ledger.evidence
@pytest.mark.parametrize("old", [False, True], ids=["one-draft", "and-an-old-one"])
async def test_a_draft_that_is_still_there_is_evidence_of_nothing(
    house: House, store: Store, old: bool
) -> None:
    """The server may have the message, and only its answer was lost."""
    with smtp(message=close) as server:
        async with opened(house, TOOL) as executor:
            first = await unresolved(executor, store, server.port)
            if old:
                store.draft(name=",d1")

            found, answer = await executor.gate.find_out(first.attempt, "ana")
            notes = executor.gate.ledger.notes(first.attempt)
            no = await refused(executor, sending(store, server.port))

    assert answer.status == "unresolved"
    assert (found.state, found.decided_by) == ("unresolved", "run")
    assert [(note.kind, note.by) for note in notes] == [("evidence", "ana")]
    assert no.code == "DUPLICATE_UNRESOLVED"


# rule: ledger.evidence
async def test_a_draft_that_is_nowhere_is_evidence_of_nothing(house: House, store: Store) -> None:
    """Somebody may have thrown it away."""
    with smtp(message=close) as server:
        async with opened(house, TOOL) as executor:
            first = await unresolved(executor, store, server.port)
            store.consume()

            found, answer = await executor.gate.find_out(first.attempt, "ana")

    assert answer.status == "unresolved"
    assert found.state == "unresolved"
