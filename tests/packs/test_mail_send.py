"""mail.send, by the real curl, to servers that behave and to servers that do not."""

import base64
import email.policy
import os
import re
import smtplib
from email.message import EmailMessage
from typing import Any

import pytest
import trio

from executor import AskedBy, Receipt, Request
from executor.refusal import Refused
from tests.house import House
from tests.packs.servers import (
    Certificate,
    Reply,
    Smtp,
    Wire,
    free_port,
    listening,
    real_server,
    smtp,
)
from tests.packs.shipped import end, opened, run

pytestmark = pytest.mark.usefixtures("curl")
MESSAGE = b"From: ana@example.org\r\nSubject: hello\r\n\r\nhello\r\n"
SOON = {"deadline: 300 s": "deadline: 2 s"}
NOTHING_SENT = ("undelivered", "CONNECTION_LOST")


async def send(house: House, server: str, message: bytes = MESSAGE, /, **given: Any) -> Receipt:
    """Send a message from ana to bo and cy; other parameters may be given."""
    options = {key: given.pop(key) for key in ("changes", "secrets") if key in given}
    return await run(
        house,
        "mail.send",
        {
            "server": server,
            "sender": "ana@example.org",
            "to": ["bo@example.org", "cy@example.org"],
            **given,
        },
        {"message": str(house.file("message.eml", message))},
        **options,
    )


# -- delivered ------------------------------------------------------------------------------------


# rule: outcomes.declared
async def test_a_message_that_the_server_takes_is_delivered_with_its_id_and_reply(
    house: House,
) -> None:
    """The one line of the server's that counts is on record, and the id finds it in its log."""
    with smtp() as server:
        receipt = await send(house, server.url)

    assert end(receipt) == ("delivered", None)
    assert receipt.result_id == "4F2A"
    assert receipt.reply == "250 2.0.0 Ok: queued as 4F2A"
    assert server.messages == [MESSAGE + b".\r\n"]
    assert server.commands == [
        "EHLO localhost",
        "MAIL FROM:<ana@example.org>",
        "RCPT TO:<bo@example.org>",
        "RCPT TO:<cy@example.org>",
        "DATA",
        "QUIT",
    ]


# rule: outcomes.declared
@pytest.mark.parametrize(
    ("reply", "found"),
    [
        (b"250 2.0.0 Ok: queued as 4VwXYZ12ab\r\n", "4VwXYZ12ab"),
        (b"250 OK id=1r8abc-0001AB-CD\r\n", "1r8abc-0001AB-CD"),
        (b"250-first\r\n250 Message queued with id <a.b@c>\r\n", "a.b@c"),
        (b"250-2.0.0 Ok: queued as A1\r\n250 thank you\r\n", "A1"),
        (b"250 2.0.0 Message accepted for delivery\r\n", None),
        (b"250\r\n", None),
        (b"250 queued as lf\n", "lf"),
        (b"250 \xff\xfe queued as \x1b[31m\r\n", None),
    ],
    ids=["postfix", "exim", "two-lines", "id-in-the-first", "no-id", "bare", "lf", "odd-bytes"],
)
async def test_the_id_is_found_where_servers_write_it(
    house: House, reply: bytes, found: str | None
) -> None:
    """Servers agree on 250 and on nothing behind it; a delivery without an id is still one."""
    with smtp(message=reply) as server:
        receipt = await send(house, server.url)

    assert end(receipt) == ("delivered", None)
    assert receipt.result_id == found


# rule: outcomes.declared
async def test_an_id_that_was_told_before_the_message_is_not_taken_for_the_messages_id(
    house: House,
) -> None:
    """A greeting may mention queues; only the reply to the message is about the message."""
    chatter = b"250-hi\r\n354-go\r\n250-queued as FAKE\r\n250 hello\r\n"
    with smtp(EHLO=chatter, message=b"250 accepted\r\n") as server:
        receipt = await send(house, server.url)

    assert end(receipt) == ("delivered", None)
    assert (receipt.result_id, receipt.reply) == (None, "250 accepted")


