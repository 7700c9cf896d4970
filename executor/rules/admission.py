"""Admission: what may be asked. Turns a request into the words of one command, or says no.

Knows no disk: where the command stands and whether a file exists is found out elsewhere.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from executor import template
from executor.frozen import Asked, Endpoint, HostPath, SlotFile, Target
from executor.manifest import Manifest, Parameter, Part
from executor.problems import did_you_mean, sentence, show_value
from executor.refusal import Refused
from executor.request import Request
from executor.rules import formats, freezing, values
from executor.rules.identity import NO_KEY
from executor.rules.manifests import IDEMPOTENCY_KEY, Tool
from executor.template import Reference

MAX_ARGUMENT = 128 * 1024 - 1
"""Bytes of one argument that Linux takes (MAX_ARG_STRLEN less its end)."""
SECRETS_DIRECTORY = "../secrets"
"""Where secret files lie, seen from the command's working directory."""
MAX_ARGUMENTS = 6 * 2**20
"""Bytes of arguments and environment that Linux takes at most, however large the stack may be."""

MAX_WORDS = 8000
"""bwrap takes 9000 with its own options."""

Filling = str | tuple[str, ...]


def find_tool(tools: Mapping[str, Tool], name: object) -> Tool:
    """Give the tool that a loaded manifest declares.

    Raises:
        Refused: ``admission.closed-tools``.
    """
    if isinstance(name, str) and (tool := tools.get(name)):
        return tool
    raise Refused(
        "admission.closed-tools",
        "UNKNOWN_TOOL",
        because=f"No manifest declares a tool {show_value(name)}.",
        todo=f"{sentence(did_you_mean(str(name), tools, 'Loaded tools'))} A tool of your own needs "
        "its manifest: `--manifest`, or `manifests` in the configuration.",
    )


def admit(tool: Tool, request: Request, secrets: Collection[str] = (), key: str = NO_KEY) -> Asked:
    """Turn a request into the words of one command.

    Args:
        secrets: the names of the tool's secrets that have a source.
        key: the idempotency key; until the files are frozen, one of the same length.

    Raises:
        Refused: any rule of the family but those on the command's own file.
    """
    manifest = tool.manifest
    request = check_request(request)
    try:
        parameters = check_parameters(manifest, request.parameters)
    except Refused as no:
        raise _with_file_faults(no, manifest, request) from None
    files = freezing.assign_names(manifest, request.files)
    fillings = _fillings(manifest, parameters, files, secrets)
    if manifest.idempotency is not None:
        fillings[IDEMPOTENCY_KEY] = key
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


def check_request(request: Request) -> Request:
    """Give a copy that nobody else holds, with the types that a request file would have.

    A program may hand over anything, and may change it while the action is on its way.

    Raises:
        Refused: ``admission.closed-request``.
    """
    import msgspec

    try:
        copied = msgspec.convert(msgspec.to_builtins(request), Request)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as failed:
        raise _invalid_request(f"The request has not the form of one: {failed}.") from None
    who = copied.asked_by
    for place, text in (
        ("asked_by.role", who.role),
        ("asked_by.channel", who.channel),
        ("asked_by.sender", who.sender),
        ("level", copied.level),
        ("account", copied.account),
        ("allow_duplicate", copied.allow_duplicate),
    ):
        if text is not None and (fault := values.line_fault(text, multiline=False)):
            raise _invalid_request(f"{place}: {fault}.")
        if text is not None and not text.strip():
            raise _invalid_request(f"{place}: {show_value(text)} says nothing.")
    lists = {n: list(v) for n, v in copied.parameters.items() if isinstance(v, tuple)}
    return msgspec.structs.replace(copied, parameters=copied.parameters | lists)


def _invalid_request(because: str) -> Refused:
    return Refused(
        "admission.closed-request",
        "INVALID_REQUEST",
        because=because,
        todo="Correct it and ask again; nothing was started.",
    )


# -- parameters ---------------------------------------------------------------------------------


def check_parameters(manifest: Manifest, given: Mapping[str, Any]) -> dict[str, Any]:
    """Give the parameters with their defaults; every fault is told at once.

    Raises:
        Refused: ``admission.closed-parameters`` or ``admission.single-line``.
    """
    shape = [
        f"unknown parameter {show_value(name)} ({did_you_mean(name, manifest.parameters)})"
        for name in sorted(set(given) - set(manifest.parameters))
    ]
    shape += [f"{name}: missing" for name in manifest.required if name not in given]
    lines = []
    for name, parameter in manifest.parameters.items():
        if name in given:
            shape += [f"{name}{fault}" for fault in values.faults(parameter, given[name])]
            lines += [f"{name}{fault}" for fault in values.line_faults(parameter, given[name])]
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
            complete[name] = values.whole(parameter, value)
    return complete


def _with_file_faults(no: Refused, manifest: Manifest, request: Request) -> Refused:
    """Tell the faults of the files in one breath with those of the parameters."""
    try:
        freezing.assign_names(manifest, request.files)
    except Refused as also:
        if also.code == no.code:
            because = f"{no.because} {also.because}"
            return Refused(no.rule, no.code, because=because, todo=no.todo)
    return no


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


def _absent(value: Any) -> bool:
    import msgspec

    return value is msgspec.UNSET


# -- words ----------------------------------------------------------------------------------------


def _fillings(
    manifest: Manifest,
    parameters: Mapping[str, Any],
    files: tuple[SlotFile, ...],
    secrets: Collection[str],
) -> dict[str, Filling]:
    fillings: dict[str, Filling] = {}
    for name, value in parameters.items():
        if isinstance(value, list):
            fillings[name] = tuple(_word(item) for item in value)
        else:
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
            if entry.each is not None:
                items = fillings.get(entry.each, ())
            else:
                items = ("",) if _is_given(manifest, entry.when or "", fillings) else ()
            for item in items:
                for text in entry.argv:
                    yield _literal_or_filled(text), text, item, entry.each
        else:
            for text in (entry,) if isinstance(entry, str) else entry:
                yield _literal_or_filled(text), text, "", None


def _is_given(manifest: Manifest, name: str, fillings: Mapping[str, Filling]) -> bool:
    """Whether a `when` holds. An empty text is given; a switch that is off, or no item, is not."""
    parameter = manifest.parameters.get(name)
    off = "false" if parameter is not None and parameter.type == "boolean" else ()
    return fillings.get(name, ()) not in (off, ())


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
    if len(argv) > MAX_WORDS:
        _too_long(f"There are {len(argv)} arguments, the sandbox takes {MAX_WORDS}.")
    words = [*argv, *(f"{name}={value}" for name, value in env.items())]
    total = sum(len(word.encode("utf-8", "surrogateescape")) + 1 + 8 for word in words)
    most = min(most_bytes, MAX_ARGUMENTS)
    if total > most:
        _too_long(f"Arguments and environment take {total} bytes, the system gives {most}.")


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
        if not listed[0]:
            yield Target(use.name, None)  # the capability is used all the same
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
    if found := formats.host_and_port(text):
        return Endpoint(*found)
    raise Refused(
        "admission.closed-parameters",
        "INVALID_PARAMETERS",
        because=f"{show_value(text)} does not name a host and a port.",
        todo="Write host:port, or a URL with a port or a well-known scheme.",
    )
