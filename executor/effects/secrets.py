"""Secrets: read from their declared source, right before the run, and kept nowhere."""

import os
import stat
import subprocess
from collections.abc import Mapping, Sequence

import trio

from executor.effects.sealing import seal_bytes
from executor.effects.verifying import Verified
from executor.frozen import SecretUse
from executor.manifest import Manifest, SecretSource
from executor.refusal import Refused

MAX_BYTES = 64 * 1024
MIN_MASKED = 4
"""A shorter secret would be masked in half of all words, and could be guessed from that."""
COMMAND_DEADLINE_S = 30.0


def plan(manifest: Manifest, configured: Mapping[str, SecretSource]) -> tuple[SecretUse, ...]:
    """Say where each secret of a tool comes from; one that is optional and open is left out.

    Raises:
        Refused: ``spawning.secrets``.
    """
    uses = []
    for name, declared in sorted(manifest.secrets.items()):
        source = configured.get(name, declared.source)
        if source is not None:
            uses.append(SecretUse(name, source, declared))
        elif declared.required:
            raise _unavailable(name, "nothing says where it comes from", manifest.tool)
    return tuple(uses)


async def add(verified: Verified, uses: Sequence[SecretUse], tool: str) -> None:
    """Read the secrets and put them where the command will find them.

    Raises:
        Refused: ``spawning.secrets``.
    """
    for use in uses:
        value = await _read(use, tool)
        verified.secret_values.append(value.encode("utf-8", "surrogateescape"))
        text = use.declared.text.replace("{secret}", value)
        if use.declared.env is not None:
            verified.secret_environment[use.declared.env] = text
        else:
            verified.secret_files[use.name] = seal_bytes(text.encode("utf-8", "surrogateescape"))


async def _read(use: SecretUse, tool: str) -> str:
    source = use.source
    try:
        if source.environment is not None:
            value = os.environ[source.environment]
        elif source.file is not None:
            value = _from_file(source.file)
        else:
            value = await _from_command(source.command or ())
    except KeyError:
        raise _unavailable(use.name, f"${source.environment} is not set", tool) from None
    except (OSError, subprocess.SubprocessError, ValueError) as failed:
        raise _unavailable(
            use.name, getattr(failed, "strerror", None) or str(failed), tool
        ) from None
    if "\0" in value:
        raise _unavailable(use.name, "it holds a NUL character", tool)
    if len(value) < MIN_MASKED:
        raise _unavailable(use.name, f"it is shorter than {MIN_MASKED} characters", tool)
    return value


def _from_file(path: str) -> str:
    descriptor = os.open(os.path.expanduser(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise ValueError(f"{path} is no regular file")
        if facts.st_mode & (stat.S_IRWXO | stat.S_IWGRP):
            raise ValueError(f"{path} is open to others; `chmod 600` it")
        return _one_line(os.read(descriptor, MAX_BYTES))
    finally:
        os.close(descriptor)


async def _from_command(command: Sequence[str]) -> str:
    with trio.move_on_after(COMMAND_DEADLINE_S) as patience:
        done = await trio.run_process(
            list(command), capture_stdout=True, stderr=subprocess.DEVNULL, check=False
        )
    if patience.cancelled_caught:
        raise ValueError(f"{command[0]} gave no answer in {COMMAND_DEADLINE_S:.0f} s")
    if done.returncode != 0:
        raise ValueError(f"{command[0]} exited with {done.returncode}")
    return _one_line(done.stdout[:MAX_BYTES])


def _one_line(read: bytes) -> str:
    """Editors and `echo` end a file with a line break that is no part of the secret."""
    return read.decode("utf-8", "surrogateescape").removesuffix("\n").removesuffix("\r")


def _unavailable(name: str, found: str, tool: str) -> Refused:
    return Refused(
        "spawning.secrets",
        "SECRET_UNAVAILABLE",
        because=f"The secret {name!r} of {tool} cannot be had: {found}.",
        todo=f"Name its source in the configuration, under `secrets: {{{tool}: {{{name}: ...}}}}` "
        "(`file`, `environment` or `command`), and make sure that it can be read.",
    )
