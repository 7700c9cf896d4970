"""Configs: does a configuration hold together, by itself and with the tools that are loaded?"""

from collections.abc import Iterator, Mapping

from executor.config import Config
from executor.manifest import SecretSource
from executor.plain_yaml import Document
from executor.problems import Problem, did_you_mean, problem_at
from executor.rules.manifests import Tool


def sources_given(source: SecretSource) -> int:
    """Count the places that a secret's source names; one is right."""
    return sum(bool(place) for place in (source.file, source.environment, source.command))


def check_sources(config: Config, document: Document, file: str) -> Iterator[Problem]:
    """Find each source of a secret that does not name exactly one place."""
    for tool, sources in config.secrets.items():
        for name, source in sources.items():
            if sources_given(source) != 1:
                yield problem_at(
                    document,
                    file,
                    ("secrets", tool, name),
                    "not exactly one source",
                    "Give `file`, `environment` or `command`",
                )


def unknown_secrets(config: Config, tools: Mapping[str, Tool]) -> Iterator[str]:
    """Say which secrets nobody asks for: a misspelt name would quietly go without."""
    for tool, sources in config.secrets.items():
        if tool not in tools:
            yield f"secrets.{tool}: no such tool. {did_you_mean(tool, tools)}"
            continue
        known = tools[tool].manifest.secrets
        for name in sources:
            if name not in known:
                yield f"secrets.{tool}.{name}: no such secret. {did_you_mean(name, known)}"
