"""Spec files: what is wrong with one is said, each thing with its line; what is right is read."""

from pathlib import Path

import pytest

from executor.problems import Faulty
from executor.testing import parts
from executor.testing.spec import Case, schema, step_names
from executor.testing.spec_reading import parse_spec, read_specs

SPEC = """\
executor: spec/1
family: demo
given: {request: {parameters: {to: bo}}}
rules:
  - id: demo.once
    statement: The same is not sent twice.
    why: Nobody wants it.
    scenarios:
      - id: asked-again
        given: {files: {a.txt: for a}}
        steps: [{run: {as: first}}, {run: {as: again}}]
        then: {told: {code: DUPLICATE_DELIVERED}}
        control:
          without: again
          then: {told: {status: delivered}}
"""


def problems(text: str) -> list[str]:
    """Give what is wrong with a spec, as ``LINE: what``."""
    with pytest.raises(Faulty) as faulty:
        parse_spec(text.encode(), "demo.yaml")
    return [f"{one.line}: {one.found}" for one in faulty.value.problems]


def changed(old: str, new: str) -> str:
    """Alter the spec."""
    assert SPEC.count(old) == 1
    return SPEC.replace(old, new)


def cases(text: str) -> list[Case]:
    """Read a spec; give its cases."""
    return list(parse_spec(text.encode(), "demo.yaml").cases())


# rule: proof.control-twin
@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            SPEC[SPEC.index("        control:") :],
            "",
            "9: 'control' is missing",
        ),
        ("{status: delivered}", "{status: refused}", "15: nothing here says that it was allowed"),
        ("{status: delivered}", "{result_id: null}", "15: nothing here says that it was allowed"),
        ("{told: {status: delivered}}", "{sent: 0}", "15: nothing here says that it was allowed"),
        ("{told: {status: delivered}}", "{runs: 0}", "15: nothing here says that it was allowed"),
        ("{told: {status: delivered}}", "{sent: []}", "15: nothing here says that it was allowed"),
        *(
            ("{told: {status: delivered}}", then, "15: nothing here says that it was allowed")
            for then in (
                "{tally: {delivered: 0}}",
                "{tally: {delivered: {$not: 1}}}",
                "{tally: {delivered: {$most: 1}}}",
                "{told: {because: {$not: {status: delivered}}}}",
                "{told: {isolation: {status: delivered}}}",
                "{answers: {first: {because: {status: delivered}}}}",
                "{left: {ok: []}}",
                "{disk: {ok: x}}",
                "{modes: {delivered: '0644'}}",
                "{nowhere: {ok: [x]}}",
                "{sent: {$not: 3}}",
                "{sent: {$most: 3}}",
                "{sent: {$least: 0}}",
                "{runs: {post: 0}}",
                "{told: {status: {$not: refused}}}",
            )
        ),
    ],
)
def test_a_control_that_is_not_allowed_is_none(old: str, new: str, problem: str) -> None:
    """Else a program that refuses everything, or only crashes, would pass."""
    assert any(problem in one for one in problems(changed(old, new)))


@pytest.mark.parametrize(
    "then",
    [
        "{told: {status: delivered}}",
        "{told: {status: ok}}",
        "{answers: {first: {status: delivered}}}",
        "{tally: {delivered: 1}}",
        "{sent: 1}",
        "{sent: [a]}",
        "{runs: 2}",
        "{runs: {post: 1}}",
        "{sent: {$least: 1}}",
        "{sent: {$length: 2}}",
        "{receipt: {first: {predicate.result.status: delivered}}}",
    ],
)
def test_each_way_to_say_that_a_control_was_allowed_is_one(then: str) -> None:
    """What ran and what was sent are better witnesses than what was told."""
    assert len(cases(changed("{told: {status: delivered}}", then))) == 2


