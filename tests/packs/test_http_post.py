"""http.post, by the real curl, to servers that behave and to servers that do not."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any

import pytest

from executor import Receipt
from executor.embedding import open_ledger
from executor.refusal import Refused
from tests.house import House
from tests.packs.servers import Certificate, Http, Reply, Wire, free_port, http, listening
from tests.packs.shipped import end, run

pytestmark = pytest.mark.usefixtures("curl")
SOON = {"deadline: 300 s": "deadline: 2 s"}
OPTIONS = ("changes", "secrets", "allow_duplicate")
BODY = b'{"hello": "\xc3\xa4"}\r\n\n'


async def post(house: House, url: str, body: bytes = BODY, /, **given: Any) -> Receipt:
    """Post a body; other parameters may be given."""
    options = {key: given.pop(key) for key in OPTIONS if key in given}
    files = {"body": str(house.file("body.json", body))}
    return await run(house, "http.post", {"url": url, **given}, files, **options)


def answer(status: str, content: bytes = b"", *headers: str) -> bytes:
    """Give a whole HTTP answer."""
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(content)}", "", ""]
    return "\r\n".join(lines).encode("latin-1") + content


# -- delivered ------------------------------------------------------------------------------------


# rule: outcomes.declared
async def test_a_body_that_the_server_takes_is_delivered_with_its_id(house: House) -> None:
    """The id in a JSON answer is what finds the thing again."""
    with http(answer("201 Created", b'{"id": "evt_17", "ok": true}')) as server:
        receipt = await post(house, server.url)

    assert end(receipt) == ("delivered", None)
    assert (receipt.result_id, receipt.reply) == ("evt_17", "201")
    ((head, body),) = server.requests
    assert body == BODY
    assert head.startswith("POST /hook HTTP/1.1\r\n")
    assert "\r\nContent-Type: application/json\r\n" in head


# rule: outcomes.declared
@pytest.mark.parametrize(
    ("said", "found"),
    [
        (answer("204 No Content"), None),
        (answer("200 OK", b"not json"), None),
        (answer("202 Accepted", b'{"id": 17}'), "17"),
        (answer("200 OK", b'{"id": null}'), None),
        (answer("200 OK", b'[{"id": "x"}]'), None),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n" + answer("200 OK", b'{"id": "a"}'), "a"),
        (b"HTTP/1.0 200 fine\r\n\r\n" + b'{"id": "until the end"}', "until the end"),
    ],
    ids=["204", "text", "number", "null", "list", "hints", "http-1.0"],
)
async def test_any_2xx_is_a_delivery_with_an_id_or_without(
    house: House, said: bytes, found: str | None
) -> None:
    """2xx is the server's word; what it writes below is its own business."""
    with http(said) as server:
        receipt = await post(house, server.url)

    assert end(receipt) == ("delivered", None)
    assert receipt.result_id == found


# rule: freezing.verified-bytes
@pytest.mark.parametrize("size", [0, 1, 3 * 2**20 + 1])
async def test_a_body_arrives_byte_for_byte(house: House, size: int) -> None:
    """curl strips line ends from what it is told to post as text; this is posted as it is."""
    body = os.urandom(size)
    with http(answer("200 OK")) as server:
        receipt = await post(house, server.url, body, content_type="application/octet-stream")

    assert receipt.status == "delivered"
    assert [body for _, body in server.requests] == [body]


# rule: freezing.verified-bytes
async def test_a_body_that_looks_like_a_file_reference_is_only_a_body(house: House) -> None:
    """For curl, an @ in front of a value names a file."""
    with http(answer("200 OK")) as server:
        await post(house, server.url, b"@/etc/passwd")

    assert server.requests[0][1] == b"@/etc/passwd"


# -- proven: the server did nothing, or was never asked -------------------------------------------


# rule: outcomes.proven-kept
@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 410, 411, 413, 414, 415, 422, 429])
async def test_a_status_that_says_no_is_undelivered(house: House, status: int) -> None:
    """These a server gives before it does anything; the twin is above."""
    with http(answer(f"{status} No", b'{"error": "no"}')) as server:
        receipt = await post(house, server.url)

    assert end(receipt) == ("undelivered", "HTTP_REJECTED")
    assert receipt.reply == str(status)


# rule: outcomes.proven-kept
async def test_a_no_before_the_whole_body_was_sent_is_undelivered(house: House) -> None:
    """A server need not read 5 MiB to refuse them."""

    def refuse(wire: Wire) -> None:
        while wire.lines.readline() not in (b"\r\n", b""):
            pass
        wire.say(answer("413 Too Large", b"", "Connection: close"))
        wire.hang()

    with listening(refuse) as port:
        receipt = await post(house, f"http://127.0.0.1:{port}/", b"x" * 5 * 2**20)

    assert end(receipt) == ("undelivered", "HTTP_REJECTED")
    assert receipt.reply == "413"


