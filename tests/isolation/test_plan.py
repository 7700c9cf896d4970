"""At which level an action runs, and which paths it may never reach: plain values."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.frozen import Asked, Endpoint, HostPath
from executor.manifest import ISOLATION_LEVELS, Isolation, IsolationLevel, Limits, Manifest
from executor.refusal import Refused
from executor.rules import isolation
from executor.rules.isolation import Availability, Places

PLACES = Places(roots=("/work/root",), home="/home/ana", state="/var/lib/executor")


def manifest(level: IsolationLevel, network: Any = ()) -> Manifest:
    """Give a manifest that requires a level."""
    return Manifest(
        executor="manifest/1",
        tool="test.fake",
        summary="x",
        command="x",
        argv=(),
        capabilities=(),
        outcomes=(),
        isolation=Isolation(level=level, network=network),
        limits=Limits(),
    )


def asked(**changes: Any) -> Asked:
    """Give what was asked, with nothing of this machine in reach."""
    given: dict[str, Any] = dict.fromkeys(
        ("files", "argv", "targets", "network", "read", "write"), ()
    )
    given |= {name: {} for name in ("parameters", "env", "stage")}
    given |= {"tool": "test.fake", "manifest_sha256": "", "stdin": None, "account": "a"}
    return Asked(**(given | changes))


def probed(*working: IsolationLevel) -> tuple[Availability, ...]:
    """Give what the probes found."""
    return tuple(
        Availability(level, level in working, f"why {level}", (f"missing at {level}",))
        for level in ISOLATION_LEVELS
    )


# rule: isolation.declared
@pytest.mark.parametrize("required", ISOLATION_LEVELS)
@pytest.mark.parametrize("strongest", ISOLATION_LEVELS)
@pytest.mark.parametrize("degraded", [False, True])
def test_declared_level_is_had_or_refused_for_every_pair(
    required: IsolationLevel, strongest: IsolationLevel, degraded: bool
) -> None:
    """People rely on a sandbox that they believe in."""
    working = ISOLATION_LEVELS[: ISOLATION_LEVELS.index(strongest) + 1]
    enough = ISOLATION_LEVELS.index(strongest) >= ISOLATION_LEVELS.index(required)

    if enough or degraded:
        reach = isolation.plan(manifest(required), asked(), probed(*working), degraded=degraded)

        assert reach.level == strongest
        assert reach.required == required
        assert f"missing at {strongest}" in reach.missing
        named = f"{required} isolation, which the manifest requires" in reach.missing
        assert named == (not enough)
    else:
        with pytest.raises(Refused) as no:
            isolation.plan(manifest(required), asked(), probed(*working), degraded=degraded)

        assert (no.value.rule, no.value.code) == ("isolation.declared", "ISOLATION_UNAVAILABLE")
        assert f"why {required}" in no.value.because
        assert strongest in no.value.because


# rule: isolation.declared
def test_declared_level_that_is_missing_in_the_middle_is_not_counted() -> None:
    """What works is what was probed, not what lies below something that works."""
    reach = isolation.plan(
        manifest("restricted"), asked(), probed("bare", "namespaced"), degraded=False
    )

    assert reach.level == "namespaced"


# rule: isolation.declared
def test_declared_network_is_the_only_network() -> None:
    """None unless declared, and where more than the declared is in reach it is said."""
    endpoint = Endpoint("api.example.org", 443)

    def network(level: IsolationLevel, declared: Any, *endpoints: Endpoint) -> Any:
        return isolation.plan(
            manifest("bare", declared), asked(network=endpoints), probed(level), degraded=False
        )

    assert network("namespaced", ()).network == "none"
    assert not any("proxy" in entry for entry in network("namespaced", ()).missing)
    some = network("namespaced", ("x",), endpoint)
    assert (some.network, some.endpoints) == ("host", (endpoint,))
    assert any("not only api.example.org:443" in entry for entry in some.missing)
    whole = network("namespaced", "host")
    assert whole.network == "host"
    assert not any("proxy" in entry for entry in whole.missing)
    assert network("bare", ()).network == "host"


# rule: isolation.declared
def test_declared_strongest_level_is_one_that_works() -> None:
    """What `doctor` shows is what a run would get."""
    assert isolation.strongest(probed("bare")).level == "bare"
    assert isolation.strongest(probed("bare", "namespaced")).level == "namespaced"


def check(path: str, *, writes: bool = False, from_request: bool = False) -> None:
    """Check one path."""
    entry = HostPath(path, from_request)
    isolation.check_paths(asked(**{"write" if writes else "read": (entry,)}), PLACES)


def refused(path: str, **how: bool) -> str:
    """Give the reason of a refusal."""
    with pytest.raises(Refused) as no:
        check(path, **how)
    assert (no.value.rule, no.value.code) == ("isolation.paths", "PATH_NOT_ALLOWED")
    return no.value.because


# rule: isolation.paths
@pytest.mark.parametrize(
    "path",
    ["/opt/data", "/work/root/a", "/home/ana/project", "/home/ana/.sshx", "/usr/share/x", "/etc/x"],
)
def test_paths_that_a_manifest_declares_can_be_read(path: str) -> None:
    """The twin of all that follows."""
    check(path)


# rule: isolation.paths
@pytest.mark.parametrize(
    "path",
    [
        "",
        "relative",
        "./relative",
        "/opt/../etc/x",
        "/opt/./x",
        "/opt//x",
        "//opt/x",
        "//home/ana/.ssh",
        "///opt/x",
        "/opt/x/",
        "/..",
    ],
)
def test_paths_that_are_not_plain_are_refused(path: str) -> None:
    """Two ways to write a path are one way around a list of paths."""
    check("/opt/x")

    assert "plain absolute path" in refused(path)


# rule: isolation.paths
@pytest.mark.parametrize("place", isolation.NO_PATH_BELOW)
@pytest.mark.parametrize("writes", [False, True])
def test_paths_of_the_system_are_never_opened(place: str, writes: bool) -> None:
    """Sockets, devices and other processes are ways out of the sandbox."""
    wide = Places(roots=("/",), home="/home/ana", state="/var/lib/executor")
    entries = (HostPath(place, False), HostPath(f"{place}/deeper/still", False))
    for entry in entries:
        with pytest.raises(Refused) as no:
            isolation.check_paths(asked(**{"write" if writes else "read": (entry,)}), wide)
        assert f"would open {place}" in no.value.because


# rule: isolation.paths
@pytest.mark.parametrize("name", isolation.NO_PATH_BELOW_HOME)
def test_paths_of_keys_are_never_opened(name: str) -> None:
    """Nor what they lie in, nor what lies in them."""
    place = f"/home/ana/{name}"

    assert f"would open {place}" in refused(place)
    assert f"would open {place}" in refused(f"{place}/id")
    check(f"{place}-not")


# rule: isolation.paths
@pytest.mark.parametrize("path", ["/", "/home", "/home/ana", "/var", "/var/lib"])
def test_paths_too_wide_open_what_must_stay_closed(path: str) -> None:
    """One path too wide undoes the rest."""
    assert "would open" in refused(path)


# rule: isolation.paths
def test_paths_of_the_executors_own_state_are_never_opened() -> None:
    """Receipts and frozen copies must not be anybody's to change."""
    check("/var/lib/executor2")

    for path in ("/var/lib/executor", "/var/lib/executor/blobs"):
        assert "would open /var/lib/executor" in refused(path)


