#!/usr/bin/python3 -IS
"""A recording fake command: notes what it was given, then does the one awkward thing asked of it.

Knows its own plan (README.md beside this file) and what a process can see of itself.  Leaves to
others what the recording should have been: it judges nothing, and knows nothing of the executor.

One file, so that it can be staged alone; started hundreds of times by a test run, so that it
imports late and little: ``json``, ``signal`` and ``socket`` cost more than the interpreter itself.
"""

import errno
import os
import sys

TYPE_CHECKING = False  # type checkers take this name for true; importing typing costs 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable

PLAN_FILE = ""  # in an installed copy: where its plan lies; then no argument is taken for one

PLAN_FAULT = 64  # EX_USAGE: the plan cannot be followed as written, and nothing of it was done
OUR_FAULT = 70  # EX_SOFTWARE: a bug of the fake; never 1, which a plan may ask for
OS_FAULT = 71  # EX_OSERR: the system did not let us do the awkward thing
IO_FAULT = 74  # EX_IOERR: a record, an effect or an output could not be written

BLOCK = 65536
STDIN_CAP = 1 << 20
SMALL = 4096  # a file up to this size is recorded with its content
READ_CAP = 64 << 20  # "read" may be pointed at a device without end
ENTRIES_CAP = 2_000  # a listing of a whole host would never end
ENVIRON_CAP = 1 << 20
CHILD_S = 300  # plain children and the bomb's end by themselves if a test forgets them
CONNECT_S = 5
EXEC_S = 10
DAEMON_NAME = b"late-daemon"

SIGINT, SIGKILL, SIGPIPE, SIGTERM, SIGHUP, SIGXFSZ = 2, 9, 13, 15, 1, 25
NOT_DEADLY = {17, 18, 19, 20, 21, 22, 23, 28}  # CHLD CONT STOP TSTP TTIN TTOU URG WINCH
GLIBC_OWN = {32, 33}

WORDS = (
    "hang",
    "ignore-term-and-hang",
    "flood",
    "not-utf8",
    "sent-then-crash",
    "sent-then-hang",
    "close-stdout-and-hang",
)
DEEDS = {
    "exit": (),
    "sleep": ("exit", "sleep_writes"),
    "daemon": ("daemon_clean_env", "daemon_writes"),
    "children": ("sleep",),
    "flood": (),
    "signal": (),
    "fork-bomb": (),
}
TRIES = {
    "write": ("text",),
    "read": (),
    "connect": (),
    "listdir": (),
    "fork": (),
    "alloc": (),
    "exec": (),
}
KEYS = (
    "record",
    "environs",
    "stdin_wait",
    "try",
    "sent",
    "sent_text",
    "stdout",
    "stderr",
    "print",
    "done",
    "then",
)

Map = dict[str, object]
Output = tuple[int, bytes, int]  # descriptor, what to write over and over, how many bytes in all


class BadPlan(Exception):
    """The plan cannot be followed as written; nothing of it was done."""


# ---- the plan: checked whole before anything is done, so that a slip never looks like a pass


def parse(text: str) -> object:
    """JSON to values; a key given twice is refused.

    Only the C scanner behind ``json`` is used: ``json`` itself imports ``re`` and doubles the
    start time.
    """
    from _json import make_scanner

    class Context:
        strict = True
        object_hook = None
        parse_float = float
        parse_int = int

        @staticmethod
        def parse_constant(name: str) -> object:
            raise BadPlan(f"{name} is not JSON")

        @staticmethod
        def object_pairs_hook(pairs: list[tuple[str, object]]) -> Map:
            value = dict(pairs)
            if len(value) < len(pairs):
                raise BadPlan(f"a key twice among {[name for name, _ in pairs]}")
            return value

    text = text.strip(" \t\r\n")
    try:
        # typeshed asks for a scanner here; the C code reads these six attributes and no more
        value, end = make_scanner(Context)(text, 0)  # type: ignore[arg-type,unused-ignore]
    except (ValueError, StopIteration, RecursionError, SystemError):
        raise BadPlan(f"not JSON: {what_is_wrong(text)}") from None
    if end != len(text):
        raise BadPlan(f"not JSON: something follows character {end}")
    return value


