"""Admission: what may be asked. Turns a request into the words of one command, or says no.

Knows no disk: where the command stands and whether a file exists is found out elsewhere.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from executor import template
from executor.frozen import Asked, Endpoint, HostPath, SlotFile, Target
from executor.manifest import Manifest, Parameter, Part
from executor.problems import did_you_mean, show_value
from executor.refusal import Refused
from executor.request import Request
from executor.rules import freezing
from executor.rules.manifests import Tool
from executor.template import Reference

MAX_ARGUMENT = 128 * 1024 - 1
"""Bytes of one argument that Linux takes (MAX_ARG_STRLEN less its end)."""
SECRETS_DIRECTORY = "../secrets"
"""Where secret files lie, seen from the command's working directory."""
_DEFAULT_PORTS = {
    "git": 9418, "http": 80, "https": 443, "smtp": 25, "smtps": 465, "ssh": 22,
}  # fmt: skip

Filling = str | tuple[str, ...]


def find_tool(tools: Mapping[str, Tool], name: str) -> Tool:
    """Give the tool that a loaded manifest declares.

    Raises:
        Refused: ``admission.closed-tools``.
    """
    if tool := tools.get(name):
        return tool
    raise Refused(
        "admission.closed-tools",
        "UNKNOWN_TOOL",
        because=f"No manifest declares a tool {show_value(name)}.",
        todo=did_you_mean(name, tools, "Loaded tools"),
    )


def admit(tool: Tool, request: Request, secrets: Collection[str] = ()) -> Asked:
    """Turn a request into the words of one command.

    Args:
        secrets: the names of the tool's secrets that have a source.

    Raises:
        Refused: any rule of the family but those on the command's own file.
    """
    manifest = tool.manifest
    parameters = check_parameters(manifest, request.parameters)
    files = freezing.assign_names(manifest, request.files)
    fillings = _fillings(manifest, parameters, files, secrets)
    argv = tuple(_argv(manifest, fillings))
    return Asked(
        tool=manifest.tool,
        manifest_sha256=tool.sha256,
        parameters=parameters,
        files=files,
        argv=argv,
        env={
            name: text
            for name, written in sorted(manifest.env.items())
            if (text := _fill_if_given(written, fillings)) is not None
        },
        stdin=_fill(manifest.stdin.text, fillings)
        if manifest.stdin is not None and manifest.stdin.text is not None
        else None,
        stage={name: _fill(text, fillings) for name, text in sorted(manifest.stage.items())},
        account=_account(manifest, request, fillings),
        targets=tuple(_targets(manifest, fillings)),
        network=tuple(_network(manifest, fillings)),
        read=tuple(_host_paths(manifest.isolation.read, fillings)),
        write=tuple(_host_paths(manifest.isolation.write, fillings)),
    )


# -- parameters ---------------------------------------------------------------------------------


def check_parameters(manifest: Manifest, given: Mapping[str, Any]) -> dict[str, Any]:
    """Give the parameters with their defaults; every fault is told at once.

    Raises:
        Refused: ``admission.closed-parameters`` or ``admission.single-line``.
    """
    shape, lines = [], []
    for name in sorted(set(given) - set(manifest.parameters)):
        shape.append(f"unknown parameter {name!r}: {did_you_mean(name, manifest.parameters)}")
    shape += [
        f"{name}: missing" for name in manifest.required if name not in given and name not in shape
    ]
    for name, parameter in manifest.parameters.items():
        if name not in given:
            continue
        shape += [f"{name}{fault}" for fault in schema_faults(parameter.schema(), given[name])]
        for place, text in _strings(name, given[name]):
            if fault := _line_fault(text, multiline=_multiline(parameter)):
                lines.append(f"{place}: {fault}")
    if shape or lines:
        rule = "admission.closed-parameters" if shape else "admission.single-line"
        raise Refused(
            rule,
            "INVALID_PARAMETERS",
            because=f"The parameters of {manifest.tool} are not valid: {'; '.join(shape + lines)}.",
            todo="Correct them all and ask again; nothing was started.",
        )
    complete = {}
    for name, parameter in manifest.parameters.items():
        value = given.get(name, parameter.default)
        if name in given or not _absent(value):
            complete[name] = _whole(parameter, value)
    return complete