# rule: freezing.verified-bytes
async def test_an_attachment_of_many_megabytes_arrives_byte_for_byte(house: House) -> None:
    """What was frozen is what the server gets, through every buffer on the way."""
    attachment = os.urandom(6 * 2**20)
    message = EmailMessage(policy=email.policy.SMTP)
    message["Subject"] = "large"
    message.set_content("see below\n.\n.hidden\n")
    message.add_attachment(attachment, maintype="application", subtype="octet-stream")
    with smtp() as server:
        receipt = await send(house, server.url, message.as_bytes())

    assert receipt.status == "delivered"
    assert receipt.action is not None
    assert receipt.action.files[0].size == len(message.as_bytes())
    assert unstuffed(server.messages[0]) == message.as_bytes()
    assert base64.b64encode(attachment)[:76] in server.messages[0]


def unstuffed(received: bytes) -> bytes:
    """Undo what RFC 5321 section 4.5.2 asks of a client: the final dot, and a dot before a dot."""
    return re.sub(rb"(?:\A|(?<=\r\n))\.(?!\r\n\Z)", b"", received).removesuffix(b".\r\n")


# rule: freezing.verified-bytes
@pytest.mark.parametrize(
    "message",
    [
        b".begins with a dot\r\n",
        b"a\r\n.\r\nb\r\n..\r\n.c\r\n",
        b"\r\n.\r\nMAIL FROM:<eve@example.org>\r\nRCPT TO:<eve@example.org>\r\nDATA\r\n",
        b"8 bit: \xe4\xff\x00 and no more\r\n",
    ],
    ids=["first-line", "only-dots", "commands", "eight-bit"],
)
async def test_lines_of_dots_arrive_as_they_are_and_end_nothing(
    house: House, message: bytes
) -> None:
    """A line of one dot would end the message, and the rest would be read as commands."""
    with smtp() as server:
        receipt = await send(house, server.url, message)

    assert receipt.status == "delivered"
    assert [unstuffed(one) for one in server.messages] == [message]
    assert server.commands[-2:] == ["DATA", "QUIT"]


# rule: freezing.line-ends
async def test_a_second_message_behind_bare_line_feeds_is_refused_line_ends(house: House) -> None:
    """A careless server would send it on, to recipients that nobody saw."""
    smuggled = b"Subject: x\r\n\r\nx\r\n.\nMAIL FROM:<eve@example.org>\r\n"
    with smtp() as server:
        receipt = await send(house, server.url, smuggled.replace(b".\n", b".\r\n"))
        with pytest.raises(Refused) as no:
            await send(house, server.url, smuggled)

    assert receipt.status == "delivered"
    assert (no.value.rule, no.value.code) == ("freezing.line-ends", "BARE_LINE_END")
    assert "Line 4 " in no.value.because
    assert len(server.messages) == 1


async def test_a_real_server_gets_the_message_for_all_recipients_at_once(house: House) -> None:
    """Not only our own servers say so."""
    with real_server() as mailbox:
        receipt = await send(house, f"smtp://127.0.0.1:{mailbox.port}")

    assert end(receipt) == ("delivered", None)
    assert mailbox.received == [(["bo@example.org", "cy@example.org"], MESSAGE)]


# -- proven: nothing was sent ---------------------------------------------------------------------


