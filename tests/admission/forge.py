"""Forge: a small manifest, changed at one place, and what the loader or a request makes of it."""

import copy
from typing import Any

import pytest
import yaml

from executor import AskedBy, Request
from executor.capabilities import registry
from executor.frozen import Asked
from executor.problems import Faulty, Problem
from executor.refusal import Refused
from executor.rules import admission, manifests
from executor.rules.manifests import Tool

GONE = object()
"""As a value: leave the key out."""
MANIFEST: dict[str, Any] = {
    "executor": "manifest/1",
    "tool": "mail.send",
    "summary": "Send one message.",
    "command": "curl",
    "parameters": {
        "server": {"type": "string", "format": "uri", "default": "smtp://localhost:25"},
        "sender": {"type": "string", "format": "email"},
        "to": {"type": "array", "items": {"type": "string", "format": "email"}, "minItems": 1},
        "subject": {"type": "string"},
    },
    "required": ["sender", "to"],
    "files": {"message": {"max_bytes": "25 MiB"}, "photos": {"required": False, "many": True}},
    "capabilities": [{"name": "mail:send", "targets": "{to}"}],
    "account": "{server} {sender}",
    "identity": ["server", "sender", {"set": "to"}, "files.message"],
    "argv": [
        ["--silent", "--url", "{server}", "--mail-from={sender}"],
        {"each": "to", "argv": ["--mail-rcpt", "{item}"]},
        {"when": "subject", "argv": ["--subject={subject}"]},
        "--upload-file={files.message}",
    ],
    "outcomes": [
        {"when": {"exit": 0}, "is": "delivered", "result_id": {"stderr": r"queued as (\S+)"}},
        {"when": {"exit": [6, 7]}, "is": "undelivered", "code": "CONNECT_FAILED"},
    ],
    "isolation": {"level": "namespaced", "network": ["{server}"]},
    "limits": {"deadline": "60 s", "processes": 16},
    "secrets": {"token": {"env": "TOKEN"}, "key": {"file": True}},
    "env": {"LANG": "C", "SUBJECT": "{subject}"},
    "stage": {"etc/curlrc": "silent\n", "empty/": ""},
}
Place = tuple[str | int, ...]


def changed(*changes: tuple[Place, Any]) -> dict[str, Any]:
    """Give the manifest with other values at some places."""
    manifest = copy.deepcopy(MANIFEST)
    for place, value in changes:
        at: Any = manifest
        for step in place[:-1]:
            at = at[step]
        if value is GONE:
            del at[place[-1]]
        else:
            at[place[-1]] = value
    return manifest


def load(manifest: Any) -> Tool:
    """Load a manifest from a value, or from a text."""
    source = manifest if isinstance(manifest, bytes) else _write(manifest)
    return manifests.load(source, "m.yaml", registry())


class _WithoutAliases(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _write(value: Any) -> bytes:
    text: str = yaml.dump(value, Dumper=_WithoutAliases, sort_keys=False, allow_unicode=True)
    return text.encode()


def problems(*changes: tuple[Place, Any]) -> list[Problem]:
    """Give what is wrong with a changed manifest."""
    try:
        load(changed(*changes))
    except Faulty as faulty:
        return list(faulty.problems)
    return []


def tool(
    parameters: dict[str, Any] | None = None, argv: list[Any] | None = None, **changes: Any
) -> Tool:
    """Load the tool ``test.tool``: its parameters, and argv with each of them by name."""
    declared = parameters or {}
    manifest: dict[str, Any] = {
        "executor": "manifest/1",
        "tool": "test.tool",
        "summary": "Test.",
        "command": "true",
        "parameters": declared,
        "argv": argv if argv is not None else _each_by_name(declared),
        "capabilities": [{"name": "compute:pure"}],
        "account": "test",
        "outcomes": [{"when": {"exit": 0}, "is": "delivered"}],
    }
    manifest |= changes
    return load({key: value for key, value in manifest.items() if value is not GONE})


def _each_by_name(declared: dict[str, Any]) -> list[Any]:
    return [
        {"each": name, "argv": [f"--{name}={{item}}"]}
        if says["type"] == "array"
        else {"when": name, "argv": [f"--{name}={{{name}}}"]}
        for name, says in declared.items()
    ]


def request(parameters: dict[str, Any] | None = None, **changes: Any) -> Request:
    """Give a request for ``test.tool``."""
    given: dict[str, Any] = {
        "tool": "test.tool",
        "asked_by": AskedBy(role="tester"),
        "parameters": {} if parameters is None else parameters,
    }
    return Request(**(given | changes))


def admit(tool: Tool, parameters: dict[str, Any] | None = None, **changes: Any) -> Asked:
    """Ask for something."""
    return admission.admit(tool, request(parameters, **changes))


def refused(tool: Tool, parameters: dict[str, Any] | None = None, **changes: Any) -> Refused:
    """Ask for something that must be refused."""
    with pytest.raises(Refused) as no:
        admit(tool, parameters, **changes)
    return no.value
