"""House: the small world of one case. A root, trusted commands, manifests, and a state directory.

Its commands are recording fakes, or what a scenario puts in their place. They write below ``out``,
which every manifest of the house is given as a place to write: nothing else tells from outside what
really ran.
"""

import json
import os
import runpy
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from executor import plain_yaml
from executor.testing.merging import merged
from executor.testing.places import shipped

USUAL_PLAN: Mapping[str, Any] = {"sent_text": "sent", "environs": "none", "stdin_wait": 0}
"""What a fake does unless its plan says otherwise; that it records goes without saying."""


@cache
def interpreter() -> tuple[str, str | None]:
    """Give a Python that a sandbox can run, and the tree that must be opened for it, if any."""
    for path in ("/usr/bin/python3", "/usr/local/bin/python3"):
        if os.access(path, os.X_OK):
            return path, None
    return os.path.realpath(sys.executable), os.path.realpath(sys.base_prefix)


@cache
def _fake() -> str:
    return (shipped("fakes") / "fake.py").read_text(encoding="utf-8").split("\n", 1)[1]


@cache
def _fake_module() -> dict[str, Any]:
    return runpy.run_path(str(shipped("fakes") / "fake.py"), run_name="fake")


def _check_plan(name: str, text: str) -> None:
    fake = _fake_module()
    try:
        fake["Plan"](fake["parse"](text))
    except fake["BadPlan"] as slip:
        raise ValueError(f"the plan of {name!r}: {slip}") from None


@cache
def _default_manifest() -> Any:
    return plain_yaml.load((Path(__file__).parent / "post.yaml").read_bytes()).value


@dataclass(frozen=True, slots=True)
class House:
    """The directories of one case, below ``home``."""

    home: Path

    def build(self) -> None:
        """Make them, with the tool ``post``."""
        for path in (self.root, self.out, self.bin, self.manifests, self.plans):
            path.mkdir(parents=True)
        self.state.mkdir(mode=0o700)
        self.records.mkdir()

    @property
    def root(self) -> Path:
        """Files below it may be frozen."""
        return self.home / "root"

    @property
    def bin(self) -> Path:
        """A trusted directory of commands."""
        return self.home / "bin"

    @property
    def manifests(self) -> Path:
        """The manifests, one a file."""
        return self.home / "manifests"

    @property
    def state(self) -> Path:
        """The executor's private directory."""
        return self.home / "state"

    @property
    def config(self) -> Path:
        """The configuration, if there is one."""
        return self.home / "executor.yaml"

    @property
    def out(self) -> Path:
        """Where the commands may write: their records, and ``sent.log``."""
        return self.root / "out"

    @property
    def plans(self) -> Path:
        """The plans of the fakes."""
        return self.out / "plans"

    @property
    def records(self) -> Path:
        """A directory of records for each fake."""
        return self.out / "records"

    @property
    def sent_log(self) -> Path:
        """A line for everything that was sent."""
        return self.out / "sent.log"

    def names(self) -> dict[str, str]:
        """Give what ``${...}`` can stand for in this house."""
        places = ("home", "root", "out", "bin", "manifests", "state")
        return {name: str(getattr(self, name)) for name in places} | {"python": interpreter()[0]}

    @staticmethod
    def interpreter_directories() -> list[str]:
        """Give the directory that must be trusted for the interpreter's sake, if any."""
        path, tree = interpreter()
        return [] if tree is None else [os.path.dirname(path)]

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Write the configuration."""
        self.config.write_text(json.dumps({"executor": "config/1", **config}), encoding="utf-8")

    # -- manifests ----------------------------------------------------------------------------

    def declare(self, patch: Mapping[str, Any]) -> None:
        """Write the manifest of ``post``, changed by a merge patch."""
        self.write_manifest("post.yaml", merged(_default_manifest(), patch))

    def write_manifest(self, name: str, manifest: Any) -> None:
        """Write a manifest, with ``out`` as one more place to write."""
        if isinstance(manifest, Mapping):
            manifest = dict(manifest)
            isolation = manifest.get("isolation", {})
            if isinstance(isolation, Mapping):
                tree = interpreter()[1]
                opened = {"write": [*_list(isolation, "write"), str(self.out)]}
                if tree is not None:
                    opened["read"] = [*_list(isolation, "read"), tree]
                manifest["isolation"] = {**isolation, **opened}
        (self.manifests / name).write_text(json.dumps(manifest), encoding="utf-8")

    # -- commands -----------------------------------------------------------------------------

    def install(self, name: str, plan: Mapping[str, Any]) -> None:
        """Put a recording fake into the trusted directory, in the place of a command."""
        usual: dict[str, Any] = {"stdout": "id=m-1\n"} if name == "post" else {}
        self.plan(name, usual | dict(plan))
        line = f"PLAN_FILE = {str(self.plans / name)!r}"
        self.program(name, _fake().replace('PLAN_FILE = ""', line, 1))

    def plan(self, name: str, plan: Mapping[str, Any]) -> None:
        """Say what a fake does from now on, in one step: no run sees half of a plan.

        Raises:
            ValueError: the plan has a slip. The fake would refuse it, and that looks like an end.
        """
        directory = self.records / name
        directory.mkdir(exist_ok=True)
        whole = (
            {"record": f"{directory}/", "sent": str(self.sent_log)} | dict(USUAL_PLAN) | dict(plan)
        )
        if whole.get("sent") is None:
            whole.pop("sent_text", None)
        whole = {key: value for key, value in whole.items() if value is not None}
        text = json.dumps(whole)
        _check_plan(name, text)
        draft = self.plans / f".{name}"
        draft.write_text(text, encoding="utf-8")
        draft.replace(self.plans / name)

    def has(self, name: str) -> bool:
        """Say whether a fake stands in the place of this command."""
        return (self.records / name).is_dir()

    def program(self, name: str, script: str) -> Path:
        """Put a Python script into the trusted directory as a command."""
        path = self.bin / name
        path.write_text(f"#!{interpreter()[0]} -IS\n{script}", encoding="utf-8")
        path.chmod(0o755)
        return path

    # -- what happened ------------------------------------------------------------------------

    def recorded(self, command: str | None = None) -> list[dict[str, Any]]:
        """Give what the fakes recorded, the oldest first; of one command, or of all."""
        found = sorted(self._record_files(command), key=lambda entry: entry[0])
        return [json.loads(path.read_bytes()) for _, path in found]

    def _record_files(self, command: str | None) -> Iterator[tuple[tuple[int, int], Path]]:
        for path in self.records.glob(f"{command or '*'}/record-*.json"):
            number = int(path.stem.removeprefix("record-"))
            yield (path.stat().st_mtime_ns, number), path

    def sent(self) -> list[str]:
        """Give the lines of ``sent.log``."""
        try:
            return self.sent_log.read_text(encoding="utf-8", errors="backslashreplace").splitlines()
        except FileNotFoundError:
            return []


def _list(mapping: Mapping[str, Any], key: str) -> list[Any]:
    value = mapping.get(key, [])
    return list(value) if isinstance(value, list | tuple) else [value]