# rule: outcomes.proven-kept
@pytest.mark.parametrize(
    ("replies", "code", "reply"),
    [
        ({"greeting": b"554 go away\r\n"}, "SERVER_REFUSED", "554 go away"),
        ({"greeting": b"421 busy\r\n"}, "SERVER_REFUSED", "421 busy"),
        ({"EHLO": b"502 no\r\n", "HELO": b"550 no\r\n"}, "SERVER_REFUSED", "550 no"),
        ({"MAIL": b"550 who?\r\n"}, "SENDER_REJECTED", "550 who?"),
        ({"MAIL": b"450 not now\r\n"}, "SENDER_REJECTED", "450 not now"),
        ({"RCPT": b"550 unknown\r\n"}, "RECIPIENT_REJECTED", "550 unknown"),
        ({"RCPT": b"550-unknown\r\n550 really\r\n"}, "RECIPIENT_REJECTED", "550 really"),
        ({"RCPT": b"450 greylisted\r\n"}, "RECIPIENT_DEFERRED", "450 greylisted"),
        ({"DATA": b"554 nobody to send to\r\n"}, "DATA_REJECTED", "554 nobody to send to"),
        ({"DATA": b"451 not now\r\n"}, "DATA_REJECTED", "451 not now"),
        (
            {"EHLO": b"502 unknown\r\n", "HELO": b"250 hi\r\n", "RCPT": b"550 unknown\r\n"},
            "RECIPIENT_REJECTED",
            "550 unknown",
        ),
    ],
    ids=[
        "greeting-5xx", "greeting-4xx", "helo", "sender-5xx", "sender-4xx", "recipient-5xx",
        "recipient-two-lines", "recipient-4xx", "data-5xx", "data-4xx", "the-reply-that-counts",
    ],
)  # fmt: skip
async def test_a_no_before_the_message_is_undelivered_with_its_code_and_reply(
    house: House, replies: dict[str, Reply], code: str, reply: str
) -> None:
    """Nothing left, so it may be asked again once the cause is gone; the twin is above."""
    with smtp(**replies) as server:
        receipt = await send(house, server.url)

    assert end(receipt) == ("undelivered", code)
    assert receipt.reply == reply
    assert server.messages == []


# rule: outcomes.proven-kept
@pytest.mark.parametrize("refused", ["bo@example.org", "cy@example.org"])
async def test_one_refused_recipient_of_two_means_that_nobody_gets_it(
    house: House, refused: str
) -> None:
    """Half a delivery could be neither repeated nor called undelivered."""
    with smtp(**{refused: b"550 5.1.1 unknown\r\n"}) as server:
        receipt = await send(house, server.url)

    assert end(receipt) == ("undelivered", "RECIPIENT_REJECTED")
    assert receipt.reply == "550 5.1.1 unknown"
    assert "DATA" not in server.commands
    assert server.messages == []


# rule: outcomes.proven-kept
async def test_a_message_refused_after_its_end_is_undelivered(house: House) -> None:
    """5xx is the server's word that it has thrown the message away."""
    with smtp(message=b"554-5.7.1 spam\r\n554 5.7.1 we think\r\n") as server:
        receipt = await send(house, server.url)

    assert end(receipt) == ("undelivered", "MESSAGE_REJECTED")
    assert receipt.reply == "554 5.7.1 we think"
    assert len(server.messages) == 1


# rule: outcomes.proven-kept
async def test_a_port_that_nobody_listens_on_is_undelivered(house: House) -> None:
    """The commonest failure of all must not need a person to resolve it."""
    receipt = await send(house, f"smtp://127.0.0.1:{free_port()}")

    assert end(receipt) == ("undelivered", "CONNECT_FAILED")


# rule: outcomes.proven-kept
async def test_a_name_that_does_not_resolve_is_undelivered(house: House) -> None:
    """A name below .invalid never does (RFC 6761)."""
    receipt = await send(house, "smtp://nowhere.invalid:25")

    assert end(receipt) == ("undelivered", "RESOLVE_FAILED")


def hang(wire: Wire) -> None:
    wire.hang()


def close(wire: Wire) -> None:
    wire.close()


def reset(wire: Wire) -> None:
    wire.reset()


# rule: outcomes.proven-kept
async def test_a_server_that_never_greets_is_undelivered(house: House) -> None:
    """The server speaks first; without a word of its own nothing was asked of it."""
    with smtp(greeting=hang) as server:
        quick = {'--connect-timeout, "20"': '--connect-timeout, "1"'}
        receipt = await send(house, server.url, changes=quick)

    assert end(receipt) == ("undelivered", "CONNECT_FAILED")
    assert server.commands == []


