"""Shipped: open an executor on the shipped packs, or on one of them with a part exchanged."""

import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from executor import AskedBy, Executor, Receipt, Request
from executor.config import Config
from executor.loading import pack_files
from executor.manifest import SecretSource
from tests.house import House


@asynccontextmanager
async def opened(
    house: House,
    tool: str,
    changes: Mapping[str, str] | None = None,
    secrets: Mapping[str, str] | None = None,
) -> AsyncIterator[Executor]:
    """Open an executor for one pack.

    Args:
        changes: texts of the manifest and what stands there instead, such as a shorter deadline.
        secrets: by name; each is written to a file of its own.
    """
    sources = {}
    for name, secret in (secrets or {}).items():
        file = house.home / name
        file.write_text(secret + "\n")
        file.chmod(stat.S_IRUSR)
        sources[name] = SecretSource(file=str(file))
    if changes:
        text = next(path for path in pack_files() if path.stem == tool).read_text()
        for old, new in changes.items():
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (house.manifests / f"{tool}.yaml").write_text(text)
    config = Config(packs=not changes, secrets={tool: sources})
    async with house.open(config=config) as executor:
        yield executor


async def run(
    house: House,
    tool: str,
    parameters: Mapping[str, Any],
    files: Mapping[str, str],
    changes: Mapping[str, str] | None = None,
    secrets: Mapping[str, str] | None = None,
    allow_duplicate: str | None = None,
) -> Receipt:
    """Run one pack once."""
    async with opened(house, tool, changes, secrets) as executor:
        return await executor.run(
            Request(
                tool=tool,
                asked_by=AskedBy(role="tester"),
                parameters=dict(parameters),
                files=dict(files),
                allow_duplicate=allow_duplicate,
            )
        )


def end(receipt: Receipt) -> tuple[str, str | None]:
    """Give status and code."""
    return receipt.status, receipt.code