def what_is_wrong(text: str) -> str:
    """In the words of ``json``, which the bare scanner cannot find (its SystemError)."""
    import json

    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        return str(error)
    return "but json takes it: a bug of the fake"


def mapping(where: str, value: object, known: tuple[str, ...]) -> Map:
    if not isinstance(value, dict):
        raise BadPlan(f"{where} must be an object")
    for key in value:
        if key not in known:
            raise BadPlan(f"unknown key {key!r} in {where}; known: {', '.join(known)}")
    return value


def sequence(where: str, value: object) -> list[object]:
    if not isinstance(value, list):
        raise BadPlan(f"{where} must be a list")
    return value


def octets(where: str, value: object) -> bytes:
    if not isinstance(value, str):
        raise BadPlan(f"{where} must be text")
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise BadPlan(f"{where} holds a lone surrogate that stands for no byte") from None


def path(where: str, value: object) -> bytes:
    found = octets(where, value)
    if not found or b"\0" in found:
        raise BadPlan(f"{where} must be a path")
    return found


def whole(where: str, value: object, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise BadPlan(f"{where} must be a whole number from {least} to {most}")
    return value


def seconds(where: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1e6:
        raise BadPlan(f"{where} must be a number of seconds from 0 to 1000000")
    return value


def argv_of(where: str, value: object) -> list[bytes]:
    words = [octets(where, word) for word in sequence(where, value)]
    if not words or not words[0] or any(b"\0" in word for word in words):
        raise BadPlan(f"{where} must be a command and its arguments")
    return words


def address(where: str, value: object) -> tuple[str, int]:
    host, _, port = octets(where, value).decode("utf-8", "replace").rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise BadPlan(f"{where} must be host:port")
    return host.strip("[]"), int(port)


def output(where: str, stream: object, value: object) -> Output:
    if stream not in ("stdout", "stderr"):
        raise BadPlan(f"{where} must name stdout or stderr")
    number = 1 if stream == "stdout" else 2
    if isinstance(value, str):
        data = octets(where, value)
        return number, data, len(data)
    shape = mapping(where, value, ("base64", "repeat", "bytes"))
    if shape.keys() == {"base64"}:
        from binascii import a2b_base64

        try:
            data = a2b_base64(octets(where, shape["base64"]), strict_mode=True)
        except ValueError as error:
            raise BadPlan(f"{where}: {error}") from None
        return number, data, len(data)
    if shape.keys() == {"repeat", "bytes"}:
        data = octets(where, shape["repeat"])
        if not data:
            raise BadPlan(f"{where}: repeat must not be empty")
        return number, data, whole(where, shape["bytes"], 0, 1 << 40)
    raise BadPlan(f'{where} must be text, {{"base64": ...}} or {{"repeat": ..., "bytes": ...}}')


def deed(where: str, value: object, known: dict[str, tuple[str, ...]]) -> tuple[str, Map]:
    """The one thing asked for in an object: the first known key all of whose company is welcome."""
    if not isinstance(value, dict):
        raise BadPlan(f"{where} must be an object")
    for name, options in known.items():
        if name in value and all(key == name or key in options for key in value):
            return name, value
    raise BadPlan(f"{where}: {list(value)} is none of {known}")


class Plan:
    """A plan found good."""

    def __init__(self, value: object) -> None:
        plan = mapping("the plan", value, KEYS)
        self.record = path("record", plan["record"]) if "record" in plan else b""
        if self.record not in (b"", b"stdout", b"stderr") and b"/" not in self.record:
            raise BadPlan("record must be stdout, stderr or a directory written with a slash")
        self.environs = plan.get("environs", "names")
        if self.environs not in ("none", "names", "full"):
            raise BadPlan("environs must be none, names or full")
        self.stdin_wait = seconds("stdin_wait", plan.get("stdin_wait", 0.5))
        if not self.record:
            for key in ("environs", "stdin_wait", "try"):
                if key in plan:
                    raise BadPlan(f"{key} without record would be lost")
        self.tries = [attempt(one) for one in sequence("try", plan.get("try", []))]

        self.sent = path("sent", plan["sent"]) if "sent" in plan else b""
        self.sent_text = octets("sent_text", plan["sent_text"]) if "sent_text" in plan else None
        if self.sent_text is not None and (not self.sent or b"\n" in self.sent_text):
            raise BadPlan("sent_text must be one line, and needs sent")

        printed = sequence("print", plan.get("print", []))
        for stream in ("stdout", "stderr"):
            if stream in plan and "print" in plan:
                raise BadPlan(f"{stream} beside print: say the order in print alone")
            if stream in plan:
                printed.append([stream, plan[stream]])
        self.prints: list[Output] = []
        for pair in printed:
            if not isinstance(pair, list) or len(pair) != 2:
                raise BadPlan("print must be a list of [stream, what]")
            self.prints.append(output("print", pair[0], pair[1]))
        self.done = path("done", plan["done"]) if "done" in plan else b""

        self.then: str
        self.options: Map = {}
        then = plan.get("then", {"exit": 0})
        if not isinstance(then, str):
            self.then, self.options = deed("then", then, DEEDS)
        elif then in WORDS:
            self.then = then
        else:
            raise BadPlan(f"then: {then!r} is none of {', '.join(WORDS)}")
        if self.then.startswith("sent-") and (not self.sent or self.prints or self.done):
            raise BadPlan(f"{self.then} needs sent, and comes before any print or done")
        self.check_options()

    def check_options(self) -> None:
        what = self.options
        self.exit = whole("exit", what.get("exit", 0), 0, 255)
        self.sleep = seconds("sleep", what.get("sleep", CHILD_S))
        self.daemon = seconds("daemon", what.get("daemon", 0))
        self.clean_env = what.get("daemon_clean_env", False)
        if not isinstance(self.clean_env, bool):
            raise BadPlan("daemon_clean_env must be true or false")
        self.late = b""
        for key in ("daemon_writes", "sleep_writes"):
            if key in what:
                self.late = os.path.abspath(path(key, what[key]))
        self.children = whole("children", what.get("children", 1), 1, 10_000)
        self.flood = whole("flood", what.get("flood", 0), 0, 1 << 40)
        self.bomb = whole("fork-bomb", what.get("fork-bomb", 1), 1, 10_000)
        self.signal = whole("signal", what.get("signal", SIGKILL), 1, 64)
        if self.signal in NOT_DEADLY or self.signal in GLIBC_OWN:
            raise BadPlan(f"signal {self.signal} does not end a process")


def plan_in(words: list[str]) -> tuple[Plan, list[bytes]]:
    """The plan, and all other arguments; a second ``--plan`` is an argument like any other."""
    if PLAN_FILE:
        return plan_from(read_plan(PLAN_FILE)), [os.fsencode(word) for word in words]
    for at, word in enumerate(words):
        if word not in ("--plan", "--plan-json"):
            continue
        if at + 1 == len(words):
            raise BadPlan(f"{word} needs a value")
        given = words[at + 1]
        plan = plan_from(read_plan(given) if word == "--plan" else os.fsencode(given))
        return plan, [os.fsencode(other) for other in words[:at] + words[at + 2 :]]
    raise BadPlan("--plan FILE or --plan-json JSON is missing")


def read_plan(name: str) -> bytes:
    try:
        with open(os.fsencode(name), "rb") as file:
            return file.read()
    except OSError as error:
        raise BadPlan(str(error)) from None


def plan_from(raw: bytes) -> Plan:
    try:
        return Plan(parse(raw.decode()))
    except UnicodeDecodeError as error:
        raise BadPlan(f"not UTF-8: {error}") from None


# ---- the record


def dump(value: object) -> str:
    """A value as one line of JSON, ASCII only; a byte that is not UTF-8 shows as \\udcXX."""
    from _json import encode_basestring_ascii as quoted

    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(k)}: {dump(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(dump, value)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    raise TypeError(f"{value!r} has no place in a record")


def shown(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def base64(data: bytes) -> str | None:
    """What the text form cannot show to every JSON reader; None when it can."""
    try:
        data.decode()
    except UnicodeDecodeError:
        from binascii import b2a_base64

        return b2a_base64(data, newline=False).decode()
    return None


def note(into: Map, key: str, data: bytes) -> None:
    """``key``, and ``key_base64`` beside it when the bytes are not UTF-8."""
    into[key] = shown(data)
    coded = base64(data)
    if coded is not None:
        into[key + "_base64"] = coded


def note_list(into: Map, key: str, items: list[bytes]) -> None:
    """The same for a list: ``key_base64`` maps an index to the item's bytes."""
    into[key] = [shown(item) for item in items]
    coded = {str(at): code for at, item in enumerate(items) if (code := base64(item)) is not None}
    if coded:
        into[key + "_base64"] = coded


def note_map(into: Map, key: str, items: dict[bytes, bytes]) -> None:
    """The same for a map: ``key_base64`` maps the shown name to the value's bytes."""
    into[key] = {shown(name): shown(value) for name, value in items.items()}
    coded = {
        shown(name): code for name, value in items.items() if (code := base64(value)) is not None
    }
    if coded:
        into[key + "_base64"] = coded


def error_name(error: OSError) -> str:
    if isinstance(error, TimeoutError) and error.errno is None:
        return "ETIMEDOUT"
    if type(error).__name__ == "gaierror":
        import socket

        names = [name for name in dir(socket) if name.startswith("EAI_")]
        return next((n for n in names if getattr(socket, n) == error.errno), str(error.errno))
    return errno.errorcode.get(error.errno or 0, str(error.errno))


def read_file(name: bytes | str, cap: int) -> bytes:
    with open(name, "rb", buffering=0) as file:
        got = bytearray()
        while len(got) < cap and (more := file.read(min(BLOCK, cap - len(got)))):
            got += more
        return bytes(got)


def sha256(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def observe(plan: Plan, argv: list[bytes]) -> Map:
    """Everything there is to see, before the fake changes anything of itself."""
    seen: Map = {}
    unseen: Map = {}
    looks: dict[str, Callable[[Map], None]] = {
        "fds": look_at_descriptors,  # first: whatever we open later must not be among them
        "status": look_at_status,
        "env": look_at_environment,
        "ids": look_at_ids,
        "tty": look_at_terminal,
        "limits": look_at_limits,
        "cwd": look_at_cwd,
        "environs": lambda into: look_at_environs(into, str(plan.environs)),
        "interfaces": look_at_interfaces,
        "root": lambda into: note_list(into, "root", sorted(os.listdir(b"/"))),
        "stdin": lambda into: look_at_stdin(into, plan.stdin_wait),
    }
    for name, look in looks.items():
        try:
            look(seen)
        except OSError as error:
            unseen[name] = error_name(error)
        except LookupError as error:  # this kernel does not say
            unseen[name] = repr(error)
    note(seen, "argv0", os.fsencode(sys.argv[0]))
    note_list(seen, "argv", argv)
    seen["try"] = [result_of(*one) for one in plan.tries]
    seen["unseen"] = unseen
    return seen


def look_at_descriptors(into: Map) -> None:
    found = {}
    for number in sorted(os.listdir(b"/proc/self/fd"), key=int):
        try:
            found[number] = os.readlink(b"/proc/self/fd/" + number)
        except FileNotFoundError:  # the listing's own, closed by now
            continue
    note_map(into, "fds", found)


def look_at_status(into: Map) -> None:
    """The kernel's own words on signals, capabilities and filters."""
    wanted = ("Cap", "Sig", "NoNewPrivs", "Seccomp")
    status: dict[str, str] = {}
    for line in read_file("/proc/self/status", BLOCK).decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(":")
        if name.startswith(wanted) and name not in ("SigQ", "SigPnd"):
            status[name] = value.strip()
    into["status"] = dict(status)
    # The interpreter itself ignores these two at its start: what the caller did is not known.
    ours = {SIGPIPE, SIGXFSZ}
    into["signals_ignored"] = [n for n in numbers(status["SigIgn"]) if n not in ours]
    into["signals_blocked"] = [*numbers(status["SigBlk"])]


def numbers(mask: str) -> list[int]:
    bits = int(mask, 16)
    return [n for n in range(1, 65) if bits >> (n - 1) & 1]


def look_at_environment(into: Map) -> None:
    """As the kernel handed it over: in the C locale Python adds an LC_CTYPE of its own."""
    note_list(into, "cmdline", read_file("/proc/self/cmdline", 1 << 24).split(b"\0")[:-1])
    entries = own_environ()
    note_list(into, "env_list", entries)
    note_map(into, "env", dict(entry.partition(b"=")[::2] for entry in entries))


def own_environ() -> list[bytes]:
    return [entry for entry in read_file("/proc/self/environ", 1 << 24).split(b"\0") if entry]


def look_at_ids(into: Map) -> None:
    into["uid"], into["euid"], into["suid"] = os.getresuid()
    into["gid"], into["egid"], into["sgid"] = os.getresgid()
    into["groups"] = [*os.getgroups()]
    into["pid"], into["ppid"] = os.getpid(), os.getppid()
    into["pgid"], into["sid"] = os.getpgrp(), os.getsid(0)
    umask = os.umask(0)
    os.umask(umask)
    into["umask"] = f"{umask:04o}"


def look_at_terminal(into: Map) -> None:
    tty = int(own_stat(7))
    into["tty"] = f"{os.major(tty)}:{os.minor(tty)}" if tty else None


def own_stat(field: int) -> bytes:
    """Field ``field`` of /proc/self/stat, numbered as in proc(5)."""
    return read_file("/proc/self/stat", BLOCK).rpartition(b")")[2].split()[field - 3]


def look_at_limits(into: Map) -> None:
    import resource

    limits: Map = {}
    for name in sorted(vars(resource)):
        if name.startswith("RLIMIT_"):
            pair = resource.getrlimit(getattr(resource, name))
            limits[name] = ["unlimited" if n == resource.RLIM_INFINITY else n for n in pair]
    into["limits"] = limits


def look_at_cwd(into: Map) -> None:
    here = os.getcwdb()
    note(into, "cwd", here)
    found: list[object] = []
    into["files_cut"] = not walk(here, b"", found)
    into["files"] = found


def walk(base: bytes, below: bytes, found: list[object]) -> bool:
    """List depth first, in order of name; False when the listing was cut short."""
    whole_list = True
    where = os.path.join(base, below)
    if where.rstrip(b"/") in (b"/proc", b"/sys", b"/dev"):
        return True
    for name in sorted(os.listdir(where)):
        if len(found) >= ENTRIES_CAP:
            return False
        entry: Map = {}
        found.append(entry)
        note(entry, "path", os.path.join(below, name))
        try:
            kind = describe(os.path.join(where, name), entry)
            if kind == "dir":
                whole_list &= walk(base, os.path.join(below, name), found)
        except OSError as error:
            entry["errno"] = error_name(error)
    return whole_list


def describe(name: bytes, entry: Map) -> str:
    info = os.lstat(name)
    kinds = {1: "fifo", 2: "char", 4: "dir", 6: "block", 8: "file", 10: "link", 12: "socket"}
    kind = kinds[info.st_mode >> 12]
    entry.update(type=kind, mode=f"{info.st_mode & 0o7777:04o}", size=info.st_size)
    entry.update(uid=info.st_uid, gid=info.st_gid, links=info.st_nlink)
    if kind == "link":
        note(entry, "target", os.readlink(name))
    if kind == "file":
        note_content(name, entry)
    return kind


def note_content(name: bytes, entry: Map, cap: int = 1 << 50) -> None:
    """Size, hash and, when small, content: all of one reading; ``cut`` if that met the cap."""
    import hashlib

    # NONBLOCK: a fifo put in the file's place must not hold us
    number = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        digest, size, head = hashlib.sha256(), 0, b""
        while size < cap and (block := os.read(number, BLOCK)):
            digest.update(block)
            size += len(block)
            head = (head + block)[: SMALL + 1]
    finally:
        os.close(number)
    entry.update(size=size, sha256=digest.hexdigest())
    if size >= cap:
        entry["cut"] = True
    if size <= SMALL:
        note(entry, "content", head)


def look_at_environs(into: Map, how: str) -> None:
    """Every process's environment that we are allowed to read (case 07).

    Values are kept only when the plan says ``full``: outside a sandbox they are the secrets of
    whoever runs the tests, and a record is a file.
    """
    if how == "none":
        return
    found: Map = {}
    for pid in sorted((n for n in os.listdir("/proc") if n.isdecimal()), key=int):
        one: Map = {}
        try:
            raw = read_file(f"/proc/{pid}/environ", ENVIRON_CAP)
        except (FileNotFoundError, ProcessLookupError):  # ended meanwhile
            continue
        except OSError as error:
            found[pid] = {"errno": error_name(error)}
            continue
        entries = [entry for entry in raw.split(b"\0") if entry]
        note_list(one, "names", [entry.partition(b"=")[0] for entry in entries])
        if how == "full":
            note_list(one, "env_list", entries)
        found[pid] = one
    into["environs"] = found


def look_at_interfaces(into: Map) -> None:
    lines = read_file("/proc/self/net/dev", 1 << 20).splitlines()[2:]
    note_list(into, "interfaces", [line.partition(b":")[0].strip() for line in lines])


def look_at_stdin(into: Map, wait: float) -> None:
    """Up to a cap, and whether the end was seen; a writer silent for ``wait`` seconds has not
    ended."""
    import select

    os.fstat(0)  # a closed descriptor is unseen, not empty
    poll = select.poll()
    poll.register(0, select.POLLIN)
    got, at_eof = bytearray(), False
    while len(got) <= STDIN_CAP and poll.poll(wait * 1000):
        block = os.read(0, min(BLOCK, STDIN_CAP + 1 - len(got)))
        if not block:
            at_eof = True
            break
        got += block
    note(into, "stdin", bytes(got[:STDIN_CAP]))
    into["stdin_bytes"] = min(len(got), STDIN_CAP)
    into["stdin_at_eof"] = at_eof


def write_record(target: bytes, record: Map) -> None:
    line = dump(record).encode() + b"\n"
    if target in (b"stdout", b"stderr"):
        write(1 if target == b"stdout" else 2, line)
        return
    # A random name, not our pid: two sandboxes have the same pids.
    draft = os.path.join(target, b".record-" + os.urandom(8).hex().encode())
    number = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        write(number, line)
        count = 1
        while True:
            try:  # a link, not a rename: it never replaces the record of another run
                os.link(draft, os.path.join(target, b"record-%d.json" % count))
                return
            except FileExistsError:
                count += 1
    finally:
        os.close(number)
        os.unlink(draft)


# ---- things to try; each ends by itself and leaves nothing running


def attempt(value: object) -> "tuple[Map, Callable[[Map], None]]":
    """One entry of ``try``, checked: as it was asked, and what is to be done for it."""
    name, asked = deed("try", value, TRIES)
    given = asked[name]
    match name:
        case "write":
            target = path(name, given)
            text = octets("text", asked.get("text", "written by the fake\n"))
            # Appended, so that a hole in the sandbox costs no file of the host its content.
            return asked, lambda _: append(target, text)
        case "read":
            source = path(name, given)
            return asked, lambda result: note_content(source, result, READ_CAP)
        case "listdir":
            folder = path(name, given)
            return asked, lambda result: note_list(result, "names", sorted(os.listdir(folder)))
        case "connect":
            where = address(name, given)
            return asked, lambda _: try_connect(where)
        case "fork":
            count = whole(name, given, 1, 10_000)
            return asked, lambda result: try_fork(count, result)
        case "alloc":
            size = whole(name, given, 1, 1 << 48)
            return asked, lambda result: try_alloc(size, result)
        case _:
            argv = argv_of(name, given)
            return asked, lambda result: try_exec(argv, result)


def result_of(asked: Map, act: "Callable[[Map], None]") -> Map:
    result: Map = {"try": asked, "ok": True}
    try:
        act(result)
    except OSError as error:
        result.update(ok=False, errno=error_name(error))
    return result


def try_connect(where: tuple[str, int]) -> None:
    import socket

    socket.create_connection(where, timeout=CONNECT_S).close()


def try_fork(count: int, result: Map) -> None:
    """All at once alive, else a limit on processes would not be felt."""
    held, gate = os.pipe()
    made: list[int] = []
    result["made"] = 0
    try:
        for _ in range(count):
            child = os.fork()
            if not child:
                os.close(gate)
                os.read(held, 1)  # until the parent closes its end, by will or by death
                os._exit(0)
            made.append(child)
            result["made"] = len(made)
    finally:
        os.close(gate)
        os.close(held)
        for child in made:
            os.waitpid(child, 0)


def try_alloc(count: int, result: Map) -> None:
    """In a child: whoever ends a process that takes too much must not end the recorder."""
    child = os.fork()
    if not child:
        try:
            room = bytearray(count)
            room[::4096] = b"x" * len(range(0, count, 4096))  # touched, so that it counts
        except MemoryError:
            os._exit(1)
        os._exit(0)
    note_end(os.waitpid(child, 0)[1], result)
    if result.get("exit") == 1:
        result["errno"] = "ENOMEM"
    result["ok"] = result.pop("exit", None) == 0


def try_exec(argv: list[bytes], result: Map) -> None:
    """``ok`` says that it could be started; ``exit`` or ``signal`` how it ended."""
    import select
    import time

    source, sink = os.pipe()
    try:
        env = dict(entry.partition(b"=")[::2] for entry in own_environ())
        child = os.posix_spawnp(
            argv[0],
            argv,
            env,
            file_actions=[(os.POSIX_SPAWN_DUP2, sink, 1)],
            setsigdef=[SIGPIPE, SIGXFSZ],  # ignored by the interpreter, not by our caller
        )
    except OSError:
        os.close(source)
        raise
    finally:
        os.close(sink)
    poll, end, got = select.poll(), time.monotonic() + EXEC_S, bytearray()
    poll.register(source, select.POLLIN)
    while (left := end - time.monotonic()) > 0 and poll.poll(left * 1000):
        block = os.read(source, BLOCK)
        if not block:
            break
        got += block[: BLOCK - len(got)]
    else:
        os.kill(child, SIGKILL)
    os.close(source)
    note_end(os.waitpid(child, 0)[1], result)
    note(result, "stdout", bytes(got))


def note_end(status: int, result: Map) -> None:
    code = os.waitstatus_to_exitcode(status)
    result["exit" if code >= 0 else "signal"] = abs(code)


# ---- what it does


def write(number: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(number, view) :]


def pour(number: int, pattern: bytes, count: int) -> None:
    """``pattern`` over and over until ``count`` bytes are written, a block at a time."""
    if count <= len(pattern):
        for at in range(0, count, BLOCK):
            write(number, pattern[at : min(at + BLOCK, count)])
        return
    block = pattern * max(1, BLOCK // len(pattern))
    while count > 0:
        write(number, block[:count])
        count -= len(block)


def append(name: bytes, line: bytes) -> None:
    """One write at the end of the file, on disk before we go on: a line is never half there."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    number = os.open(name, flags, 0o644)
    try:
        if os.write(number, line) != len(line):
            raise OSError(errno.ENOSPC, "written in part")
        try:
            os.fsync(number)
        except OSError as error:
            if error.errno != errno.EINVAL:  # a device or a pipe has no disk to wait for
                raise
    finally:
        os.close(number)


def on_signal(number: int, ignore: bool) -> None:
    # The C module below signal, which costs 6 ms for its enums.
    import _signal  # type: ignore[import-not-found,unused-ignore]

    _signal.signal(number, _signal.SIG_IGN if ignore else _signal.SIG_DFL)
    if not ignore:
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [number])


def behave_like_c() -> None:
    """Undo what the interpreter does to signals at its start; die of them as other programs do."""
    import _signal

    on_signal(SIGPIPE, ignore=False)
    on_signal(SIGXFSZ, ignore=False)
    if _signal.getsignal(SIGINT) is _signal.default_int_handler:  # else: our caller's wish
        on_signal(SIGINT, ignore=False)


def hang() -> None:
    import time

    while True:
        time.sleep(3600)


def sleep(duration: float) -> None:
    import time

    time.sleep(duration)


def die_by(number: int) -> None:
    import resource

    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    # 1, not 0: a core_pattern that pipes to a program takes 0 for "no limit on the pipe"
    resource.setrlimit(resource.RLIMIT_CORE, (min(1, hard) if hard >= 0 else 1, hard))
    if number != SIGKILL:
        on_signal(number, ignore=False)
    os.kill(os.getpid(), number)
    fail(OS_FAULT, f"signal {number} did not end me: am I the first process of a namespace?")


def start_daemon(plan: Plan) -> None:
    """A grandchild that nothing but its open descriptors ties to us; back once it is so."""
    heard, ready = os.pipe()
    child = os.fork()
    if not child:
        os.close(heard)
        os.setsid()
        if os.fork():
            os._exit(0)
        os.chdir("/")
        disguise(plan.clean_env is True)
        os.write(ready, b"x")
        os.close(ready)
        sleep(plan.daemon)
        if plan.late:
            append(plan.late, b"late\n")
        os._exit(0)
    os.close(ready)
    os.waitpid(child, 0)
    if not os.read(heard, 1):
        fail(OS_FAULT, "the daemon could not be set up")


def disguise(clean_env: bool) -> None:
    """Another command line and, if asked, an empty environment, written over our own memory.

    Not a second exec: an interpreter found by another argv[0] may not find its library.
    """
    start, end = int(own_stat(48)), int(own_stat(49))
    with open("/proc/self/comm", "wb") as file:
        file.write(DAEMON_NAME)
    with open("/proc/self/mem", "r+b", buffering=0) as file:
        file.seek(start)
        file.write(DAEMON_NAME[: end - start - 1].ljust(end - start, b"\0"))
        if clean_env:
            start, end = int(own_stat(50)), int(own_stat(51))
            file.seek(start)
            file.write(bytes(end - start))


def start_children(plan: Plan) -> None:
    made: list[int] = []
    try:
        for _ in range(plan.children):
            child = os.fork()
            if not child:
                sleep(plan.sleep)
                os._exit(0)
            made.append(child)
    except OSError as error:
        for child in made:
            os.kill(child, SIGKILL)
        fail(OS_FAULT, f"{len(made)} children, then: {error}")


def start_bomb(left: int) -> None:
    """Exactly ``left`` more processes, every one of them forking on until its share is spent."""
    inner = False
    while left:
        share = (left - 1) // 2
        try:
            child = os.fork()
        except OSError:  # a limit was met: what is there stays
            break
        if child:
            left -= share + 1
        else:
            left, inner = share, True
    if inner:
        sleep(CHILD_S)
        os._exit(0)
    hang()


def then(plan: Plan) -> None:
    """The one awkward thing; whoever comes back from it exits as planned."""
    match plan.then:
        case "hang" | "ignore-term-and-hang" | "sent-then-hang":
            hang()
        case "close-stdout-and-hang":
            os.close(1)
            hang()
        case "sent-then-crash":
            os.kill(os.getpid(), SIGKILL)
            fail(OS_FAULT, "SIGKILL did not end me: am I the first process of a namespace?")
        case "flood" if not plan.options:
            while True:
                pour(1, b"x", BLOCK)
        case "flood":
            pour(1, b"x", plan.flood)
        case "not-utf8":
            write(1, b"\xff\xfe\x80")
        case "sleep":
            sleep(plan.sleep)
            if plan.late:
                append(plan.late, b"late\n")
        case "signal":
            die_by(plan.signal)
        case "daemon":
            start_daemon(plan)
        case "children":
            start_children(plan)
        case "fork-bomb":
            start_bomb(plan.bomb)


def fail(code: int, message: str) -> None:
    try:
        write(2, f"fake: {message}\n".encode("utf-8", "backslashreplace"))
    finally:
        os._exit(code)


def main() -> None:
    """Look, record, take effect, print, and then the awkward thing: always in this order."""
    try:
        plan, argv = plan_in(sys.argv[1:])
        record = observe(plan, argv) if plan.record else None
        behave_like_c()
        if plan.then == "ignore-term-and-hang":
            for number in (SIGTERM, SIGHUP, SIGINT):
                on_signal(number, ignore=True)
        if record is not None:
            write_record(plan.record, record)
        if plan.sent:
            text = plan.sent_text
            if text is None:
                text = sha256(b"".join(word + b"\0" for word in argv)).encode()
            append(plan.sent, text + b"\n")
        for one in plan.prints:
            pour(*one)
        if plan.done:
            append(plan.done, b"done\n")
        then(plan)
        os._exit(plan.exit)
    except BadPlan as fault:
        fail(PLAN_FAULT, f"bad plan: {fault}")
    except OSError as error:
        fail(IO_FAULT, f"{error_name(error)}: {error}")
    except KeyboardInterrupt:
        die_by(SIGINT)
    except BaseException as error:
        fail(OUR_FAULT, f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