# rule: outcomes.proven-kept
@pytest.mark.parametrize("key", ["EHLO", "MAIL", "RCPT", "DATA"])
@pytest.mark.parametrize("how", [close, reset])
async def test_a_server_that_goes_before_it_asks_for_the_message_is_undelivered(
    house: House, key: str, how: Reply
) -> None:
    """curl sends none of the message before it reads 354, and it prints what it reads."""
    with smtp(**{key: how}) as server:
        receipt = await send(house, server.url)

    assert end(receipt) == NOTHING_SENT
    assert server.messages == []


# -- unknown --------------------------------------------------------------------------------------


# rule: outcomes.unknown-holds
@pytest.mark.parametrize("key", ["middle", "message"])
@pytest.mark.parametrize("how", [close, reset])
async def test_a_server_that_goes_after_it_asked_for_the_message_is_unresolved(
    house: House, key: str, how: Reply
) -> None:
    """It may have stored what it had, or all of it, and lost only its answer."""
    with smtp(**{key: how}) as server:
        receipt = await send(house, server.url, MESSAGE + b"x\r\n" * 2**20)

    assert end(receipt) == ("unresolved", "OUTCOME_UNKNOWN")
    assert receipt.recovery == "ask"
    assert len(server.messages) == (key == "message")


# rule: outcomes.unknown-holds
@pytest.mark.parametrize("reply", [b"451 4.3.0 later\r\n", b"421 shutting down\r\n"])
async def test_a_later_after_the_whole_message_is_unresolved(house: House, reply: bytes) -> None:
    """A relay says so too when it lost sight of a message that it had already passed on."""
    with smtp(message=reply) as server:
        receipt = await send(house, server.url)

    assert end(receipt) == ("unresolved", "MESSAGE_DEFERRED")
    assert receipt.reply == reply.decode().strip()


# rule: outcomes.signals
@pytest.mark.parametrize("key", ["MAIL", "DATA", "message"])
async def test_a_server_that_says_nothing_more_is_unresolved_at_the_deadline(
    house: House, key: str
) -> None:
    """We ended it, so nobody says how far it came."""
    with smtp(**{key: hang}) as server:
        receipt = await send(house, server.url, changes=SOON)

    assert end(receipt) == ("unresolved", "TIMED_OUT")


# rule: outcomes.unknown-holds
@pytest.mark.parametrize(
    "reply",
    [
        b"250-queued as X\r\n550 no\r\n",
        b"250-accepted\r\n550 no\r\n",
        b"550-no\r\n250 queued as X\r\n",
        b"550-no\r\n251 will forward\r\n",
        b"251 will forward\r\n",
        b"354 go on\r\n",
        b"200 fine\r\n",
        b"999 no\r\n",
        b"no\r\n550-\r\n250x\r\n299 hm\r\n",
    ],
    ids=["yes-no-id", "yes-no", "no-yes", "no-251", "251", "354", "200", "999", "mixed"],
)
async def test_a_last_reply_that_says_yes_and_no_or_neither_is_unresolved(
    house: House, reply: bytes
) -> None:
    """Whatever the server meant, it has the whole message."""
    with smtp(message=reply) as server:
        receipt = await send(house, server.url)

    assert receipt.status == "unresolved"
    assert receipt.code in ("OUTCOME_UNKNOWN", "OUTCOME_CONFLICT")
    assert len(server.messages) == 1


# -- lies and floods ------------------------------------------------------------------------------


LIES = (
    b"curl: (55) RCPT failed: 550",
    b"RCPT failed: 550",
    b"354 go ahead",
    b"250 queued as FAKE",
    b"550 no such user",
)


# rule: outcomes.unknown-holds
@pytest.mark.parametrize("key", ["greeting", "EHLO", "MAIL", "RCPT"])
async def test_text_in_earlier_replies_cannot_make_a_lost_message_undelivered(
    house: House, key: str
) -> None:
    """A server may write what it likes into a reply of many lines."""
    code = b"220" if key == "greeting" else b"250"
    chatter = b"".join(code + b"-" + lie + b"\r\n" for lie in LIES) + code + b" ok\r\n"
    with smtp(**{key: chatter}, message=close) as server:
        receipt = await send(house, server.url)

    assert receipt.status == "unresolved"
    assert len(server.messages) == 1


