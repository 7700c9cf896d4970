"""The fake mail store itself: what it says is what it did, and it goes wrong only on cue."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

FAKE = Path(__file__).resolve().parents[2] / "fakes" / "mailstore.py"
PATIENCE_S = 30.0  # only ever spent by a test that fails
AT = "2190-05-01T09:30:00+02:00"
ID = "d1@21900501T073000Z"
DRAFT = (
    "From: a@example.org\nTo: B <b@example.org>\nCc: c@example.org\nBcc: d@example.org\n\nhello\n"
)


class Store:
    """A store with one draft."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for name in ("drafts", "scheduled"):
            (path / name).mkdir()
        self.draft = path / "drafts" / "d1"
        self.draft.write_text(DRAFT)

    def __call__(self, command: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Ask it something about the draft."""
        return subprocess.run(
            [sys.executable, "-IS", str(FAKE), command, str(self.path), *(words or ("d1",))],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def state(self) -> dict[str, str]:
        done = self("status")
        assert done.returncode == 0
        found: dict[str, str] = json.loads(done.stdout)
        return found


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_a_draft_tells_its_recipients_and_stays(store: Store) -> None:
    """Blind ones too: who is asked for a yes must see them."""
    done = store("recipients")

    assert (done.returncode, done.stdout.split()) == (
        0,
        ["b@example.org", "c@example.org", "d@example.org"],
    )
    assert store.state() == {"state": "draft"}


def test_a_scheduled_draft_is_moved_whole(store: Store) -> None:
    """It is in one place, under its id."""
    done = store("schedule", "d1", AT)

    assert (done.returncode, done.stdout, done.stderr) == (0, f"scheduled {ID}\n", "")
    assert not store.draft.exists()
    assert (store.path / "scheduled" / ID).read_text() == DRAFT
    assert store.state() == {"state": "scheduled", "id": ID}


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("d2", AT), 66, "there is no draft d2"),
        (("d1", "2001-01-01T00:00:00Z"), 65, "2001-01-01T00:00:00Z has passed"),
        (("d1", "soon"), 64, "'soon' is no time"),
        (("../d1", AT), 64, "'../d1' is no name of a draft"),
        (("d1",), 64, "recipients STORE DRAFT | schedule STORE DRAFT TIME | status STORE DRAFT"),
    ],
)
def test_what_it_cannot_do_it_says_and_does_nothing(
    store: Store, words: tuple[str, ...], status: int, said: str
) -> None:
    """A manifest takes its word for it."""
    done = store("schedule", *words)

    assert (done.returncode, done.stdout, done.stderr) == (status, "", f"mailstore: {said}\n")
    assert store.state() == {"state": "draft"}


@pytest.mark.parametrize("name", ["recipients", "schedule"])
@pytest.mark.parametrize("to", ["", "bo", "@", "bo@x, <<<>>"])
def test_a_draft_whose_recipients_cannot_be_read_is_refused(
    store: Store, name: str, to: str
) -> None:
    """It guesses nobody and passes over nobody."""
    store.draft.write_text(f"From: a@example.org\nTo: {to}\n\nhello\n")
    done = store(name, "d1", *([AT] if name == "schedule" else []))

    assert (done.returncode, done.stderr) == (
        65,
        "mailstore: draft d1 has no recipients that can be read\n",
    )
    assert store.state() == {"state": "draft"}


def test_a_second_draft_of_the_same_name_is_not_scheduled_beside_the_first(store: Store) -> None:
    """One name, one message."""
    store("schedule", "d1", AT)
    store.draft.write_text(DRAFT)
    done = store("schedule", "d1", "2191-01-01T00:00:00Z")

    assert (done.returncode, done.stderr) == (65, "mailstore: draft d1 is scheduled already\n")
    assert [path.name for path in (store.path / "scheduled").iterdir()] == [ID]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(("how", "status"), [("crash", -signal.SIGKILL), ("fail", 75)])
def test_on_cue_it_goes_wrong_without_saying_what_it_did(
    store: Store, moment: str, how: str, status: int
) -> None:
    """The two moments cannot be told apart from outside."""
    (store.path / "cue").write_text(f"{moment} {how}")
    done = store("schedule", "d1", AT)

    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr == ("" if how == "crash" else "mailstore: something went wrong\n")
    assert store.state()["state"] == ("draft" if moment == "before" else "scheduled")


def test_on_cue_it_hangs_once_the_draft_is_moved(store: Store) -> None:
    """It is alive, and says nothing."""
    (store.path / "cue").write_text("after hang")
    command = [sys.executable, "-IS", str(FAKE), "schedule", str(store.path), "d1", AT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as hanging:
        end = time.monotonic() + PATIENCE_S
        while store.draft.exists():
            assert time.monotonic() < end, "never moved"
            time.sleep(0.005)
        assert hanging.poll() is None
        hanging.kill()
        said, _ = hanging.communicate()

    assert (hanging.returncode, said) == (-signal.SIGKILL, b"")
    assert store.state() == {"state": "scheduled", "id": ID}
