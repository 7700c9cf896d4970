"""Refusal: every "no" of the gate, with its code, stage and recovery, in one table."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from executor.attempt import Earlier
    from executor.receipt import Receipt

Recovery = Literal["wait", "stop", "ask", "fix", "retry"]
Stage = Literal[
    "load",
    "admit",
    "freeze",
    "claim",
    "look-up",
    "verify",
    "dispatch",
    "spawn",
    "classify",
    "settle",
    "record",
    "decide",
]


@dataclass(frozen=True, slots=True)
class Row:
    """What a caller can rely on when ``rule`` refuses with ``code``.

    ``invalid_input`` marks a no to the text itself (exit 2), not to what it asks (exit 3).
    """

    rule: str
    code: str
    stage: Stage
    recovery: Recovery
    invalid_input: bool = False


TABLE: tuple[Row, ...] = (
    # what may be asked
    Row("admission.closed-tools", "UNKNOWN_TOOL", "admit", "fix", True),
    Row("admission.closed-request", "INVALID_REQUEST", "admit", "fix", True),
    Row("admission.closed-parameters", "INVALID_PARAMETERS", "admit", "fix", True),
    Row("admission.single-line", "INVALID_PARAMETERS", "admit", "fix", True),
    Row("admission.closed-manifest", "INVALID_MANIFEST", "load", "fix", True),
    Row("admission.closed-config", "INVALID_CONFIG", "load", "fix", True),
    Row("admission.option-lookalike", "ARGUMENT_LOOKS_LIKE_OPTION", "admit", "fix", True),
    Row("admission.argv-fits", "ARGV_TOO_LONG", "admit", "fix", True),
    Row("admission.command-pinned", "COMMAND_NOT_FOUND", "admit", "fix"),
    Row("admission.command-pinned", "COMMAND_NOT_TRUSTED", "admit", "fix"),
    Row("admission.command-pinned", "COMMAND_CHANGED", "verify", "ask"),
    Row("admission.script-pinned", "COMMAND_CHANGED", "verify", "ask"),
    Row("admission.script-pinned", "COMMAND_NOT_PINNABLE", "admit", "fix"),
    Row("admission.no-shims", "COMMAND_NOT_PINNABLE", "admit", "fix"),
    Row("admission.no-shell", "COMMAND_NOT_PINNABLE", "admit", "fix"),
    # what was approved is what runs
    Row("freezing.inside-roots", "FILE_OUTSIDE_ROOTS", "freeze", "fix"),
    Row("freezing.readable-files", "FILE_NOT_READABLE", "freeze", "fix"),
    Row("freezing.regular-files", "NOT_A_REGULAR_FILE", "freeze", "fix"),
    Row("freezing.stable-source", "FILE_CHANGED_WHILE_FREEZING", "freeze", "retry"),
    Row("freezing.line-ends", "BARE_LINE_END", "freeze", "fix"),
    Row("freezing.bounded", "FILE_TOO_LARGE", "freeze", "fix"),
    Row("freezing.staged-names", "FILE_NAME_COLLISION", "admit", "fix"),
    Row("freezing.rehash-before-spawn", "FROZEN_COPY_CHANGED", "verify", "ask"),
    Row("freezing.private-store", "STORE_UNAVAILABLE", "freeze", "fix"),
    # at most once
    Row("ledger.in-flight", "DUPLICATE_IN_FLIGHT", "claim", "wait"),
    Row("ledger.delivered", "DUPLICATE_DELIVERED", "claim", "stop"),
    Row("ledger.unresolved", "DUPLICATE_UNRESOLVED", "claim", "ask"),
    Row("ledger.override-beside", "UNKNOWN_ATTEMPT", "claim", "fix"),
    Row("ledger.better-known", "LOOKUP_FAILED", "look-up", "fix"),
    Row("ledger.better-known", "LOOKUP_UNFINISHED", "look-up", "retry"),
    Row("ledger.single-dispatch", "CLAIM_LOST", "dispatch", "ask"),
    Row("ledger.full-disk", "STORE_UNAVAILABLE", "claim", "retry"),
    Row("ledger.sound-store", "STORE_UNAVAILABLE", "load", "ask"),
    Row("ledger.unresolved", "NOT_UNRESOLVED", "decide", "stop"),
    Row("ledger.by-attempt", "UNKNOWN_ATTEMPT", "decide", "fix", True),
    Row("ledger.evidence", "NO_VERIFY_COMMAND", "decide", "ask"),
    # what the command gets, and can reach
    Row("spawning.secrets", "SECRET_NOT_FOR_HOST", "admit", "fix"),
    Row("spawning.secrets", "SECRET_UNAVAILABLE", "verify", "fix"),
    Row("isolation.declared", "ISOLATION_UNAVAILABLE", "admit", "fix"),
    Row("isolation.probed", "ISOLATION_UNAVAILABLE", "admit", "retry"),
    Row("isolation.paths", "PATH_NOT_ALLOWED", "admit", "fix"),
    Row("isolation.paths", "PATH_NOT_FOUND", "verify", "fix"),
)
_BY_RULE_AND_CODE = {(row.rule, row.code): row for row in TABLE}


class Refused(Exception):
    """A rule said no. Nothing started.

    Args:
        rule: its id, ``family.name``.
        code: one of the rule's codes in ``TABLE``.
        because: what was found, in facts.
        todo: what to do next, one sentence.
        earlier: the attempt in its way, for a duplicate.

    ``receipt`` is set once the refusal is on record: what is told has been recorded first.
    """

    def __init__(
        self, rule: str, code: str, *, because: str, todo: str, earlier: "Earlier | None" = None
    ) -> None:
        self.row = _BY_RULE_AND_CODE[rule, code]
        self.because = because
        self.todo = todo
        self.earlier = earlier
        self.receipt: Receipt | None = None
        super().__init__(rule, code, because, todo)

    @property
    def rule(self) -> str:
        """The rule that refused, ``family.name``."""
        return self.row.rule

    @property
    def code(self) -> str:
        """The stable code that programs compare."""
        return self.row.code

    @property
    def stage(self) -> Stage:
        """The gate's stage that refused."""
        return self.row.stage

    @property
    def recovery(self) -> Recovery:
        """What helps: wait, stop, ask a person, fix the request, or retry."""
        return self.row.recovery

    def __reduce__(self) -> tuple[Any, ...]:
        made = partial(type(self), because=self.because, todo=self.todo, earlier=self.earlier)
        return made, (self.rule, self.code), {"receipt": self.receipt}

    def __str__(self) -> str:
        between = "" if self.because.endswith("\n") else " "
        return f"{self.rule} ({self.code}): {self.because}{between}{self.todo}"


class Unverified(Refused):
    """The same no, when the gate could not tell. The repair is ours, not the caller's."""
