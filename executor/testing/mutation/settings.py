"""Settings: what `[tool.executor.mutants]` in a project's `pyproject.toml` says."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from executor import units
from executor.units import Size


class Thresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Scores in per cent: below ``break`` a run fails, ``high`` is good, ``low`` is not."""

    high: float = 80.0
    low: float = 60.0
    break_: float = msgspec.field(name="break", default=0.0)


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """Where the mutants and tests of a project are.

    ``mutants`` is their directory, ``tests`` what pytest collects, ``imports`` the directories from
    which the project's packages are imported, ``leave_out`` what copies need not have, ``memory``
    what each process of a test may take. ``generated`` names the files and directories in which
    edits are generated, with their thresholds; ``messages`` whether in texts for people too: those
    are the literals with a blank in them.
    """

    mutants: str = "mutants"
    tests: tuple[str, ...] = ("tests",)
    imports: tuple[str, ...] = (".", "src")
    leave_out: tuple[str, ...] = ()
    memory: Size = Size(4 * 2**30)
    generated: Mapping[str, Thresholds] = {}
    messages: bool = False


def read_settings(top: Path) -> Settings:
    """Read them from the project at ``top``; a project that says nothing has the usual ones.

    Raises:
        ValueError: they are not valid; it says where.
    """
    try:
        written = tomllib.loads((top / "pyproject.toml").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Settings()
    section = written.get("tool", {}).get("executor", {}).get("mutants", {})
    return msgspec.convert(section, Settings, dec_hook=units.parse)
