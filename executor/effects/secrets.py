"""Secrets: read from their declared source, right before the run, and kept nowhere."""

import os
import signal
import stat
import subprocess
from collections.abc import Mapping, Sequence

import trio

from executor.effects.processes import Handle
from executor.effects.sealing import seal_bytes
from executor.effects.streams import Stream
from executor.effects.verifying import Verified
from executor.frozen import SecretUse
from executor.manifest import Manifest, SecretSource
from executor.refusal import Refused
from executor.rules.spawning import LEAST_MASKED, spellings

MAX_BYTES = 64 * 1024
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
        verified.secret_values += spellings(value)
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
        found = getattr(failed, "strerror", None)
        where = source.file or (source.command or ("",))[0]
        raise _unavailable(use.name, f"{where}: {found}" if found else str(failed), tool) from None
    if "\0" in value:
        raise _unavailable(use.name, "it holds a NUL character", tool)
    if len(value) < LEAST_MASKED:
        raise _unavailable(use.name, f"it is shorter than {LEAST_MASKED} characters", tool)
    return value


def _from_file(path: str) -> str:
    descriptor = os.open(os.path.expanduser(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise ValueError(f"{path} is no regular file")
        if facts.st_mode & (stat.S_IRWXO | stat.S_IWGRP):
            raise ValueError(f"{path} is open to others; `chmod 600` it")
        return _one_line(os.read(descriptor, MAX_BYTES + 1))
    finally:
        os.close(descriptor)


async def _from_command(command: Sequence[str]) -> str:
    """Run a command for its first words; what it leaves behind is neither waited for nor kept."""
    with Stream.open(MAX_BYTES + 1) as stdout:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=stdout.far,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        stdout.close_far()
        try:
            with Handle(process.pid) as handle, trio.move_on_after(COMMAND_DEADLINE_S) as patience:
                async with trio.open_nursery() as drains:
                    drains.start_soon(stdout.drain)
                    await handle.wait()
                    drains.cancel_scope.cancel()
            stdout.sweep()
        except* trio.Cancelled:
            pass  # raised anew below, without the group that a nursery puts around it
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # not reaped yet: the number is still its own
            code = process.wait()
    await trio.lowlevel.checkpoint_if_cancelled()
    if patience.cancelled_caught:
        raise ValueError(f"{command[0]} gave no answer in {COMMAND_DEADLINE_S:.0f} s")
    if code != 0:
        raise ValueError(f"{command[0]} exited with {code}")
    return _one_line(bytes(stdout.kept))


def _one_line(read: bytes) -> str:
    """Editors and `echo` end a file with a line break that is no part of the secret."""
    if len(read) > MAX_BYTES:
        raise ValueError(f"it is longer than {MAX_BYTES} bytes")
    return read.decode("utf-8", "surrogateescape").removesuffix("\n").removesuffix("\r")


def _unavailable(name: str, found: str, tool: str) -> Refused:
    return Refused(
        "spawning.secrets",
        "SECRET_UNAVAILABLE",
        because=f"The secret {name!r} of {tool} cannot be had: {found}.",
        todo=f"Name its source in the configuration, under `secrets: {{{tool}: {{{name}: ...}}}}` "
        "(`file`, `environment` or `command`), and make sure that it can be read.",
    )