# rule: isolation.paths
@pytest.mark.parametrize("place", isolation.NO_WRITE_BELOW)
def test_paths_of_programs_are_never_written(place: str) -> None:
    """What can write a program is that program."""
    wide = Places(roots=("/",), home="/home/ana", state="/var/lib/executor")
    inner = (HostPath(f"{place}/share/x", False),)
    isolation.check_paths(asked(read=inner), wide)

    with pytest.raises(Refused) as no:
        isolation.check_paths(asked(write=inner), wide)

    assert f"would open {place}" in no.value.because


# rule: isolation.paths
def test_paths_are_below_the_roots_where_they_are_written_or_a_caller_chose_them() -> None:
    """A manifest is trusted to read; what a caller names, and what is changed, is not."""
    check("/opt/data")
    check("/work/root/a", writes=True)
    check("/work/root/a", from_request=True)
    check("/work/root", writes=True)

    for path in ("/opt/data", "/work/root2", "/work", "/work/rootling/a"):
        assert "outside of the roots" in refused(path, writes=True)
        assert "outside of the roots" in refused(path, from_request=True)


SEGMENT = st.sampled_from(
    ["home", "ana", ".ssh", "work", "root", "a", "..", ".", "", "proc", "var"]
)


# rule: isolation.paths
@given(st.lists(SEGMENT, max_size=6), st.sampled_from(["/", "//", ""]), st.booleans())
def test_paths_that_pass_name_nothing_closed_however_they_are_written(
    segments: list[str], start: str, from_request: bool
) -> None:
    """What the kernel would open is what was looked at."""
    path = start + "/".join(segments)
    try:
        check(path, from_request=from_request)
    except Refused:
        return

    parts = [part for part in path.split("/") if part not in ("", ".")]
    assert ".." not in parts
    opened = "/" + "/".join(parts)
    assert opened == path
    for closed in ("/home/ana/.ssh", "/proc", "/var/lib/executor"):
        assert not f"{opened}/".startswith(f"{closed}/")
        assert not closed.startswith(opened.rstrip("/") + "/")
    if from_request:
        assert opened == "/work/root" or opened.startswith("/work/root/")