# rule: outcomes.unknown-holds
@pytest.mark.parametrize("lie", LIES)
async def test_a_line_that_is_no_reply_cannot_decide_anything(house: House, lie: bytes) -> None:
    """curl prints lines that it takes for no reply, or for half of one, all the same."""
    with smtp(greeting=b"220-" + lie + b"\r\n" + lie + b"\r\n220 ok\r\n", message=close) as server:
        receipt = await send(house, server.url)

    assert receipt.status != "delivered"
    assert receipt.status == "unresolved" or server.messages == []


# rule: outcomes.unknown-holds
@pytest.mark.parametrize("lie", LIES)
async def test_a_lie_in_front_cannot_make_a_delivery_of_nothing(house: House, lie: bytes) -> None:
    """The other way around: words of success, and then the connection is gone."""
    with smtp(EHLO=b"250-" + lie + b"\r\n250 ok\r\n", DATA=close) as server:
        receipt = await send(house, server.url)

    assert receipt.status != "delivered"
    assert server.messages == []


# rule: spawning.output-bounded
@pytest.mark.parametrize("line", [b"220-hello\r\n", b"x" * 1000, b"250 queued as X\r\n", b"\r\n"])
async def test_an_endless_greeting_ends_without_a_delivery(house: House, line: bytes) -> None:
    """It must neither fill our memory nor hang us, nor pass for a success."""
    with smtp(greeting=lambda wire: wire.flood(line)) as server:
        receipt = await send(house, server.url, changes=SOON)

    assert receipt.status in ("undelivered", "unresolved")
    assert server.messages == []


# rule: spawning.output-bounded
async def test_an_endless_last_reply_is_unresolved(house: House) -> None:
    """The message is there, and what would say so never comes to its end."""
    with smtp(message=lambda wire: wire.flood(b"250-queued as X\r\n")) as server:
        receipt = await send(house, server.url, changes=SOON)

    assert receipt.status == "unresolved"
    assert len(server.messages) == 1


# rule: outcomes.declared
async def test_a_greeting_of_ten_thousand_lines_is_no_hindrance(house: House) -> None:
    """Long is not endless."""
    with smtp(greeting=b"220-z\r\n" * 10_000 + b"220 ok\r\n") as server:
        receipt = await send(house, server.url)

    assert end(receipt) == ("delivered", None)


# -- logins ---------------------------------------------------------------------------------------

PASSWORD = "correct horse; battery"
LOGIN = f"ana:{PASSWORD}"


def trusting(certificate: Certificate) -> dict[str, str]:
    """Change the manifest so that curl trusts our own certificate."""
    lines = "".join(f"    {line}\n" for line in certificate.text.splitlines())
    return {
        "argv:\n  - [--disable": f"env: {{CURL_CA_BUNDLE: own.pem}}\nstage:\n  own.pem: |\n{lines}"
        "argv:\n  - [--disable"
    }


def assert_hidden(receipt: Receipt, *secrets: str) -> None:
    """None of them is in anything that is kept or told."""
    assert receipt.action is not None
    assert receipt.finished is not None
    told = repr((receipt.result(), receipt.statement(), receipt.action.argv, receipt.action.env))
    told += repr((receipt.finished.stdout.kept, receipt.finished.stderr.kept))
    for secret in secrets:
        assert secret not in told


# rule: spawning.secrets
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_the_right_login_delivers_and_shows_nowhere(
    house: House, certificate: Certificate
) -> None:
    """It goes from its file to the server, and to nobody else."""
    with real_server(certificate, PASSWORD) as mailbox:
        receipt = await send(
            house,
            f"smtp://localhost:{mailbox.port}",
            secrets={"login": LOGIN},
            changes=trusting(certificate),
        )

    assert end(receipt) == ("delivered", None)
    assert receipt.result_id == "17"
    assert mailbox.logins == [(b"ana", PASSWORD.encode())]
    assert len(mailbox.received) == 1
    assert_hidden(receipt, PASSWORD, LOGIN)


