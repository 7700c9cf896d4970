"""Spawning: what the command gets. The environment is built from nothing."""

import json
from collections.abc import Iterator, Mapping, Sequence

from executor.frozen import Asked, SecretUse
from executor.refusal import Refused

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
LEAST_MASKED = 4
"""A shorter text would be masked in half of all words, and could be guessed from that."""


def environment(declared: Mapping[str, str]) -> dict[str, str]:
    """Give the whole environment of a command, its staging area still unnamed."""
    return dict(sorted({**_BASE_ENVIRONMENT, **declared}.items()))


def place(environment: Mapping[str, str], staging: str) -> dict[str, str]:
    """Name the staging area in what refers to it; nothing that a caller wrote is looked at."""
    return {
        name: value.replace(STAGING, staging, 1) if value == _BASE_ENVIRONMENT.get(name) else value
        for name, value in environment.items()
    }


def check_secret_hosts(uses: Sequence[SecretUse], asked: Asked, *, any_host: bool) -> None:
    """Refuse to hand a secret to a host that it is not for.

    Args:
        any_host: the manifest opens the whole network, and names no host.
    Raises:
        Refused: ``spawning.secrets``.
    """
    for use in uses:
        known = {host.lower() for host in use.source.hosts}
        if not known:
            continue
        spoken_to = [] if any_host else asked.network
        strange = [
            str(endpoint)
            for endpoint in spoken_to
            if not known & {endpoint.host.lower(), str(endpoint).lower()}
        ]
        if strange or any_host:
            others = ", ".join(strange) or "any host that there is"
            raise Refused(
                "spawning.secrets",
                "SECRET_NOT_FOR_HOST",
                because=f"The secret {use.name!r} of {asked.tool} is for "
                f"{', '.join(sorted(known))}, and not for {others}.",
                todo="Name another host, or let the configuration's `hosts` say more.",
            )


def spellings(secret: str) -> list[bytes]:
    """Give the forms in which a secret can show.

    Whole, by line, the password of a ``user:password``, and each of these as JSON, URLs and
    base64 write it, the logins of HTTP and SMTP among them.
    """
    from base64 import b64encode, urlsafe_b64encode
    from urllib.parse import quote

    forms: set[str] = set()
    texts = [secret, *secret.splitlines()]
    for text in tuple(texts):
        user, colon, password = text.partition(":")
        if colon:
            texts += [password, f"\0{user}\0{password}"]
    for text in texts:
        raw = text.encode("utf-8", "surrogateescape")
        forms |= {b64encode(raw).decode(), urlsafe_b64encode(raw).decode()}
        forms |= {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
        forms.add(quote(text, safe="", errors="surrogateescape"))
    return [form.encode("utf-8", "surrogateescape") for form in forms if len(form) >= LEAST_MASKED]


def mask(text: bytes, secrets: Sequence[bytes], *, truncated: bool) -> bytes:
    """Put ``[secret]`` where one of ``secrets`` stands, a part cut off at the end included."""
    masked, position = bytearray(), 0
    for start, end in sorted(_spans(text, secrets, truncated=truncated)):
        if start >= position:
            masked += text[position:start] + MASK.encode()
        position = max(position, end)
    return bytes(masked + text[position:])


def _spans(text: bytes, secrets: Sequence[bytes], *, truncated: bool) -> Iterator[tuple[int, int]]:
    for secret in secrets:
        start = text.find(secret)
        while start >= 0:
            yield start, start + len(secret)
            start = text.find(secret, start + 1)
        if truncated:
            for length in range(min(len(secret), len(text)), LEAST_MASKED - 1, -1):
                if text.endswith(secret[:length]):
                    yield len(text) - length, len(text)
                    break
