"""Servers on loopback for the packs: some polite, some that misbehave on purpose.

Each is a context manager; when it is left, every thread of it has ended, so what it notes down is
complete.
"""

import os
import re
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO

LOCALHOST = "127.0.0.1"


@dataclass
class Wire:
    """One accepted connection, as an awkward server holds it."""

    socket: socket.socket
    lines: BinaryIO

    def say(self, text: bytes) -> None:
        self.socket.sendall(text)

    def reset(self) -> None:
        """Close without a word, unread bytes thrown away."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise ConnectionAbortedError

    def close(self) -> None:
        raise ConnectionAbortedError

    def hang(self) -> None:
        """Say nothing more until the other side has gone."""
        while self.lines.read1(65536):
            pass
        raise ConnectionAbortedError

    def flood(self, line: bytes) -> None:
        """Say one thing for ever."""
        while True:
            self.socket.sendall(line * 1000)


@contextmanager
def listening(serve: Callable[[Wire], None], port: int = 0) -> Iterator[int]:
    """Serve each connection in a thread of its own; gives the port."""
    door = socket.create_server((LOCALHOST, port))
    threads: list[threading.Thread] = []
    open_sockets: list[socket.socket] = []

    def one(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            serve(Wire(connection, connection.makefile("rb")))

    def accept() -> None:
        while True:
            try:
                connection, _ = door.accept()
            except OSError:
                return
            open_sockets.append(connection)
            threads.append(threading.Thread(target=one, args=(connection,), daemon=True))
            threads[-1].start()

    acceptor = threading.Thread(target=accept, daemon=True)
    acceptor.start()
    try:
        yield int(door.getsockname()[1])
    finally:
        door.shutdown(socket.SHUT_RDWR)
        door.close()
        acceptor.join()
        for connection in open_sockets:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RD)
        for thread in threads:
            thread.join()


def free_port() -> int:
    """Give a port that nobody listens on."""
    with socket.create_server((LOCALHOST, 0)) as door:
        return int(door.getsockname()[1])


# -- SMTP -----------------------------------------------------------------------------------------

Reply = bytes | Callable[[Wire], None]
POLITE: Mapping[str, Reply] = {
    "greeting": b"220 ready\r\n",
    "EHLO": b"250 hello\r\n",
    "MAIL": b"250 sender ok\r\n",
    "RCPT": b"250 recipient ok\r\n",
    "DATA": b"354 go ahead\r\n",
    "message": b"250 2.0.0 Ok: queued as 4F2A\r\n",
    "QUIT": b"221 bye\r\n",
}


@dataclass
class Smtp:
    """An SMTP server by the book, but for the replies it was given.

    ``replies`` are by command; ``greeting`` is said first and ``message`` after the final dot. One
    more, ``middle``, acts once a part of the message has come. A recipient's address as a key
    answers RCPT for that one. ``commands`` and ``messages`` (with their final dot) are what came.
    """

    replies: Mapping[str, Reply]
    port: int = 0
    commands: list[str] = field(default_factory=list)
    messages: list[bytes] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"smtp://{LOCALHOST}:{self.port}"

    def serve(self, wire: Wire) -> None:
        self._answer(wire, "greeting")
        while line := wire.lines.readline():
            command = line.decode("latin-1").strip()
            self.commands.append(command)
            verb = command[:4].upper()
            address = command[command.find("<") + 1 : command.find(">")]
            self._answer(wire, address if verb == "RCPT" and address in self.replies else verb)
            if verb == "QUIT":
                return
            if verb == "DATA" and self._said_go():
                self._take(wire)

    def _said_go(self) -> bool:
        said = self.replies.get("DATA", POLITE["DATA"])
        return isinstance(said, bytes) and said.startswith(b"354")

    def _take(self, wire: Wire) -> None:
        message = b""
        while not message.endswith(b"\r\n.\r\n"):
            part = wire.lines.read1(65536)
            if not part:
                return
            message += part
            if "middle" in self.replies:
                self._answer(wire, "middle")
        self.messages.append(message)
        self._answer(wire, "message")

    def _answer(self, wire: Wire, key: str) -> None:
        reply = self.replies.get(key, POLITE.get(key, b"502 unknown\r\n"))
        if callable(reply):
            reply(wire)
        else:
            wire.say(reply)


@contextmanager
def smtp(**replies: Reply) -> Iterator[Smtp]:
    """Run an SMTP server with some replies of its own."""
    server = Smtp(replies)
    with listening(server.serve) as server.port:
        yield server


@dataclass
class Mailbox:
    """What a real server received, and the logins that it was shown."""

    password: str
    port: int = 0
    received: list[tuple[list[str], bytes]] = field(default_factory=list)
    logins: list[tuple[bytes, bytes]] = field(default_factory=list)

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.received.append((envelope.rcpt_tos, envelope.content))
        return "250 OK id=17"

    def authenticate(self, server: Any, session: Any, envelope: Any, how: str, data: Any) -> Any:
        from aiosmtpd.smtp import AuthResult

        self.logins.append((data.login, data.password))
        right = data.password == self.password.encode()
        return AuthResult(success=right, handled=right)


@contextmanager
def real_server(certificate: "Certificate | None" = None, password: str = "") -> Iterator[Mailbox]:
    """Run aiosmtpd; with a certificate it wants STARTTLS and a login."""
    from aiosmtpd.controller import Controller

    mailbox = Mailbox(password, free_port())
    wants_login: dict[str, Any] = {}
    if certificate is not None:
        wants_login = {
            "tls_context": certificate.context(),
            "auth_required": True,
            "authenticator": mailbox.authenticate,
        }
    controller = Controller(mailbox, hostname=LOCALHOST, port=mailbox.port, **wants_login)
    controller.start()
    try:
        yield mailbox
    finally:
        controller.stop()


# -- HTTP -----------------------------------------------------------------------------------------


@dataclass
class Http:
    """A server that takes a whole request and then answers with the very bytes it was given."""

    answer: Reply
    port: int = 0
    requests: list[tuple[str, bytes]] = field(default_factory=list)
    """Head and body of each."""

    @property
    def url(self) -> str:
        return f"http://{LOCALHOST}:{self.port}/hook"

    @property
    def keys(self) -> list[str]:
        """The ``Idempotency-Key`` of each."""
        found = [
            re.findall(r"(?i)\r\nidempotency-key: *(.*?)\r\n", head) for head, _ in self.requests
        ]
        return [key for keys in found for key in keys]

    def serve(self, wire: Wire) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = wire.lines.readline()
            if not line:
                return
            head += line
        text = head.decode("latin-1")
        if "expect: 100-continue" in text.lower():
            wire.say(b"HTTP/1.1 100 Continue\r\n\r\n")
        length = next(
            int(line.split(":")[1])
            for line in text.splitlines()
            if line.lower().startswith("content-length:")
        )
        self.requests.append((text, wire.lines.read(length)))
        if callable(self.answer):
            self.answer(wire)
        else:
            wire.say(self.answer)


@contextmanager
def http(answer: Reply, port: int = 0) -> Iterator[Http]:
    """Run an HTTP server that gives one answer to everything."""
    server = Http(answer)
    with listening(server.serve, port) as server.port:
        yield server


# -- TLS ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Certificate:
    """A certificate for ``localhost`` that signs itself, and its key."""

    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context

    @property
    def text(self) -> str:
        return self.certificate.read_text()


def make_certificate(directory: Path) -> Certificate:
    """Make one, with the system's openssl."""
    made = Certificate(directory / "certificate.pem", directory / "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost",
         "-keyout", str(made.key), "-out", str(made.certificate)],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return made


