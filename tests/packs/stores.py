"""Stores: a mail store with drafts, and what became of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from executor import AskedBy, Executor, Receipt, Request
from executor.attempt import Attempt
from executor.refusal import Refused
from tests.house import House

FAKE = Path(__file__).parents[2] / "fakes" / "mailstore.py"
DRAFT = b"""From: Ana <ana@example.org>
To: bo@example.org, "C. D" <cy@example.org>
Subject: hello

hello
"""


class Store:
    """A directory with `drafts` and `scheduled` in it, one message a file."""

    def __init__(self, house: House) -> None:
        self.path = house.root / "store"
        for name in ("drafts", "scheduled"):
            (self.path / name).mkdir(parents=True)

    def draft(self, text: bytes = DRAFT, name: str = "d1") -> Path:
        """Write a draft."""
        path = self.path / "drafts" / name
        path.write_bytes(text)
        return path

    def consume(self) -> None:
        """Let the draft go as if it had been sent by hand."""
        (self.path / "drafts" / "d1").unlink()

    def cue(self, text: str | None) -> None:
        """Let the fake go wrong (see fakes/README.md), or go right again."""
        if text is None:
            (self.path / "cue").unlink()
        else:
            (self.path / "cue").write_text(text)

    @property
    def drafts(self) -> set[str]:
        """The drafts that are left, without what nmh keeps of others behind a comma."""
        names = {path.name for path in (self.path / "drafts").iterdir()}
        return {name for name in names if not name.startswith(",")}

    @property
    def scheduled(self) -> set[str]:
        return {path.name for path in (self.path / "scheduled").iterdir()}

    def request(self, tool: str, parameters: Mapping[str, Any], **changes: Any) -> Request:
        """Ask for something with the draft."""
        given = {"store": str(self.path), "draft": "d1", **parameters}
        return Request(tool=tool, asked_by=AskedBy(role="tester"), parameters=given, **changes)


async def refused(executor: Executor, request: Request) -> Refused:
    """Run what must be refused; gives the refusal."""
    try:
        receipt = await executor.run(request)
    except Refused as no:
        return no
    raise AssertionError(f"not refused: {receipt.status} {receipt.code}")


def on_record(executor: Executor, ended: Receipt | Refused) -> Attempt:
    """Give what the ledger has of the attempt with this end."""
    receipt = ended.receipt if isinstance(ended, Refused) else ended
    assert receipt is not None
    found = executor.gate.ledger.find(receipt.attempt)
    assert found is not None
    return found
