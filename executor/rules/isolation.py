"""Isolation: at which level an action runs, and which paths it may never reach."""

import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from executor.frozen import Asked, HostPath, Reach
from executor.manifest import ISOLATION_LEVELS, IsolationLevel, Manifest
from executor.problems import show_value
from executor.refusal import Refused

NO_PATH_BELOW = ("/boot", "/dev", "/proc", "/run", "/staging", "/sys", "/var/run")
"""Places of the system, and of the sandbox itself, that no manifest can open."""
NO_WRITE_BELOW = ("/bin", "/etc", "/lib", "/lib64", "/sbin", "/usr")
NO_PATH_BELOW_HOME = (
    ".aws", ".azure", ".config/gcloud", ".config/gh", ".docker", ".git-credentials", ".gnupg",
    ".cargo/credentials", ".cargo/credentials.toml", ".config/git/credentials", ".kube",
    ".local/share/keyrings", ".m2/settings.xml", ".netrc", ".npmrc", ".password-store", ".pypirc",
    ".ssh", ".terraform.d", ".vault-token",
)  # fmt: skip
"""Keys and credentials."""


@dataclass(frozen=True, slots=True)
class Availability:
    """What a probe found out about one level: works, or why not, and what it cannot promise."""

    level: IsolationLevel
    works: bool
    why: str
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Places:
    """The directories that bound what a command may reach; absolute, real, without links.

    ``private`` are further places of secrets; ``unwritable`` those that decide what may run:
    configuration, manifests, trusted directories.
    """

    roots: tuple[str, ...]
    home: str
    state: str
    private: tuple[str, ...] = ()
    unwritable: tuple[str, ...] = ()


def plan(
    manifest: Manifest, asked: Asked, probed: Sequence[Availability], *, degraded: bool
) -> Reach:
    """Choose the strongest level that works.

    Args:
        probed: one entry for each level.
        degraded: a weaker level than the manifest requires is accepted, and told.
    Raises:
        Refused: ``isolation.declared``.
    """
    required = manifest.isolation.level
    working = {entry.level: entry for entry in probed if entry.works}
    strongest = next(level for level in reversed(ISOLATION_LEVELS) if level in working)
    if _rank(strongest) < _rank(required) and not degraded:
        wanted = next(entry for entry in probed if entry.level == required)
        raise Refused(
            "isolation.declared",
            "ISOLATION_UNAVAILABLE",
            because=f"{manifest.tool} requires {required} isolation; this machine offers "
            f"{strongest}. {required}: {wanted.why}",
            todo="Run `executor doctor` for how to get it, or accept less with degraded mode "
            "(`--degraded`, or `degraded: true` in the configuration).",
        )
    missing = list(working[strongest].missing)
    if _rank(strongest) < _rank(required):
        missing.insert(0, f"{required} isolation, which the manifest requires")
    wants_network = manifest.isolation.network == "host" or bool(asked.network)
    if strongest == "bare":
        network = "host"
    elif wants_network:
        network = "host"
        if asked.network:
            declared = ", ".join(map(str, asked.network))
            missing.append(
                f"an egress proxy: all of the host's network is in reach, not only {declared}"
            )
    else:
        network = "none"
    return Reach(
        level=strongest,
        required=required,
        missing=tuple(missing),
        network=network,
        endpoints=asked.network,
        read=tuple(entry.path for entry in asked.read),
        write=tuple(entry.path for entry in asked.write),
    )


def private_below(home: str) -> tuple[str, ...]:
    """Give the places of keys and credentials below a home directory."""
    return tuple(posixpath.join(home, name) for name in NO_PATH_BELOW_HOME)


def private_places(places: Places) -> tuple[str, ...]:
    """Give the places of keys, credentials and our own state: no root opens them."""
    return (
        places.state,
        *private_below(places.home),
        *places.private,
    )


def check_paths(asked: Asked, places: Places) -> None:
    """Refuse a path that no command may reach.

    Raises:
        Refused: ``isolation.paths``.
    """
    for entry in asked.read:
        _check_path(entry, places, writes=False)
    for entry in asked.write:
        _check_path(entry, places, writes=True)
    paths = sorted({entry.path for entry in (*asked.read, *asked.write)})
    for outer, inner in combinations(paths, 2):
        if _within(inner, outer):
            # A mount inside a tree that somebody can change would be made wherever a link leads.
            _refuse(inner, f"lies within {outer}, which is opened too", "Name only one of them")


def _check_path(entry: HostPath, places: Places, *, writes: bool) -> None:
    path = entry.path
    # POSIX keeps a path apart that begins with two slashes; Linux, which opens it, does not.
    if not path.startswith("/") or path.startswith("//") or posixpath.normpath(path) != path:
        _refuse(
            path,
            "is not a plain absolute path",
            "Write it from / on, without . and .., doubled slashes or one at the end",
        )
    if (writes or entry.from_request) and not any(_within(path, root) for root in places.roots):
        _refuse(path, "is outside of the roots", "Name a path below a root, or add a root")
    system = (*NO_PATH_BELOW, *((*NO_WRITE_BELOW, *places.unwritable) if writes else ()))
    for place in (*private_places(places), *system):
        if _within(path, place) or _within(place, path):
            _refuse(path, f"would open {place}", "Name a narrower path elsewhere")


def _within(path: str, directory: str) -> bool:
    return path.rstrip("/") == directory or path.startswith(directory.rstrip("/") + "/")


def _refuse(path: str, found: str, instead: str) -> None:
    raise Refused(
        "isolation.paths",
        "PATH_NOT_ALLOWED",
        because=f"{show_value(path)} {found}.",
        todo=f"{instead}.",
    )


def _rank(level: IsolationLevel) -> int:
    return ISOLATION_LEVELS.index(level)


def strongest(probed: Iterable[Availability]) -> Availability:
    """Give the strongest level that works; ``bare`` always does."""
    return max((entry for entry in probed if entry.works), key=lambda entry: _rank(entry.level))
