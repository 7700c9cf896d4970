"""Freezing: the staging area of a run without a sandbox holds the verified bytes, and goes."""

import fcntl
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from executor.effects import staging
from executor.effects.sealing import seal_bytes
from executor.effects.verifying import Verified
from tests.freezing.shelf import TOP, python
from tests.freezing.values import action


def verified(**asked: object) -> Verified:
    """Give a verified action with one file and one secret."""
    made = Verified(action(**asked))
    made.files["doc.txt"] = seal_bytes(b"BENIGN")
    made.secret_files["key"] = seal_bytes(b"hunter2")
    return made


@pytest.fixture
def areas(tmp_path: Path) -> Path:
    """A directory for staging areas; it is made by the first."""
    return tmp_path / "state" / "staging"


# rule: freezing.hash-the-copy
def test_a_staging_area_is_private_and_holds_only_the_verified_bytes_after_hash_the_copy(
    areas: Path,
) -> None:
    """What is found lying there would be an input that nobody approved."""
    with verified(stage={"conf/a.ini": "a=1\n", "empty/": ""}) as given:
        area = staging.stage(areas, "one", given)

    found = {
        str(path.relative_to(area.path)): path.read_bytes() if path.is_file() else None
        for path in area.path.rglob("*")
    }
    assert found == {
        "home": None,
        "tmp": None,
        "secrets": None,
        "secrets/key": b"hunter2",
        "work": None,
        "work/doc.txt": b"BENIGN",
        "work/conf": None,
        "work/conf/a.ini": b"a=1\n",
        "work/empty": None,
    }
    for closed in (areas, area.path, *(area.path / name for name in ("home", "work", "secrets"))):
        assert closed.stat().st_mode & 0o777 == 0o700
    for frozen in ("work/doc.txt", "secrets/key"):
        assert (area.path / frozen).stat().st_mode & 0o777 == 0o400
    area.remove()
    assert list(areas.iterdir()) == []


STAGE = """
import json, sys
from pathlib import Path
from executor.effects import staging
from executor.effects.verifying import Verified
from tests.freezing.values import action
given = Verified(action(stage={"conf": "\\u00e9 \\u6f22\\r\\n"}))
area = staging.stage(Path(sys.argv[1]), "one", given)
print(json.dumps((area.path / "work" / "conf").read_bytes().hex()))
"""


# rule: freezing.digest-covers-all
@pytest.mark.parametrize("locale", [{}, {"LC_ALL": "C", "PYTHONUTF8": "0"}])
def test_a_staged_text_has_the_bytes_that_digest_covers_all_hashed_in_any_locale(
    areas: Path, locale: dict[str, str]
) -> None:
    """The digest is of UTF-8; the text of another encoding would be another input."""
    given = {"PYTHONCOERCECLOCALE": "0", **locale}

    assert bytes.fromhex(python(STAGE, areas, env=given)) == "é 漢\r\n".encode()


# rule: spawning.staging-cwd
def test_an_area_that_cannot_be_filled_leaves_nothing_for_staging_cwd(areas: Path) -> None:
    """A full disk must not be filled with halves."""
    with verified() as given:
        staging.stage(areas, "control", given).remove()
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (3, hard))
        try:
            with pytest.raises(OSError, match="too large"):
                staging.stage(areas, "one", given)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert list(areas.iterdir()) == []


# rule: spawning.staging-cwd
def test_an_area_of_the_same_name_is_left_alone_by_staging_cwd(areas: Path) -> None:
    """It is somebody else's, and it is not fresh."""
    with verified() as given:
        first = staging.stage(areas, "one", given)
        (first.path / "work" / "result").write_text("kept")

        with pytest.raises(FileExistsError):
            staging.stage(areas, "one", given)

    assert (first.path / "work" / "result").read_text() == "kept"
    first.remove()


MESS = """
import json, os, sys
from pathlib import Path
from executor.effects import staging
from executor.effects.verifying import Verified
from tests.freezing.values import action
areas, outside, mess = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
area = staging.stage(areas, "one", Verified(action()))
os.chdir(area.path / "work")
if mess == "closed":
    os.makedirs("a/b/c")
    Path("a/b/c/file").touch()
    for path in ("work/a/b/c", "work/a/b", "work/a", "work", "home", ""):
        os.chmod(area.path / path, 0)
elif mess == "write-protected":
    os.makedirs("a/b")
    Path("a/b/file").touch(mode=0o400)
    for path in ("a/b", "a", "."):
        os.chmod(path, 0o500)
elif mess == "deep":
    for _ in range(1500):
        os.mkdir("deeper")
        os.chdir("deeper")
elif mess == "wide":
    for number in range(300):
        os.mkdir(str(number))
        Path(str(number), "file").touch()
elif mess == "links":
    os.symlink(outside, "link")
    os.symlink(outside / "file", "file")
    os.symlink("/", "root")
    os.symlink("loop", "loop")
    os.makedirs("a")
    os.symlink(outside, "a/link")
elif mess == "special":
    os.mkfifo("pipe")
    os.link(outside / "file", "hard")
elif mess == "names":
    for name in (b"\\xff", b"-rf", b"two\\nlines", b"x" * 255):
        os.mkdir(name)
        open(os.path.join(name, name), "w").close()
elif mess == "gone":
    os.rename(area.path, outside / "moved")
os.chdir("/")
area.remove()
print(json.dumps(os.listdir(areas)))
"""