def schema_faults(schema: dict[str, Any], value: Any) -> list[str]:
    """Say each way in which ``value`` breaks ``schema``, its place in front: ``[0]: ...``."""
    if not _has_unpaired_surrogate(value):
        return [
            "".join(f"[{step}]" for step in error.absolute_path) + f": {_shorten(error.message)}"
            for error in _validator(_frozen_schema(schema)).iter_errors(value)
        ]
    return []  # `single-line` says what is wrong with it


def coerce(parameter: Parameter, texts: list[str]) -> Any:
    """Give the value that words from a command line mean; what cannot be meant stays a string."""
    if parameter.type == "array":
        inner = parameter.items
        return [coerce(inner, [text]) if inner is not None else text for text in texts]
    text = texts[-1]
    if len(texts) > 1:
        return texts
    if parameter.type == "boolean" and text in ("true", "false"):
        return text == "true"
    if parameter.type == "integer" and re.fullmatch(r"-?[0-9]{1,15}", text):
        return int(text)
    if parameter.type == "number" and re.fullmatch(r"-?[0-9]{1,15}(\.[0-9]{1,15})?", text):
        return float(text)
    return text


def _strings(place: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _strings(f"{place}[{index}]", item)


def _line_fault(text: str, *, multiline: bool) -> str | None:
    if "\0" in text:
        return "a NUL character, which no argument can carry"
    if _has_unpaired_surrogate(text):
        return "half of a surrogate pair, which no argument can carry"
    if not multiline and ("\r" in text or "\n" in text):
        return "a line break, in a field of one line"
    return None


def _has_unpaired_surrogate(value: Any) -> bool:
    return any(re.search("[\ud800-\udfff]", text) for _, text in _strings("", value))


def _multiline(parameter: Parameter) -> bool:
    return parameter.multiline or (parameter.items is not None and parameter.items.multiline)


def _whole(parameter: Parameter, value: Any) -> Any:
    """JSON Schema takes 2.0 for an integer; a command would not."""
    if parameter.type == "integer" and isinstance(value, float):
        return int(value)
    if parameter.items is not None and isinstance(value, list | tuple):
        return [_whole(parameter.items, item) for item in value]
    return value


def _absent(value: Any) -> bool:
    import msgspec

    return value is msgspec.UNSET


def _shorten(message: str, most: int = 200) -> str:
    return message if len(message) <= most else f"{message[:most]}... ({len(message)} characters)"


def _frozen_schema(schema: dict[str, Any]) -> bytes:
    import msgspec

    return msgspec.json.encode(schema, order="sorted")


@cache
def _validator(schema: bytes) -> Any:
    import msgspec
    from jsonschema import Draft202012Validator, FormatChecker

    checker = FormatChecker(formats=())
    for name, is_valid in _FORMATS.items():
        checker.checks(name)(is_valid)
    return Draft202012Validator(msgspec.json.decode(schema), format_checker=checker)


# -- formats: a closed set, each really checked ---------------------------------------------------

_LABEL = r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)"
_HOST_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LOCAL_PART = re.compile(rf"(?=.{{1,64}}\Z){_ATOM}(?:\.{_ATOM})*")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!#-;=?-Z\[\]_a-z~%]+")


def is_email(value: Any) -> bool:
    """One bare address, ``local@domain``, that no mail program can read as two or as a name."""
    if not isinstance(value, str):
        return True
    local, at, domain = value.rpartition("@")
    return bool(at and _LOCAL_PART.fullmatch(local) and _HOST_NAME.fullmatch(domain))


def is_uri(value: Any) -> bool:
    """An absolute URI with a host and without a password, which would stand in the open."""
    if not isinstance(value, str):
        return True
    if not _URI.fullmatch(value):
        return False
    try:
        split = urlsplit(value)
        return bool(split.hostname) and split.password is None and split.port != 0
    except ValueError:
        return False


def is_hostname(value: Any) -> bool:
    """A host name of RFC 1123."""
    return not isinstance(value, str) or bool(_HOST_NAME.fullmatch(value))


def _parses(parse: Callable[[str], Any]) -> Callable[[Any], bool]:
    def is_valid(value: Any) -> bool:
        if not isinstance(value, str):
            return True
        try:
            parse(value)
        except ValueError:
            return False
        return True

    return is_valid


