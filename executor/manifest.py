"""Manifest: what one tool is, as its author declares it. Values only; `rules/manifests.py` judges.

The JSON Schema that `executor manifest schema` prints is made from these very types.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, field

from executor.units import Duration, Size, always, schema

# "$" alone would let a line break pass behind the last character; (?!\n) says no to it.
Name = Annotated[
    str,
    Meta(
        pattern=r"^[a-z][a-z0-9_]{0,63}$(?!\n)",
        examples=["reply_to"],
        description="A name: a-z first, then a-z, 0-9 and _, at most 64.",
    ),
]
ToolName = Annotated[
    str,
    Meta(
        pattern=r"^[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)+$(?!\n)",
        max_length=200,
        examples=["mail.send"],
        description="The name of a tool: lower-case words with a dot between them.",
    ),
]
Code = Annotated[
    str,
    Meta(
        pattern=r"^[A-Z][A-Z0-9_]{2,63}$(?!\n)",
        examples=["CONNECT_FAILED"],
        description="A stable code: A-Z first, then A-Z, 0-9 and _, 3 to 64.",
    ),
]
EnvironmentName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Z_][A-Z0-9_]{0,63}$(?!\n)",
        examples=["API_HOST"],
        description="The name of a variable: A-Z, 0-9 and _, at most 64.",
    ),
]
Pattern = Annotated[
    str, Meta(min_length=1, max_length=500, description="A Python regular expression.")
]
Count = Annotated[int, Meta(ge=0)]
JsonScalar = str | int | float | bool | None

IsolationLevel = Literal["namespaced", "restricted", "bare"]
ISOLATION_LEVELS: tuple[IsolationLevel, ...] = ("bare", "restricted", "namespaced")
"""Every level, the weakest first."""


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class Parameter(_Strict, frozen=True, rename="camel"):
    """One parameter: a closed part of JSON Schema, and two words of ours.

    ``allow_dash`` lets a value begin with ``-`` where the command could take it for an option;
    ``multiline`` lets it hold line breaks.
    """

    type: Literal["string", "integer", "number", "boolean", "array"]
    description: str = ""
    format: (
        Literal["email", "uri", "hostname", "ipv4", "ipv6", "date", "date-time", "uuid"] | None
    ) = None
    pattern: Pattern | None = None
    min_length: Count | None = None
    max_length: Count | None = None
    minimum: float | int | None = None
    maximum: float | int | None = None
    exclusive_minimum: float | int | None = None
    exclusive_maximum: float | int | None = None
    multiple_of: Annotated[float, Meta(gt=0)] | Annotated[int, Meta(gt=0)] | None = None
    enum: Annotated[tuple[JsonScalar, ...], Meta(min_length=1)] | None = None
    const: JsonScalar | msgspec.UnsetType = msgspec.UNSET
    default: Any | msgspec.UnsetType = msgspec.UNSET
    items: "Parameter | None" = None
    min_items: Count | None = None
    max_items: Count | None = None
    unique_items: bool = False
    allow_dash: bool = field(default=False, name="allow_dash")
    multiline: bool = False

    def schema(self) -> dict[str, Any]:
        """Give the plain JSON Schema of a value, without our own words."""
        given: dict[str, Any] = msgspec.to_builtins(self)
        given.pop("allow_dash", None)
        given.pop("multiline", None)
        if self.items is not None:
            given["items"] = self.items.schema()
        return given


class FileSlot(_Strict, frozen=True):
    """A file, or with ``many`` a list of files, that a request hands over to be frozen."""

    description: str = ""
    required: bool = True
    many: bool = False
    max_bytes: Size = always(Size(64 * 2**20))
    name: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    """The name it is staged under; without one it keeps the base name of its source."""
    line_ends: Literal["crlf"] | None = None
    """Every CR and LF must be part of a CRLF."""


class CapabilityUse(_Strict, frozen=True):
    """A capability that the tool needs, and on what; a list in ``targets`` gives one for each."""

    name: str
    targets: str | None = None


class Part(_Strict, frozen=True):
    """Arguments that appear once for each item of a list, or only when a value is given."""

    argv: tuple[str, ...]
    each: str | None = None
    when: str | None = None


class SetOf(_Strict, frozen=True):
    """An identity part whose order does not matter."""

    set: str


class SecretSource(_Strict, frozen=True):
    """Where a secret is read from, at the time of the run, and who may get it.

    With ``hosts`` it is handed over only when the command speaks to none but these, each a host or
    ``host:port``; without, to whatever host the request names.
    """

    file: str | None = None
    environment: str | None = None
    command: tuple[str, ...] | None = None
    hosts: tuple[str, ...] = ()


class Secret(_Strict, frozen=True):
    """A secret and its one way to the command: an environment variable, or a file in memory.

    ``source`` may stay open here and be named by the configuration; ``text`` is put around the
    secret (``Authorization: Bearer {secret}``).
    """

    description: str = ""
    required: bool = True
    source: SecretSource | None = None
    env: EnvironmentName | None = None
    file: bool = False
    text: str = "{secret}"


class Condition(_Strict, frozen=True):
    """What must all hold of the finished command."""

    exit: int | Annotated[tuple[int, ...], Meta(min_length=1)] | None = None
    stdout: Pattern | None = None
    stderr: Pattern | None = None
    json: Annotated[dict[str, JsonScalar], Meta(min_length=1)] | None = None
    """Fields of a JSON stdout, ``{"result.status": sent}``, and the values they must have."""


class Extract(_Strict, frozen=True):
    """A text in the output: a pattern's first group (or all of it), or a field of a JSON stdout."""

    stdout: Pattern | None = None
    stderr: Pattern | None = None
    json: str | None = None


