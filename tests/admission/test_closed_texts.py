"""Manifests, requests and configuration are read by one strict loader, and are closed."""

import resource
from pathlib import Path
from typing import Any

import pytest
import yaml

from executor import open_executor
from executor.cli.run import read_request
from executor.config import Config
from executor.loading import load_tools
from executor.problems import Faulty, read
from executor.refusal import Refused
from executor.request import Request
from tests.admission.forge import MANIFEST, problems
from tests.house import House, recorded

REQUEST = {"executor": "request/1", "tool": "test.fake", "asked_by": {"role": "tester"}}
CONFIG: dict[str, Any] = {"executor": "config/1", "packs": False}


# -- no key of the environment, of the command or of anything else to smuggle in -------------------


# rule: admission.closed-request
@pytest.mark.parametrize(
    "smuggled",
    [
        {"env": {"LD_PRELOAD": "/tmp/x.so", "GIT_SSH_COMMAND": "touch p", "PATH": "/tmp"}},
        {"argv": ["x"]},
        {"command": "sh"},
        {"isolation": {"level": "bare"}},
        {"limits": {"deadline": "1 d"}},
        {"approved": True},
        {"asked_by": {"role": "tester", "approved": True}},
        {"files": {"x": {"path": "a", "mode": 511}}},
    ],
    ids=lambda smuggled: next(iter(smuggled)),
)
def test_a_request_has_no_key_to_smuggle_anything_in_closed_request(
    tmp_path: Path, smuggled: dict[str, Any]
) -> None:
    """Case 07: the caller's variables would be code in the command."""
    file = tmp_path / "request.yaml"
    file.write_text(yaml.safe_dump(REQUEST))
    assert read_request(file).tool == "test.fake"
    file.write_text(yaml.safe_dump(REQUEST | smuggled))

    with pytest.raises(Refused) as no:
        read_request(file)

    assert (no.value.rule, no.value.code) == ("admission.closed-request", "INVALID_REQUEST")
    assert "unknown key" in no.value.because
    assert f"{file}:" in no.value.because


async def test_a_variable_as_a_parameter_is_unknown_and_named(house: House) -> None:
    """Case 07: the variable is refused by its name, and what is allowed is all that arrives."""
    async with house.open() as executor:
        done = await executor.run(house.request({"record": "stdout"}))
        assert set(recorded(done)["env"]) == {"HOME", "LANG", "PATH", "PWD", "TMPDIR"}

        with pytest.raises(Refused) as no:
            await executor.run(
                house.request(parameters={"plan": "{}", "LD_PRELOAD": "/tmp/x.so", "PATH": "/tmp"})
            )

    assert no.value.code == "INVALID_PARAMETERS"
    assert "unknown parameter 'LD_PRELOAD'" in no.value.because
    assert "unknown parameter 'PATH'" in no.value.because


LOADERS = [
    "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "BASH_ENV", "ENV", "PS4", "PYTHONPATH",
    "PYTHONSTARTUP", "PYTHONBREAKPOINT", "PERL5OPT", "PERL5LIB", "PERL5DB", "RUBYOPT",
    "NODE_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "GIT_SSH_COMMAND", "GIT_CONFIG_COUNT",
    "GIT_CONFIG_KEY_0",
    "GIT_CONFIG_GLOBAL", "GIT_EXTERNAL_DIFF", "GIT_PAGER", "PAGER", "EDITOR", "LESSOPEN",
    "KUBECONFIG",
    "OPENSSL_CONF", "GCONV_PATH", "HOSTALIASES", "CURL_HOME", "DOTNET_STARTUP_HOOKS", "SHELL",
]  # fmt: skip


# rule: admission.closed-manifest
@pytest.mark.parametrize("name", LOADERS)
def test_a_callers_value_reaches_no_variable_that_loads_code_closed_manifest(name: str) -> None:
    """Case 07: the hole may also be in a manifest, made by somebody who meant well."""
    assert problems((("env", name), "/fixed")) == []
    assert problems((("env", f"MY_{name}_NAME"), "{sender}")) == []

    wrong = problems((("env", name), "x{sender}"))

    assert [problem.key for problem in wrong] == [f"env.{name}"]


# -- configuration --------------------------------------------------------------------------------


