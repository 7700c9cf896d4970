"""Demo: the whole way of an action, on this machine, with nothing faked but the mailbox."""

import base64
import email.policy
import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from email.parser import BytesParser
from pathlib import Path
from typing import Any

import click
import trio

from executor.cli.output import printable, say
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


@click.command("demo")
def command() -> int:
    """Deliver a real message, refuse a tampered one, and keep a secret: shown step by step.

    Starts an SMTP server on loopback, sends with the real curl, and leaves nothing behind. Needs
    curl, and the extra `demo`; without bubblewrap it says what it cannot show.

    \b
    Example:
      executor demo
    """
    if shutil.which("curl") is None:
        raise click.ClickException("The demo sends with curl, which is not installed.")
    with tempfile.TemporaryDirectory(prefix="executor-demo-") as made:
        story = _Story(Path(made))
        trio.run(story.tell)
    if story.failed:
        say(click.style(f"\n{story.failed} of the points above did not hold.", fg="red"))
        return 1
    say(click.style("\nAll of it held.", fg="green", bold=True))
    return 0


class _Mailbox:
    """What the SMTP server took in."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: ARG002
        self.messages.append(envelope.original_content)
        return f"250 2.0.0 Ok: queued as DEMO{len(self.messages)}"


class _Story:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._mailbox = _Mailbox()
        self._server = ""
        self.failed = 0

    async def tell(self) -> None:
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
                    await self._tamper(executor)
                    await self._look(executor)
        finally:
            del os.environ[SECRET_NAME]

    def _introduce(self, executor: Executor) -> None:
        say("An SMTP server listens on loopback; its mailbox is empty.")
        level = next(entry for entry in executor.levels if entry.level == "namespaced")
        if not level.works:
            say(click.style(f"No sandbox here, so less can be shown: {level.why}", fg="yellow"))

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
        argv = " ".join(receipt.action.argv)
        say(f"     run: {argv[:160]}{'...' if len(argv) > 160 else ''}")
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

    async def _tamper(self, executor: Executor) -> None:
        _head("2. Between the freeze and the start, somebody alters the frozen copy")
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
                self._point(True, f"refused by {no.rule} ({no.code})", printable(no.because))
        count = len(self._mailbox.messages)
        self._point(count == 1, f"the server still has {count} message", "nothing was started")

    async def _look(self, executor: Executor) -> None:
        _head("3. A command goes looking for a secret of the program that runs it")
        secret = os.environ[SECRET_NAME]
        file = self._directory / "password.txt"
        file.write_text(secret)
        with subprocess.Popen(["sleep", "600"]) as other:
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
            say(click.style("   Not shown: without bubblewrap there is no sandbox.", fg="yellow"))
            return
        self._point(
            receipt.status == "delivered",
            "through the gate, it finds it nowhere",
            "none of it was inherited, and neither the process nor the file is there",
        )

    def _point(self, holds: bool, what: str, why: str) -> None:
        self.failed += not holds
        sign = click.style("ok ", fg="green") if holds else click.style("NO ", fg="red")
        say(f"   {sign} {what}")
        if why:
            say(click.style(f"       {why}", dim=True))

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
            "The demo's mail server is not installed: pip install 'sealed-executor[demo]'"
        ) from None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    controller = Controller(mailbox, hostname="127.0.0.1", port=port)
    controller.start()
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
    say("\n" + click.style(text, bold=True))