# rule: spawning.staging-cwd
@pytest.mark.parametrize(
    "mess",
    ["", "closed", "write-protected", "deep", "wide", "links", "special", "names", "gone"],
)
def test_whatever_the_command_made_of_its_area_it_is_removed_by_staging_cwd(
    areas: Path, tmp_path: Path, mess: str
) -> None:
    """Removed in every case, and nothing beside it: a link in it leads to other people's files."""
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o750)
    (outside / "file").write_text("theirs")
    (outside / "file").chmod(0o640)

    assert python(MESS, areas, outside, mess, powerless=True) == []

    assert outside.stat().st_mode & 0o777 == 0o750
    assert (outside / "file").read_text() == "theirs"
    assert (outside / "file").stat().st_mode & 0o777 == 0o640


LIVE = """
import sys, time
from pathlib import Path
from executor.effects import staging
from executor.effects.verifying import Verified
from tests.freezing.values import action
area = staging.stage(Path(sys.argv[1]), "theirs", Verified(action()))
(area.path / "work" / "closed").mkdir(mode=0)
print("there", flush=True)
time.sleep(600)
"""


# rule: spawning.staging-cwd
def test_an_area_is_swept_by_the_next_executor_only_when_its_own_was_killed_for_staging_cwd(
    areas: Path,
) -> None:
    """What a run still works in is its own; what nobody comes back to must not stay."""
    with subprocess.Popen(
        [sys.executable, "-c", LIVE, areas],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(TOP)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        try:
            assert staging.sweep(areas) == 0
            assert (areas / "theirs" / "work").is_dir()
        finally:
            process.send_signal(signal.SIGKILL)

    assert staging.sweep(areas) == 1
    assert list(areas.iterdir()) == []


# rule: spawning.staging-cwd
@pytest.mark.parametrize(
    "leave",
    [
        lambda path: path.write_text("x"),
        lambda path: path.symlink_to("/etc"),
        lambda path: path.symlink_to("nowhere"),
        os.mkfifo,
        lambda path: path.mkdir(mode=0),
    ],
)
def test_what_else_was_left_among_the_areas_is_swept_too_for_staging_cwd(
    areas: Path, leave: Callable[[Path], object]
) -> None:
    """A command without a sandbox can leave anything there; it must not stop the next start."""
    assert staging.sweep(areas) == 0  # not even made yet
    areas.mkdir(parents=True)
    leave(areas / "stray")

    assert staging.sweep(areas) == 1

    assert list(areas.iterdir()) == []
    assert Path("/etc/passwd").exists()


# rule: spawning.staging-cwd
def test_an_area_in_the_making_is_not_swept_for_staging_cwd(areas: Path) -> None:
    """Between its making and its own lock it looks abandoned."""
    (areas / "new").mkdir(parents=True)
    making = os.open(areas, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(making, fcntl.LOCK_SH)  # as `stage` does

    assert staging.sweep(areas) == 0
    assert (areas / "new").is_dir()

    os.close(making)
    assert staging.sweep(areas) == 1


SWEEP = """
import sys
from pathlib import Path
from executor.effects import staging
print("sweeping", flush=True)
while True:
    staging.sweep(Path(sys.argv[1]))
"""


# rule: spawning.staging-cwd
def test_executors_that_start_all_the_time_never_take_a_fresh_area_for_staging_cwd(
    areas: Path,
) -> None:
    """Each start sweeps; a run that begins at that moment must not lose its directory."""
    areas.mkdir(parents=True)
    with (
        verified() as given,
        subprocess.Popen(
            [sys.executable, "-c", SWEEP, areas],
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(TOP)},
        ) as sweeping,
    ):
        assert sweeping.stdout is not None
        assert sweeping.stdout.readline() == b"sweeping\n"
        try:
            for number in range(200):
                area = staging.stage(areas, str(number), given)
                assert (area.path / "work" / "doc.txt").read_bytes() == b"BENIGN"
                area.remove()
        finally:
            sweeping.send_signal(signal.SIGKILL)

    assert list(areas.iterdir()) == []