# rule: admission.closed-config
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"degradet": True}, "Did you mean 'degraded'?"),
        ({"degraded": "yes"}, "'yes' is a string. Write true or false."),
        ({"retention": 3600}, "Write it like '60 s'."),
        ({"retention": "1 week"}, "does not have the right form"),
        ({"roots": "/srv"}, "'/srv' is a string. Write a list."),
        ({"secrets": {"a.b": {"c": {"env": "X"}}}}, "unknown key 'env'"),
        ({"executor": "config/2"}, "Did you mean 'config/1'?"),
    ],
)
async def test_a_configuration_with_a_fault_opens_nothing_closed_config(
    tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    """A misspelt guard that is passed over is a guard that is off."""
    file = tmp_path / "executor.yaml"
    file.write_text(yaml.safe_dump(CONFIG | {"state": str(tmp_path / "one")}))
    async with open_executor(file) as executor:
        assert executor.tools == {}
    file.write_text(yaml.safe_dump(CONFIG | {"state": str(tmp_path / "two")} | change))

    with pytest.raises(Refused) as no:
        async with open_executor(file):
            pytest.fail("it opened")

    assert (no.value.rule, no.value.code) == ("admission.closed-config", "INVALID_CONFIG")
    assert f"{file}:" in no.value.because
    assert told in no.value.because
    assert not (tmp_path / "two").exists()


async def test_a_configuration_that_is_not_there_opens_nothing_closed_config(
    tmp_path: Path,
) -> None:
    """Who names a file relies on what it says."""
    with pytest.raises(Refused) as no:
        async with open_executor(tmp_path / "executor.yaml"):
            pytest.fail("it opened")

    assert no.value.code == "INVALID_CONFIG"


def test_all_faults_of_a_configuration_are_told_at_once_closed_config() -> None:
    """As with a manifest."""
    source = b"executor: config/1\ndegraded: 5\npaks: false\nretention: x\n"

    with pytest.raises(Faulty) as no:
        read(source, "c.yaml", Config)

    assert [(problem.line, problem.key) for problem in no.value.problems] == [
        (2, "degraded"),
        (3, "paks"),
        (4, "retention"),
    ]


# -- one loader for all ---------------------------------------------------------------------------

NOT_PLAIN = {
    "the key 'deny' again": "deny: [git-push]\nx: 1\ndeny: []\n",
    "the key 'b' again": "a: {b: 1, b: 2}\n",
    "the merge key": "a: {x: 1}\nb: {<<: {x: 2}}\n",
    "the anchor 'a0'": "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else 'lol'}]\n" for n in range(9)
    ),
    "the anchor 'a'": "a: &a [*a]\n",
    "the tag": 'a: !!python/object/apply:os.system ["id"]\n',
    "a second document": "a: 1\n---\nb: 2\n",
}


# rule: admission.plain-yaml
@pytest.mark.parametrize(("told", "text"), NOT_PLAIN.items(), ids=NOT_PLAIN)
async def test_what_is_not_plain_yaml_is_refused_in_every_file_plain_yaml(
    tmp_path: Path, told: str, text: str
) -> None:
    """Case 56: a second `deny` replaces the first, 300 bytes become gigabytes, a tag runs code."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cases: list[tuple[str, Any, dict[str, Any]]] = [
        ("INVALID_MANIFEST", lambda file: load_tools([str(file)], packs=False), MANIFEST),
        ("INVALID_REQUEST", read_request, REQUEST),
    ]
    for code, load, good in cases:
        file = tmp_path / f"{code}.yaml"
        file.write_text(yaml.safe_dump(good))
        assert load(file)
        file.write_text(yaml.safe_dump(good) + text)

        with pytest.raises(Refused) as no:
            load(file)

        assert no.value.code == code
        assert told in no.value.because
        line = int(no.value.because.split(f"{file}:")[1].split(":")[0])
        assert line > len(yaml.safe_dump(good).splitlines())
    file = tmp_path / "executor.yaml"
    file.write_text(yaml.safe_dump(CONFIG | {"state": str(tmp_path / "state")}) + text)
    with pytest.raises(Refused) as no:
        async with open_executor(file):
            pytest.fail("it opened")
    assert no.value.code == "INVALID_CONFIG"
    assert told in no.value.because
    assert not (tmp_path / "state").exists()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024


def test_a_request_may_be_json(tmp_path: Path) -> None:
    """JSON is YAML; what one program writes the other must read alike."""
    file = tmp_path / "request.json"
    file.write_text('{"tool": "test.fake", "asked_by": {"role": "x"}, "parameters": {"a": "no"}}')

    assert read_request(file).parameters == {"a": "no"}


def test_words_of_yaml_1_1_stay_words_in_a_manifest_and_in_a_request() -> None:
    """`no` is a country, `1_000` an identifier and `12:30:45` a text."""
    text = b"tool: t.t\nasked_by: {role: no}\nparameters: {a: on, b: 1_000, c: 12:30:45, d: 0o17}\n"

    request, _ = read(text, "r.yaml", Request)

    assert request.asked_by.role == "no"
    assert request.parameters == {"a": "on", "b": "1_000", "c": "12:30:45", "d": 15}
