"""Every "no" in the code is a row of the table, every row is said somewhere, and each can be read.

The calls are found in the source: what no test happens to reach is looked at too.
"""

import ast
import copy
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest

import executor
from executor import Refused, Unverified
from executor.receipt import EXIT_CODES
from executor.refusal import TABLE, Recovery, Stage
from executor.rules.outcomes import OWN_CODES
from tests.house import House

SOURCE = Path(executor.__file__).parent
ENDS_A_SENTENCE = (".", "?", ".\n")


@dataclass(frozen=True)
class Call:
    """One call in the source that makes a no: nothing else has a ``because`` and a ``todo``."""

    place: str
    node: ast.Call
    functions: tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]
    module: ast.Module


def calls() -> Iterator[Call]:
    for path in sorted(SOURCE.rglob("*.py")):
        module = ast.parse(path.read_text())
        yield from _calls(module, (), module, str(path.relative_to(SOURCE)))


def _calls(node: ast.AST, functions: tuple[Any, ...], module: ast.Module, file: str) -> Any:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        functions = (*functions, node)
    if (
        isinstance(node, ast.Call)
        and len(node.args) == 2
        and {"because", "todo"} == {word.arg for word in node.keywords} - {"earlier"}
    ):
        yield Call(f"{file}:{node.lineno}", node, functions, module)
    for child in ast.iter_child_nodes(node):
        yield from _calls(child, functions, module, file)


def texts(node: ast.expr, call: Call) -> set[str]:
    """Every text that an argument can be; a name is followed to where its value comes from."""
    if isinstance(node, ast.Constant):
        return {node.value}
    if isinstance(node, ast.Attribute) and node.attr in ("rule", "code"):
        return set()  # a no that was caught, and is said again with more words
    if isinstance(node, ast.IfExp):
        return texts(node.body, call) | texts(node.orelse, call)
    if isinstance(node, ast.Name):
        found = set()
        for function in call.functions:
            for inner in ast.walk(function):
                if isinstance(inner, ast.Assign) and _names(inner) == {node.id}:
                    found |= texts(inner.value, call)
            parameters = [argument.arg for argument in function.args.args]
            place = parameters.index(node.id) if node.id in parameters else None
            if place is not None:
                for caller in ast.walk(call.module):
                    if isinstance(caller, ast.Call) and _called(caller) == function.name:
                        found |= _argument(caller, place, node.id, call)
        if found:
            return found
    pytest.fail(f"{call.place}: {ast.unparse(node)} cannot be followed to a literal")


def _names(assignment: ast.Assign) -> set[str]:
    return {target.id for target in assignment.targets if isinstance(target, ast.Name)}


def _called(call: ast.Call) -> str:
    return getattr(call.func, "id", getattr(call.func, "attr", ""))


def _argument(caller: ast.Call, place: int, name: str, call: Call) -> set[str]:
    given = [word.value for word in caller.keywords if word.arg == name] or caller.args[place:]
    return _follow(given[0], caller, call)


def _follow(node: ast.expr, caller: ast.Call, call: Call) -> set[str]:
    """Follow an argument inside of the function that hands it on."""
    around = tuple(
        function
        for function in ast.walk(call.module)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and any(inner is caller for inner in ast.walk(function))
    )
    return texts(node, Call(call.place, caller, around, call.module))


CALLS = list(calls())


def said() -> set[tuple[str, str]]:
    return {
        (rule, code)
        for call in CALLS
        for rule in texts(call.node.args[0], call)
        for code in texts(call.node.args[1], call)
    }


def test_every_no_in_the_code_is_a_row_of_the_table() -> None:
    """One that is not would be a KeyError, at the very moment when something must be refused."""
    rows = {(row.rule, row.code) for row in TABLE}

    named = [call for call in CALLS if _called(call.node) in ("Refused", "Unverified")]
    assert len(named) > 20  # a control: the search does find them
    assert said() - rows == set()


def test_every_row_of_the_table_is_said_somewhere() -> None:
    """A row that nothing says promises a guard that is not there."""
    rows = {(row.rule, row.code) for row in TABLE}

    assert rows - said() == set()