# rule: outcomes.proven-kept
async def test_a_port_that_nobody_listens_on_is_undelivered(house: House) -> None:
    """Nothing was there to take it."""
    receipt = await post(house, f"http://127.0.0.1:{free_port()}/")

    assert end(receipt) == ("undelivered", "CONNECT_FAILED")


# rule: outcomes.proven-kept
async def test_a_name_that_does_not_resolve_is_undelivered(house: House) -> None:
    """A name below .invalid never does (RFC 6761)."""
    receipt = await post(house, "http://nowhere.invalid/")

    assert end(receipt) == ("undelivered", "RESOLVE_FAILED")


# rule: outcomes.proven-kept
@pytest.mark.parametrize("said", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b""], ids=["http", "end"])
async def test_a_server_that_speaks_no_tls_is_undelivered(house: House, said: bytes) -> None:
    """The request is only written once there is somebody to encrypt it for."""
    with listening(lambda wire: wire.say(said)) as port:
        receipt = await post(house, f"https://127.0.0.1:{port}/")

    assert end(receipt) == ("undelivered", "TLS_FAILED")


# rule: outcomes.proven-kept
async def test_a_server_that_never_answers_the_handshake_is_undelivered(house: House) -> None:
    """curl gave up before it had sent one byte of the request, and says so."""
    quick = {'--connect-timeout, "20"': '--connect-timeout, "1"'}
    with listening(lambda wire: wire.hang()) as port:
        receipt = await post(house, f"https://127.0.0.1:{port}/", changes=quick)

    assert end(receipt) == ("undelivered", "CONNECT_FAILED")


# -- unknown --------------------------------------------------------------------------------------


# rule: outcomes.unknown-holds
@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("301 Moved", "HTTP_REDIRECTED"),
        ("303 See Other", "HTTP_REDIRECTED"),
        ("307 Temporary", "HTTP_REDIRECTED"),
        ("500 Oops", "HTTP_SERVER_ERROR"),
        ("502 Bad Gateway", "HTTP_SERVER_ERROR"),
        ("503 Later", "HTTP_SERVER_ERROR"),
        ("406 Not Acceptable", "OUTCOME_UNKNOWN"),
        ("408 Timeout", "OUTCOME_UNKNOWN"),
        ("409 Conflict", "OUTCOME_UNKNOWN"),
        ("999 What", "OUTCOME_UNKNOWN"),
    ],
)
async def test_a_status_that_proves_nothing_is_unresolved(
    house: House, status: str, code: str
) -> None:
    """A gateway answers for a server that may have done it; 303 is how a form says that it did."""
    with http(answer(status, b"", "Location: http://127.0.0.1:1/")) as server:
        receipt = await post(house, server.url)

    assert end(receipt) == ("unresolved", code)
    assert len(server.requests) == 1


async def test_a_redirect_is_not_followed(house: House) -> None:
    """What was approved is this URL, not where it points today."""
    with (
        http(answer("200 OK")) as other,
        http(answer("307 Go", b"", f"Location: {other.url}")) as server,
    ):
        receipt = await post(house, server.url)

    assert end(receipt) == ("unresolved", "HTTP_REDIRECTED")
    assert (len(server.requests), other.requests) == (1, [])


def close(wire: Wire) -> None:
    wire.close()


def reset(wire: Wire) -> None:
    wire.reset()


# rule: outcomes.unknown-holds
@pytest.mark.parametrize(
    "said",
    [
        close,
        reset,
        b"",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\n\r\n",
        b"HTTP/1.1 40",
        b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{}",
        b"HTTP/1.1 403 No\r\nContent-Length: 20\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"HTTP/1.1 4030 No\r\n\r\n",
        b"HTTP/1.1 000 No\r\n\r\n",
        b"http=403",
        b"\nsent=0 http=000",
    ],
    ids=[
        "close", "reset", "nothing", "100", "101", "half-a-status", "short-200", "short-403",
        "short-chunk", "4030", "000", "no-http", "no-http-lie",
    ],
)  # fmt: skip
async def test_an_answer_that_is_no_whole_answer_is_unresolved(house: House, said: Reply) -> None:
    """The request was there, whole, when the line broke."""
    with http(said) as server:
        receipt = await post(house, server.url)

    assert end(receipt) == ("unresolved", "OUTCOME_UNKNOWN")
    assert len(server.requests) == 1


