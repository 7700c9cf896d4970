"""Gate: the way of an action, stage by stage. Read this first.

Each stage takes the value of the stage before it and gives the next, or raises ``Refused``.
Still to come between them: limit and decide (policy), claim, look up and dispatch (ledger),
approve (approvals), settle (ledger).
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import trio

from executor.effects import clock, secrets, spawner, verifying
from executor.effects.blobs import Hold
from executor.effects.commands import Commands
from executor.effects.freezer import Freezer, Progress
from executor.effects.sandbox import Sandbox
from executor.effects.verifying import Verified
from executor.finished import Finished
from executor.frozen import Admitted, FrozenAction, digest
from executor.manifest import IsolationLevel, SecretSource
from executor.receipt import Receipt
from executor.refusal import Refused, Unverified
from executor.request import Request
from executor.rules import admission, isolation, outcomes, spawning
from executor.rules.isolation import Availability, Places
from executor.rules.manifests import Tool
from executor.rules.outcomes import Verdict
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
    receipts: Receipts
    degraded: bool
    most_argv_bytes: int
    version: str

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
        attempt = _Attempt(clock.new_id(), request, clock.now(), tell)
        try:
            attempt.request = admission.check_request(request)
            admitted = self.admit(attempt.id, attempt.request)
            frozen, hold = await self.freeze(admitted, progress)
            attempt.action = frozen
            with (
                hold,
                self.receipts.reserve(attempt.id) as room,
                await self.verify(frozen) as verified,
            ):
                return await self.dispatch(attempt, verified, room)
        except Refused as no:
            no.receipt = self.record_refusal(attempt, no)
            raise
        except trio.Cancelled:  # before the start: from there on the stages cannot be cancelled
            self.record(attempt, outcomes.cancelled_before_start(), None)
            raise

    # -- the stages -----------------------------------------------------------------------------

    def admit(self, name: str, request: Request) -> Admitted:
        """Is this something that may be asked, and by which command would it be done?"""
        tool = admission.find_tool(self.tools, request.tool)
        uses = secrets.plan(tool.manifest, self.secret_sources.get(request.tool, {}))
        asked = admission.admit(tool, request, [use.name for use in uses])
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
        """Copy every file, hash the copies, and give the action its digest."""
        files, hold = await self.freezer.freeze(admitted.id, admitted.asked.files, progress)
        try:
            env = spawning.environment(admitted.asked.env)
            return FrozenAction(admitted, files, env, digest(admitted, files, env)), hold
        except BaseException:
            hold.release()
            raise

    async def verify(self, frozen: FrozenAction) -> Verified:
        """Hash the frozen copies and the command again; what is hashed is what is run."""
        verified = await verifying.verify(frozen, self.freezer.blobs)
        try:
            await secrets.add(verified, frozen.admitted.secrets, frozen.admitted.asked.tool)
        except BaseException:
            verified.close()
            raise
        return verified

    @trio.lowlevel.enable_ki_protection
    async def dispatch(self, attempt: "_Attempt", verified: Verified, room: Room) -> Receipt:
        """Spawn, classify and record; no interrupt comes between a start and its record."""
        finished = await self.spawn(verified)
        verdict = self.classify(verified.frozen, finished)
        return self.record(attempt, verdict, finished, room)

    async def spawn(self, verified: Verified) -> Finished:
        """Run the command and wait until its whole tree is gone."""
        sandbox = self.sandboxes[verified.frozen.admitted.reach.level]
        return await spawner.spawn(verified, sandbox)

    def classify(self, frozen: FrozenAction, finished: Finished) -> Verdict:
        """What happened: delivered, proven undelivered, or unknown."""
        return outcomes.classify(frozen.admitted.manifest, finished)

    def record(
        self,
        attempt: "_Attempt",
        verdict: Verdict,
        finished: Finished | None,
        room: Room | None = None,
    ) -> Receipt:
        """Put the end on record, before anybody is told."""
        receipt = attempt.end(verdict, finished, self.version)
        try:
            self.receipts.add(receipt.attempt, receipt.statement(), room)
        except Unverified as lost:
            # It ran, so this is no refusal. What is not on record is not told as a fact.
            log.error("attempt %s: %s", attempt.id, lost)
            receipt = attempt.end(
                outcomes.not_recorded(verdict, lost.because), finished, self.version
            )
        attempt.tell_about(receipt)
        return receipt

    def record_refusal(self, attempt: "_Attempt", no: Refused) -> Receipt | None:
        """Put a refusal on record; one that cannot be recorded is still a refusal."""
        receipt = attempt.refusal(no, self.version)
        try:
            self.receipts.add(receipt.attempt, receipt.statement())
        except Unverified as lost:
            log.error("attempt %s: %s", attempt.id, lost)
            return None
        attempt.tell_about(receipt)
        return receipt


@dataclass(slots=True)
class _Attempt:
    """One try, as far as it has come."""

    id: str
    request: Request
    started_at: str
    tell: Callable[[Receipt], None] | None
    action: FrozenAction | None = None

    def end(self, verdict: Verdict, finished: Finished | None, version: str) -> Receipt:
        return Receipt(
            attempt=self.id,
            request=self.request,
            status=verdict.status,
            code=verdict.code,
            because=verdict.because,
            recovery=verdict.recovery,
            stage=outcomes.stage_of(verdict),
            result_id=verdict.result_id,
            reply=verdict.reply,
            started_at=self.started_at,
            ended_at=clock.now(),
            action=self.action,
            finished=finished,
            executor_version=version,
        )

    def refusal(self, no: Refused, version: str) -> Receipt:
        return Receipt(
            attempt=self.id,
            request=self.request,
            status="refused",
            code=no.code,
            because=no.because,
            recovery=no.recovery,
            rule=no.rule,
            stage=no.stage,
            todo=no.todo,
            invalid_input=no.row.invalid_input,
            started_at=self.started_at,
            ended_at=clock.now(),
            action=self.action,
            executor_version=version,
        )

    def tell_about(self, receipt: Receipt) -> None:
        if self.tell is None:
            return
        try:
            self.tell(receipt)
        except Exception:
            log.exception("attempt %s: whoever wanted to be told failed", self.id)
