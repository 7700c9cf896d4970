"""Worker: runs named tests of one copy of a project, in a forked child for each mutant.

Started by path with the copy as its directory, and made of the standard library, psutil and pytest
alone: the project under test may be our own, and what this process has imported a child has too.

It serves two kinds of forks. ``fresh``: everything foreign is imported, nothing of the copy; the
child imports the copy anew, whatever an edit touched. ``collected``: the tests are collected, and
the child only puts new code into the functions that an edit changed.
"""

import builtins
import ctypes
import gc
import importlib
import inspect
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

Asked = dict[str, Any]
_DIE_WITH_PARENT, _SUBREAPER = 1, 36  # prctl(2)
_IN_ACCESS, _IN_NONBLOCK = 0x1, 0o4000  # inotify(7)
_TEXT_KEPT = 20_000
_QUIET = ["-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]


def main() -> None:
    """Serve until nobody asks any more: ``worker.py KIND DESCRIPTOR [PYTEST ARGUMENT ...]``."""
    kind, descriptor, arguments = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    sys.path.insert(0, os.getcwd())
    libc = ctypes.CDLL(None)
    libc.prctl(_SUBREAPER, 1)
    libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    wire = socket.socket(fileno=descriptor)
    os.set_inheritable(descriptor, False)
    import pytest

    if kind == "fresh":

        def run(asked: Asked) -> int:
            once = ["-x"] if asked.get("first_red") else []
            return int(pytest.main([*_QUIET, *once, *asked["ids"]], plugins=[RECORDER]))

        serve(wire, run)
    else:
        sys.exit(pytest.main([*_QUIET, *arguments], plugins=[RECORDER, Collected(wire)]))


# -- what came of each test ------------------------------------------------------------------------


class Recorder:
    """Notes of each item what failed, when, and with which exception."""

    def __init__(self) -> None:
        self.items: dict[str, Asked] = {}
        self.broken: list[str] = []

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.broken.append(_plain(f"{report.nodeid}: {report.longreprtext}"))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.items[nodeid] = {"outcome": "unfinished", "when": None, "seconds": 0.0}

    def pytest_exception_interact(self, node: Any, call: Any) -> None:
        if (found := self.items.get(node.nodeid)) is not None and call.excinfo is not None:
            found["causes"] = sorted(set(_causes(call.excinfo.value)))

    def pytest_runtest_logreport(self, report: Any) -> None:
        found = self.items[report.nodeid]
        found["seconds"] += report.duration
        if report.failed and found["outcome"] != "failed":
            text = _plain(report.longreprtext)
            found |= {"outcome": "failed", "when": report.when, "text": text}
        elif report.skipped:
            found |= {
                "outcome": "skipped",
                "when": report.when,
                "text": _plain(str(report.longrepr)),
            }
        elif report.when == "teardown" and found["outcome"] == "unfinished":
            found |= {"outcome": "passed"}


RECORDER = Recorder()


def _plain(text: str) -> str:
    """Give the end of a text, without what no JSON can hold."""
    return text[-_TEXT_KEPT:].encode("utf-8", "backslashreplace").decode()


def _causes(fault: BaseException) -> Iterator[str]:
    """Name the types of a fault and of all that it is made of, the bases of each included."""
    if isinstance(fault, BaseExceptionGroup):
        for inner in fault.exceptions:
            yield from _causes(inner)
    else:
        for kind in type(fault).__mro__:
            if kind.__module__ in (builtins.__name__, "_pytest.outcomes"):
                yield kind.__name__


# -- serving ---------------------------------------------------------------------------------------


class Collected:
    """Takes over once the tests are collected."""

    def __init__(self, wire: socket.socket) -> None:
        self.wire = wire

    def pytest_collection_finish(self, session: Any) -> None:
        self.by_id: dict[str, list[Any]] = {}
        for item in session.items:
            for node in item.listchain():
                self.by_id.setdefault(node.nodeid, []).append(item)
            self.by_id.setdefault(item.nodeid.partition("[")[0], []).append(item)
        self.by_id |= {item.nodeid: [item] for item in session.items}
        self.functions = Functions()
        gc.freeze()
        found = [item.nodeid for item in session.items]
        tell(self.wire, {"collected": found, "broken": RECORDER.broken})

    def pytest_runtestloop(self, session: Any) -> bool:
        def run(asked: Asked) -> int:
            if "pristine" in asked:
                asked["swapped"] = self.functions.swap(asked["file"], asked["pristine"])
                if not asked["swapped"]:
                    return 0
            chosen = {item for name in asked["ids"] for item in self.by_id.get(name, ())}
            items = [item for item in session.items if item in chosen]
            if asked.get("first_red"):  # then the order is the asker's: the likeliest first
                order = {name: at for at, name in enumerate(asked["ids"])}
                items.sort(key=lambda item: order.get(item.nodeid, len(order)))
            numbers = asked.get("numbers")
            for item, after in zip(items, [*items[1:], None], strict=True):
                if numbers is not None:
                    after = None
                    with open(asked["current"], "r+b") as current:
                        current.write(struct.pack("=Q", numbers[item.nodeid]))
                session.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
                if asked.get("first_red") and RECORDER.items[item.nodeid]["outcome"] == "failed":
                    break
            return 0

        serve(self.wire, run)
        return True


def serve(wire: socket.socket, run: Callable[[Asked], int]) -> None:
    """Fork a child for each request, and tell what came of it."""
    asking = wire.makefile("rb")
    for line in asking:
        asked = json.loads(line)
        if asked["do"] == "import":
            tell(wire, {"imported": preload(asked["modules"])})
        else:
            tell(wire, watched(asked, run))


def tell(wire: socket.socket, told: Asked) -> None:
    """Write one line."""
    wire.sendall(json.dumps(told).encode() + b"\n")


def preload(modules: list[str]) -> int:
    """Import what children would import, each for itself; what cannot be is theirs to fail at."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in modules:
            with suppress(Exception):
                importlib.import_module(name)
    return len(sys.modules)


def watched(asked: Asked, run: Callable[[Asked], int]) -> Asked:
    """Run the named tests in a child, and end all that it leaves."""
    began = time.monotonic()
    watch = Watch(asked["file"]) if asked.get("file") else None
    heard, say = os.pipe()
    child = os.fork()
    if not child:
        os.close(heard)
        _child(asked, run, say)
    os.close(say)
    told, late = _hear(heard, began + asked["seconds"])
    if late:
        _end(child)
    _, status, usage = os.wait4(child, 0)
    _end_leftovers()
    answer: Asked = json.loads(told) if told and not late else {"items": {}, "broken": []}
    return answer | {
        "exit": os.waitstatus_to_exitcode(status),
        "late": late,
        "seconds": time.monotonic() - began,
        "peak": usage.ru_maxrss * 1024,
        "read": watch.was_read() if watch else None,
    }


def _child(asked: Asked, run: Callable[[Asked], int], say: int) -> None:
    code = 70
    try:
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        os.setsid()
        sys.dont_write_bytecode = not asked.get("write_bytecode", False)
        if asked.get("memory"):
            resource.setrlimit(resource.RLIMIT_AS, (asked["memory"], asked["memory"]))
        log = os.open(asked["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        code = int(run(asked))
        foreign = [] if not asked.get("modules") else _foreign_modules()
        answer = {
            "items": RECORDER.items,
            "broken": RECORDER.broken,
            "pytest": code,
            "swapped": asked.get("swapped"),
            "modules": foreign,
        }
        with open(say, "wb") as wire:
            wire.write(json.dumps(answer).encode())
        code = 0
    except BaseException as fault:
        os.write(2, f"{type(fault).__name__}: {fault}\n".encode("utf-8", "backslashreplace"))
    finally:
        os._exit(code)


def _hear(heard: int, until: float) -> tuple[bytes, bool]:
    """Read all that is said; whether it came too late."""
    told = b""
    try:
        while True:
            left = until - time.monotonic()
            if left <= 0 or not select.select([heard], [], [], left)[0]:
                return told, True
            block = os.read(heard, 1 << 16)
            if not block:
                return told, False
            told += block
    finally:
        os.close(heard)


def _end(child: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)


def _end_leftovers() -> None:
    """End what a child left behind: it is our child now, and so is what that leaves in turn."""
    import psutil

    while True:
        left = psutil.Process().children(recursive=True)
        if not left:
            return
        for one in left:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.002)


def _foreign_modules() -> list[str]:
    """Name what is imported from outside the copy, in the order in which it was imported."""
    here = os.path.join(os.getcwd(), "")
    return [
        name
        for name, module in list(sys.modules.items())
        if (file := getattr(module, "__file__", None)) and not file.startswith(here)
    ]


# -- the proof, and the swap -----------------------------------------------------------------------


class Watch:
    """Sees whether anybody reads a file, in whatever process, from now on (inotify)."""

    def __init__(self, path: str) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(_IN_NONBLOCK | os.O_CLOEXEC)
        added = libc.inotify_add_watch(self._descriptor, os.fsencode(path), _IN_ACCESS)
        if self._descriptor < 0 or added < 0:
            raise OSError(ctypes.get_errno(), "inotify cannot watch", path)

    def was_read(self) -> bool:
        """Say whether it was; then stop watching."""
        try:
            return bool(os.read(self._descriptor, struct.calcsize("iIII")))
        except BlockingIOError:
            return False
        except OSError:  # an event that is longer than what we read: there was one
            return True
        finally:
            os.close(self._descriptor)


class Functions:
    """The functions of the copy that are there once its tests are collected."""

    def __init__(self) -> None:
        here = os.path.join(os.getcwd(), "")
        self._by_place: dict[tuple[str, str, int], list[types.FunctionType]] = {}
        for one in gc.get_objects():
            if isinstance(one, types.FunctionType) and one.__code__.co_filename.startswith(here):
                self._by_place.setdefault(_place(one.__code__), []).append(one)

    def swap(self, path: str, pristine: str) -> int:
        """Put the code that a file has now into the functions that were made from it before.

        Args:
            pristine: the text from which they were made.
        Returns:
            how many functions have new code; 0 where that would not be the whole of the edit.
        """
        before = compile(pristine, path, "exec", dont_inherit=True)
        with open(path, "rb") as file:
            after = compile(file.read(), path, "exec", dont_inherit=True)
        swaps = []
        for old, new in changed(before, after):
            found = self._by_place.get(_place(old))
            if old.co_name.startswith("<") or old.co_freevars != new.co_freevars or not found:
                return 0
            swaps += [(one, new) for one in found]
        for one, new in swaps:
            one.__code__ = new
        return len(swaps)


def _place(code: types.CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def changed(before: types.CodeType, after: types.CodeType) -> Iterator[Any]:
    """Give the pairs of codes in which two modules differ, as far inside as they can be told."""
    if _frame(before) != _frame(after):
        yield before, after
        return
    olds, news = _inner(before), _inner(after)
    for old, new in zip(olds, news, strict=True):
        if _whole(old) == _whole(new):
            continue
        if old.co_flags & inspect.CO_NEWLOCALS and not old.co_name.startswith("<"):
            yield old, new
        else:
            yield from changed(old, new)


def _inner(code: types.CodeType) -> list[types.CodeType]:
    return [one for one in code.co_consts if isinstance(one, types.CodeType)]


def _frame(code: types.CodeType) -> Any:
    """Give what a code is, without its lines and without the codes inside it."""
    consts = [
        ("code", one.co_name) if isinstance(one, types.CodeType) else (type(one), repr(one))
        for one in code.co_consts
    ]
    return (
        code.co_code, consts, code.co_names, code.co_varnames, code.co_freevars,
        code.co_cellvars, code.co_flags, code.co_argcount, code.co_kwonlyargcount,
        code.co_posonlyargcount, code.co_name, code.co_exceptiontable,
    )  # fmt: skip


def _whole(code: types.CodeType) -> Any:
    return _frame(code), [_whole(one) for one in _inner(code)]


if __name__ == "__main__":
    main()
