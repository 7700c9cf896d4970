"""A store that was being made when its executor was killed is made whole by the next one."""

import json
from pathlib import Path

import pytest
import trio

from executor.store.opening import open_database
from tests.ledger.programs.stand import line, program, standing


# rule: ledger.sound-store
def test_a_store_whose_making_was_killed_at_any_line_opens_afterwards(tmp_path: Path) -> None:
    """A beginning that was cut short has lost nothing, and must lock nobody out."""
    with program("beginner", tmp_path / "state") as process:
        found = json.loads(line(process))
        assert process.wait() == 0

    assert found["lines"] > 30
    assert {"store", "ledger.new store", "ledger.db store"} <= set(found["left"])


# rule: ledger.sound-store
def test_what_is_left_of_an_earlier_beginning_is_no_ledger(tmp_path: Path) -> None:
    """It was never whole, so nothing can have been recorded in it."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "ledger.new").write_bytes(b"half of it")
    (state / "ledger.new-journal").write_bytes(b"half of it")

    opened = open_database(state, used_before=False)

    opened.close()
    assert sorted(path.name for path in state.iterdir()) == ["ledger.db", "store"]


# rule: ledger.everywhere
def test_executors_that_begin_at_the_same_time_share_one_store(tmp_path: Path) -> None:
    """Two that each made their own would each allow what the other did."""
    state = tmp_path / "state"
    with (
        program("claimer", state, "claim:one", "wait") as one,
        program("claimer", state, "claim:two", "wait") as two,
        program("claimer", state, "claim:three", "wait") as three,
    ):
        for process, name in ((one, "one"), (two, "two"), (three, "three")):
            assert line(process) == f"claim:{name}"

        async def look() -> set[str]:
            async with standing(state) as stand:
                return set(stand.names())

        assert trio.run(look) == {"one", "two", "three"}


# rule: ledger.sound-store
def test_migrations_are_run_by_themselves_and_each_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upgrade must need nobody, and must not be undone by going back."""
    from executor.store import content

    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    open_database(state, used_before=False).close()
    scripts = [*content.migrations(), "ALTER TABLE notes ADD COLUMN more TEXT"]
    monkeypatch.setattr(content, "migrations", lambda: scripts)

    for _ in range(2):
        opened = open_database(state, used_before=True)
        assert opened.read(lambda session: session.rows("SELECT more FROM notes")) == []
        assert opened.read(lambda session: session.rows("PRAGMA user_version")) == [(2,)]
        opened.close()
