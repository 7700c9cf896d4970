"""Whatever a manifest declares and however a command ends: only what is proven releases."""

import json
from typing import Any

import msgspec
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from executor.finished import End, Finished, Output
from executor.rules.outcomes import OWN_CODES, PROVES_NOTHING_RAN, classify
from tests.outcomes.said import exited, manifest

BEFORE_THE_START = ("not-started", "sandbox-failed", "given-up")
ENDS: tuple[End, ...] = (
    *("exited", "signalled", "timed-out", "cancelled", "fault", "lost"),
    *("not-started", "sandbox-failed", "given-up"),
)
WORDS = ("OK", "ERROR", "id=7", "x", '{"id": 7}', '{"id": false}', '{"sent": true}', "\udcff")
DECLARED_EXITS = st.sampled_from([0, 1, 64])
EXITS = DECLARED_EXITS | st.sampled_from([128, 129, 137, 192, 193, 255])
MANY = settings(max_examples=400, deadline=None)

parts = st.one_of(
    st.builds(lambda code: {"exit": code}, DECLARED_EXITS | st.lists(DECLARED_EXITS, min_size=1)),
    st.sampled_from([{"stdout": "OK"}, {"stdout": "ERROR"}, {"stderr": "id=7"}]),
    st.sampled_from([{"json": {"sent": True}}, {"json": {"sent": 1}}, {"json": {"id": 7}}]),
)
conditions = st.builds(lambda one, two: one | two, parts, st.just({}) | parts)
extracts = st.none() | st.sampled_from(
    [{"stdout": r"id=(\d)"}, {"stderr": r"id=(\d)"}, {"json": "id"}]
)


@st.composite
def declared(draw: st.DrawFn) -> dict[str, Any]:
    status = draw(st.sampled_from(["delivered", "undelivered", "unresolved"]))
    outcome = {"when": draw(conditions), "is": status}
    if status != "delivered":
        outcome["code"] = draw(st.sampled_from(["REJECTED", "REFUSED"]))
    if (extract := draw(extracts)) is not None:
        outcome["result_id"] = extract
    return outcome


@st.composite
def outputs(draw: st.DrawFn) -> Output:
    words = draw(st.lists(st.sampled_from(WORDS), max_size=3))
    whole = " ".join(words).encode("utf-8", "surrogateescape")
    kept = whole[: draw(st.integers(0, len(whole)))] if draw(st.booleans()) else whole
    return Output(kept, len(whole), truncated=len(kept) < len(whole))


def exits_of(declares: Any) -> list[int]:
    codes: list[int] = []
    for outcome in declares.outcomes:
        exit = outcome.when.exit
        codes += [exit] if isinstance(exit, int) else exit or ()
    return codes or [0]


manifests = st.builds(
    lambda outcomes, effect: manifest(*outcomes, effect=effect),
    st.lists(declared(), min_size=1, max_size=4),
    st.sampled_from(["immediate", "scheduled"]),
)


@st.composite
def runs(draw: st.DrawFn) -> tuple[Any, Finished]:
    """A manifest and an end, which is more often than not one that the manifest speaks of."""
    declares = draw(manifests)
    end = draw(st.sampled_from(("exited",) * 9 + ENDS))
    code = draw(st.sampled_from(exits_of(declares) * 3 + [None, 0, 1, 64, 128, 129, 192, 193]))
    number = draw(st.none() | st.just(9))
    return declares, Finished(end, code, number, draw(outputs()), draw(outputs()), detail="said.")


def fields(output: Output) -> Any:
    try:
        return json.loads(output.kept)
    except ValueError:
        return None


def holds(when: Any, finished: Finished, *, unseen: bool = False) -> bool:
    """What a condition means, said once more in other words; ``unseen``: or could have been."""
    out, err = (unseen and stream.truncated for stream in (finished.stdout, finished.stderr))
    exits = [when.exit] if isinstance(when.exit, int) else when.exit
    document = None if finished.stdout.truncated else fields(finished.stdout)
    given = document if isinstance(document, dict) else {}
    return (
        (exits is None or finished.exit in exits)
        and (when.stdout is None or out or when.stdout in finished.stdout.text)
        and (when.stderr is None or err or when.stderr in finished.stderr.text)
        and all(
            out or (name in given and json.dumps(given[name]) == json.dumps(value))
            for name, value in (when.json or {}).items()
        )
    )


def tells_an_id(extract: Any, finished: Finished) -> bool:
    if extract is None:
        return False
    if extract.json is not None:
        document = None if finished.stdout.truncated else fields(finished.stdout)
        return isinstance(document, dict) and document.get("id") == 7
    stream = finished.stdout if extract.stdout is not None else finished.stderr
    return "id=7" in stream.text


