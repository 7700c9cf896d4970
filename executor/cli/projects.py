"""Projects: the one in the current directory, as far as its mutants go."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from executor.problems import Faulty

if TYPE_CHECKING:
    from executor.testing.mutants import MutantsFile
    from executor.testing.mutation.known import Equivalents
    from executor.testing.mutation.settings import Settings

STALE = 3
VOID = 70


@dataclass(frozen=True, slots=True)
class Project:
    """Its settings, its declared mutants, and what is known of the generated ones."""

    top: Path
    settings: "Settings"
    files: "list[MutantsFile]"
    equivalents: "Equivalents"
    killers: dict[str, str]


def project() -> Project:
    """Read the project in the current directory."""
    from executor.testing.mutants import read_mutants
    from executor.testing.mutation.known import read_equivalents, read_killers
    from executor.testing.mutation.settings import read_settings

    top = Path.cwd()
    try:
        settings = read_settings(top)
        directory = Path(settings.mutants)
        files = read_mutants([directory])
        equivalents, killers = read_equivalents(directory), read_killers(directory)
    except Faulty as faulty:
        raise click.UsageError(f"The mutants are not valid:\n{faulty}") from None
    except (ValueError, OSError) as wrong:
        raise click.UsageError(f"pyproject.toml or the mutants cannot be read: {wrong}") from None
    return Project(top, settings, files, equivalents, killers)


def declared() -> "tuple[Path, Settings, list[MutantsFile]]":
    """Read the project in the current directory, which must have declared mutants."""
    found = project()
    if not found.files:
        raise click.UsageError(f"There are no mutants in {found.settings.mutants}.")
    return found.top, found.settings, found.files
