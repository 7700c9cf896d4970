"""Attempt: one try at an action, as the ledger keeps it. Values only; `rules/ledger.py` judges."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec

State = Literal["reserved", "dispatching", "delivered", "released", "unresolved"]
STATES: tuple[State, ...] = ("reserved", "dispatching", "delivered", "released", "unresolved")
DecidedBy = Literal["run", "recovery", "person", "evidence", "resend", "late-result"]
NoteKind = Literal["resolved", "evidence", "late-result", "recovered", "pruned"]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Value(msgspec.Struct, frozen=True):
    pass


class Moment(_Value, frozen=True):
    """A point in time by two clocks: the wall's, and the one that runs since the boot.

    ``wall`` is in milliseconds since 1970, UTC; ``ticks`` in milliseconds since ``boot``. Only
    ticks of one boot can be compared: nobody sets that clock.
    """

    wall: int
    ticks: int
    boot: str

    @property
    def at(self) -> str:
        """The wall's time, RFC 3339."""
        moment = EPOCH + timedelta(milliseconds=self.wall)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def __str__(self) -> str:
        return f"{self.at} {self.ticks} {self.boot}"

    @classmethod
    def parse(cls, text: str) -> "Moment":
        """Give the moment that ``str`` wrote.

        Raises:
            ValueError: it is none.
        """
        at, ticks, boot = text.split(" ")
        wall = (datetime.fromisoformat(at) - EPOCH) // timedelta(milliseconds=1)
        return cls(wall, int(ticks), boot)


class Owner(_Value, frozen=True):
    """The open executor that an attempt belongs to.

    ``started`` is the clock tick since ``boot`` at which process ``pid`` started: the pair names
    one process for ever. ``namespace`` says in which PID namespace the number counts.
    """

    id: str
    boot: str
    namespace: str
    pid: int
    started: str


class Attempt(_Value, frozen=True, kw_only=True):
    """One try at an action.

    ``number`` orders the attempts of a ledger, 0 before it is in one. ``beside`` is the earlier
    attempt that the request named as known (`allow_duplicate`); ``resend`` says that it goes out
    under the ``key`` of an unresolved one. ``window_ms`` is the time for which its delivery blocks.
    ``alarm`` says what contradicts a decision about it; ``level`` is its isolation.
    """

    id: str
    fingerprint: str
    account: str
    tool: str
    action: str
    owner: Owner
    claimed: Moment
    window_ms: int
    number: int = 0
    state: State = "reserved"
    key: str = ""
    beside: str | None = None
    resend: bool = False
    dispatched: Moment | None = None
    settled: Moment | None = None
    decided_by: DecidedBy | None = None
    code: str | None = None
    because: str | None = None
    result_id: str | None = None
    alarm: str | None = None
    level: str = ""

    def facts(self) -> dict[str, Any]:
        """Give what people and programs are shown of it."""
        return {
            "attempt": self.id,
            "state": self.state,
            "tool": self.tool,
            "account": self.account,
            "fingerprint": self.fingerprint,
            "action_digest": self.action,
            "claimed_at": self.claimed.at,
            "dispatched_at": None if self.dispatched is None else self.dispatched.at,
            "settled_at": None if self.settled is None else self.settled.at,
            "decided_by": self.decided_by,
            "code": self.code,
            "because": self.because,
            "result_id": self.result_id,
            "beside": self.beside,
            "resend": self.resend,
            "window_ms": self.window_ms,
            "isolation": self.level,
            "alarm": self.alarm,
            "owner": msgspec.to_builtins(self.owner),
        }


class Settlement(_Value, frozen=True):
    """What became of an attempt, and who says so."""

    state: Literal["delivered", "released", "unresolved"]
    code: str | None
    because: str
    by: DecidedBy = "run"
    result_id: str | None = None


class Note(_Value, frozen=True):
    """Something that was said about an attempt beside its state, by whom and when."""

    attempt: str
    at: str
    kind: NoteKind
    by: str
    text: str


class Earlier(_Value, frozen=True):
    """What a refused duplicate is told about the attempt in its way."""

    attempt: str
    state: State
    code: str | None
    result_id: str | None
    claimed_at: str
    settled_at: str | None
    receipt: str | None

    @classmethod
    def of(cls, attempt: Attempt) -> "Earlier":
        """Take what may be told: the fingerprint is the same, and so is the account."""
        settled = attempt.state in ("delivered", "unresolved", "released")
        return cls(
            attempt=attempt.id,
            state=attempt.state,
            code=attempt.code,
            result_id=attempt.result_id,
            claimed_at=attempt.claimed.at,
            settled_at=None if attempt.settled is None else attempt.settled.at,
            receipt=attempt.id if settled else None,
        )

    def facts(self) -> Mapping[str, Any]:
        """Give it as plain data."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain
