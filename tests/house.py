"""House: a small place to run one executor in, with the recording fake as its command."""

import itertools
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from executor import AskedBy, Executor, Receipt, Request, open_executor

FAKE = Path(__file__).parent.parent / "fakes" / "fake.py"


def interpreter() -> tuple[str, str | None]:
    """Give a Python that a sandbox can run, and the tree that must be opened for it, if any."""
    for path in ("/usr/bin/python3", "/usr/local/bin/python3"):
        if os.access(path, os.X_OK):
            return path, None
    return os.path.realpath(sys.executable), os.path.realpath(sys.base_prefix)


@dataclass
class House:
    """The directories of one test.

    ``root`` holds files to freeze and writable places, ``bin`` is a trusted directory with the
    fake in it as ``fake``, ``manifests`` and ``state`` are what they say.
    """

    home: Path
    _turns: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _has_turns: bool = True

    def __post_init__(self) -> None:
        for path in (self.root, self.bin, self.manifests):
            path.mkdir(parents=True)
        self.state.mkdir(mode=0o700)
        self.install("fake", FAKE.read_text().split("\n", 1)[1])

    @property
    def root(self) -> Path:
        return self.home / "root"

    @property
    def bin(self) -> Path:
        return self.home / "bin"

    @property
    def manifests(self) -> Path:
        return self.home / "manifests"

    @property
    def state(self) -> Path:
        return self.home / "state"

    def install(self, name: str, script: str) -> Path:
        """Put a Python script into the trusted directory as a command."""
        path = self.bin / name
        path.write_text(f"#!{interpreter()[0]} -IS\n{script}")
        path.chmod(0o755)
        return path

    def file(self, name: str, content: str | bytes = "content\n") -> Path:
        """Write a file below the root."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def manifest(self, **changes: Any) -> dict[str, Any]:
        """Write the manifest of a tool ``test.fake`` that runs the fake with a plan.

        Its argv is ``--plan-json {plan}`` and then one argument for each of ``words``. Exit 0 is
        delivered (result id after ``id=``), exit 64 is undelivered as ``NOTHING_SENT``. A key
        given as ``None`` is left out.
        """
        tree = interpreter()[1]
        manifest: dict[str, Any] = {
            "executor": "manifest/1",
            "tool": "test.fake",
            "summary": "Do what the plan says.",
            "command": "fake",
            "parameters": {
                "plan": {"type": "string", "default": "{}"},
                "words": {"type": "array", "items": {"type": "string"}, "default": []},
                "turn": {"type": "string", "default": ""},
            },
            "argv": [
                ["--plan-json", "{plan}", "--"],
                {"each": "words", "argv": ["{item}"]},
            ],
            "capabilities": [{"name": "compute:pure"}],
            "account": "test",
            "outcomes": [
                {"when": {"exit": 0}, "is": "delivered", "result_id": {"stdout": r"id=(\S+)"}},
                {"when": {"exit": 64}, "is": "undelivered", "code": "NOTHING_SENT"},
            ],
        }
        if tree is not None:
            manifest["isolation"] = {"read": [tree]}
        manifest |= changes
        if manifest["tool"] == "test.fake":
            self._has_turns = "turn" in (manifest["parameters"] or {})
        manifest = {key: value for key, value in manifest.items() if value is not None}
        name = str(manifest["tool"])
        (self.manifests / f"{name}.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False))
        return manifest

    @asynccontextmanager
    async def open(self, **options: Any) -> AsyncIterator[Executor]:
        """Open an executor on this house."""
        if not any(self.manifests.iterdir()):
            self.manifest()
        given: dict[str, Any] = {
            "state": self.state,
            "manifests": [self.manifests],
            "roots": [self.root],
            "trusted": [self.bin, *self.interpreter_directories()],
        }
        async with open_executor(**(given | options)) as executor:
            yield executor

    async def run(self, plan: dict[str, Any] | None = None, *words: str, **options: Any) -> Receipt:
        """Open, run ``test.fake`` once with a plan, and close."""
        async with self.open(**options) as executor:
            return await executor.run(self.request(plan, *words))

    def request(self, plan: dict[str, Any] | None = None, *words: str, **changes: Any) -> Request:
        """Give a request for ``test.fake``, another action each time: one asked twice is a replay.

        Its parameter ``turn`` is in no argument, and tells one from the other.
        """
        parameters: dict[str, Any] = {"plan": json.dumps(plan or {})} | self.turn()
        if words:
            parameters["words"] = list(words)
        given: dict[str, Any] = {
            "tool": "test.fake",
            "asked_by": AskedBy(role="tester"),
            "parameters": parameters,
        }
        return Request(**(given | changes))

    def turn(self) -> dict[str, str]:
        """Give the parameter that makes of the next request another action, if the tool has it."""
        return {"turn": str(next(self._turns))} if self._has_turns else {}

    def leftovers(self) -> list[Path]:
        """Give what is left of staging areas."""
        staging = self.state / "staging"
        return list(staging.iterdir()) if staging.exists() else []

    @staticmethod
    def interpreter_directories() -> list[str]:
        """Give the directory that must be trusted for the interpreter's sake, if any."""
        path, tree = interpreter()
        return [] if tree is None else [os.path.dirname(path)]


def recorded(receipt: Receipt) -> dict[str, Any]:
    """Give what the fake recorded; its plan said ``"record": "stdout"``."""
    assert receipt.finished is not None
    found: dict[str, Any] = json.loads(receipt.finished.stdout.kept.splitlines()[0])
    return found


def has(program: str) -> bool:
    """Say whether a program is installed."""
    return shutil.which(program) is not None