# rule: outcomes.proven-kept
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_a_wrong_login_is_undelivered_and_shows_nowhere(
    house: House, certificate: Certificate
) -> None:
    """A login comes before the message, so a no to it is a no to everything."""
    with real_server(certificate, PASSWORD) as mailbox:
        receipt = await send(
            house,
            f"smtp://localhost:{mailbox.port}",
            secrets={"login": "ana:wrong pass"},
            changes=trusting(certificate),
        )

    assert end(receipt) == ("undelivered", "LOGIN_DENIED")
    assert receipt.reply is not None
    assert receipt.reply.startswith("535")
    assert mailbox.logins == [(b"ana", b"wrong pass")]
    assert mailbox.received == []
    assert_hidden(receipt, "wrong pass")


# rule: spawning.secrets
@pytest.mark.parametrize(
    "offer", [b"250 AUTH PLAIN LOGIN\r\n", b"250-AUTH PLAIN LOGIN\r\n250 STARTTLS\r\n"]
)
async def test_a_login_is_not_sent_to_a_server_without_tls(house: House, offer: bytes) -> None:
    """Anybody on the way could read it, and use it. It may offer TLS and then not have it."""
    with smtp(EHLO=b"250-hello\r\n" + offer, STAR=b"454 not today\r\n") as server:
        receipt = await send(house, server.url, secrets={"login": LOGIN})

    assert end(receipt) == ("undelivered", "TLS_FAILED")
    assert {command.split()[0] for command in server.commands} <= {"EHLO", "STARTTLS", "QUIT"}
    assert_hidden(receipt, PASSWORD)


# rule: spawning.secrets
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_a_login_is_not_sent_to_a_server_whose_certificate_is_not_trusted(
    house: House, certificate: Certificate
) -> None:
    """Encrypted to a stranger is not secret."""
    with real_server(certificate, PASSWORD) as mailbox:
        receipt = await send(house, f"smtp://localhost:{mailbox.port}", secrets={"login": LOGIN})

    assert end(receipt) == ("undelivered", "TLS_FAILED")
    assert (mailbox.logins, mailbox.received) == ([], [])


async def test_a_server_that_drops_the_line_in_the_handshake_is_undelivered(house: House) -> None:
    """Implicit TLS, and whoever answers speaks something else."""
    with listening(lambda wire: wire.say(b"220 plain\r\n")) as port:
        receipt = await send(house, f"smtps://localhost:{port}", secrets={"login": LOGIN})

    assert end(receipt) == ("undelivered", "TLS_FAILED")


async def test_two_messages_at_the_same_time_do_not_meet(house: House) -> None:
    """Each run has a staging area, and a message, of its own."""
    bodies = [f"Subject: {n}\r\n\r\n{n}\r\n".encode() for n in range(4)]
    with smtp() as server:
        async with opened(house, "mail.send") as executor, trio.open_nursery() as nursery:
            for n, body in enumerate(bodies):
                request = Request(
                    tool="mail.send",
                    asked_by=AskedBy(role="tester"),
                    parameters={
                        "server": server.url,
                        "sender": "ana@example.org",
                        "to": [f"u{n}@example.org"],
                    },
                    files={"message": str(house.file(f"{n}.eml", body))},
                )
                nursery.start_soon(executor.run, request)

    assert sorted(server.messages) == sorted(body + b".\r\n" for body in bodies)


def test_the_server_of_these_tests_takes_one_message() -> None:
    """A server that loses messages would prove whatever we like."""
    server = Smtp({})
    with listening(server.serve) as port, smtplib.SMTP("127.0.0.1", port) as client:
        client.sendmail("ana@example.org", ["bo@example.org"], MESSAGE)

    assert server.messages == [MESSAGE + b".\r\n"]