def test_a_rule_and_a_code_stand_in_one_row_only() -> None:
    """Stage and recovery depend on them alone."""
    assert len({(row.rule, row.code) for row in TABLE}) == len(TABLE)
    for row in TABLE:
        assert row.stage in get_args(Stage)
        assert row.recovery in get_args(Recovery)
        assert not row.invalid_input or row.stage in ("load", "admit", "decide")


def test_no_code_of_a_refusal_is_also_one_of_an_end() -> None:
    """A caller that sees a code must know whether anything ran."""
    assert {row.code for row in TABLE} & OWN_CODES == set()
    assert "refused" in EXIT_CODES


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.place)
def test_a_no_says_what_was_found_and_what_to_do(call: Call) -> None:
    """Both are whole sentences wherever they are written out here; people read them in a row."""
    given = {word.arg: word.value for word in call.node.keywords if word.arg != "earlier"}

    assert set(given) == {"because", "todo"}
    for part in given.values():
        end = _last_literal(part)
        if end is not None and end != "\n":  # lines of problems, each a sentence of its own
            assert end.endswith(ENDS_A_SENTENCE), ast.unparse(part)


def _last_literal(node: ast.expr) -> str | None:
    if isinstance(node, ast.JoinedStr):
        node = node.values[-1]
    if isinstance(node, ast.BinOp):
        return _last_literal(node.right)
    if isinstance(node, ast.IfExp):
        return _last_literal(node.orelse)
    return str(node.value) if isinstance(node, ast.Constant) else None


def test_a_no_is_one_text_with_its_rule_and_code_in_front() -> None:
    """What a person sees in a log, and what a program compares, in one line."""
    no = Refused("admission.closed-tools", "UNKNOWN_TOOL", because="No such tool.", todo="Ask.")

    assert str(no) == "admission.closed-tools (UNKNOWN_TOOL): No such tool. Ask."
    assert (no.rule, no.code) == ("admission.closed-tools", "UNKNOWN_TOOL")
    assert (no.stage, no.recovery, no.receipt) == ("admit", "fix", None)
    lines = Refused("admission.closed-config", "INVALID_CONFIG", because="a:\nb.\n", todo="Ask.")
    assert str(lines).endswith(": a:\nb.\nAsk.")


def test_a_code_that_is_not_its_rules_cannot_be_said() -> None:
    """The table is closed: a new no is a new row, with its recovery thought about."""
    Refused("freezing.bounded", "FILE_TOO_LARGE", because="a.", todo="b.")

    with pytest.raises(KeyError):
        Refused("freezing.bounded", "UNKNOWN_TOOL", because="a.", todo="b.")


@pytest.mark.parametrize("kind", [Refused, Unverified])
async def test_a_no_survives_the_way_to_another_process_with_its_receipt(
    house: House, kind: type[Refused]
) -> None:
    """Worker pools pickle what is raised; what cannot be unpickled breaks the whole pool."""
    async with house.open(degraded=True) as opened:
        with pytest.raises(Refused) as no:
            await opened.run(house.request(tool="test.none"))
    known = kind("freezing.bounded", "FILE_TOO_LARGE", because="a.", todo="b.")
    known.receipt = no.value.receipt

    for again in (pickle.loads(pickle.dumps(known)), copy.copy(known)):  # noqa: S301 - our own
        assert type(again) is kind
        assert str(again) == str(known)
        assert again.row == known.row
        assert again.receipt == known.receipt
        assert again.receipt is not None


async def test_each_refusal_met_on_the_way_in_reads_as_sentences(house: House) -> None:
    """Some sentences are put together elsewhere: here they are seen as people will see them."""
    requests = [
        house.request(tool="test.none"),
        house.request(tool="test.fike"),
        house.request(parameters={"plan": 1, "other": 2}),
        house.request(parameters={"plan": "a\nb"}),
        house.request(parameters={"plan": "x" * 200_000}),
        house.request(files={"body": "x"}),
    ]
    async with house.open(degraded=True) as opened:
        for request in requests:
            with pytest.raises(Refused) as no:
                await opened.run(request)

            for part in (no.value.because, no.value.todo):
                assert part.endswith(ENDS_A_SENTENCE), str(no.value)
                assert part[0].isupper() or not part[0].isalpha(), str(no.value)
            assert "  " not in str(no.value)