# rule: proof.one-fault
@pytest.mark.parametrize(
    ("new", "problem"),
    [
        ("", "a control that changes nothing"),
        ("without: again\n          given: {files: {b: x}}", "changes given and without"),
        ("given: {}", "the control is the scenario"),
        ("given: {files: {a.txt: for a}}", "the control is the scenario"),
        ("given: {filez: {}}", "unknown key 'filez'"),
        ("without: agin", "'agin' names no step"),
        ("instead: {}", "not one step"),
        ("instead: {agin: {run: {}}}", "'agin' names no step"),
        ("instead: {again: {}}", "not one step"),
        ("instead: {again: {run: {}, kill: {}}}", "not one step"),
        ("instead: {first: {run: {}}, again: {run: {}}}", "not one step"),
        ("instead: {again: {run: {as: again}}}", "the control is the scenario"),
    ],
)
def test_a_control_differs_in_one_fact(new: str, problem: str) -> None:
    """With two facts put right nobody knows which of them was refused."""
    found = problems(changed("without: again", new))

    assert any(problem in one for one in found)
    assert all(13 <= int(one.partition(":")[0]) <= 15 for one in found)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("demo.once", "other.once", "5: 'other.once' is not of this family"),
        ("family: demo", "family: Demo", "2: 'Demo' does not have the right form"),
        ("    why: Nobody wants it.\n", "", "5: 'why' is missing"),
        ("statement:", "statment:", "6: unknown key 'statment'"),
        ("executor: spec/1", "executor: spec/2", "1: 'spec/2' is not known here"),
        ("asked-again", "Asked_again", "9: 'Asked_again' does not have the right form"),
        ("given: {request:", "given: {requst:", "3: unknown key 'requst'"),
        ("given: {files:", "given: {filez:", "10: unknown key 'filez'"),
        ("{run: {as: again}}]", "{run: {as: first}}]", "11: a second step named 'first'"),
        ("{run: {as: again}}]", "{}]", "11: not one step"),
        ("{run: {as: again}}]", "{run: {}, kill: {}}]", "11: not one step"),
        ("{run: {as: again}}]", "{runn: {}}]", "11: unknown key 'runn'"),
        ("{run: {as: again}}]", "{run: {as: again, times: 0}}]", "11: 0 is out of bounds"),
        ("[{run: {as: first}}, {run: {as: again}}]", "[]", "11: a list of 0 items"),
        ("{told: {code: DUPLICATE_DELIVERED}}", "{}", "12: nothing is expected"),
        ("{told: {code:", "{toldd: {code:", "12: unknown key 'toldd'"),
        (": DUPLICATE_DELIVERED", ": {$matchs: x}", "12: '$matchs' is no word of expectations"),
        (": DUPLICATE_DELIVERED", ": {$matches: '('}", "12: no regular expression"),
        (": DUPLICATE_DELIVERED", ": {$any: true, x: 1}", "12: '$any' stands beside other keys"),
        *(
            (
                "{told: {code: DUPLICATE_DELIVERED}}",
                f"{{{then}}}",
                f"12: {word!r} stands where a name does",
            )
            for then, word in (
                ("told: {$not: {status: delivered}}", "$not"),
                ("answers: {$has: {again: {code: X}}}", "$has"),
                ("answers: {again: {$not: {code: X}}}", "$not"),
                ("disk: {$not: {a.txt: hello}}", "$not"),
                ("left: {$not: {processes: 0}}", "$not"),
                ("modes: {$any: true}", "$any"),
                ("tally: {$length: 1}", "$length"),
                ("receipt: {again: {$absent: true}}", "$absent"),
            )
        ),
        *(
            (
                "{told: {code: DUPLICATE_DELIVERED}}",
                f"{{sent: 1, {then}}}",
                "12: nothing is expected",
            )
            for then in (
                "told: {}",
                "answers: {}",
                "answers: {again: {}}",
                "nowhere: {}",
                'nowhere: {"${state}": []}',
                "left: {}",
                "record: {}",
                "receipt: {again: {}}",
            )
        ),
        ("why: Nobody", "built: false\n    why: Nobody", "7: a rule that is not built has scen"),
        ("family: demo", "family: [demo", "4: expected ',' or ']'"),
    ],
)
def test_a_slip_is_told_with_its_line(old: str, new: str, problem: str) -> None:
    """A key that is silently ignored is a scenario that tests something else."""
    assert any(one.startswith(problem) for one in problems(changed(old, new)))


def test_every_slip_is_told_at_once() -> None:
    """Nobody wants to mend a file one message at a time."""
    text = changed("family: demo", "family: other").replace("without: again", "without: agin")

    assert [one.partition(":")[0] for one in problems(text)] == ["5", "14"]


def test_a_scenario_starts_from_what_its_family_is_given() -> None:
    """And its control from the scenario's, with one fact put right."""
    text = changed("without: again", "given: {files: {a.txt: null, b.txt: for b}}")

    scenario, control = (parts.chosen(case.given) for case in cases(text))

    assert scenario == {"request": {"parameters": {"to": "bo"}}, "files": {"a.txt": "for a"}}
    assert control == {"request": {"parameters": {"to": "bo"}}, "files": {"b.txt": "for b"}}