def _formats() -> dict[str, Callable[[Any], bool]]:
    from datetime import date, datetime
    from ipaddress import IPv4Address, IPv6Address
    from uuid import UUID

    def zoned(text: str) -> None:
        if datetime.fromisoformat(text).tzinfo is None:
            raise ValueError("no time zone")

    return {
        "email": is_email,
        "uri": is_uri,
        "hostname": is_hostname,
        "ipv4": _parses(IPv4Address),
        "ipv6": _parses(IPv6Address),
        "date": _parses(date.fromisoformat),
        "date-time": _parses(zoned),
        "uuid": _parses(UUID),
    }


_FORMATS = _formats()


# -- words ----------------------------------------------------------------------------------------


def _fillings(
    manifest: Manifest,
    parameters: Mapping[str, Any],
    files: tuple[SlotFile, ...],
    secrets: Collection[str],
) -> dict[str, Filling]:
    fillings: dict[str, Filling] = {}
    for name, value in parameters.items():
        if isinstance(value, list | tuple):
            fillings[name] = tuple(_word(item) for item in value)
        elif not (value is False and _only_switches(manifest, name)):
            fillings[name] = _word(value)
    for slot, declared in manifest.files.items():
        names = tuple(file.name for file in files if file.slot == slot)
        if declared.many:
            fillings[f"files.{slot}"] = names
        elif names:
            fillings[f"files.{slot}"] = names[0]
    for name in secrets:
        fillings[f"secrets.{name}"] = f"{SECRETS_DIRECTORY}/{name}"
    return fillings


def _only_switches(manifest: Manifest, name: str) -> bool:
    """A boolean that some `when` tests is a switch: false means that the part is left out."""
    return any(isinstance(part, Part) and part.when == name for part in manifest.argv)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def _argv(manifest: Manifest, fillings: Mapping[str, Filling]) -> Iterator[str]:
    options_ended = False
    for part, text, item, source in _elements(manifest, fillings):
        parsed = template.parse(text)
        word = ""
        for piece in parsed:
            said = piece if isinstance(piece, str) else _value(piece, fillings, item)
            if not word and said.startswith("-") and isinstance(piece, Reference):
                _refuse_dash(manifest, piece, source, said, options_ended)
            word += said
        options_ended = options_ended or (part == "literal" and word == "--")
        yield word


def _elements(
    manifest: Manifest, fillings: Mapping[str, Filling]
) -> Iterator[tuple[str, str, str, str | None]]:
    """Yield each element: literal or filled, its template, the current item, and whose item."""
    for entry in manifest.argv:
        if isinstance(entry, Part):
            name = entry.each or entry.when or ""
            given = fillings.get(name)
            items = (given or ()) if entry.each is not None else ("",) if given else ()
            for item in items:
                for text in entry.argv:
                    yield _literal_or_filled(text), text, item, entry.each
        else:
            for text in (entry,) if isinstance(entry, str) else entry:
                yield _literal_or_filled(text), text, "", None


def _literal_or_filled(text: str) -> str:
    return "filled" if template.references(template.parse(text)) else "literal"


def _refuse_dash(
    manifest: Manifest, reference: Reference, source: str | None, said: str, options_ended: bool
) -> None:
    name = source if reference.kind == "item" and source is not None else reference.name
    parameter = manifest.parameters.get(name)
    if options_ended or (parameter is not None and _allows_dash(parameter)):
        return
    raise Refused(
        "admission.option-lookalike",
        "ARGUMENT_LOOKS_LIKE_OPTION",
        because=f"{name} begins with a dash, {show_value(said)}: the command may take it for an "
        "option.",
        todo="Leave it out; or let the manifest put `--` before it, or say `allow_dash`.",
    )


def _allows_dash(parameter: Parameter) -> bool:
    return parameter.allow_dash or (parameter.items is not None and parameter.items.allow_dash)


def _value(reference: Reference, fillings: Mapping[str, Filling], item: str) -> str:
    if reference.kind == "item":
        return item
    return str(fillings[str(reference)[1:-1]])


def _fill(text: str, fillings: Mapping[str, Filling]) -> str:
    return "".join(
        piece if isinstance(piece, str) else _value(piece, fillings, "")
        for piece in template.parse(text)
    )


def _fill_if_given(text: str, fillings: Mapping[str, Filling]) -> str | None:
    needed = template.references(template.parse(text))
    if all(str(reference)[1:-1] in fillings for reference in needed):
        return _fill(text, fillings)
    return None


