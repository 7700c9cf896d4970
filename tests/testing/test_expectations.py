"""Every part of ``then`` can fail: seen to hold where it is so, and to fail where it is not.

An expectation that cannot fail makes every scenario that rests on it worthless, and nobody would
notice: it is green.  rule: ``proof.every-expectation``
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import pytest

from executor.testing import parts
from executor.testing.engine import run_all
from executor.testing.spec_reading import read_spec
from executor.testing.verdicts import Verdict

FIRST = {"run": {"as": "first"}}
AGAIN = {"run": {"as": "again"}}


class Seen(NamedTuple):
    """What happens, what holds then, and what does not: each with the key that must be named."""

    steps: list[Any]
    holds: Any
    fails: list[tuple[Any, str]]
    given: Mapping[str, Any] = MappingProxyType({})


PARTS: dict[str, Seen] = {
    "told": Seen(
        [FIRST],
        {"status": "delivered", "result_id": "m-1", "code": {"$absent": True}},
        [
            ({"status": "undelivered"}, "told.status"),
            ({"status": "delivered", "result_id": "m-2"}, "told.result_id"),
            ({"code": "NOTHING_SENT"}, "told.code"),
            ({"nobody_says_this": {"$any": True}}, "told.nobody_says_this"),
        ],
    ),
    "answers": Seen(
        [FIRST, AGAIN],
        {"first": {"status": "delivered"}, "again": {"code": "DUPLICATE_DELIVERED"}},
        [
            ({"first": {"status": "refused"}}, "answers.first.status"),
            ({"again": {"status": "delivered"}}, "answers.again.status"),
        ],
    ),
    "tally": Seen(
        [FIRST, AGAIN],
        {"delivered": 1, "DUPLICATE_IN_FLIGHT or DUPLICATE_DELIVERED": 1},
        [
            ({"delivered": 2, "DUPLICATE_DELIVERED": 1}, "tally.delivered"),
            ({"delivered": 1}, "tally.DUPLICATE_DELIVERED"),
            ({"delivered or DUPLICATE_DELIVERED": 1}, "tally.delivered or DUPLICATE_DELIVERED"),
            (
                {"delivered": 1, "DUPLICATE_DELIVERED": 1, "DUPLICATE_IN_FLIGHT": 1},
                "tally.DUPLICATE_IN_FLIGHT",
            ),
        ],
    ),
    "runs": Seen(
        [FIRST, AGAIN],
        {"post": 1},
        [
            (0, "runs"),
            (2, "runs"),
            ({"post": 2}, "runs.post"),
            ({"$not": 1}, "runs"),
            ({"$least": 2}, "runs"),
            ({"$most": 0}, "runs"),
        ],
    ),
    "sent": Seen(
        [FIRST, AGAIN],
        ["sent"],
        [
            (0, "sent"),
            (2, "sent"),
            ([], "sent"),
            (["sent", "sent"], "sent"),
            (["x"], "sent.0"),
            ({"$not": 1}, "sent"),
            ({"$not": {"$least": 1}}, "sent"),
            ({"$least": 2}, "sent"),
            ({"$most": 0}, "sent"),
            ({"$length": 2}, "sent"),
            ({"$not": ["sent"]}, "sent"),
        ],
    ),
    "argv": Seen(
        [{"run": {"parameters": {"words": ["a b"]}}}],
        ["--", "ana", "a b"],
        [
            (["--", "ana"], "argv"),
            (["--", "ana", "a b", ""], "argv"),
            (["--", "ana", "a"], "argv.2"),
            (["ana", "--", "a b"], "argv.0"),
        ],
    ),
    "env": Seen(
        [FIRST],
        {"$has": {"LANG": "C.UTF-8", "MARK": "as declared"}},
        [
            ({"$has": {"LANG": "C"}}, "env.$has.LANG"),
            ({"$has": {"OTHER": {"$any": True}}}, "env.$has.OTHER"),
            ({"MARK": "as declared"}, "env.LANG"),
        ],
        {"manifest": {"env": {"MARK": "as declared"}}},
    ),
    "cwd": Seen([FIRST], {"$matches": "^/"}, [("/", "cwd"), ({"$matches": "^[^/]"}, "cwd")]),
    "stdin": Seen(
        [FIRST],
        "for the command",
        [("", "stdin"), ("for the command\n", "stdin")],
        {"manifest": {"stdin": {"text": "for the command"}}},
    ),
    "fds": Seen(
        [FIRST],
        {"0": "/dev/null", "1": {"$any": True}, "2": {"$any": True}},
        [
            ({"0": "/dev/null", "1": {"$any": True}}, "fds.2"),
            ({"0": "/dev/zero", "1": {"$any": True}, "2": {"$any": True}}, "fds.0"),
            ({"$length": 4}, "fds"),
        ],
    ),
    "files": Seen(
        [{"run": {"files": {"attached": [{"path": "${root}/a.txt"}]}}}],
        {"a.txt": "for a"},
        [({}, "files.a.txt"), ({"a.txt": "for b"}, "files.a.txt")],
        {"files": {"a.txt": "for a"}},
    ),
    "disk": Seen(
        [FIRST],
        {"a.txt": "for a", "b.txt": None, "d": "a directory", "gone": "a link to /nowhere"},
        [
            ({"a.txt": "for b"}, "disk.a.txt"),
            ({"a.txt": None}, "disk.a.txt"),
            ({"b.txt": ""}, "disk.b.txt"),
            ({"d": None}, "disk.d"),
            ({"gone": None}, "disk.gone"),
        ],
        {
            "files": {
                "a.txt": "for a",
                "d": {"directory": True},
                "gone": {"link": "/nowhere"},
            }
        },
    ),
    "modes": Seen(
        [FIRST],
        {"a.txt": "0640", "b.txt": None, "${state}": "0700"},
        [
            ({"a.txt": "0600"}, "modes.a.txt"),
            ({"b.txt": "0600"}, "modes.b.txt"),
            ({"${state}": "0755"}, "modes."),
        ],
        {"files": {"a.txt": {"text": "for a", "mode": "0640"}}},
    ),
    "nowhere": Seen(
        [FIRST],
        {"${root}/kept": ["for nobody"]},
        [
            ({"${root}/kept": ["in-the-bytes"]}, "nowhere"),
            ({"${root}/kept": ["in-a-name"]}, "nowhere"),
            ({"${root}/kept": ["in-a-link"]}, "nowhere"),
            ({"${root}/kept/in-a-name": ["in-the-bytes"]}, "nowhere"),
            ({"${root}/kept/link": ["in-a-link"]}, "nowhere"),
        ],
        {"files": {"kept/in-a-name": "in-the-bytes", "kept/link": {"link": "/in-a-link"}}},
    ),
    "left": Seen(
        [FIRST, {"write": {"file": "kept/one", "content": ""}}],
        {"processes": 0, "kept": ["one"], "not-there": []},
        [
            ({"processes": 1}, "left.processes"),
            ({"kept": []}, "left.kept"),
            ({"kept": ["one", "two"]}, "left.kept"),
            ({"not-there": ["one"]}, "left.not-there"),
            ({"kept/one": []}, "left.kept/one"),
        ],
    ),
    "ledger": Seen(
        [FIRST],
        [{"state": "delivered", "result_id": "m-1"}],
        [
            ([], "ledger"),
            (["delivered", "delivered"], "ledger"),
            (["released"], "ledger.0"),
            ([{"state": "delivered", "result_id": "m-2"}], "ledger.0.result_id"),
            ({"$length": 2}, "ledger"),
        ],
    ),
    "receipt": Seen(
        [FIRST],
        {"first": {"predicate.result.status": "delivered"}},
        [
            ({"first": {"predicate.result.status": "undelivered"}}, "receipt.first"),
            ({"first": {"predicate.nobody.knows": {"$any": True}}}, "receipt.first"),
            ({"first": None}, "receipt.first"),
        ],
    ),
    "record": Seen(
        [FIRST],
        {"tty": None, "stdin": ""},
        [({"tty": "5:1"}, "record.tty"), ({"nobody_knows": {"$any": True}}, "record")],
    ),
    "strangers": Seen(
        [{"stranger": {"as": "other"}}, FIRST], {"other": True}, [({"other": False}, "strangers")]
    ),
}


def spec_of(key: str, seen: Seen) -> dict[str, Any]:
    """Give a scenario for what holds, and one for each thing that does not."""
    expected = [("holds", seen.holds), *((f"fails-{n}", f) for n, (f, _) in enumerate(seen.fails))]
    control = {
        "given": {"request": {"parameters": {"to": "bo"}}},
        "then": {"told": {"status": "delivered"}},
    }
    scenarios = [
        {"id": name, "steps": seen.steps, "then": {key: value}, "control": control}
        for name, value in expected
    ]
    rule = {"id": "parts.one", "statement": key, "why": "It is tried.", "scenarios": scenarios}
    return {"executor": "spec/1", "family": "parts", "given": dict(seen.given), "rules": [rule]}


def test_every_part_is_in_the_table() -> None:
    """A new part is not done before it was seen to fail."""
    assert set(PARTS) == set(parts.parts("executor.testing.then"))


@pytest.mark.parametrize("key", PARTS)
async def test_it_holds_where_it_is_so_and_fails_where_it_is_not(key: str, tmp_path: Path) -> None:
    """The failure names the expectation, the line it stands in, and both sides."""
    # rule: proof.every-expectation
    path, seen = tmp_path / "parts.yaml", PARTS[key]
    path.write_bytes(msgspec.yaml.encode(spec_of(key, seen)))

    outcome = await run_all([read_spec(path)], chosen=lambda case: not case.control, jobs=2)

    holds, *others = outcome.verdicts
    assert (holds.word, holds.failures, holds.why) == ("passed", (), "")
    for verdict, (expected, named) in zip(others, seen.fails, strict=True):
        assert verdict.word == "failed", (expected, verdict.why)
        assert any(one.key.startswith(named) for one in verdict.failures), verdict.failures
        assert all(one.expected != one.actual for one in verdict.failures)
        assert lines_of(verdict) <= set(range(*block_of(path, verdict)))


def lines_of(verdict: Verdict) -> set[int]:
    """Give the lines that its failures name."""
    return {int(one.where.rpartition(":")[2]) for one in verdict.failures}


def block_of(path: Path, verdict: Verdict) -> tuple[int, int]:
    """Give the lines of its scenario: from the first to behind the last."""
    lines = path.read_text().splitlines()
    begin = next(n for n, line in enumerate(lines, 1) if line.endswith(f" {verdict.case.id}"))
    after = (n for n, line in enumerate(lines, 1) if n > begin and "- id:" in line)
    return begin, next(after, len(lines) + 1)


@pytest.mark.parametrize(
    ("then", "why"),
    [
        ({"answers": {"frist": {"code": {"$absent": True}}}}, "nothing was asked for as 'frist'"),
        ({"receipt": {"frist": None}}, "nothing was asked for as 'frist'"),
        ({"runs": {"pots": 0}}, "no command 'pots' could have been started"),
        ({"nowhere": {"${state}/tpyo": ["x"]}}, "there is no"),
        ({"told": {"stage": "${first.no_such_key}"}}, "has no 'no_such_key'"),
        ({"nowhere": {"${state}": ["${first.atempt}"]}}, "has no 'atempt'"),
        ({"told": {"stage": "${frist.stage}"}}, "nothing is known of ${frist.stage}"),
    ],
)
async def test_what_is_expected_of_nothing_is_broken(
    then: dict[str, Any], why: str, tmp_path: Path
) -> None:
    """A slip in a name would make it hold for ever."""
    [(key, value)] = then.items()
    path = tmp_path / "parts.yaml"
    path.write_bytes(msgspec.yaml.encode(spec_of(key, Seen([FIRST], value, []))))

    outcome = await run_all([read_spec(path)], chosen=lambda case: not case.control)

    [verdict] = outcome.verdicts
    assert verdict.word == "broken"
    assert why in verdict.why


@pytest.mark.parametrize(
    "step",
    [
        {"write": {"file": "a.txt"}},
        {"chmod": {"file": "a.txt"}},
        {"clock": {}},
        {"wait": {}},
    ],
    ids=lambda step: next(iter(step)),
)
async def test_a_step_that_changes_nothing_is_broken(step: dict[str, Any], tmp_path: Path) -> None:
    """The scenario would be its own control."""
    path, given = tmp_path / "parts.yaml", {"files": {"a.txt": "for a"}}
    seen = Seen([step, FIRST], {"status": "delivered"}, [], given)
    path.write_bytes(msgspec.yaml.encode(spec_of("told", seen)))

    outcome = await run_all([read_spec(path)], chosen=lambda case: not case.control)

    assert [one.word for one in outcome.verdicts] == ["broken"]