# rule: outcomes.signals
async def test_a_server_that_never_answers_is_unresolved_at_the_deadline(house: House) -> None:
    """It may be at work."""
    with http(lambda wire: wire.hang()) as server:
        receipt = await post(house, server.url, changes=SOON)

    assert end(receipt) == ("unresolved", "TIMED_OUT")


# rule: spawning.output-bounded
@pytest.mark.parametrize("end_of_it", [True, False], ids=["5 MB", "endless"])
async def test_an_answer_that_does_not_fit_is_still_judged_by_its_status(
    house: House, end_of_it: bool
) -> None:
    """It is drained beyond the limit; without its end there is no answer."""
    content = b'{"id": "' + b"x" * 5_000_000 + b'"}'

    def endless(wire: Wire) -> None:
        wire.say(b"HTTP/1.1 200 OK\r\n\r\n")
        wire.flood(b"x" * 100)

    with http(answer("200 OK", content) if end_of_it else endless) as server:
        receipt = await post(house, server.url, changes=None if end_of_it else SOON)

    assert end(receipt) == (("delivered", None) if end_of_it else ("unresolved", "TIMED_OUT"))
    assert receipt.result_id is None
    assert receipt.finished is not None
    assert receipt.finished.stdout.truncated
    assert len(receipt.finished.stdout.kept) == 2**20


# rule: outcomes.conflict
async def test_a_no_with_an_id_is_a_no(house: House) -> None:
    """Many an API numbers its refusals; only a 2xx has the id of something done."""
    with http(answer("422 No", b'{"id": "evt_17"}')) as server:
        receipt = await post(house, server.url)

    assert end(receipt) == ("undelivered", "HTTP_REJECTED")


# -- the key that a server knows again ------------------------------------------------------------


# rule: ledger.idempotency-key
async def test_the_same_post_has_the_same_key_when_it_is_asked_again(house: House) -> None:
    """The server may have heard of it after all, whatever we took for proof."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/hook"
    nobody = await post(house, url)
    with http(answer("429 Later"), port) as server:
        later = await post(house, url)
    with http(answer("200 OK"), port) as again:
        taken = await post(house, url)

    assert [end(nobody), end(later), end(taken)] == [
        ("undelivered", "CONNECT_FAILED"),
        ("undelivered", "HTTP_REJECTED"),
        ("delivered", None),
    ]
    [key] = server.keys
    assert re.fullmatch("[0-9a-f]{32}", key)
    assert again.keys == [key]
    for receipt in (nobody, later, taken):
        assert receipt.action is not None
        assert f"Idempotency-Key: {key}" in receipt.action.argv


# rule: ledger.idempotency-key
async def test_another_post_has_another_key(house: House) -> None:
    """A server that knows a key drops what comes under it."""
    with http(answer("200 OK")) as server:
        first = await post(house, server.url)
        await post(house, server.url, b"another body")
        await post(house, server.url + "/elsewhere")
        await post(house, server.url, content_type="text/plain")
        await post(house, server.url, allow_duplicate=first.attempt)

    assert len(set(server.keys)) == len(server.requests) == 5


KNOWN_FOR_AN_HOUR = {"idempotency: {}": "idempotency: {window: 1 h}"}


@contextmanager
def remembering() -> Iterator[tuple[Http, list[bytes]]]:
    """Run a server that does a thing once for each key, and loses its first answer."""
    done: dict[str, bytes] = {}

    def take(wire: Wire) -> None:
        known = server.keys[-1] in done
        done.setdefault(server.keys[-1], server.requests[-1][1])
        if not known:
            wire.close()
        wire.say(answer("200 OK", b'{"id": "evt_17"}'))

    with http(take) as server:
        effects: list[bytes] = []
        yield server, effects
        effects.extend(done.values())


# rule: ledger.idempotency-key
async def test_inside_the_time_that_a_server_knows_a_key_an_unresolved_post_goes_out_again(
    house: House,
) -> None:
    """The server takes both for one, and tells what became of it."""
    with remembering() as (server, effects):
        first = await post(house, server.url, changes=KNOWN_FOR_AN_HOUR)
        second = await post(house, server.url, changes=KNOWN_FOR_AN_HOUR)

    assert end(first) == ("unresolved", "OUTCOME_UNKNOWN")
    assert end(second) == ("delivered", None)
    assert second.ledger is not None
    assert second.ledger.resend
    assert len(server.keys) == 2
    assert len(set(server.keys)) == 1
    assert effects == [BODY]
    async with open_ledger(state=house.state) as ledger:
        settled = ledger.find(first.attempt)
    assert settled is not None
    assert (settled.state, settled.decided_by) == ("delivered", "resend")


# rule: ledger.idempotency-key
# rule: ledger.unresolved
async def test_without_a_time_that_the_server_knows_a_key_an_unresolved_post_is_refused(
    house: House,
) -> None:
    """Most servers do not look at the header at all."""
    with remembering() as (server, effects):
        first = await post(house, server.url)
        with pytest.raises(Refused) as no:
            await post(house, server.url)

    assert end(first) == ("unresolved", "OUTCOME_UNKNOWN")
    assert no.value.code == "DUPLICATE_UNRESOLVED"
    assert (len(server.requests), effects) == (1, [BODY])


# -- lies -----------------------------------------------------------------------------------------


# rule: outcomes.unknown-holds
@pytest.mark.parametrize(
    ("status", "expected"), [("200 OK", "delivered"), ("500 Oops", "unresolved")]
)
@pytest.mark.parametrize("lie", ["http=403", "sent=0 http=000", "sent=9 http=201"])
async def test_text_of_the_server_cannot_pose_as_curls_own_line(
    house: House, status: str, expected: str, lie: str
) -> None:
    """Status, headers and content are the server's to write."""
    content = f"{lie}\n\nsent=0 {lie}".encode()
    headers = (f"{lie}: {lie}", f"X-Lie: {lie}", f"Content-Type: text/{lie}")
    with http(answer(f"{status} {lie}", content, *headers)) as server:
        receipt = await post(house, server.url)

    assert receipt.status == expected
    assert receipt.reply == status[:3]


