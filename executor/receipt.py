"""Receipt: what is on record about one request, whatever its end.

The record is an in-toto Statement v1; it is not signed yet, and signing will wrap it unchanged.
"""

import hashlib
import math
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from executor.attempt import Attempt, Earlier
from executor.finished import Finished, printable
from executor.frozen import FrozenAction, limits_as_numbers, sha256_text
from executor.refusal import Recovery
from executor.request import Request

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:sealed-executor:receipt:1"
Status = Literal["delivered", "refused", "unresolved", "undelivered", "pending"]
EXIT_CODES: dict[Status, int] = {
    "delivered": 0,
    "refused": 3,
    "unresolved": 4,
    "undelivered": 5,
    "pending": 6,
}
EXACT_INTEGERS = 2**53
"""From here on RFC 8785 cannot tell whole numbers apart."""


class OnLedger(msgspec.Struct, frozen=True):
    """What the ledger says about the action: what it is the same as, and what it stands beside."""

    fingerprint: str
    window_ms: int
    """For how long its delivery blocks the same action; 0: not at all."""
    beside: str | None
    resend: bool

    @classmethod
    def of(cls, attempt: Attempt) -> "OnLedger":
        """Take it from an attempt."""
        return cls(attempt.fingerprint, attempt.window_ms, attempt.beside, attempt.resend)


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one request: what was asked, what ran, and what came of it.

    ``attempt`` is this try's id, and the receipt's; ``action`` is there once files were frozen,
    ``finished`` once a start was tried. Times are UTC, RFC 3339. ``rule`` and ``stage`` say who
    said no. ``earlier`` is the attempt in the way of a duplicate, ``found`` what the look-up before
    the action found. ``filed`` is false while only the ledger has it.
    """

    attempt: str
    request: Request
    status: Status
    code: str | None
    because: str
    recovery: Recovery | None
    started_at: str
    ended_at: str
    rule: str | None = None
    stage: str | None = None
    todo: str | None = None
    result_id: str | None = None
    reply: str | None = None
    action: FrozenAction | None = None
    finished: Finished | None = None
    invalid_input: bool = False
    ledger: OnLedger | None = None
    earlier: Earlier | None = None
    found: dict[str, list[str]] | None = None
    filed: bool = True
    executor_version: str = ""

    @property
    def exit_code(self) -> int:
        """The exit code of a program that ran this action, as the contract says."""
        return 2 if self.invalid_input else EXIT_CODES[self.status]

    def result(self) -> dict[str, Any]:
        """Give the action's result, as ``--json`` prints it."""
        finished = self.finished
        reach = None if self.action is None else self.action.admitted.reach
        return {
            "status": self.status,
            "code": self.code,
            "stage": self.stage,
            "recovery": self.recovery,
            "result_id": self.result_id,
            "attempt": self.attempt,
            "action_digest": None if self.action is None else self.action.digest,
            "receipt": self.attempt if self.filed and self.code != "RECORD_LOST" else None,
            "isolation": None
            if reach is None
            else {
                "level": reach.level,
                "missing": list(reach.missing),
                "network": reach.network,
            },
            "rule": self.rule,
            "because": self.because,
            "todo": self.todo,
            "reply": self.reply,
            "ledger": None if self.ledger is None else msgspec.to_builtins(self.ledger),
            "earlier": None if self.earlier is None else msgspec.to_builtins(self.earlier),
            "output": None
            if finished is None
            else {
                name: {
                    "text": output.kept.decode("utf-8", "backslashreplace"),
                    "bytes": output.total,
                    "truncated": output.truncated,
                }
                for name, output in (("stdout", finished.stdout), ("stderr", finished.stderr))
            },
        }

    def statement(self) -> dict[str, Any]:
        """Give the record: digests, ids and codes, no file contents and no output.

        Whatever was asked, RFC 8785 can write it, and it has the subject that in-toto demands.
        """
        action = self.action
        statement = {
            "_type": STATEMENT_TYPE,
            "subject": [
                {"name": "request", "digest": {"sha256": _request_sha256(self.request)}},
                *(() if action is None else _subjects(action)),
            ],
            "predicateType": PREDICATE_TYPE,
            "predicate": {
                "attempt": self.attempt,
                "executor": self.executor_version,
                "started_at": self.started_at,
                "ended_at": self.ended_at,
                "asked_by": self.request.asked_by,
                "level": self.request.level,
                "tool": self.request.tool,
                "result": {
                    "status": self.status,
                    "code": self.code,
                    "rule": self.rule,
                    "stage": self.stage,
                    "recovery": self.recovery,
                    "result_id": self.result_id,
                },
                "ledger": self.ledger,
                "earlier": self.earlier,
                "found": self.found,
                "decision": None,
                "approval": None,
                "action": None if action is None else _action(action),
                "run": None if self.finished is None else _run(self.finished),
                "undo": None,
            },
        }
        plain: dict[str, Any] = _plain(statement)
        return plain