@pytest.mark.parametrize(
    ("control", "kinds"),
    [
        ("without: again", ["run"]),
        ("instead: {again: {kill: {}}}", ["run", "kill"]),
        ("given: {files: {b: x}}", ["run", "run"]),
    ],
)
def test_a_control_has_the_steps_of_its_scenario_but_one(control: str, kinds: list[str]) -> None:
    """In their order."""
    scenario, twin = cases(changed("without: again", control))

    assert [list(parts.chosen(step)) for step in scenario.steps] == [["run"], ["run"]]
    assert [list(parts.chosen(step)) for step in twin.steps] == [[kind] for kind in kinds]


def test_a_step_is_named_by_its_own_name_or_its_kind() -> None:
    """With a number where there are several of the kind."""
    text = changed(
        "[{run: {as: first}}, {run: {as: again}}]",
        "[{run: {}}, {kill: {}}, {run: {as: again}}, {run: {}}]",
    )

    assert step_names(cases(text)[0].steps) == ["run-1", "kill", "again", "run-3"]


def test_a_case_knows_where_its_expectations_stand() -> None:
    """What is not written itself has the place of what is around it."""
    scenario, control = cases(SPEC)

    assert (scenario.id, scenario.where) == ("asked-again", "demo.yaml:12")
    assert (control.id, control.where) == ("asked-again[control]", "demo.yaml:15")
    assert control.place(("told", "nobody", "wrote", "this")) == "demo.yaml:15"


def test_a_directory_is_read_for_its_specs_alone(tmp_path: Path) -> None:
    """Its other YAML is somebody else's."""
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "demo.yaml").write_text(SPEC)
    (tmp_path / "post.yaml").write_text("executor: manifest/1\n")

    [found] = read_specs([tmp_path])

    assert found.path == str(tmp_path / "below" / "demo.yaml")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("order.yaml", changed("executor: spec/1\nfamily: demo", "family: demo\nexecutor: spec/1")),
        ("quoted.yaml", changed("executor: spec/1", 'executor: "spec/1"')),
        ("key.yaml", changed("executor: spec/1", '"executor": spec/1')),
        ("comment.yaml", f"   # a comment\n\n---\n{SPEC}"),
        ("ending.yml", SPEC),
        ("mark.yaml", f"\ufeff{SPEC}"),
        ("flow.yaml", "{executor: spec/1, family: demo, rules: []}"),
    ],
)
def test_a_spec_is_found_however_it_is_written(name: str, text: str, tmp_path: Path) -> None:
    """One that is passed over is never seen red."""
    (tmp_path / name).write_text(text)

    assert [Path(one.path).name for one in read_specs([tmp_path])] == [name]


def test_a_spec_behind_a_link_to_a_directory_is_found_once(tmp_path: Path) -> None:
    """pytest follows such links too."""
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "round").symlink_to(tmp_path / "specs")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "demo.yaml").write_text(SPEC)
    (tmp_path / "specs" / "linked").symlink_to(tmp_path / "elsewhere")

    [found] = read_specs([tmp_path / "specs"])

    assert found.path == str(tmp_path / "specs" / "linked" / "demo.yaml")


def test_what_cannot_be_read_is_not_passed_over(tmp_path: Path) -> None:
    """It may be a spec."""
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "nowhere.yaml")

    with pytest.raises(OSError, match=r"nowhere|gone"):
        read_specs([tmp_path])


def test_what_is_stated_twice_is_a_problem(tmp_path: Path) -> None:
    """Two rules of one id are two truths; two scenarios of one id cannot be told apart."""
    (tmp_path / "a.yaml").write_text(SPEC)
    twice = SPEC[SPEC.index("      - id: asked-again") :]
    (tmp_path / "b.yaml").write_text(SPEC + twice)

    with pytest.raises(Faulty) as faulty:
        read_specs([tmp_path])

    found = [(Path(one.file).name, one.line, one.found) for one in faulty.value.problems]
    assert found == [
        ("b.yaml", 5, "the rule demo.once is stated twice"),
        ("b.yaml", 16, "a second 'asked-again'"),
    ]


def test_the_schema_knows_every_part() -> None:
    """Editors complete from it; a part that it does not know looks like a slip."""
    definitions = schema()["$defs"]

    for name, package in (("Given", "given"), ("Step", "steps"), ("Then", "then")):
        assert set(definitions[name]["properties"]) == set(
            parts.parts(f"executor.testing.{package}")
        )
