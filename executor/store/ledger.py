"""Ledger: the attempts on record, and each change of one in a transaction.

What a change is, `rules/ledger.py` says; here it is read, decided and written under one lock.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import msgspec

from executor.attempt import Attempt, Moment, Note, NoteKind, Owner, Settlement
from executor.refusal import Refused, Unverified
from executor.rules import ledger as rules
from executor.rules.ledger import Gone, Terms
from executor.store.database import Database, Session
from executor.store.faults import unsound
from executor.store.writer import Writer

T = TypeVar("T")
log = logging.getLogger(__name__)

_SELECT = """SELECT number, id, fingerprint, state, account, tool, action, idempotency, beside,
        resend, window_ms, owner, claimed, dispatched, settled, decided_by, code, because,
        result_id, alarm, level
    FROM attempts
    """
_BY_ID = _SELECT + "WHERE id = :id"
_BY_FINGERPRINT = _SELECT + "WHERE fingerprint = :fingerprint ORDER BY number"
_OPEN = _SELECT + "WHERE state IN ('reserved', 'dispatching', 'unresolved') ORDER BY number"
_UNDER_WAY = _SELECT + "WHERE state IN ('reserved', 'dispatching') ORDER BY number"
_UNFILED = _SELECT + "WHERE draft IS NOT NULL ORDER BY number"
_IS_OPEN = """SELECT 1 FROM attempts
    WHERE fingerprint = :fingerprint AND state IN ('reserved', 'dispatching', 'unresolved')
    LIMIT 1"""
_SETTLED_AFTER = (
    _SELECT
    + """WHERE number > :after AND state IN ('delivered', 'released') AND draft IS NULL
    ORDER BY number LIMIT :most"""
)
_LIST = (
    _SELECT
    + """WHERE (:state IS NULL OR state = :state)
      AND (:tool IS NULL OR tool = :tool)
      AND (:account IS NULL OR account = :account)
      AND (:since IS NULL OR claimed >= :since)
      AND (:before IS NULL OR number < :before)
    ORDER BY number DESC LIMIT :most"""
)
_BEGINNING = _SELECT + "WHERE id >= :beginning AND id < :beyond ORDER BY id LIMIT :most"
_ADD = """INSERT INTO attempts (id, fingerprint, state, account, tool, action, idempotency, beside,
        resend, window_ms, owner, claimed, dispatched, settled, decided_by, code, because,
        result_id, alarm, level, draft, question)
    VALUES (:id, :fingerprint, :state, :account, :tool, :action, :idempotency, :beside, :resend,
        :window_ms, :owner, :claimed, :dispatched, :settled, :decided_by, :code, :because,
        :result_id, :alarm, :level, :draft, :question)"""
_CHANGES = """UPDATE attempts SET state = :state, dispatched = :dispatched, settled = :settled,
        decided_by = :decided_by, code = :code, because = :because, result_id = :result_id,
        alarm = :alarm"""
_CHANGE = _CHANGES + " WHERE id = :id"
_SETTLE = _CHANGES + ", draft = :draft WHERE id = :id"
_REMOVE = "DELETE FROM attempts WHERE id = :id"
_NOTES = "SELECT attempt, at, kind, said_by, said FROM notes WHERE attempt = :attempt ORDER BY at"
_ADD_NOTE = """INSERT INTO notes (attempt, at, kind, said_by, said)
    VALUES (:attempt, :at, :kind, :said_by, :said)"""
_REMOVE_NOTES = "DELETE FROM notes WHERE attempt = :attempt"
_PUT_DRAFT = "UPDATE attempts SET draft = :draft WHERE id = :id"
_DRAFT = "SELECT draft FROM attempts WHERE id = :id"
_QUESTION = "SELECT question FROM attempts WHERE id = :id"
_NEWEST = "SELECT MAX(number) FROM attempts"
_COUNT = "SELECT state, COUNT(*) FROM attempts GROUP BY state"

Keep = Callable[[str], float]
Redraft = Callable[[bytes, Attempt], bytes]
"""Gives the statement of an attempt that recovery settled, from the one made at its claim."""
BATCH = 500
"""Attempts that are pruned in one transaction, so that claims come in between."""
MOST_SAME = 100
"""Attempts at one action from which on a claim forgets those that block nothing any more: each
claim reads them all, and others wait meanwhile."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ledger of one open store. ``gone`` says which owners are proven to be gone."""

    database: Database
    writer: Writer
    gone: Gone
    redraft: Redraft

    # -- the way of an attempt --------------------------------------------------------------------

    async def claim(
        self,
        wanted: Attempt,
        terms: Terms,
        now: Moment,
        *,
        draft: bytes,
        question: bytes | None = None,
    ) -> Attempt:
        """Reserve an attempt, durably.

        Args:
            draft: its receipt as far as it is known, for whoever has to write it.
            question: the parameters that its tool's `verify` command will be asked about.
        Raises:
            Refused: ``ledger.in-flight``, ``ledger.delivered``, ``ledger.unresolved``, or
                ``ledger.full-disk``.
        """

        def work(session: Session) -> Attempt | Refused:
            earlier = [
                self._recover(session, attempt, now)
                for attempt in _attempts(session, _BY_FINGERPRINT, fingerprint=wanted.fingerprint)
            ]
            try:
                reserved = rules.claim(wanted, earlier, terms, now)
            except Refused as no:
                return no  # returned, not raised: what was recovered stays
            asked = None if question is None else question.decode()
            session.run(_ADD, **_values(reserved), draft=draft.decode(), question=asked)
            if len(earlier) > MOST_SAME:
                old = [
                    one
                    for one in earlier[: -MOST_SAME // 2]
                    if one.key != wanted.key or not one.key
                ]
                _forget(session, [one for one in old if rules.prunable(one, terms.window, now)])
            return reserved

        try:
            claimed = await self.writer.write(work)
        except Unverified:
            # Nobody was told of a claim, but the disk may have one: it goes with the next write.
            self.writer.owe(lambda session: self._withdraw(session, wanted, now), overdue=True)
            raise
        if isinstance(claimed, Refused):
            raise claimed
        return claimed

    async def dispatch(self, reserved: Attempt, terms: Terms, now: Moment) -> Attempt:
        """Mark an attempt as about to start, durably.

        Raises:
            Refused: ``ledger.single-dispatch``, ``ledger.unresolved`` or ``ledger.full-disk``.
        """

        def work(session: Session) -> Attempt:
            every = _attempts(session, _BY_FINGERPRINT, fingerprint=reserved.fingerprint)
            found = next((one for one in every if one.id == reserved.id), None)
            others = [one for one in every if one.id != reserved.id]
            dispatching = rules.dispatch(found, reserved.owner, others, terms, now)
            session.run(_CHANGE, **_values(dispatching))
            return dispatching

        return await self.writer.write(work)

    async def settle(
        self, attempt: Attempt, said: Settlement, now: Moment, *, draft: bytes
    ) -> Attempt:
        """Put on record what became of an attempt, durably; it is named by its id alone.

        When the store fails, it is still owed, and rides with the next transaction.

        Args:
            attempt: as its executor knows it; it may have been pruned by now.
            draft: its receipt.
        Raises:
            Unverified: ``ledger.full-disk`` or ``ledger.sound-store``.
        """

        def work(session: Session) -> Attempt:
            return self._settle(session, attempt, said, now, draft)

        try:
            return await self.writer.write(work)
        except Unverified:
            self.writer.owe(work, overdue=True)
            raise

    async def pay(self) -> None:
        """Write what is still owed.

        Raises:
            Unverified: ``ledger.full-disk`` or ``ledger.sound-store``.
        """
        await self.writer.pay()

    def recorded(self, name: str) -> None:
        """Say that an attempt's receipt lies in its file; that need not be durable by itself."""
        self.writer.owe(lambda session: session.run(_PUT_DRAFT, id=name, draft=None))

    # -- recovery ---------------------------------------------------------------------------------

    async def recover(self, now: Moment) -> list[Attempt]:
        """Settle every attempt whose executor is gone; give those attempts."""

        def work(session: Session) -> list[Attempt]:
            found = _attempts(session, _UNDER_WAY)
            settled = [self._recover(session, attempt, now) for attempt in found]
            return [after for before, after in zip(found, settled, strict=True) if after != before]

        if not self.database.read(lambda session: session.rows(_UNDER_WAY)):
            return []  # nothing to write, so nobody to wait for
        return await self.writer.write(work)

    def unrecorded(self, name: str | None = None) -> list[tuple[str, bytes]]:
        """Give the receipts that nobody is left to write: attempt, and statement.

        Args:
            name: an attempt whose receipt is wanted now, whoever is to write it.
        """

        def look(session: Session) -> Iterator[tuple[str, bytes]]:
            for attempt in _attempts(session, _UNFILED):
                draft = _draft(session, attempt.id)
                if draft is None or attempt.settled is None:
                    continue
                if attempt.id == name or self.gone(attempt.owner):
                    yield attempt.id, draft

        return self.database.read(lambda session: list(look(session)))

    # -- what people and evidence say -------------------------------------------------------------

    async def decide(
        self, name: str, said: Settlement, now: Moment, *, who: str, why: str
    ) -> Attempt:
        """Settle an unresolved attempt by the word of a person or of evidence.

        Raises:
            Refused: ``ledger.by-attempt``, ``ledger.unresolved`` or ``ledger.full-disk``.
        """

        def work(session: Session) -> Attempt:
            decided = rules.decide(_attempt(session, name), name, said, now)
            session.run(_CHANGE, **_values(decided))
            kind: NoteKind = "resolved" if said.by == "person" else "evidence"
            text = f"{said.state}{f' (id {said.result_id!r})' if said.result_id else ''}: {why}"
            _put_note(session, Note(name, now.at, kind, who, text))
            _settle_resent(session, decided, said, now)
            return decided

        return await self.writer.write(work)

    async def note(self, note: Note) -> None:
        """Put something on record beside an attempt."""
        await self.writer.write(lambda session: _put_note(session, note))

    # -- pruning ----------------------------------------------------------------------------------

    async def prune(
        self, keep: Keep, now: Moment, *, most: int | None = None, after: int = 0
    ) -> int:
        """Forget settled attempts that block nothing any more, the oldest first.

        Args:
            keep: gives, by tool, the seconds that they stay after they were settled; an attempt's
                own window counts if it is longer.
            most: how many are looked at; all of them without it.
            after: the number of an attempt: only later ones are looked at.
        """
        gone, looked = 0, 0
        while most is None or looked < most:
            look = partial(_settled_after, after=after)
            batch = self.database.read(look)
            if not batch:
                break
            if any(rules.prunable(one, keep(one.tool), now) for one in batch):
                # It may have changed since it was looked at, so it is looked at again.
                gone += await self.writer.write(partial(_prune, after=after, keep=keep, now=now))
            looked, after = looked + len(batch), batch[-1].number
        return gone

    # -- looking ----------------------------------------------------------------------------------

    def find(self, name: str) -> Attempt | None:
        """Give the attempt with this id, if it is on record."""
        return self.database.read(lambda session: _attempt(session, name))

    def same(self, fingerprint: str) -> list[Attempt]:
        """Give every attempt at the same action, in the order of their claims."""
        return self.database.read(
            lambda session: _attempts(session, _BY_FINGERPRINT, fingerprint=fingerprint)
        )

    def unsettled(self) -> list[Attempt]:
        """Give what is reserved, dispatching or unresolved."""
        return self.database.read(lambda session: _attempts(session, _OPEN))

    def newest(
        self,
        most: int,
        *,
        state: str | None = None,
        tool: str | None = None,
        account: str | None = None,
        since: str | None = None,
        before: int | None = None,
    ) -> list[Attempt]:
        """Give attempts, the newest first.

        Args:
            since: RFC 3339, UTC: claimed then or later.
            before: an attempt's number: claimed before it.
        """
        values = {"state": state, "tool": tool, "account": account, "since": since}
        return self.database.read(
            lambda session: _attempts(session, _LIST, **values, before=before, most=most)
        )

    def beginning(self, text: str, most: int) -> list[Attempt]:
        """Give the attempts whose id begins so."""
        beyond = text + "\U0010ffff"
        return self.database.read(
            lambda session: _attempts(session, _BEGINNING, beginning=text, beyond=beyond, most=most)
        )

    def notes(self, name: str) -> list[Note]:
        """Give what was said about an attempt."""
        rows = self.database.read(lambda session: session.rows(_NOTES, attempt=name))
        return [msgspec.convert(row, Note) for row in map(_note_fields, rows)]

    def question(self, name: str) -> bytes | None:
        """Give the parameters that an attempt's `verify` command is asked about."""
        rows = self.database.read(lambda session: session.rows(_QUESTION, id=name))
        return str(rows[0][0]).encode() if rows and rows[0][0] is not None else None

    def draft(self, name: str) -> bytes | None:
        """Give the receipt of an attempt, as far as it is known, while it lies in no file."""
        return self.database.read(lambda session: _draft(session, name))

    def newest_number(self) -> int:
        """Give the number of the newest attempt, 0 when there is none."""
        rows = self.database.read(lambda session: session.rows(_NEWEST))
        return int(rows[0][0] or 0)

    def counts(self) -> dict[str, int]:
        """Count the attempts by state."""
        rows = self.database.read(lambda session: session.rows(_COUNT))
        return {str(state): int(count) for state, count in rows}

    # -- parts ------------------------------------------------------------------------------------

    def _recover(self, session: Session, attempt: Attempt, now: Moment) -> Attempt:
        after = rules.recover(attempt, self.gone, now)
        if after != attempt:
            session.run(_CHANGE, **_values(after))
            _put_note(
                session, Note(attempt.id, now.at, "recovered", "recovery", after.because or "")
            )
            if (draft := _draft(session, attempt.id)) is not None:
                try:
                    redrawn = self.redraft(draft, after).decode()
                except (TypeError, ValueError, LookupError, msgspec.MsgspecError) as wrong:
                    raise unsound(
                        f"The receipt of {attempt.id} cannot be read: {wrong}."
                    ) from wrong
                session.run(_PUT_DRAFT, id=attempt.id, draft=redrawn)
        return after

    def _withdraw(self, session: Session, wanted: Attempt, now: Moment) -> None:
        attempt = _attempt(session, wanted.id)
        if attempt is not None and attempt.state == "reserved":
            said = rules.bail_out("STORE_UNAVAILABLE", "Its claim could not be made durable.")
            session.run(_CHANGE, **_values(rules.settle(attempt, said, now)))
            session.run(_PUT_DRAFT, id=attempt.id, draft=None)

    def _settle(
        self, session: Session, known: Attempt, said: Settlement, now: Moment, draft: bytes
    ) -> Attempt:
        before = _attempt(session, known.id)
        after = rules.settle(known if before is None else before, said, now)
        if before is None:
            session.run(_ADD, **_values(after), draft=draft.decode(), question=None)
        else:
            session.run(_SETTLE, **_values(after), draft=draft.decode())
        for note in rules.notes_of(before, after, said, now.at):
            _put_note(session, note)
        if after.alarm is not None:
            log.error("attempt %s: a late result contradicts: %s", after.id, after.alarm)
        _settle_resent(session, after, said, now)
        return after


def _settle_resent(session: Session, after: Attempt, said: Settlement, now: Moment) -> None:
    """Settle what went out before under the same key."""
    if not after.resend:
        return
    others = _attempts(session, _BY_FINGERPRINT, fingerprint=after.fingerprint)
    for other in rules.resent(after, others, said, now):
        session.run(_CHANGE, **_values(other))
        _put_note(session, Note(other.id, now.at, "evidence", "resend", other.because or ""))


def _settled_after(session: Session, after: int) -> list[Attempt]:
    return _attempts(session, _SETTLED_AFTER, after=after, most=BATCH)


def _prune(session: Session, after: int, keep: Keep, now: Moment) -> int:
    old = [
        one for one in _settled_after(session, after) if rules.prunable(one, keep(one.tool), now)
    ]
    # What is still open at the same action needs the earlier ones: a provider's window counts from
    # the first.
    return _forget(session, [one for one in old if not _is_open(session, one.fingerprint)])


def _forget(session: Session, attempts: Sequence[Attempt]) -> int:
    gone = 0
    for one in attempts:
        if _draft(session, one.id) is None:  # else its receipt is still to be written
            session.run(_REMOVE, id=one.id)
            session.run(_REMOVE_NOTES, attempt=one.id)
            gone += 1
    return gone


def _is_open(session: Session, fingerprint: str) -> bool:
    return bool(session.rows(_IS_OPEN, fingerprint=fingerprint))


def _attempt(session: Session, name: str) -> Attempt | None:
    found = _attempts(session, _BY_ID, id=name)
    return found[0] if found else None


def _draft(session: Session, name: str) -> bytes | None:
    rows = session.rows(_DRAFT, id=name)
    return str(rows[0][0]).encode() if rows and rows[0][0] is not None else None


def _attempts(session: Session, statement: str, **values: Any) -> list[Attempt]:
    rows = session.rows(statement, **values)
    try:
        return [_of_row(row) for row in rows]
    except (TypeError, ValueError, msgspec.MsgspecError) as wrong:
        raise unsound(f"The ledger has an attempt that cannot be read: {wrong}.") from wrong


def _of_row(row: tuple[Any, ...]) -> Attempt:
    (
        number, id_, fingerprint, state, account, tool, action, key, beside, resend,
        window_ms, owner, claimed, dispatched, settled, decided_by, code, because, result_id, alarm,
        level,
    ) = row  # fmt: skip
    return Attempt(
        number=number,
        id=id_,
        fingerprint=fingerprint,
        state=state,
        account=account,
        tool=tool,
        action=action,
        key=key,
        beside=beside,
        resend=bool(resend),
        window_ms=window_ms,
        owner=msgspec.json.decode(owner, type=Owner),
        claimed=Moment.parse(claimed),
        dispatched=None if dispatched is None else Moment.parse(dispatched),
        settled=None if settled is None else Moment.parse(settled),
        decided_by=decided_by,
        code=code,
        because=because,
        result_id=result_id,
        alarm=alarm,
        level=level,
    )


def _values(attempt: Attempt) -> dict[str, Any]:
    return {
        "id": attempt.id,
        "fingerprint": attempt.fingerprint,
        "state": attempt.state,
        "account": attempt.account,
        "tool": attempt.tool,
        "action": attempt.action,
        "idempotency": attempt.key,
        "beside": attempt.beside,
        "resend": int(attempt.resend),
        "window_ms": attempt.window_ms,
        "owner": msgspec.json.encode(attempt.owner).decode(),
        "claimed": str(attempt.claimed),
        "dispatched": None if attempt.dispatched is None else str(attempt.dispatched),
        "settled": None if attempt.settled is None else str(attempt.settled),
        "decided_by": attempt.decided_by,
        "code": attempt.code,
        "because": attempt.because,
        "result_id": attempt.result_id,
        "alarm": attempt.alarm,
        "level": attempt.level,
    }


def _put_note(session: Session, note: Note) -> None:
    session.run(
        _ADD_NOTE,
        attempt=note.attempt,
        at=note.at,
        kind=note.kind,
        said_by=note.by,
        said=note.text,
    )


def _note_fields(row: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(("attempt", "at", "kind", "by", "text"), row, strict=True))