# -- git ------------------------------------------------------------------------------------------


def _plain_environment() -> dict[str, str]:
    """Leave out what would make git do something else, as it does for a test run from a hook."""
    given = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    return {**given, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def git(*words: str | Path, cwd: Path | None = None) -> str:
    """Run git with no configuration but what is given; gives what it printed."""
    done = subprocess.run(
        ["git", "-c", "user.name=Ana", "-c", "user.email=ana@example.org",
         "-c", "init.defaultBranch=main", *map(os.fspath, words)],
        cwd=cwd,
        env=_plain_environment(),
        check=True,
        capture_output=True,
        text=True,
    )  # fmt: skip
    return done.stdout.strip()


@contextmanager
def git_daemon(directory: Path) -> Iterator[int]:
    """Serve every repository in ``directory``, for pushes too."""
    port = free_port()
    daemon = subprocess.Popen(
        ["git", "daemon", "--verbose", f"--base-path={directory}", "--export-all",
         "--enable=receive-pack", f"--listen={LOCALHOST}", f"--port={port}", str(directory)],
        env=_plain_environment(),
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        assert daemon.stderr is not None
        for line in daemon.stderr:
            if "Ready to rumble" in line:
                break
        drain = threading.Thread(target=daemon.stderr.read, daemon=True)
        drain.start()
        yield port
    finally:
        daemon.terminate()
        daemon.wait()
        drain.join()
        daemon.stderr.close()


@dataclass
class GitHttp:
    """What a git server over HTTP was asked, and one answer of its own instead, if any."""

    port: int
    seen: list[tuple[str, str | None]] = field(default_factory=list)
    """Method and path of each request, and its ``Authorization``."""


@contextmanager
def git_http(
    directory: Path,
    *,
    authorization: str | None = None,
    answers: Mapping[str, tuple[int, dict[str, str]]] | None = None,
    context: ssl.SSLContext | None = None,
) -> Iterator[GitHttp]:
    """Serve repositories over smart HTTP, by git's own back end.

    Args:
        authorization: the one header that is let in.
        answers: status and headers given instead, by method.
        context: speak TLS.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None: ...

        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def _serve(self) -> None:
            given = self.headers.get("Authorization")
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            server.seen.append((f"{self.command} {self.path}", given))
            if answers and self.command in answers:
                self._say(*answers[self.command], b"Sorry.\nfatal: unable to connect to x\n")
            elif authorization not in (None, given):
                self._say(401, {"WWW-Authenticate": 'Basic realm="git"'}, b"")
            else:
                self._back_end(body)

        def _back_end(self, body: bytes) -> None:
            path, _, query = self.path.partition("?")
            done = subprocess.run(
                ["git", "http-backend"],
                input=body,
                env={
                    **_plain_environment(),
                    "GIT_PROJECT_ROOT": str(directory),
                    "GIT_HTTP_EXPORT_ALL": "1",
                    "PATH_INFO": path,
                    "QUERY_STRING": query,
                    "REQUEST_METHOD": self.command,
                    "REMOTE_USER": "ana",
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                    "CONTENT_LENGTH": str(len(body)),
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                },
                capture_output=True,
                check=False,
            )
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.decode().splitlines())
            self._say(int(headers.pop("Status", "200")[:3]), headers, content)

        def _say(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if "Content-Type" not in headers:
                self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with ThreadingHTTPServer((LOCALHOST, 0), Handler) as threaded:
        threaded.handle_error = lambda *_: None  # type: ignore[method-assign]
        if context is not None:
            threaded.socket = context.wrap_socket(threaded.socket, server_side=True)
        server = GitHttp(threaded.server_address[1])
        thread = threading.Thread(target=threaded.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            threaded.shutdown()
            thread.join()
