"""Spawning: what the command gets. The environment is built from nothing."""

from collections.abc import Mapping, Sequence

STAGING = "{staging}"
"""Stands for the staging area, which lies elsewhere for each run and is no part of the action."""
_BASE_ENVIRONMENT = {
    "HOME": f"{STAGING}/home",
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "PWD": f"{STAGING}/work",
    "TMPDIR": f"{STAGING}/tmp",  # noqa: S108 - a path in the staging area
}
MASK = "[secret]"


def environment(declared: Mapping[str, str]) -> dict[str, str]:
    """Give the whole environment of a command, its staging area still unnamed."""
    return dict(sorted({**_BASE_ENVIRONMENT, **declared}.items()))


def place(environment: Mapping[str, str], staging: str) -> dict[str, str]:
    """Name the staging area in what refers to it; nothing that a caller wrote is looked at."""
    return {
        name: value.replace(STAGING, staging, 1) if value == _BASE_ENVIRONMENT.get(name) else value
        for name, value in environment.items()
    }


def mask(text: bytes, secrets: Sequence[bytes], *, truncated: bool) -> bytes:
    """Put ``[secret]`` where one of ``secrets`` stands, a part cut off at the end included."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK.encode())
    if truncated:
        for secret in secrets:
            for length in range(len(secret) - 1, 3, -1):
                if text.endswith(secret[:length]):
                    text = text[:-length] + MASK.encode()
                    break
    return text
