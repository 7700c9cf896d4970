"""Gate: the way of an action, stage by stage. Read this first.

Each stage takes the value of the stage before it and gives the next, or raises ``Refused``.
Still to come between them: limit and decide (policy), approve (approvals).

What is durable decides: before the claim nothing is on record; up to the dispatch everything
releases; after it nothing but an outcome on the allowlist does.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import trio

from executor.attempt import Attempt, Note, Owner, Settlement
from executor.effects import clock, secrets, spawner, verifying
from executor.effects.blobs import Hold
from executor.effects.commands import Commands
from executor.effects.freezer import Freezer, Progress
from executor.effects.sandbox import Sandbox
from executor.effects.verifying import Verified
from executor.finished import Finished
from executor.frozen import Admitted, FrozenAction, FrozenFile, digest
from executor.manifest import IsolationLevel, SecretSource
from executor.receipt import OnLedger, Receipt, Status, encode
from executor.refusal import Refused, Unverified
from executor.request import AskedBy, Request
from executor.rules import admission, identity, isolation, ledger, manifests, outcomes, spawning
from executor.rules.isolation import Availability, Places
from executor.rules.ledger import Terms
from executor.rules.manifests import Tool
from executor.rules.outcomes import Verdict
from executor.store.ledger import Ledger
from executor.store.receipts import Receipts, Room

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Gate:
    """The one gate. Its parts are given; it decides nothing that a rule decides."""

    tools: Mapping[str, Tool]
    commands: Commands
    freezer: Freezer
    sandboxes: Mapping[IsolationLevel, Sandbox]
    probed: tuple[Availability, ...]
    places: Places
    secret_sources: Mapping[str, Mapping[str, SecretSource]]
    ledger: Ledger
    owner: Owner
    window: float
    forced_window: float | None
    receipts: Receipts
    degraded: bool
    most_argv_bytes: int
    version: str

    @trio.lowlevel.enable_ki_protection
    async def run(
        self,
        request: Request,
        *,
        progress: Progress | None = None,
        tell: Callable[[Receipt], None] | None = None,
    ) -> Receipt:
        """Take one request through the gate.

        Cancelling it before the start leaves nothing; after it the whole tree is ended first, and
        the receipt comes back all the same.

        Args:
            progress: told how far the freezing of large files has come.
            tell: called once with the receipt, whatever the end, as soon as it is on record; when
                it fails, that is logged, and the end stays what it is.
        Returns:
            the receipt of a delivered, undelivered or unresolved action.
        Raises:
            Refused: a rule said no, and nothing ran; its ``receipt`` is on record.
        """
        attempt = _Attempt(clock.new_id(), request, clock.now(), tell, self.version)
        try:
            attempt.request = admission.check_request(request)
            admitted = self.admit(attempt.id, attempt.request)
            attempt.action, hold = await self.freeze(admitted, progress)
            with hold:
                attempt.claim = await self.claim(attempt, attempt.action)
                attempt.found = await self.look_up(attempt.action)
                with (
                    self.receipts.reserve(attempt.id) as room,
                    await self.verify(attempt.action) as verified,
                ):
                    attempt.claim = await self.dispatch(attempt.claim, attempt.action)
                    attempt.dispatched = True
                    finished = await self.spawn(verified)
                    verdict = self.classify(attempt.action, finished)
                    said = ledger.settlement(attempt.action.admitted.manifest, verdict)
                    return await self.settle(attempt, verdict, said, finished, room)
        except BaseException as fault:
            await self.bail_out(attempt, fault)
            raise

    # -- the stages -----------------------------------------------------------------------------

    def admit(self, name: str, request: Request) -> Admitted:
        """Is this something that may be asked, and by which command would it be done?"""
        return self._admit(name, request, admission.find_tool(self.tools, request.tool))

    def _admit(
        self, name: str, request: Request, tool: Tool, key: str = identity.NO_KEY
    ) -> Admitted:
        uses = secrets.plan(tool.manifest, self.secret_sources.get(request.tool, {}))
        asked = admission.admit(tool, request, [use.name for use in uses], key)
        isolation.check_paths(asked, self.places)
        any_host = tool.manifest.isolation.network == "host"
        spawning.check_secret_hosts(uses, asked, any_host=any_host)
        command = self.commands.pin(tool.manifest.command)
        admission.check_argv_fits(
            command.argv(asked.argv), spawning.environment(asked.env), self.most_argv_bytes
        )
        return Admitted(
            id=name,
            request=request,
            manifest=tool.manifest,
            asked=asked,
            command=command,
            reach=isolation.plan(tool.manifest, asked, self.probed, degraded=self.degraded),
            secrets=uses,
        )

    async def freeze(
        self, admitted: Admitted, progress: Progress | None = None
    ) -> tuple[FrozenAction, Hold]:
        """Copy every file, hash the copies, and give the action its identity and its digest."""
        files, hold = await self.freezer.freeze(admitted.id, admitted.asked.files, progress)
        try:
            same = identity.fingerprint(admitted.manifest, admitted.asked, files)
            key = identity.NO_KEY
            if admitted.manifest.idempotency is not None:
                known = admitted.request.allow_duplicate
                last = ledger.last_delivered(self.ledger.same(same)) if known is None else known
                key = identity.idempotency_key(same, last)
                tool = self.tools[admitted.request.tool]
                admitted = self._admit(admitted.id, admitted.request, tool, key)
            return _frozen(admitted, files, same, key), hold
        except BaseException:
            hold.release()
            raise

    async def claim(self, attempt: "_Attempt", action: FrozenAction) -> Attempt:
        """Reserve the action, durably, or refuse it: it is on its way, or happened, or may have."""
        terms = self.terms(action)
        now = clock.moment()
        wanted = Attempt(
            id=attempt.id,
            fingerprint=action.fingerprint,
            account=action.admitted.asked.account,
            tool=action.admitted.asked.tool,
            action=action.digest,
            owner=self.owner,
            claimed=now,
            window_ms=round(terms.window * 1000),
            level=action.admitted.reach.level,
            key="" if action.admitted.manifest.idempotency is None else action.key,
        )
        attempt.on_ledger = OnLedger.of(wanted)
        reserved = await self.ledger.claim(
            wanted,
            terms,
            now,
            draft=encode(attempt.pending().statement()),
            question=None
            if action.admitted.manifest.verify is None
            else msgspec.json.encode(action.admitted.asked.parameters),
        )
        attempt.on_ledger = OnLedger.of(reserved)
        return reserved

    def terms(self, action: FrozenAction) -> Terms:
        """Say how long a delivery blocks, and which earlier attempt is known."""
        manifest = action.admitted.manifest
        return Terms(
            window=ledger.window(manifest, self.window, self.forced_window),
            resend_window=0.0 if manifest.idempotency is None else manifest.idempotency.window,
            beside=action.admitted.request.allow_duplicate,
        )

    async def look_up(self, action: FrozenAction) -> dict[str, list[str]] | None:
        """Look up what the manifest wants to know before the action, if anything."""
        manifest = action.admitted.manifest
        lookup, side = manifest.preflight, manifests.preflight_of(manifest)
        if lookup is None or side is None:
            return None
        tool = Tool(side, action.admitted.asked.manifest_sha256, manifest.tool)
        name = f"{action.admitted.id}-look-up"
        admitted = self._admit(name, action.admitted.request, tool, action.key)
        finished = await self._run_beside(
            _frozen(admitted, action.files, action.fingerprint, action.key)
        )
        await trio.lowlevel.checkpoint()  # given up meanwhile: that is no failure of the look-up
        found = outcomes.found(lookup, finished)
        if found is None:
            same = self.ledger.same(action.fingerprint)
            why = outcomes.not_found(lookup, finished)
            raise ledger.look_up_failed(
                action.admitted.id, same, why, answered=finished.end == "exited"
            )
        return found

    async def verify(self, frozen: FrozenAction) -> Verified:
        """Hash the frozen copies and the command again; what is hashed is what is run."""
        verified = await verifying.verify(frozen, self.freezer.blobs)
        try:
            await secrets.add(verified, frozen.admitted.secrets, frozen.admitted.asked.tool)
        except BaseException:
            verified.close()
            raise
        return verified

    async def dispatch(self, reserved: Attempt, action: FrozenAction) -> Attempt:
        """Mark the attempt, durably, as about to start: from here on it may have happened."""
        return await self.ledger.dispatch(reserved, self.terms(action), clock.moment())

    async def spawn(self, verified: Verified) -> Finished:
        """Run the command and wait until its whole tree is gone."""
        sandbox = self.sandboxes[verified.frozen.admitted.reach.level]
        return await spawner.spawn(verified, sandbox)

    def classify(self, frozen: FrozenAction, finished: Finished) -> Verdict:
        """What happened: delivered, proven undelivered, or unknown."""
        return outcomes.classify(frozen.admitted.manifest, finished)

    async def settle(
        self,
        attempt: "_Attempt",
        verdict: Verdict,
        said: Settlement,
        finished: Finished,
        room: Room,
    ) -> Receipt:
        """Put on record, durably, what became of it; then write its receipt, and only then tell."""
        receipt = attempt.ended(verdict, said, finished)
        try:
            return await self.record(attempt, receipt, said, room)
        except Unverified as lost:
            # It ran, so this is no refusal. What is not on record is not told as a fact.
            log.error("attempt %s: %s", attempt.id, lost)
            verdict = outcomes.not_recorded(verdict, lost.because)
            receipt = attempt.ended(verdict, Settlement("unresolved", verdict.code, ""), finished)
            attempt.tell_about(receipt)
            return receipt

    async def record(
        self, attempt: "_Attempt", receipt: Receipt, said: Settlement, room: Room | None = None
    ) -> Receipt:
        """Put an end on record: in the ledger, if it is there, then as a receipt.

        Raises:
            Unverified: neither could be made durable.
        """
        statement = receipt.statement()
        if attempt.claim is not None:
            claim, attempt.claim = attempt.claim, None
            try:
                await self.ledger.settle(claim, said, clock.moment(), draft=encode(statement))
            except Unverified:
                if room is None:
                    raise
                # The disk may be full: what was kept free for the receipt is the ledger's now, and
                # the ledger has the receipt too.
                room.close()
                room = None
                await self.ledger.pay()
            except Exception:
                attempt.claim = claim  # a bug of ours: it is still to be settled, as in doubt
                raise
            if self._file(attempt.id, statement, room):
                self.ledger.recorded(attempt.id)
            else:  # the ledger has it, and whoever is asked for it or opens it next writes it
                receipt = msgspec.structs.replace(receipt, filed=False)
        else:
            self.receipts.add(attempt.id, statement, room)
        attempt.tell_about(receipt)
        return receipt

    # -- the ways out ---------------------------------------------------------------------------

    async def bail_out(self, attempt: "_Attempt", fault: BaseException) -> None:
        """Record the end of an attempt that was refused, given up, or cut short by a fault.

        Up to the dispatch that releases it; after it nothing is known.
        """
        if attempt.told:
            return
        if isinstance(fault, Refused) and not attempt.dispatched:
            receipt, said = attempt.refused(fault), ledger.bail_out(fault.code, fault.because)
        else:
            verdict = _verdict_on(fault, dispatched=attempt.dispatched)
            said = ledger.verdict_on_fault(verdict)
            receipt = attempt.ended(verdict, said, None)
        try:
            recorded: Receipt | None = await self.record(attempt, receipt, said)
        except Unverified as lost:  # what cannot be recorded is still refused
            log.error("attempt %s: %s", attempt.id, lost)
            recorded = None
        if isinstance(fault, Refused):
            fault.receipt = recorded
            if fault.earlier is not None:
                self.publish(fault.earlier.attempt)

    def publish(self, named: str | None = None) -> None:
        """Write the receipts that killed executors could not.

        Args:
            named: an attempt whose receipt is about to be named, whoever was to write it.
        """
        try:
            unrecorded = self.ledger.unrecorded(named)
        except Unverified as late:
            log.error("receipts of others: %s", late)
            return
        for name, statement in unrecorded:
            try:
                filed = self._file(name, msgspec.json.decode(statement))
            except (msgspec.DecodeError, ValueError, TypeError) as damaged:
                log.error("the receipt of attempt %s cannot be read: %s", name, damaged)
                continue
            if filed:
                self.ledger.recorded(name)

    def _file(self, name: str, statement: dict[str, Any], room: Room | None = None) -> bool:
        """Write the receipt of an attempt that the ledger has; say whether it is there now."""
        try:
            if not self.receipts.path(name).exists():
                self.receipts.add(name, statement, room)
        except Unverified as late:
            if not self.receipts.path(name).exists():  # by another, at the same time
                log.error("attempt %s: %s", name, late)
                return False
        return True

    # -- beside the way ---------------------------------------------------------------------------

    async def find_out(self, name: str, who: str) -> tuple[Attempt, Verdict]:
        """Ask the `verify` command of an attempt's tool whether it happened.

        Args:
            who: the person who wants to know; goes on record.
        Returns:
            the attempt as it is afterwards, and what the command's answer means.
        Raises:
            Refused: ``ledger.by-attempt``, ``ledger.evidence``, or what refuses its command.
        """
        attempt = self.ledger.find(name)
        if attempt is None:
            raise ledger.unknown_attempt(name)
        ledger.check_settled(attempt)
        declared = admission.find_tool(self.tools, attempt.tool)
        manifest, question = manifests.verify_of(declared.manifest), self.ledger.question(name)
        if manifest is None or question is None:
            raise ledger.no_verify_command(attempt)
        request = Request(
            tool=attempt.tool,
            asked_by=AskedBy(role="operator", sender=who),
            parameters=msgspec.json.decode(question),
            account=attempt.account,
        )
        tool = Tool(manifest, declared.sha256, declared.file)
        admitted = self._admit(f"{name}-{clock.new_id()}", request, tool, attempt.key)
        question_frozen = _frozen(admitted, (), attempt.fingerprint, attempt.key)
        verdict = self.classify(question_frozen, await self._run_beside(question_frozen))
        now = clock.moment()
        if (said := ledger.evidence(manifest, verdict)) is None:
            text = f"No clear answer: {verdict.code}. {verdict.because}"
            await self.ledger.note(Note(name, now.at, "evidence", who, text))
            return attempt, verdict
        return await self.ledger.decide(name, said, now, who=who, why=said.because), verdict

    async def _run_beside(self, frozen: FrozenAction) -> Finished:
        """Run a read-only command for the ledger's sake; it is no action, and leaves no receipt."""
        with await self.verify(frozen) as verified:
            return await self.spawn(verified)