class Outcome(_Strict, frozen=True, rename={"status": "is"}):
    """What a finished command means. The first that matches counts."""

    when: Condition
    status: Literal["delivered", "undelivered", "unresolved"]
    code: Code | None = None
    result_id: Extract | None = None
    reply: Extract | None = None


class Isolation(_Strict, frozen=True):
    """What the command can reach beyond its own staging area."""

    level: IsolationLevel = "namespaced"
    network: tuple[str, ...] | Literal["host"] = ()
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()


class Limits(_Strict, frozen=True):
    """The bounds of one run. Memory, file size, open files and CPU count for each process."""

    deadline: Duration = always(Duration(60))
    grace: Duration = always(Duration(5))
    output: Size = always(Size(2**20))
    memory: Size = always(Size(2**30))
    processes: Annotated[int, Meta(ge=1, le=100_000)] = 64
    file_size: Size = always(Size(2**30))
    open_files: Annotated[int, Meta(ge=16, le=100_000)] = 256
    cpu: Duration | None = None
    """Seconds of processor time; without it the deadline."""
    scratch: Size = always(Size(64 * 2**20))
    """Room for what the command writes in its staging area."""


class Stdin(_Strict, frozen=True):
    """What the command reads on its standard input: a staged file, or a text."""

    file: str | None = None
    text: str | None = None


ReversePattern = Literal[
    "restore_blob_backup",
    "swap_src_dst",
    "delete_created_paths",
    "delete_created_dirs",
    "reverse_command",
]


class Reverse(_Strict, frozen=True):
    """How the action can be taken back, from the closed catalogue."""

    pattern: ReversePattern
    argv: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


class Lookup(_Strict, frozen=True):
    """A read-only command that looks something up before the action: it finds it, or refuses.

    It runs after the claim, over the same frozen files, and in a sandbox can write nowhere.
    ``finds`` names what is taken from its output, each a list of texts.
    """

    argv: tuple[str | tuple[str, ...] | Part, ...]
    when: Condition
    """What must hold for it to have found what it looked for."""
    command: Annotated[str, Meta(min_length=1, max_length=4096)] | None = None
    finds: dict[Name, Extract] = field(default_factory=dict)


class Verify(_Strict, frozen=True):
    """A read-only command that finds out later whether an action happened.

    It has the action's parameters and secrets, not its files. ``delivered`` and ``undelivered`` are
    clear answers; anything else changes nothing.
    """

    argv: tuple[str | tuple[str, ...] | Part, ...]
    outcomes: Annotated[tuple[Outcome, ...], Meta(min_length=1)]
    command: Annotated[str, Meta(min_length=1, max_length=4096)] | None = None


class Idempotency(_Strict, frozen=True):
    """The command hands ``{idempotency_key}`` on, and the provider knows it again for a time.

    Inside ``window``, counted from the first dispatch, an unresolved action may be sent again under
    the same key; without one, never.
    """

    window: Duration = always(Duration(0))


class OnRecord(_Strict, frozen=True):
    """What the ledger keeps of this tool's actions: ``window`` is how long a delivery blocks."""

    window: Duration | None = None


class Manifest(_Strict, frozen=True):
    """One tool.

    ``command`` is a name in a trusted directory or an absolute path; ``stage`` holds small files
    that the tool itself brings along (a key that ends in ``/`` is an empty directory);
    ``account`` is on whose behalf the command acts; ``identity`` what makes two actions the same
    thing, by default everything. ``preflight`` looks something up before the action, ``verify``
    finds out afterwards whether it happened.
    """

    executor: Literal["manifest/1"]
    tool: ToolName
    summary: Annotated[str, Meta(min_length=1, max_length=500)]
    command: Annotated[str, Meta(min_length=1, max_length=4096)]
    argv: tuple[str | tuple[str, ...] | Part, ...]
    capabilities: Annotated[tuple[CapabilityUse, ...], Meta(min_length=1)]
    outcomes: tuple[Outcome, ...]
    parameters: dict[Name, Parameter] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    files: dict[Name, FileSlot] = field(default_factory=dict)
    stage: dict[str, str] = field(default_factory=dict)
    stdin: Stdin | None = None
    account: str | None = None
    identity: tuple[str | SetOf, ...] | None = None
    env: dict[EnvironmentName, str] = field(default_factory=dict)
    secrets: dict[Name, Secret] = field(default_factory=dict)
    effect: Literal["immediate", "scheduled"] = "immediate"
    ledger: OnRecord = field(default_factory=OnRecord)
    idempotency: Idempotency | None = None
    preflight: Lookup | None = None
    verify: Verify | None = None
    isolation: Isolation = field(default_factory=Isolation)
    limits: Limits = field(default_factory=Limits)
    revertible: bool = False
    reverse: Reverse | None = None


def manifest_schema() -> dict[str, Any]:
    """Give the JSON Schema (2020-12) of a manifest."""
    made = msgspec.json.schema(Manifest, schema_hook=schema)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "sealed-executor manifest/1",
        **made,
    }
