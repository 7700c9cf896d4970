"""Loading: manifests and configuration from their files, whole or not at all."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

import msgspec

from executor.capabilities import registry
from executor.config import Config
from executor.effects.texts import read_text
from executor.manifest import SecretSource
from executor.plain_yaml import Document
from executor.problems import Faulty, Problem, read
from executor.refusal import Refused
from executor.rules import configs
from executor.rules import manifests as manifest_rules
from executor.rules.manifests import Tool


def load_tools(paths: Iterable[str], *, packs: bool = True) -> dict[str, Tool]:
    """Load manifests; one that is not valid, or a tool declared twice, fails the whole load.

    Args:
        packs: the shipped ones too.
    Raises:
        Refused: ``admission.closed-manifest``.
    """
    return _loaded(_manifest_files(paths), shipped_tools() if packs else {})


@cache
def shipped_tools() -> Mapping[str, Tool]:
    """Load the shipped manifests; once for a process, because reading them takes its time."""
    return MappingProxyType(_loaded(pack_files(), {}))


def _loaded(manifests: Iterable[Path], known: Mapping[str, Tool]) -> dict[str, Tool]:
    tools = dict(known)
    problems: list[Problem] = []
    for file in manifests:
        try:
            tool = manifest_rules.load(read_text(file), str(file), registry())
        except Faulty as faulty:
            problems += faulty.problems
            continue
        except OSError as failed:
            problems.append(_unreadable(str(file), failed))
            continue
        name = tool.manifest.tool
        if name in tools:
            found = f"{name!r} is declared in {tools[name].file} too"
            problems.append(Problem(str(file), 1, 1, "tool", found, "Give it another name"))
        tools[name] = tool
    if problems:
        raise manifest_rules.refusal(Faulty(problems))
    return tools


def pack_files() -> list[Path]:
    """Give the shipped manifests."""
    return sorted(Path(str(files("executor.packs"))).glob("*.yaml"))


def _manifest_files(paths: Iterable[str]) -> Iterator[Path]:
    for written in paths:
        path = Path(written)
        if os.path.isdir(path):
            yield from sorted(path.glob("*.yaml"))
        else:
            yield path


def _unreadable(file: str, failed: OSError) -> Problem:
    return Problem(file, 1, 1, "", failed.strerror or str(failed), "Check the path")


def read_config(path: str | os.PathLike[str] | None) -> Config:
    if path is None:
        return Config()
    file = Path(path)
    try:

        def check(config: Config, document: Document) -> Iterable[Problem]:
            return configs.check_sources(config, document, str(file))

        settings, _ = read(read_text(file), str(file), Config, check)
    except Faulty as faulty:
        raise invalid_config(str(faulty)) from None
    except OSError as failed:
        raise invalid_config(f"{file}: {failed.strerror}") from None
    return _placed(settings, file.resolve().parent)


def _placed(settings: Config, directory: Path) -> Config:
    """Let relative paths start from the directory of the file."""

    def place(written: str) -> str:
        return str(directory / os.path.expanduser(written))

    return msgspec.structs.replace(
        settings,
        state=None if settings.state is None else place(settings.state),
        manifests=tuple(map(place, settings.manifests)),
        roots=tuple(map(place, settings.roots)),
        trusted=tuple(map(place, settings.trusted)),
        secrets={
            tool: {name: _placed_source(source, place) for name, source in sources.items()}
            for tool, sources in settings.secrets.items()
        },
    )


def _placed_source(source: SecretSource, place: Callable[[str], str]) -> SecretSource:
    if source.file is None:
        return source
    return msgspec.structs.replace(source, file=place(source.file))


def invalid_config(found: str) -> Refused:
    return Refused(
        "admission.closed-config",
        "INVALID_CONFIG",
        because=f"The configuration is not valid:\n{found}\n",
        todo="Correct it; nothing was started.",
    )