# -- tokens ---------------------------------------------------------------------------------------

TOKEN = "tok_0123456789"


@contextmanager
def https(certificate: Certificate) -> Iterator[Http]:
    """Run a server that speaks TLS and says yes."""
    server = Http(answer("200 OK", b'{"id": "a"}'))
    context = certificate.context()

    def serve(wire: Wire) -> None:
        with context.wrap_socket(wire.socket.dup(), server_side=True) as secure:
            server.serve(Wire(secure, secure.makefile("rb")))

    with listening(serve) as server.port:
        yield server


# rule: spawning.secrets
async def test_a_token_reaches_the_server_over_tls_and_shows_nowhere(
    house: House, certificate: Certificate
) -> None:
    """It travels in a file of the sandbox, not in the command line that anybody can list."""
    lines = "".join(f"    {line}\n" for line in certificate.text.splitlines())
    own = f"env: {{CURL_CA_BUNDLE: own.pem}}\nstage:\n  own.pem: |\n{lines}argv:\n  - [--disable"
    with https(certificate) as server:
        receipt = await post(
            house,
            f"https://localhost:{server.port}/hook",
            changes={"argv:\n  - [--disable": own},
            secrets={"token": TOKEN},
        )

    assert end(receipt) == ("delivered", None)
    assert f"\r\nAuthorization: Bearer {TOKEN}\r\n" in server.requests[0][0]
    assert receipt.action is not None
    assert receipt.finished is not None
    for told in (receipt.action.argv, receipt.action.env, receipt.result(), receipt.statement()):
        assert TOKEN not in repr(told)


# rule: spawning.secrets
async def test_a_token_is_not_sent_without_tls(house: House) -> None:
    """Anybody on the way could read it, and use it."""
    with http(answer("200 OK")) as server:
        receipt = await post(house, server.url, secrets={"token": TOKEN})

    assert end(receipt) == ("undelivered", "TLS_REQUIRED")
    assert server.requests == []


# rule: spawning.secrets
async def test_a_token_is_not_sent_to_a_server_whose_certificate_is_not_trusted(
    house: House, certificate: Certificate
) -> None:
    """Encrypted to a stranger is not secret."""
    with https(certificate) as server:
        receipt = await post(house, f"https://localhost:{server.port}/", secrets={"token": TOKEN})

    assert end(receipt) == ("undelivered", "TLS_FAILED")
    assert server.requests == []


# rule: admission.no-shell
@pytest.mark.parametrize("path", ["[1-3]", "%7B1,2%7D", "$HOME", "a;b", "?q=1&r=%22#frag"])
async def test_a_url_is_one_url_whatever_it_holds(house: House, path: str) -> None:
    """curl would make several requests of a range in brackets."""
    with http(answer("200 OK")) as server:
        receipt = await post(house, f"http://127.0.0.1:{server.port}/{path}")

    assert receipt.status == "delivered"
    ((head, _),) = server.requests
    assert head.split()[1] == "/" + path.split("#")[0]


def test_the_server_of_these_tests_reads_a_whole_request() -> None:
    """A server that loses requests would prove whatever we like."""
    with http(answer("200 OK", b"{}")) as server:
        client = HTTPConnection("127.0.0.1", server.port)
        client.request("POST", "/", BODY)
        said = client.getresponse().read()
        client.close()

    assert said == b"{}"
    assert server.requests[0][1] == BODY
