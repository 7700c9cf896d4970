"""Naive: what a competent script does with a manifest when nobody thinks of an attack.

It fills the argument list without a shell, hands the files over by their own paths, starts the
command, waits for as long as the manifest says, and takes exit 0 for success and anything else for
failure. It checks nothing, copies nothing, remembers nothing, and refuses nothing. How the command
is started is for the two programs beside it.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, NoReturn

import yaml

from tools.peers.wire import Cancelled, Params, Run, Wire

BEFORE_THE_START = ("freeze", "claim", "look-up", "verify", "dispatch", "spawn")
AFTER_THE_END = ("settle", "answer")
_SECONDS = {"ms": 0.001, "s": 1, "min": 60, "h": 3600, "d": 86400}
_USUAL_DEADLINE_S = 60.0

Manifest = Mapping[str, Any]
Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Command:
    """What is to be started. ``environment`` is what the manifest adds, not all of it.

    Attributes:
        write: the paths that the manifest declares for writing.
        network: whether it declares any.
    """

    argv: list[str]
    environment: dict[str, str]
    directory: str
    stdin: bytes | None
    write: list[str]
    network: bool
    deadline_s: float


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
        if run.cancelled:
            return _failed("it was cancelled")
        threading.Thread(target=work, daemon=True).start()
        return ends.get()

    def _run(self, run: Run) -> Any:
        manifest = self._manifest(run.request["tool"])
        with tempfile.TemporaryDirectory() as private:
            values = _values(manifest, run.request, self._secrets(manifest), Path(private))
            command = self._command(manifest, values, Path(private))
            argv, environment = self._wrap(command)
            run.reach(*BEFORE_THE_START)
            done = _start(run, command, argv, environment)
        run.reach(*AFTER_THE_END)
        return _result(manifest, done)

    def _manifest(self, tool: str) -> Manifest:
        for directory in self._opened["manifests"]:
            for path in sorted(Path(directory).glob("*.yaml")):
                found = yaml.safe_load(path.read_text())
                if found["tool"] == tool:
                    return dict(found)
        raise LookupError(f"no manifest of {tool!r}")

    def _secrets(self, manifest: Manifest) -> Manifest:
        """Give where each secret comes from: the configuration wins over the manifest."""
        config = {}
        if self._opened.get("config"):
            config = yaml.safe_load(Path(self._opened["config"]).read_text())
        configured = config.get("secrets", {}).get(manifest["tool"], {})
        declared = manifest.get("secrets", {})
        sources = {name: configured.get(name) or declared[name].get("source") for name in declared}
        return {name: source for name, source in sources.items() if source}

    def _command(self, manifest: Manifest, values: Values, private: Path) -> Command:
        path = os.pathsep.join([*self._opened["trusted"], os.environ.get("PATH", os.defpath)])
        program = shutil.which(manifest["command"], path=path) or manifest["command"]
        directory = os.getcwd()
        if manifest.get("stage"):
            directory = str(private / "work")
            for name, text in manifest["stage"].items():
                _stage(directory, name, text)
        isolation = manifest.get("isolation", {})
        return Command(
            argv=[program, *_arguments(manifest["argv"], values)],
            environment=_environment(manifest, values),
            directory=directory,
            stdin=_stdin(manifest, values),
            write=[_fill(text, values) for text in isolation.get("write", [])],
            network=bool(isolation.get("network")),
            deadline_s=_deadline(manifest),
        )


# -- filling templates -----------------------------------------------------------------------------


def _values(manifest: Manifest, request: Params, sources: Manifest, private: Path) -> Values:
    """Give what the references of templates stand for."""
    declared = manifest.get("parameters", {})
    defaults = {name: one["default"] for name, one in declared.items() if "default" in one}
    files = {name: _paths(given) for name, given in request.get("files", {}).items()}
    secrets = {}
    for name, source in sources.items():
        one = manifest["secrets"][name]
        secret = one.get("text", "{secret}").replace("{secret}", _read_secret(source))
        if one.get("file"):
            (private / name).write_text(secret)
            secret = str(private / name)
        secrets[name] = secret
    return (
        defaults
        | dict(request.get("parameters", {}))
        | {"files": SimpleNamespace(**files), "secrets": SimpleNamespace(**secrets)}
        | {"idempotency_key": uuid.uuid4().hex}
    )


def _fill(text: str, values: Values) -> str:
    return text.format_map({name: _text(value) for name, value in values.items()})


def _text(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, bool | int | float) else value


def _paths(given: Any) -> Any:
    if isinstance(given, list):
        return [_paths(one) for one in given]
    return os.path.abspath(given["path"] if isinstance(given, Mapping) else given)


def _read_secret(source: Manifest) -> str:
    if "file" in source:
        text = Path(source["file"]).read_text()
    elif "environment" in source:
        text = os.environ[source["environment"]]
    else:
        text = subprocess.run(source["command"], capture_output=True, text=True, check=True).stdout
    return text.rstrip("\r\n")


def _look_up(values: Values, name: str) -> Any:
    """Give the value of a name such as ``to`` or ``files.message``; nothing where it is absent."""
    space, dot, key = name.partition(".")
    return getattr(values[space], key, None) if dot else values.get(name)


def _arguments(argv: list[Any], values: Values) -> Iterator[str]:
    for entry in argv:
        if isinstance(entry, str):
            yield _fill(entry, values)
        elif isinstance(entry, list):
            yield from (_fill(text, values) for text in entry)
        elif "each" in entry:
            for item in _look_up(values, entry["each"]) or []:
                yield from (_fill(text, values | {"item": item}) for text in entry["argv"])
        elif _look_up(values, entry["when"]) not in (None, False):
            yield from (_fill(text, values) for text in entry["argv"])


def _environment(manifest: Manifest, values: Values) -> dict[str, str]:
    made = {}
    for name, text in manifest.get("env", {}).items():
        with suppress(KeyError):  # its parameter is absent
            made[name] = _fill(text, values)
    for name, one in manifest.get("secrets", {}).items():
        secret = _look_up(values, f"secrets.{name}")
        if one.get("env") and secret is not None:
            made[one["env"]] = secret
    return made


def _stage(directory: str, name: str, text: str) -> None:
    path = Path(directory) / name
    (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
    if not name.endswith("/"):
        path.write_text(text)


def _stdin(manifest: Manifest, values: Values) -> bytes | None:
    declared = manifest.get("stdin", {})
    if "file" in declared:
        return Path(_look_up(values, f"files.{declared['file']}")).read_bytes()
    return _fill(declared["text"], values).encode() if "text" in declared else None


def _deadline(manifest: Manifest) -> float:
    declared = manifest.get("limits", {}).get("deadline")
    if declared is None:
        return _USUAL_DEADLINE_S
    number, unit = declared.split()
    return float(number) * _SECONDS[unit]


# -- the run ---------------------------------------------------------------------------------------


def _start(
    run: Run, command: Command, argv: list[str], environment: dict[str, str]
) -> subprocess.CompletedProcess[bytes]:
    """Do what `subprocess.run` does, which does not say what process could be cancelled."""
    process = subprocess.Popen(
        argv,
        env=environment,
        cwd=command.directory,
        stdin=None if command.stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    run.on_cancel.append(process.kill)
    try:
        if run.cancelled:  # before there was anything to kill
            raise Cancelled
        stdout, stderr = process.communicate(command.stdin, timeout=command.deadline_s)
    except BaseException:
        process.kill()
        process.wait()
        raise
    return subprocess.CompletedProcess(argv, process.returncode, stdout, stderr)


def _result(manifest: Manifest, done: subprocess.CompletedProcess[bytes]) -> Any:
    streams = {"stdout": done.stdout.decode(errors="replace")}
    streams["stderr"] = done.stderr.decode(errors="replace")
    output = {
        name: {"text": text, "bytes": len(getattr(done, name)), "truncated": False}
        for name, text in streams.items()
    }
    if done.returncode != 0:
        return _failed(f"exit code {done.returncode}") | {"output": output}
    found = {key: _extract(manifest, key, streams) for key in ("result_id", "reply")}
    return _answer("delivered", f"exit code {done.returncode}") | {"output": output} | found


def _extract(manifest: Manifest, key: str, streams: Mapping[str, str]) -> str | None:
    """Take a text out of the output of a command that succeeded, as the manifest says."""
    for outcome in manifest["outcomes"]:
        wanted = outcome.get(key)
        if outcome["is"] != "delivered" or not wanted:
            continue
        [(stream, pattern)] = wanted.items()
        if stream == "json":
            value = json.loads(streams["stdout"])
            for step in pattern.split("."):
                value = value[step]
            return str(value)
        if match := re.search(pattern, streams[stream]):
            return match[1] if match.re.groups else match[0]
    return None


def _failed(because: str) -> dict[str, Any]:
    return _answer("undelivered", because)


def _answer(status: str, because: str) -> dict[str, Any]:
    nothing = ("code", "stage", "recovery", "result_id", "attempt", "action_digest", "receipt")
    more = ("isolation", "rule", "todo", "reply", "ledger", "earlier", "output")
    return {"status": status, "because": because} | dict.fromkeys(nothing + more)


def serve(name: str, wrap: Wrap) -> NoReturn:
    """Be a target that starts commands in this way."""
    naive = Naive(wrap)
    methods = {"open": naive.open, "clock": naive.clock}
    Wire(name, "1", (*BEFORE_THE_START, *AFTER_THE_END), naive.run, methods).serve()
