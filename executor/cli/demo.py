"""Demo: the whole way of an action, on this machine, with nothing faked but the mailbox."""

import base64
import email.policy
import hashlib
import os
import socket
import subprocess
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from email.parser import BytesParser
from pathlib import Path
from typing import Any

import click

from executor.cli import working
from executor.cli.output import note, printable, say, styled
from executor.cli.signals import NOTHING_HAPPENED, Interrupted
from executor.embedding import Executor, open_executor
from executor.receipt import Receipt
from executor.refusal import Refused
from executor.request import AskedBy, Request

SECRET_NAME = "EXECUTOR_DEMO_SECRET"  # noqa: S105 - the name of a made-up one
ASKED_BY = AskedBy(role="assistant", channel="cli", sender="ana")
_LOOK = """\
executor: manifest/1
tool: demo.look
summary: Look for a secret in files that a curious command would try.
command: grep
parameters:
  secret: {type: string}
  places: {type: array, items: {type: string}}
required: [secret, places]
argv:
  - [--text, --files-with-matches, -e, "{secret}", --]
  - {each: places, argv: ["{item}"]}
capabilities: [{name: "compute:pure"}]
account: demo
outcomes:
  - {when: {exit: 0}, is: unresolved, code: SECRET_SEEN}
  - {when: {exit: [1, 2]}, is: delivered}
"""


@click.command("demo", short_help="Show all of it, on this machine, in a second.")
def command() -> int:
    """Deliver a real message once, refuse a tampered one, keep a secret: shown step by step.

    Starts a mail server on loopback, sends to it with the real curl, and leaves nothing behind.
    Needs curl and the extra `demo`. Without bubblewrap it says what it cannot show. Exits with 0
    when all that was shown held, else with 1.

    \b
    Example:
      executor demo

    \b
    If its mail server is missing:
      pip install 'sealed-executor[demo]'
    """
    story = _Story()
    try:
        working.run(story.tell)
    except Interrupted:
        note("the demo was interrupted; its server and its files are gone.")
        return NOTHING_HAPPENED
    if story.failed:
        say(styled(f"\n{story.failed} of the points above did not hold.", "red", bold=True))
        return 1
    if story.not_shown:
        say(styled("\nAll that was shown held. Not shown:", "yellow", bold=True))
        for what in story.not_shown:
            say(f"  {what}")
        say("`executor doctor` says what is missing here, and how to get it.")
        return 0
    say(styled("\nAll of it held.", "green", bold=True))
    return 0