def _given(texts: tuple[str, ...], fillings: Mapping[str, Filling]) -> Iterator[str]:
    for text in texts:
        if filled := _fill_if_given(text, fillings):
            yield filled


def _host_paths(texts: tuple[str, ...], fillings: Mapping[str, Filling]) -> Iterator[HostPath]:
    for text in texts:
        if filled := _fill_if_given(text, fillings):
            yield HostPath(filled, from_request=bool(template.references(template.parse(text))))


def check_argv_fits(argv: tuple[str, ...], env: Mapping[str, str], most_bytes: int) -> None:
    """Refuse what the kernel would not take, before anything is claimed or asked.

    Args:
        argv: the whole command line.
        env: the whole environment.
        most_bytes: what the system takes for both together.
    Raises:
        Refused: ``admission.argv-fits``.
    """
    for index, word in enumerate(argv):
        size = len(word.encode("utf-8", "surrogateescape"))
        if size > MAX_ARGUMENT:
            _too_long(f"Argument {index} is {size} bytes, the system takes {MAX_ARGUMENT}.")
    for name, value in env.items():
        size = len(name) + 1 + len(value.encode("utf-8", "surrogateescape"))
        if size > MAX_ARGUMENT:
            _too_long(f"The variable {name} is {size} bytes, the system takes {MAX_ARGUMENT}.")
    words = [*argv, *(f"{name}={value}" for name, value in env.items())]
    total = sum(len(word.encode("utf-8", "surrogateescape")) + 1 + 8 for word in words)
    if total > most_bytes:
        _too_long(f"Arguments and environment take {total} bytes, the system gives {most_bytes}.")


def _too_long(because: str) -> None:
    raise Refused(
        "admission.argv-fits",
        "ARGV_TOO_LONG",
        because=because,
        todo="Hand long content over as a file, or ask in several requests.",
    )


# -- account, targets, network --------------------------------------------------------------------


def _account(manifest: Manifest, request: Request, fillings: Mapping[str, Filling]) -> str:
    declared = None if manifest.account is None else _fill(manifest.account, fillings)
    if declared is not None and request.account not in (None, declared):
        raise Refused(
            "admission.closed-request",
            "INVALID_REQUEST",
            because=f"The request names the account {show_value(request.account)}, but "
            f"{manifest.tool} acts for {show_value(declared)}.",
            todo="Leave `account` out, or correct the parameters that make it up.",
        )
    account = declared or request.account
    if not account or not account.strip():
        raise Refused(
            "admission.closed-request",
            "INVALID_REQUEST",
            because=f"Nothing says on whose behalf {manifest.tool} acts.",
            todo="Name the account in the request (`account:`, or `--account` on a command line).",
        )
    return account


def _targets(manifest: Manifest, fillings: Mapping[str, Filling]) -> Iterator[Target]:
    for use in manifest.capabilities:
        if use.targets is None:
            yield Target(use.name, None)
            continue
        parsed = template.parse(use.targets)
        listed = [
            value
            for reference in template.references(parsed)
            if isinstance(value := fillings[str(reference)[1:-1]], tuple)
        ]
        if not listed:
            yield Target(use.name, _fill(use.targets, fillings))
            continue
        for item in listed[0]:
            whole = {
                name: item if isinstance(value, tuple) else value
                for name, value in fillings.items()
            }
            yield Target(use.name, _fill(use.targets, whole))


def _network(manifest: Manifest, fillings: Mapping[str, Filling]) -> Iterator[Endpoint]:
    if manifest.isolation.network == "host":
        return
    for text in _given(manifest.isolation.network, fillings):
        yield endpoint(text)


def endpoint(text: str) -> Endpoint:
    """Give the host and port that a URL or ``host:port`` names.

    Raises:
        Refused: ``admission.closed-parameters``.
    """
    written = text if "://" in text else f"tcp://{text}"
    try:
        split = urlsplit(written)
        port = split.port or _DEFAULT_PORTS.get(split.scheme)
        if split.hostname and port:
            return Endpoint(split.hostname, port)
    except ValueError:
        pass
    raise Refused(
        "admission.closed-parameters",
        "INVALID_PARAMETERS",
        because=f"{show_value(text)} does not name a host and a port.",
        todo="Write host:port, or a URL with a port or a well-known scheme.",
    )
