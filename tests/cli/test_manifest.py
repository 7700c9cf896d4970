"""The format of manifests, printed; manifests, checked."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from executor import plain_yaml
from executor.loading import pack_files
from tests.cli.call import Cli

PACKS = pack_files()


@pytest.fixture
def schema(cli: Cli) -> dict[str, Any]:
    """What `executor manifest schema` prints."""
    done = cli("manifest", "schema")
    assert (done.code, done.err) == (0, "")
    printed: dict[str, Any] = json.loads(done.out)
    return printed


def test_the_schema_is_json_schema_2020_12(schema: dict[str, Any]) -> None:
    """Editors refuse a schema that is not one."""
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(schema)


def test_the_schema_accepts_every_shipped_manifest_and_no_misspelt_one(
    schema: dict[str, Any],
) -> None:
    """An editor that is content with `isolatoin` would be worse than none."""
    validator = Draft202012Validator(schema)
    for pack in PACKS:
        manifest = plain_yaml.load(pack.read_bytes()).value
        assert list(validator.iter_errors(manifest)) == []

        for path in (manifest, manifest["isolation"], manifest["limits"], manifest["outcomes"][0]):
            path["isolatoin"] = "x"
            assert list(validator.iter_errors(manifest)) != []
            del path["isolatoin"]


# rule: admission.closed-manifest
def test_every_problem_of_every_file_is_told_at_once(cli: Cli) -> None:
    """file:line:column is what editors jump to; the rest is what to write instead."""
    first, second = cli.house.root / "a.yaml", cli.house.root / "b.yaml"
    good = cli.house.root / "good.yaml"
    first.write_text("executor: manifest/1\ntool: Bad Name\nsumary: x\ncommand: cp\nargv: []\n")
    second.write_text("tool: [\n")
    good.write_text(PACKS[0].read_text())

    done = cli("manifest", "check", str(first), str(second), str(good))

    assert done.code == 2
    lines = done.err.splitlines()
    assert any(line.startswith(f"{first}:2:7: tool: ") for line in lines) or any(
        line.startswith(f"{first}:2:1: tool: ") for line in lines
    )
    assert any(line.startswith(f"{first}:3:1: ") and "'summary'" in line for line in lines)
    for missing in ("capabilities", "outcomes", "summary"):
        assert any(line.startswith(f"{first}:1:1: {missing!r} is missing") for line in lines)
    assert any(line.startswith(f"{second}:") for line in lines)
    assert done.out == f"{good}: {plain_yaml.load(good.read_bytes()).value['tool']} is valid.\n"


def test_json_has_one_object_a_line_for_each_file(cli: Cli) -> None:
    """A linter in CI reads it."""
    bad = cli.house.root / "bad.yaml"
    bad.write_text("tool: x.y\n")

    done = cli("manifest", "check", str(PACKS[0]), str(bad), "missing.yaml", "--json")

    assert done.code == 2
    good, wrong, missing = map(json.loads, done.out.splitlines())
    assert (good["valid"], good["problems"]) == (True, [])
    assert (wrong["valid"], wrong["file"]) == (False, str(bad))
    assert set(wrong["problems"][0]) == {"line", "column", "key", "found", "instead"}
    assert missing["problems"][0]["found"] == "No such file or directory"


def test_a_directory_stands_for_its_manifests(cli: Cli) -> None:
    """As it does for `--manifest`."""
    cli.house.manifest()
    (cli.house.root / "empty").mkdir()

    done = cli("manifest", "check", str(cli.house.manifests))
    empty = cli("manifest", "check", "empty")

    assert (done.code, done.out.count("is valid.")) == (0, 1)
    assert empty.code == 2
    assert "no *.yaml in this directory" in empty.err


def test_a_tool_declared_twice_is_a_problem(cli: Cli) -> None:
    """Both load alone; together they would not."""
    cli.house.manifest()
    path = cli.house.manifests / "test.fake.yaml"
    other = cli.house.root / "other.yaml"
    other.write_text(path.read_text())

    assert cli("manifest", "check", str(path), str(path)).code == 0
    done = cli("manifest", "check", str(path), str(other))

    assert done.code == 2
    assert f"'test.fake' is declared in {path} too" in done.err


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("missing", "No such file or directory"),
        ("loop", "Too many levels of symbolic links"),
        ("long", "File name too long"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_problem_of_that_file(
    cli: Cli, kind: str, found: str
) -> None:
    """The others are still checked."""
    paths = {"missing": "missing.yaml", "loop": "loop.yaml", "long": "x" * 300}
    (cli.house.root / "loop.yaml").symlink_to("loop.yaml")

    done = cli("manifest", "check", paths[kind], str(PACKS[0]))

    assert done.code == 2
    assert found in done.err
    assert "is valid." in done.out


def test_a_pipe_is_checked_as_a_file(cli: Cli) -> None:
    """`executor manifest check <(render template)` is how generated ones are checked."""
    with subprocess.Popen(["cat", str(PACKS[0])], stdout=subprocess.PIPE) as rendered:
        assert rendered.stdout is not None
        done = cli("manifest", "check", "/dev/stdin", stdin=rendered.stdout)

    assert done.code == 0, done.err


def test_all_shipped_manifests_are_valid(cli: Cli) -> None:
    """They are the examples that people start from."""
    done = cli("manifest", "check", *map(str, PACKS))

    assert (done.code, done.err) == (0, "")
    assert done.out.count(" is valid.") == len(PACKS) == 6


def test_a_check_runs_nothing(cli: Cli, tmp_path: Path) -> None:
    """It is used on what a stranger wrote."""
    mark = tmp_path / "ran"
    path = cli.house.root / "m.yaml"
    path.write_text(f"tool: !!python/object/apply:os.system ['touch {mark}']\n")

    assert cli("manifest", "check", str(path)).code == 2
    assert not mark.exists()
