"""Naive: what a competent script does with a manifest when nobody thinks of an attack.

It fills the argument list without a shell, copies the files into a temporary directory, starts
the command there, waits for as long as the manifest says, and takes exit 0 for success and anything
else for failure. It checks nothing, remembers nothing, and refuses nothing. How the command is
started is for the two programs beside it.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NoReturn

import yaml

from tools.peers import filling
from tools.peers.filling import Manifest, Values
from tools.peers.wire import Cancelled, Params, Run, Wire

BEFORE_THE_START = ("freeze", "claim", "look-up", "verify", "dispatch", "spawn")
AFTER_THE_END = ("settle", "answer")
_USUAL_DEADLINE = "60 s"


@dataclass(frozen=True, slots=True)
class Command:
    """What is to be started.

    Attributes:
        environment: what the manifest adds, not all of it.
        directory: the working directory, with the files in it.
        write: the paths that the manifest declares for writing.
        network: whether it declares any.
    """

    argv: list[str]
    environment: dict[str, str]
    directory: Path
    write: list[str]
    network: bool


Wrap = Callable[[Command], tuple[list[str], dict[str, str]]]
"""Gives the argument list and the whole environment with which a command is started."""


class Naive:
    """The script, as a target."""

    def __init__(self, wrap: Wrap) -> None:
        self._wrap = wrap
        self._opened: Params = {}

    def open(self, params: Params) -> Any:
        """Remember where things are."""
        self._opened = params
        return {}

    def clock(self, _: Params) -> Any:
        """Do nothing: what time it is decides nothing here."""
        return {}

    def run(self, run: Run) -> Any:
        """Run one request; whatever goes wrong is a failure, as an exit code of 1 would be."""
        ends: SimpleQueue[Any] = SimpleQueue()

        def work() -> None:
            try:
                ends.put(self._run(run))
            except Cancelled:
                ends.put(_failed("it was cancelled"))
            except Exception as fault:
                ends.put(_failed(f"{type(fault).__name__}: {fault}"))

        # What a killed command leaves behind can keep its pipes, and with them the thread.
        run.on_cancel.append(lambda: ends.put(_failed("it was cancelled")))
        threading.Thread(target=work, daemon=True).start()
        return ends.get()

    def _run(self, run: Run) -> Any:
        request = run.request
        manifest = self._manifest(request["tool"])
        with tempfile.TemporaryDirectory() as made:
            directory = Path(made) / "work"
            files = filling.files_of(manifest, request.get("files", {}))
            secrets = self._secrets(manifest, Path(made))
            values = filling.values_of(manifest, request.get("parameters", {}), files, secrets)
            argv, environment = self._wrap(self._command(manifest, values, directory))
            run.reach(*BEFORE_THE_START)
            _stage(directory, manifest.get("stage", {}))
            for file in filling.flat(files):
                shutil.copy(file.source, directory / file.name)
            stdin = _stdin(manifest, values, directory)
            deadline = manifest.get("limits", {}).get("deadline", _USUAL_DEADLINE)
            done = _start(run, argv, environment, directory, stdin, filling.seconds(deadline))
        run.reach(*AFTER_THE_END)
        return _result(manifest, done)

    def _manifest(self, tool: str) -> Manifest:
        for directory in self._opened["manifests"]:
            for path in sorted(Path(directory).glob("*.yaml")):
                found = yaml.safe_load(path.read_text())
                if found["tool"] == tool:
                    return dict(found)
        raise LookupError(f"no manifest of {tool!r}")

    def _command(self, manifest: Manifest, values: Values, directory: Path) -> Command:
        path = os.pathsep.join([*self._opened["trusted"], os.environ.get("PATH", os.defpath)])
        program = shutil.which(manifest["command"], path=path) or manifest["command"]
        isolation = manifest.get("isolation", {})
        return Command(
            argv=[program, *filling.arguments(manifest["argv"], values)],
            environment=filling.environment(manifest, values),
            directory=directory,
            write=[filling.fill(text, values) for text in isolation.get("write", [])],
            network=bool(isolation.get("network")),
        )

    def _secrets(self, manifest: Manifest, private: Path) -> dict[str, str]:
        """Give each secret that has a source; of one that the command reads as a file, its path."""
        config = {}
        if self._opened["config"]:
            config = yaml.safe_load(Path(self._opened["config"]).read_text())
        configured = config.get("secrets", {}).get(manifest["tool"], {})
        found = {}
        for name, one in manifest.get("secrets", {}).items():
            source = configured.get(name) or one.get("source")
            if source is None:
                continue
            found[name] = one.get("text", "{secret}").replace("{secret}", _read_secret(source))
            if one.get("file"):
                (private / name).write_text(found[name])
                found[name] = str(private / name)
        return found


def _read_secret(source: Manifest) -> str:
    if "file" in source:
        text = Path(source["file"]).read_text()
    elif "environment" in source:
        text = os.environ[source["environment"]]
    else:
        text = subprocess.run(source["command"], capture_output=True, text=True, check=True).stdout
    return text.rstrip("\r\n")


def _stage(directory: Path, texts: Mapping[str, str]) -> None:
    directory.mkdir()
    for name, text in texts.items():
        path = directory / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.write_text(text)


def _stdin(manifest: Manifest, values: Values, directory: Path) -> bytes | None:
    declared = manifest.get("stdin", {})
    if "file" in declared:
        name = str(filling.look_up(values, f"files.{declared['file']}"))
        return (directory / name).read_bytes()
    return filling.fill(declared["text"], values).encode() if "text" in declared else None


def _start(
    run: Run,
    argv: list[str],
    environment: dict[str, str],
    directory: Path,
    stdin: bytes | None,
    deadline_s: float,
) -> subprocess.CompletedProcess[bytes]:
    """Do what `subprocess.run` does, which does not say what process could be cancelled."""
    process = subprocess.Popen(
        argv,
        env=environment,
        cwd=directory,
        stdin=None if stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    run.on_cancel.append(process.kill)
    try:
        if run.cancelled:  # before there was anything to kill
            raise Cancelled
        stdout, stderr = process.communicate(stdin, timeout=deadline_s)
    except BaseException:
        process.kill()
        process.wait()
        raise
    return subprocess.CompletedProcess(argv, process.returncode, stdout, stderr)


# -- the answer ------------------------------------------------------------------------------------


def _result(manifest: Manifest, done: subprocess.CompletedProcess[bytes]) -> Any:
    streams = {"stdout": done.stdout, "stderr": done.stderr}
    texts = {name: kept.decode(errors="replace") for name, kept in streams.items()}
    output = {
        name: {"text": texts[name], "bytes": len(kept), "truncated": False}
        for name, kept in streams.items()
    }
    if done.returncode != 0:
        return _failed(f"exit code {done.returncode}") | {"output": output}
    found = {key: _extract(manifest, key, texts) for key in ("result_id", "reply")}
    return _answer("delivered", "exit code 0") | {"output": output} | found


def _extract(manifest: Manifest, key: str, texts: Mapping[str, str]) -> str | None:
    """Take a text out of the output of a command that succeeded, as the manifest says."""
    for outcome in manifest["outcomes"]:
        wanted = outcome.get(key)
        if outcome["is"] != "delivered" or not wanted:
            continue
        [(stream, pattern)] = wanted.items()
        if stream == "json":
            value = json.loads(texts["stdout"])
            for step in pattern.split("."):
                value = value[step]
            return str(value)
        if match := re.search(pattern, texts[stream]):
            return match[1] if match.re.groups else match[0]
    return None


def _failed(because: str) -> dict[str, Any]:
    return _answer("undelivered", because)


def _answer(status: str, because: str) -> dict[str, Any]:
    unknown = (
        *("code", "stage", "recovery", "result_id", "attempt", "action_digest", "receipt"),
        *("isolation", "rule", "todo", "reply", "ledger", "earlier", "output"),
    )
    return dict.fromkeys(unknown) | {"status": status, "because": because}


def serve(name: str, wrap: Wrap) -> NoReturn:
    """Be a target that starts commands in this way."""
    naive = Naive(wrap)
    methods = {"open": naive.open, "clock": naive.clock}
    Wire(name, "1", (*BEFORE_THE_START, *AFTER_THE_END), naive.run, methods).serve()
