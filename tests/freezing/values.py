"""Values: one admitted action, built by hand, to change in one place at a time."""

from typing import Any

import msgspec

from executor import units
from executor.frozen import (
    Admitted,
    Asked,
    Endpoint,
    FrozenAction,
    FrozenFile,
    HostPath,
    PinnedCommand,
    PinnedFile,
    Reach,
    SecretUse,
    SlotFile,
    Target,
    digest,
)
from executor.manifest import Manifest, Secret, SecretSource
from executor.request import AskedBy, Request


def manifest(**changes: Any) -> Manifest:
    """Give a small manifest."""
    given: dict[str, Any] = {
        "executor": "manifest/1",
        "tool": "test.action",
        "summary": "Do it.",
        "command": "act",
        "argv": ["{to}"],
        "capabilities": [{"name": "mail:send", "targets": "{to}"}],
        "outcomes": [],
        "limits": {"deadline": "10 s"},
    }
    return msgspec.convert(given | changes, Manifest, dec_hook=units.parse)


FILES = (
    FrozenFile("doc", "a.txt", 3, "a" * 64),
    FrozenFile("doc", "b.txt", 4, "b" * 64),
)
ENVIRONMENT = {"HOME": "{staging}/home", "MODE": "test"}


def admitted() -> Admitted:
    """Give an action that has something of everything."""
    asked = Asked(
        tool="test.action",
        manifest_sha256="0" * 64,
        parameters={"to": "bo"},
        files=(SlotFile("doc", "in/a.txt", "a.txt", 10), SlotFile("doc", "in/b.txt", "b.txt", 10)),
        argv=("--to", "bo"),
        env={"MODE": "test"},
        stdin="hello",
        stage={"conf": "text"},
        account="ana",
        targets=(Target("mail:send", "bo"),),
        network=(Endpoint("localhost", 25),),
        read=(HostPath("/srv/in", False),),
        write=(HostPath("/srv/out", True),),
    )
    return Admitted(
        id="attempt-1",
        request=Request(
            tool="test.action",
            asked_by=AskedBy(role="assistant"),
            parameters={"to": "bo"},
            files={"doc": ("in/a.txt", "in/b.txt")},
            note="please",
        ),
        manifest=manifest(),
        asked=asked,
        command=PinnedCommand(
            (
                PinnedFile("/usr/bin/python3", "/usr/bin/python3.11", "c" * 64, 100),
                PinnedFile("/usr/bin/act", "/usr/bin/act", "d" * 64, 50),
            ),
            ("-I", "/usr/bin/act"),
        ),
        reach=Reach(
            level="namespaced",
            required="namespaced",
            missing=("a filter",),
            network="host",
            endpoints=(Endpoint("localhost", 25),),
            read=("/srv/in",),
            write=("/srv/out",),
        ),
        secrets=(
            SecretUse("key", SecretSource(file="/etc/key"), Secret(env="KEY", text="k {secret}")),
        ),
    )


def change(value: Any, path: str, new: Any) -> Any:
    """Give the value with one thing changed: ``asked.argv``, ``command.files.0.sha256``."""
    step, _, rest = path.partition(".")
    if isinstance(value, tuple):
        index = int(step)
        inner = change(value[index], rest, new) if rest else new
        return (*value[:index], inner, *value[index + 1 :])
    inner = change(getattr(value, step), rest, new) if rest else new
    return msgspec.structs.replace(value, **{step: inner})


def action(**changes: Any) -> FrozenAction:
    """Give a frozen action without files, its ``asked`` changed as said."""
    whole = admitted()
    for name, new in ({"files": (), "stage": {}, "stdin": None} | changes).items():
        whole = change(whole, f"asked.{name}", new)
    return FrozenAction(whole, (), ENVIRONMENT, digest(whole, (), ENVIRONMENT), "", "")