def encode(statement: Mapping[str, Any]) -> bytes:
    """Give the canonical bytes of a statement: RFC 8785, one line."""
    import rfc8785

    return rfc8785.dumps(dict(statement)) + b"\n"


def recovered(draft: bytes, attempt: Attempt) -> bytes:
    """Give the record of an attempt whose executor is gone, from the one made at its claim."""
    statement = msgspec.json.decode(draft)
    statement["predicate"] |= {
        "ended_at": attempt.claimed.at if attempt.settled is None else attempt.settled.at,
        "ledger": msgspec.to_builtins(OnLedger.of(attempt)),
        "result": {
            "status": "undelivered" if attempt.state == "released" else "unresolved",
            "code": attempt.code,
            "rule": None,
            "stage": "settle",
            "recovery": "retry" if attempt.state == "released" else "ask",
            "result_id": attempt.result_id,
        },
    }
    return encode(statement)


def _request_sha256(request: Request) -> str:
    import rfc8785

    return hashlib.sha256(rfc8785.dumps(_plain(request))).hexdigest()


def _plain(value: Any) -> Any:
    """Give a value in words of RFC 8785; what it has no word for becomes text, and is no fault."""
    match value:
        case None | bool():
            return value
        case str():
            return printable(value)
        case int():
            return value if abs(value) < EXACT_INTEGERS else hex(value)
        case float():
            return value if math.isfinite(value) else repr(value)
        case list() | tuple():
            return [_plain(item) for item in value]
        case Mapping():
            return {printable(str(key)): _plain(item) for key, item in value.items()}
        case msgspec.Struct():
            return _plain(msgspec.to_builtins(value, enc_hook=_kind))
    return _kind(value)


def _kind(value: Any) -> str:
    return f"<{type(value).__name__}>"


def _subjects(action: FrozenAction) -> list[dict[str, Any]]:
    named = [(f"command:{file.path}", file.sha256) for file in action.admitted.command.files]
    named += [(f"file:{file.slot}/{file.name}", file.sha256) for file in action.files]
    return [{"name": name, "digest": {"sha256": sha256}} for name, sha256 in named]


def _action(action: FrozenAction) -> dict[str, Any]:
    admitted = action.admitted
    reach = admitted.reach
    return {
        "digest": action.digest,
        "manifest": admitted.asked.manifest_sha256,
        "argv": sha256_text("\0".join(action.argv)),
        "environment": sorted(action.env),
        "account": admitted.asked.account,
        "targets": [msgspec.to_builtins(target) for target in admitted.asked.targets],
        "files": [msgspec.to_builtins(file) for file in action.files],
        "secrets": [use.name for use in admitted.secrets],
        "isolation": {
            "required": reach.required,
            "level": reach.level,
            "missing": list(reach.missing),
            "network": reach.network,
            "endpoints": [str(endpoint) for endpoint in reach.endpoints],
            "read": list(reach.read),
            "write": list(reach.write),
        },
        "limits": limits_as_numbers(admitted.manifest.limits),
    }


def _run(finished: Finished) -> dict[str, Any]:
    return {
        "end": finished.end,
        "exit": finished.exit,
        "signal": finished.signal,
        "milliseconds": round(finished.seconds * 1000),
        "leftovers_ended": finished.leftovers,
        "outputs": {
            name: {
                "sha256": output.sha256,
                "kept_bytes": len(output.kept),
                "bytes": output.total,
                "truncated": output.truncated,
            }
            for name, output in (("stdout", finished.stdout), ("stderr", finished.stderr))
        },
    }