class _Mailbox:
    """What the SMTP server took in."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: ARG002
        self.messages.append(envelope.original_content)
        return f"250 2.0.0 Ok: queued as DEMO{len(self.messages)}"


class _Story:
    def __init__(self) -> None:
        self._directory = Path()
        self._mailbox = _Mailbox()
        self._server = ""
        self.failed = 0
        self.not_shown: list[str] = []

    async def tell(self) -> None:
        with tempfile.TemporaryDirectory(prefix="executor-demo-") as made:
            self._directory = Path(made)
            await self._tell()

    async def _tell(self) -> None:
        manifests = self._directory / "manifests"
        manifests.mkdir()
        (manifests / "demo.look.yaml").write_text(_LOOK)
        os.environ[SECRET_NAME] = "demo-" + os.urandom(8).hex()
        try:
            with _smtp_server(self._mailbox) as port:
                self._server = f"smtp://127.0.0.1:{port}"
                async with open_executor(
                    state=self._directory / "state",
                    manifests=[manifests],
                    roots=[self._directory],
                    degraded=True,
                ) as executor:
                    self._introduce(executor)
                    await self._deliver(executor)
                    await self._ask_again(executor)
                    await self._tamper(executor)
                    await self._look(executor)
        finally:
            del os.environ[SECRET_NAME]

    def _introduce(self, executor: Executor) -> None:
        say("An SMTP server listens on loopback; its mailbox is empty.")
        level = next(entry for entry in executor.levels if entry.level == "namespaced")
        if not level.works:
            say(styled("NO SANDBOX HERE, so less can be shown.", "yellow", bold=True))
            say(styled(textwrap.fill(printable(level.why), 98), "yellow"))

    async def _deliver(self, executor: Executor) -> None:
        _head("1. A message with an attachment is sent, by the real curl")
        attachment = os.urandom(32 * 1024)
        message = self._write("invoice.eml", "Invoice 1017", attachment)
        receipt = await executor.run(self._request(message))
        self._point(receipt.status == "delivered", f"status {receipt.status}", receipt.because)
        if receipt.action is None:
            return
        file = receipt.action.files[0]
        self._point(
            file.sha256 == _sha256(message.read_bytes()),
            f"frozen: a private copy of {file.size} bytes, sha256 {file.sha256[:16]}...",
            "before the start the copy and curl itself were hashed again",
        )
        say("       what ran:")
        say(_wrapped(" ".join(receipt.action.argv)))
        arrived = self._mailbox.messages[0] if self._mailbox.messages else b""
        self._point(
            _attachment(arrived) == attachment,
            f"the server has {len(self._mailbox.messages)} message",
            f"its attachment is the one that was written, sha256 {_sha256(attachment)[:16]}...",
        )
        self._show(executor, receipt)

    def _show(self, executor: Executor, receipt: Receipt) -> None:
        action = receipt.action
        if action is None:
            return
        reach = action.admitted.reach
        say("   The receipt:")
        for name, value in (
            ("action", f"sha256:{action.digest}"),
            ("result id", receipt.result_id),
            ("server said", receipt.reply),
            ("isolation", f"{reach.level}, network: {reach.network}"),
            *(("  missing", entry) for entry in reach.missing),
            ("environment", ", ".join(action.env)),
            ("on record", f"{executor.receipt_path(receipt).stat().st_size} bytes of JSON"),
        ):
            say(f"     {name:<12} {printable(str(value))}")

    async def _ask_again(self, executor: Executor) -> None:
        _head("2. The caller loses that answer, and asks the very same again")
        try:
            again = await executor.run(self._request(self._directory / "invoice.eml"))
            off = again.ledger is not None and again.ledger.window_ms == 0
            why = "the window for duplicates is set to 0 here" if off else again.because
            self._point(False, f"it was not refused: status {again.status}", why)
        except Refused as no:
            self._point(no.rule == "ledger.delivered", f"refused by {no.rule} ({no.code})", "")
            if no.earlier is not None:
                say("   What it is told of the first time:")
                for name, value in (
                    ("attempt", no.earlier.attempt),
                    ("delivered", no.earlier.settled_at),
                    ("result id", no.earlier.result_id),
                    ("what to do", f"{no.recovery}: that is the answer it lost"),
                ):
                    say(f"     {name:<12} {printable(str(value))}")
        self._one_message()

    def _one_message(self) -> None:
        count = len(self._mailbox.messages)
        self._point(count == 1, f"the server still has {count} message", "nothing was started")

    async def _tamper(self, executor: Executor) -> None:
        _head("3. Between the freeze and the start, somebody alters the frozen copy")
        message = self._write("offer.eml", "Offer 88", b"the price is 100")
        gate = executor.gate
        frozen, hold = await gate.freeze(gate.admit("demo", self._request(message)))
        with hold:
            copy = gate.freezer.blobs.path(frozen.files[0].sha256)
            copy.chmod(0o600)
            copy.write_bytes(copy.read_bytes().replace(b"88", b"99"))
            say("   One number in the copy was changed; its size is the same.")
            try:
                with await gate.verify(frozen):
                    self._point(False, "it was not noticed", "")
            except Refused as no:
                self._point(True, f"refused by {no.rule} ({no.code})", no.because)
        self._one_message()

    async def _look(self, executor: Executor) -> None:
        _head("4. A command goes looking for a secret of the program that runs it")
        secret = os.environ[SECRET_NAME]
        file = self._directory / "password.txt"
        file.write_text(secret)
        # It waits for us to close its stdin: it cannot outlive us, however we end.
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as other:
            try:
                places = ["/proc/self/environ", f"/proc/{other.pid}/environ", str(file)]
                seen = _seen_without_sandbox(secret, places)
                receipt = await executor.run(
                    Request(
                        tool="demo.look",
                        asked_by=ASKED_BY,
                        parameters={"secret": secret, "places": places},
                    )
                )
            finally:
                other.kill()
        say("   It looks into its own environment, another process's, and a file.")
        self._point(
            seen == places, f"started plainly, it finds the secret in {len(seen)} of 3", "as usual"
        )
        if receipt.action is not None and receipt.action.admitted.reach.level == "bare":
            say(styled("   --  through the gate: NOT SHOWN, there is no sandbox", "yellow"))
            self.not_shown.append("that a command cannot reach the executor's secrets")
            return
        self._point(
            receipt.status == "delivered",
            "through the gate, it finds it nowhere",
            "none of it was inherited, and neither the process nor the file is there",
        )

    def _point(self, holds: bool, what: str, why: str) -> None:
        self.failed += not holds
        sign = styled("ok ", "green") if holds else styled("NO ", "red")
        say(f"   {sign} {printable(what)}")
        if why:
            say(styled(_wrapped(why), dim=True))

    def _request(self, message: Path) -> Request:
        return Request(
            tool="mail.send",
            asked_by=ASKED_BY,
            parameters={
                "server": self._server,
                "sender": "ana@example.org",
                "to": ["bo@example.org"],
            },
            files={"message": str(message)},
        )

    def _write(self, name: str, subject: str, attachment: bytes) -> Path:
        message = EmailMessage(policy=email.policy.SMTP)
        message["From"], message["To"] = "ana@example.org", "bo@example.org"
        message["Subject"] = subject
        message.set_content("Dear Bo,\n\nattached you find it.\n\nAna\n")
        message.add_attachment(
            attachment, maintype="application", subtype="octet-stream", filename="attached.bin"
        )
        path = self._directory / name
        path.write_bytes(message.as_bytes())
        return path


@contextmanager
def _smtp_server(mailbox: _Mailbox) -> Iterator[int]:
    try:
        from aiosmtpd.controller import Controller
    except ImportError:
        raise click.ClickException(
            "the demo's mail server is not installed: install the extra `demo` "
            "(pip install '.[demo]' in a clone)."
        ) from None
    try:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        controller = Controller(
            mailbox,
            hostname="127.0.0.1",
            port=port,
            server_hostname="localhost",  # its own name would be looked up, which can take long
        )
        controller.start()
    except OSError as failed:
        raise click.ClickException(
            f"the demo's mail server could not listen on 127.0.0.1: {failed.strerror or failed}."
        ) from None
    try:
        yield port
    finally:
        controller.stop()


def _seen_without_sandbox(secret: str, places: list[str]) -> list[str]:
    done = subprocess.run(
        ["grep", "--text", "--files-with-matches", "-e", secret, "--", *places],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.split()


def _attachment(message: bytes) -> bytes | None:
    parsed = BytesParser(policy=email.policy.default).parsebytes(message)
    for part in parsed.walk():
        if part.get_filename() == "attached.bin":
            return base64.b64decode(str(part.get_payload()))
    return None


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _head(text: str) -> None:
    say("\n" + styled(text, bold=True))


def _wrapped(text: str) -> str:
    indent = " " * 7
    return textwrap.fill(
        printable(text),
        98,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
