"""Request: what a caller asks for. Values only."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, field

Label = Annotated[str, Meta(min_length=1, max_length=200)]


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class AskedBy(_Strict, frozen=True):
    """Who asks: a role, over a channel, on behalf of a sender."""

    role: Label
    channel: Label = "library"
    sender: Label | None = None


class SourceFile(_Strict, frozen=True):
    """A file to freeze, and the name to stage it under when its own will not do."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    name: Annotated[str, Meta(min_length=1, max_length=200)] | None = None


FileGiven = str | SourceFile | tuple[str | SourceFile, ...]


class Request(_Strict, frozen=True):
    """One action that somebody wants done.

    ``account`` is needed where the manifest does not say on whose behalf its command acts, and
    must agree where it does. ``allow_duplicate`` names the earlier attempt that is known, and
    beside which this one is wanted all the same: a replay of this request is then still a replay.
    """

    tool: str
    asked_by: AskedBy
    executor: Literal["request/1"] = "request/1"
    level: Label = "Supervised"
    parameters: dict[str, Any] = field(default_factory=dict)
    files: dict[str, FileGiven] = field(default_factory=dict)
    account: Label | None = None
    allow_duplicate: Label | None = None
    note: str | None = None
    """Free text for people; no part of the action."""