def _frozen(
    admitted: Admitted, files: tuple[FrozenFile, ...], fingerprint: str, key: str
) -> FrozenAction:
    env = spawning.environment(admitted.asked.env)
    return FrozenAction(admitted, files, env, digest(admitted, files, env), fingerprint, key)


def _verdict_on(fault: BaseException, *, dispatched: bool) -> Verdict:
    if dispatched:
        return outcomes.fault_after_dispatch(fault)
    if isinstance(fault, trio.Cancelled):
        return outcomes.cancelled_before_start()
    return outcomes.fault_before_start(fault)


@dataclass(slots=True)
class _Attempt:
    """One try, as far as it has come."""

    id: str
    request: Request
    started_at: str
    tell: Callable[[Receipt], None] | None
    version: str
    action: FrozenAction | None = None
    claim: Attempt | None = None
    """As it is in the ledger, while its end is still to be put there."""
    dispatched: bool = False
    on_ledger: OnLedger | None = None
    found: dict[str, list[str]] | None = None
    told: bool = False

    def pending(self) -> Receipt:
        """Give the receipt as far as it is known at the claim."""
        return self._receipt(
            status="pending", code=None, because="It was claimed.", recovery="wait", stage="claim"
        )

    def ended(self, verdict: Verdict, said: Settlement, finished: Finished | None) -> Receipt:
        """Give the receipt of an end; the ledger's word on what it proves is the last."""
        return self._receipt(
            status=_STATUSES[said.state],
            code=verdict.code,
            because=verdict.because,
            recovery=verdict.recovery,
            stage=outcomes.stage_of(verdict),
            result_id=verdict.result_id,
            reply=verdict.reply,
            finished=finished,
        )

    def refused(self, no: Refused) -> Receipt:
        """Give the receipt of a refusal."""
        return self._receipt(
            status="refused",
            code=no.code,
            because=no.because,
            recovery=no.recovery,
            rule=no.rule,
            stage=no.stage,
            todo=no.todo,
            invalid_input=no.row.invalid_input,
            earlier=no.earlier,
        )

    def _receipt(self, **facts: Any) -> Receipt:
        return Receipt(
            attempt=self.id,
            request=self.request,
            started_at=self.started_at,
            ended_at=clock.now(),
            action=self.action,
            ledger=self.on_ledger,
            found=self.found,
            executor_version=self.version,
            **facts,
        )

    def tell_about(self, receipt: Receipt) -> None:
        """Tell whoever wanted to know; it is on record by now."""
        self.told = True
        if self.tell is None:
            return
        try:
            self.tell(receipt)
        except Exception:
            log.exception("attempt %s: whoever wanted to be told failed", self.id)


_STATUSES: dict[str, Status] = {
    "delivered": "delivered",
    "released": "undelivered",
    "unresolved": "unresolved",
}