def tells_a_delivery(outcome: Any, finished: Finished) -> bool:
    """An id, in the words of a delivery."""
    words = msgspec.structs.replace(outcome.when, exit=None)
    return tells_an_id(outcome.result_id, finished) and holds(words, finished)


def reads_what_was_cut(place: Any, finished: Finished) -> bool:
    return place is not None and (
        (finished.stdout.truncated and (place.stdout or place.json) is not None)
        or (finished.stderr.truncated and place.stderr is not None)
    )


BY_TEXT = {"when": {"stdout": "ERROR"}, "is": "undelivered", "code": "REJECTED"}
BY_EXIT = {"when": {"exit": 64}, "is": "undelivered", "code": "REJECTED"}
SENT = {"when": {"exit": 0}, "is": "delivered", "result_id": {"stdout": r"id=(\d)"}}


# rule: outcomes.unknown-holds
# rule: outcomes.proven-kept
@MANY
@example((manifest(BY_TEXT), exited(None, "ERROR")))
@example((manifest(BY_TEXT), exited(137, "ERROR")))
@example((manifest(BY_TEXT), exited(1, "ERROR id=7", cut=5)))
@example((manifest(SENT, BY_EXIT), exited(64, "ERROR id=7", cut=5)))
@example((manifest(SENT, BY_EXIT), exited(64, "ERROR id=7")))
@given(runs())
def test_undelivered_is_only_what_is_proven_and_the_rest_holds(run: tuple[Any, Finished]) -> None:
    """The allowlist of the whole system: whatever is not on it must never run again by itself."""
    declares, finished = run
    verdict = classify(declares, finished)
    event(f"{verdict.status} {verdict.code}")

    first = next((o for o in declares.outcomes if holds(o.when, finished)), None)
    deliveries = [o for o in declares.outcomes if o.status == "delivered"]
    if verdict.status == "undelivered":
        if finished.end in BEFORE_THE_START:
            assert verdict.code in PROVES_NOTHING_RAN
        else:
            assert finished.end == "exited"
            assert finished.exit is not None
            assert not 128 < finished.exit <= 192
            assert first is not None
            assert (first.status, first.code) == ("undelivered", verdict.code)
            assert not reads_what_was_cut(first.when, finished)
            for delivery in deliveries:
                assert not tells_a_delivery(delivery, finished)
                if holds(delivery.when, finished, unseen=True):
                    assert not reads_what_was_cut(delivery.when, finished)
                assert not reads_what_was_cut(delivery.result_id, finished)
    elif verdict.status == "delivered":
        assert finished.end == "exited"
        assert verdict.code is None
        assert first in deliveries
    else:
        assert verdict.recovery == "ask"
        own = OWN_CODES - PROVES_NOTHING_RAN
        assert verdict.code in own or (first is not None and verdict.code == first.code)


# rule: outcomes.proven-kept
@MANY
@given(runs())
def test_what_is_declared_and_in_no_doubt_is_not_held(run: tuple[Any, Finished]) -> None:
    """A gate that holds everything is safe and of no use."""
    declares, finished = run
    first = next((o for o in declares.outcomes if holds(o.when, finished)), None)
    plain = finished.end == "exited" and finished.exit in (0, 1, 2, 64, 128, 193, 255)
    whole = not (finished.stdout.truncated or finished.stderr.truncated)
    if plain and first and first.status == "delivered":
        earlier = declares.outcomes[: declares.outcomes.index(first)]
        whole = all(
            o.status == "delivered" or not holds(o.when, finished, unseen=True) for o in earlier
        )
    an_id = any(tells_a_delivery(o, finished) for o in declares.outcomes if o.status == "delivered")
    if not (first and plain and whole) or (first.status == "undelivered" and an_id):
        return

    verdict = classify(declares, finished)
    event(verdict.status)

    assert (verdict.status, verdict.code) == (first.status, first.code)


# rule: outcomes.signals
@settings(deadline=None)
@given(manifests, st.lists(st.sampled_from(WORDS), min_size=1, max_size=3), EXITS, st.integers(1))
@example(manifest(BY_TEXT), ["ERROR", "id=7"], 1, 5)
@example(manifest(BY_TEXT, SENT), ["x", "ERROR"], 0, 5)
def test_to_keep_less_of_the_output_never_turns_a_verdict(
    declares: Any, words: list[str], code: int, cut: int
) -> None:
    """A limit on memory may make a run unclear; it must not make it a rejection or a success."""
    said = " ".join(words).encode("utf-8", "surrogateescape")
    whole = classify(declares, exited(code, said))

    part = classify(declares, exited(code, said, cut=min(cut, len(said))))

    assert part.status in (whole.status, "unresolved")
