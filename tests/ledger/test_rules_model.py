"""The whole machine against a plain model, in a world with crashes, reboots and clocks that jump.

Nature decides in secret whether a dispatched attempt happens; people and evidence may be wrong, and
a provider knows a key again for an hour. However it goes: what happened once happens a second time
only where the rules say so.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from executor.attempt import Attempt, Moment, Owner, Settlement
from executor.refusal import Refused
from executor.rules import ledger
from executor.rules.ledger import Sighting, Terms
from executor.rules.outcomes import Verdict
from tests.ledger.attempts import START, manifest

WINDOW_S, PROVIDER_S, KEEP_S = 900.0, 3600.0, 7200.0
TOOL = manifest()
THINGS = ("letter", "payment")
"""Two actions; the provider of the second knows a key again."""
OPEN = ("reserved", "dispatching")
NO_ANSWER = [
    ("unresolved", "TIMED_OUT"),
    ("unresolved", "OUTCOME_UNKNOWN"),
    ("undelivered", "NEVER_SEEN_BEFORE"),
    ("undelivered", "TIMED_OUT"),
]
PROVEN = [("undelivered", "NOTHING_SENT"), ("undelivered", "SPAWN_FAILED")]
SECONDS = st.sampled_from([1, 899, 900, 3600, 10**6])
STEPS = st.sampled_from([-(10**6), -3600, 0, 3600])
NUMBERS = st.integers(0, 11)
NAMED = st.none() | st.none() | NUMBERS
HOW = st.sampled_from(["claim", "give up", "much later", "and wait", "and hear", "and hear"])
ANSWER = st.tuples(st.booleans(), NUMBERS)
WORDS = st.sampled_from(["delivered", "released"])


@dataclass
class Known:
    """What the model says of one attempt."""

    thing: str
    owner: Owner
    order: int
    beside: int
    key: str
    asked: Moment
    state: str = "reserved"
    by: str = "run"
    alarm: bool = False
    resend: bool = False
    dispatched: Moment | None = None
    settled: Moment | None = None
    happened: bool = False
    misjudged: bool = False
    """Somebody said that it did not happen, and it did."""
    proven: bool = False
    """A verdict on the allowlist said that nothing was delivered."""


def tried(act: Callable[[], Attempt]) -> tuple[Attempt | None, str | None]:
    """Give what comes of it, or the code of its refusal."""
    try:
        return act(), None
    except Refused as no:
        return None, no.code


class World(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.real, self.wall, self.boot, self.booted = 0, START.wall, 1, 0
        self.ledger: dict[str, Attempt] = {}
        self.model: dict[str, Known] = {}
        self.forgotten: dict[str, Known] = {}
        self.as_known: dict[str, Attempt] = {}  # by the executor that dispatched it
        self.alive: list[Owner] = []
        self.lockless: set[str] = set()
        self.reused: set[str] = set()
        self.numbers = 0
        self.owners = 0
        self.first_seen: dict[str, int] = {}  # by the provider, in real time
        self.open_executor()

    # -- the steps: few and each of many kinds, for hypothesis leaves some of them out of a run ----

    @rule(thing=st.sampled_from(THINGS), which=NUMBERS, beside=NAMED, how=HOW, happens=ANSWER)
    def ask(
        self, thing: str, which: int, beside: int | None, how: str, happens: tuple[bool, int]
    ) -> None:
        """Claim, and as far as that goes dispatch it and let its result come back."""
        name = self.claim(thing, which, beside)
        if name is None or how == "claim":
            return
        if how == "give up":
            self.settle_both(name, ledger.bail_out("CANCELLED", "It was given up."))
            return
        if how == "much later":  # an approval takes its time, and meanwhile an old result comes
            self.go_on(which, "late", happens)
            self.wait(3600 * (which % 2))
        if self.dispatch(name, happens[0]) and how == "and hear":
            self.come_back(name, happens[1])

    @rule(choice=NUMBERS, kind=st.sampled_from(["dispatch", "answer", "late"]), happens=ANSWER)
    def go_on(self, choice: int, kind: str, happens: tuple[bool, int]) -> None:
        """Dispatch what was only claimed; or a result comes, in time or late."""
        if kind == "dispatch":
            name = self.pick(choice, lambda one: self.goes_on(one, "reserved"))
            if name is not None:
                self.dispatch(name, happens[0])
        elif self.as_known:
            names = list(self.as_known)
            self.come_back(names[choice % len(names)], happens[1], late=kind == "late")

    @rule(kind=st.sampled_from(["wait", "set", "reboot"]), seconds=SECONDS, step=STEPS)
    def time_passes(self, kind: str, seconds: int, step: int) -> None:
        """Time passes, with a clock that somebody sets or a reboot."""
        if kind == "reboot":
            self.reboot(seconds, step)
        else:
            self.wait(seconds if kind == "wait" else 0)
            self.wall += step * 1000 if kind == "set" else 0

    @rule(kind=st.sampled_from(["open", "kill", "lose a lock file"]), which=NUMBERS, odd=NUMBERS)
    def executors(self, kind: str, which: int, odd: int) -> None:
        """An executor is opened or killed; its lock file may be lost, its number used again."""
        if kind == "open" or not self.alive:
            self.open_executor()
        elif kind == "kill":
            self.kill(which, lost=odd % 2 == 0, reused=odd % 3 == 0)
        else:
            self.lockless.add(self.alive[which % len(self.alive)].id)

    @rule(
        kind=st.sampled_from(["person", "evidence", "recover", "prune", "misuse"]),
        choice=NUMBERS,
        came=WORDS,
    )
    def look(self, kind: Any, choice: int, came: Any) -> None:
        """Somebody looks at the ledger, decides, prunes, or dispatches what must not be."""
        if kind == "prune":
            self.prune()
        elif kind == "recover":
            for thing in THINGS:
                self.recover(thing)
        elif kind == "misuse":
            self.dispatch_what_must_not_be(choice, stranger=came == "released")
        else:
            self.decide(choice, came, kind)

    # -- the world --------------------------------------------------------------------------------

    def now(self) -> Moment:
        return Moment(self.wall, self.real - self.booted, f"boot-{self.boot}")

    def is_gone(self, owner: Owner) -> bool:
        alive = owner in self.alive
        lock: ledger.Lock = "missing" if owner.id in self.lockless else "held" if alive else "free"
        other = "9999" if owner.id in self.reused else ""
        seen = Sighting(f"boot-{self.boot}", "ns", lock, owner.started if alive else other)
        gone = ledger.is_gone(owner, seen)
        assert gone != alive
        return gone

    def goes_on(self, known: Known, state: str) -> bool:
        return known.state == state and known.owner in self.alive

    def pick(self, choice: int, among: Callable[[Known], bool]) -> str | None:
        names = [name for name, known in self.model.items() if among(known)]
        return names[choice % len(names)] if names else None

    def open_executor(self) -> None:
        self.owners += 1
        self.alive.append(
            Owner(f"owner-{self.owners}", f"boot-{self.boot}", "ns", self.owners, str(self.real))
        )

    def kill(self, choice: int, lost: bool, reused: bool) -> None:
        owner = self.alive.pop(choice % len(self.alive))
        self.lockless |= {owner.id} if lost else set()
        self.reused |= {owner.id} if reused else set()

    def wait(self, seconds: int) -> None:
        self.real += seconds * 1000
        self.wall += seconds * 1000

    def reboot(self, seconds: int, step: int) -> None:
        self.wait(seconds)
        self.wall += step * 1000
        self.alive.clear()
        self.boot, self.booted = self.boot + 1, self.real
        self.open_executor()

    # -- claim and dispatch -----------------------------------------------------------------------

    def claim(self, thing: str, choice: int, beside: int | None) -> str | None:
        if not self.alive:
            self.open_executor()
        owner, now = self.alive[choice % len(self.alive)], self.now()
        self.recover(thing)
        name = None if beside is None else self.pick(beside, lambda _: True)
        terms = self.terms(thing, name)
        key = f"{thing} {name or ''}" if thing == "payment" else ""
        known = 0
        if name is not None and self.model[name].thing == thing:
            known = self.model[name].order
        wanted = Attempt(
            id=f"a-{self.numbers + 1}",
            fingerprint=thing,
            account="ana",
            tool=TOOL.tool,
            action="d",
            owner=owner,
            claimed=now,
            window_ms=round(WINDOW_S * 1000),
            key=key,
        )
        expected = self.in_the_way(thing, known, key, now, now)
        if name is not None and not known and expected in (None, "RESEND"):
            expected = "UNKNOWN_ATTEMPT"

        reserved, code = tried(lambda: ledger.claim(wanted, self.same(thing), terms, now))

        event(f"claim: {expected}")
        assert code == (None if expected == "RESEND" else expected)
        if reserved is None:
            return None
        assert reserved.resend == (expected == "RESEND")
        self.add(reserved)
        self.model[wanted.id] = Known(
            thing, owner, self.numbers, known, key, now, resend=expected == "RESEND"
        )
        return wanted.id

    def terms(self, thing: str, beside: str | None) -> Terms:
        provider = PROVIDER_S if thing == "payment" else 0.0
        return Terms(window=WINDOW_S, resend_window=provider, beside=beside)

    def same(self, thing: str) -> list[Attempt]:
        every = (one for one in self.ledger.values() if one.fingerprint == thing)
        return sorted(every, key=lambda one: one.number)

    def add(self, attempt: Attempt) -> None:
        self.numbers += 1
        self.ledger[attempt.id] = msgspec.structs.replace(attempt, number=self.numbers)

    def in_the_way(
        self, thing: str, known: int, key: str, asked: Moment, now: Moment, but: str = ""
    ) -> str | None:
        """Say once more, in other words, what a claim or a dispatch must find."""
        same = [one for name, one in self.model.items() if one.thing == thing and name != but]
        same.sort(key=lambda one: one.order)
        if any(one.state in OPEN for one in same):
            return "DUPLICATE_IN_FLIGHT"
        resend = False
        for one in reversed(same):
            if one.order <= known or one.state == "released":
                continue
            if one.state == "delivered":
                if self.since(one.settled, asked) < WINDOW_S:
                    return "DUPLICATE_DELIVERED"
                continue
            first = next((a.dispatched for a in same if a.key == key and a.dispatched), None)
            remembered = (
                first is not None
                and first.boot == now.boot
                and now.ticks - first.ticks < PROVIDER_S * 1000
                and now.wall - first.wall < PROVIDER_S * 1000
            )
            if not (key and one.key == key and not one.alarm and remembered):
                return "DUPLICATE_UNRESOLVED"
            resend = True
        return "RESEND" if resend else None

    @staticmethod
    def since(then: Moment | None, now: Moment) -> float:
        assert then is not None
        if then.boot == now.boot:
            return max(0, now.ticks - then.ticks) / 1000
        return max(0, now.wall - then.wall) / 1000

    def dispatch(self, name: str, happens: bool) -> bool:
        mine, now = self.model[name], self.now()
        attempt = self.ledger[name]
        others = [one for one in self.same(mine.thing) if one.id != name]
        terms = self.terms(mine.thing, attempt.beside)
        expected = self.in_the_way(mine.thing, mine.beside, mine.key, mine.asked, now, but=name)

        dispatched, code = tried(lambda: ledger.dispatch(attempt, mine.owner, others, terms, now))

        event(f"dispatch: {expected}")
        assert code == (None if expected == "RESEND" else expected)
        if dispatched is None:
            self.settle_both(name, ledger.bail_out(code or "", "It was refused."))
            return False
        self.ledger[name] = self.as_known[name] = dispatched
        mine.state, mine.dispatched = "dispatching", now
        if happens:
            self.happen(name)
        return True

    def happen(self, name: str) -> None:
        """Let it happen, unless its provider knows the key; it may only where a rule says so."""
        mine = self.model[name]
        mine.happened = True
        if mine.key:
            first = self.first_seen.setdefault(mine.key, self.real)
            done = any(
                one.happened
                for one in (self.model | self.forgotten).values()
                if one is not mine and one.key == mine.key
            )
            if done and self.real - first < PROVIDER_S * 1000:
                event("the provider knew the key")
                return
        for other in (self.model | self.forgotten).values():
            if other is mine or other.thing != mine.thing or not other.happened:
                continue
            event("it happened again")
            over = other.state == "delivered" and self.since(other.settled, mine.asked) >= WINDOW_S
            assert over or other.misjudged or other.order <= mine.beside, (other, mine)

    def dispatch_what_must_not_be(self, choice: int, stranger: bool) -> None:
        name = self.pick(choice, lambda one: stranger or one.state != "reserved")
        if name is None:
            return
        owner = Owner("stranger", "boot-1", "ns", 1, "0") if stranger else self.model[name].owner
        terms, now = Terms(window=0), self.now()
        _, code = tried(lambda: ledger.dispatch(self.ledger[name], owner, [], terms, now))
        assert code == "CLAIM_LOST"

    # -- settle -----------------------------------------------------------------------------------

    def come_back(self, name: str, which: int, *, late: bool = False) -> None:
        """A result, in time or late, also of what was pruned: true, or no answer."""
        every = self.model | self.forgotten
        if not late and not self.goes_on(every[name], "dispatching"):
            return
        answers = [*NO_ANSWER, *([("delivered", None)] if every[name].happened else PROVEN)]
        status, code = answers[which % len(answers)]
        verdict = Verdict(status, code, "It ended.", None)  # type: ignore[arg-type]
        every[name].proven |= (status, code) in PROVEN
        self.settle_both(name, ledger.settlement(TOOL, verdict))

    def settle_both(self, name: str, said: Settlement) -> None:
        now, before = self.now(), self.ledger.get(name)
        after = ledger.settle(self.as_known[name] if before is None else before, said, now)
        if before is None:
            event("it came back after pruning")
            self.add(after)
            back = self.model[name] = self.forgotten.pop(name)
            back.order, back.state = self.numbers, "dispatching"
        else:
            self.ledger[name] = after
        mine = self.model[name]
        self.settle_model(mine, said.state, said.by, now)
        if after.resend:
            for other in ledger.resent(after, self.same(mine.thing), said, now):
                self.ledger[other.id] = other
        if mine.resend and mine.state == "delivered":
            for one in self.model.values():
                if one.state == "unresolved" and one.key == mine.key and not one.alarm:
                    one.state, one.by, one.settled = "delivered", "resend", now

    @staticmethod
    def settle_model(one: Known, came: str, by: str, now: Moment) -> None:
        if one.state == "reserved":
            one.state = "released" if came == "released" else "unresolved"
        elif one.state == "dispatching" or (one.state, one.by) == ("unresolved", "recovery"):
            one.state = came
        elif came in (one.state, "unresolved"):
            return
        else:
            one.state, one.by, one.alarm, one.settled = "unresolved", "late-result", True, now
            event("alarm")
            return
        one.by, one.alarm, one.settled = by, False, now

    def recover(self, thing: str) -> None:
        now = self.now()
        for attempt in self.same(thing):
            self.ledger[attempt.id] = ledger.recover(attempt, self.is_gone, now)
            one = self.model[attempt.id]
            if one.state in OPEN and one.owner not in self.alive:
                one.state = "released" if one.state == "reserved" else "unresolved"
                one.by, one.settled = "recovery", now

    # -- people, evidence, and the end ------------------------------------------------------------

    def decide(self, choice: int, came: Any, by: Any) -> None:
        name = self.pick(choice, lambda _: True)
        if name is None:
            return
        one, said = self.model[name], Settlement(came, None, "Somebody looked.", by)
        before, now = self.ledger[name], self.now()
        decided, code = tried(lambda: ledger.decide(before, name, said, now))
        if decided is None:
            assert code == "NOT_UNRESOLVED"
            assert one.state in OPEN or (by == "person" and one.state != "unresolved")
            return
        self.ledger[name] = decided
        if one.state == "unresolved" and (by == "person" or not one.alarm):
            one.state, one.by, one.alarm, one.settled = came, by, False, now
            one.misjudged |= came == "released" and one.happened
        elif one.state != "unresolved" and came != one.state:
            self.settle_model(one, came, by, now)

    def prune(self) -> None:
        now = self.now()
        for name, attempt in list(self.ledger.items()):
            one = self.model[name]
            old = one.state in ("delivered", "released") and self.since(one.settled, now) >= KEEP_S
            assert ledger.prunable(attempt, KEEP_S, now) == old
            if old:
                del self.ledger[name]
                self.forgotten[name] = self.model.pop(name)

    # -- always -----------------------------------------------------------------------------------

    @invariant()
    def the_ledger_is_as_the_model_says(self) -> None:
        found = {
            name: (one.state, one.alarm is not None, one.settled)
            for name, one in self.ledger.items()
        }
        assert found == {
            name: (one.state, one.alarm, one.settled) for name, one in self.model.items()
        }

    @invariant()
    def one_thing_is_on_its_way_once(self) -> None:
        for thing in THINGS:
            assert sum(one.state in OPEN for one in self.same(thing)) <= 1

    @invariant()
    def what_was_dispatched_is_released_by_proof_or_by_somebody(self) -> None:
        for name, one in self.ledger.items():
            if one.state == "released" and one.dispatched is not None:
                assert self.model[name].proven or one.decided_by in ("person", "evidence")

    @invariant()
    def nothing_open_is_ever_forgotten(self) -> None:
        assert all(one.state in ("delivered", "released") for one in self.forgotten.values())


World.TestCase.settings = settings(
    max_examples=500,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


# rule: ledger.single-dispatch
# rule: ledger.in-flight
# rule: ledger.delivered
# rule: ledger.unresolved
# rule: ledger.release-allowlist
# rule: ledger.crash
# rule: ledger.clock
# rule: ledger.pruning
class TestWorld(World.TestCase):  # type: ignore[misc, valid-type]
    """The claims of the module, in some thousand steps."""
