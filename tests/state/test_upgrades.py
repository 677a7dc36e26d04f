"""A state of an earlier format is read as it is, and carried over whole or not at all."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from databases import heard, rows_in
from forked_commands import GONE, forked_python
from next_format import NOW, SINCE_15, next_version
from typer.testing import CliRunner

from counton import PureDP, Stream
from counton.base.errors import StateError, StateUnavailable
from counton.base.private import open_private
from counton.cli.app import app
from counton.state import Store, state_summary
from counton.state.backup import upgrade
from counton.state.verification import verify
from counton.strategies import Binary

PROGRAM = Path(__file__).parents[1] / "support" / "next_format.py"


def make(state: Path | str, **more: str) -> None:
    """Make a state of this format with three releases."""
    with Stream.create(state, "visits", Binary(100), PureDP(1), **more) as stream:  # type: ignore[arg-type]
        stream.release_many([3, 1, 4])


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    make(tmp_path / "visits.db")
    return tmp_path / "visits.db"


def released(state: Path | str) -> list[float]:
    with Store(state) as store:
        values: list[float] = np.asarray(store.reader("visits").releases().values).tolist()
        return values


def carried_over_until(state: Path, number: int, when: str) -> int:
    """The exit code of a process that is gone at a statement of an upgrade: see `next_format`."""
    return subprocess.run(
        [forked_python(), str(PROGRAM), str(state), str(number), when],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    ).returncode


def test_reading_changes_nothing(state: Path) -> None:
    before, content = released(state), state.read_bytes()
    with next_version():
        assert released(state) == before
        assert state_summary(state)["streams"][0]["step"] == 3
        assert state_summary(state)["format"] == NOW  # of the file, not of this version
        assert all(one.right for one in verify(state))
    assert state.read_bytes() == content
    assert not [*state.parent.glob("visits.db.format*")]


def test_format_15_knew_of_no_late_rows(state: Path) -> None:
    before = released(state)
    with closing(sqlite3.connect(state)) as database:
        for table, column in SINCE_15:
            database.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        database.execute("PRAGMA user_version = 15")
        database.execute("UPDATE counton_database SET format = 15")
        database.commit()
    assert released(state) == before
    with Store(state) as store:
        assert open_private(store.arrivals("visits")) == (0, 0)
        (spent,) = store.ledger_history
        assert (spent.user, spent.host, spent.party) == (None, None, None)
    assert upgrade(state)[:2] == (15, NOW)
    assert released(state) == before
    with Stream.open(state, "visits") as stream:
        stream.release(1)
    assert all(one.right for one in verify(state))


def test_the_first_write_carries_over_and_keeps_what_was(state: Path) -> None:
    before = released(state)
    with next_version():
        with Stream.open(state, "visits") as stream:
            stream.release(1)
        assert released(state)[:3] == before
        assert len(released(state)) == 4
    (added,) = rows_in(state, "SELECT name, half FROM counton_made_up")
    assert added == {"name": "visits", "half": 1}
    copy = state.with_name(f"visits.db.format{NOW}")
    assert copy.stat().st_mode & 0o077 == 0
    assert rows_in(copy, "SELECT step FROM counton_streams") == [{"step": 3}]


def test_the_command_says_what_it_did(state: Path) -> None:
    done = CliRunner().invoke(app, ["upgrade", str(state)])
    assert f"format {NOW}, which is this version's: nothing to do" in done.stdout
    with next_version():
        done = CliRunner().invoke(app, ["upgrade", str(state)])
        said = f"carried over from format {NOW} to {NOW + 1}; the old state is kept in"
        assert said in done.stdout
        assert upgrade(state) == (NOW + 1, NOW + 1, None)


def test_an_earlier_version_that_is_open_is_refused(state: Path) -> None:
    with Stream.open(state, "visits") as stream:
        with next_version():
            upgrade(state)
        with pytest.raises(StateError, match="stop programs and services of this version"):
            stream.release(1)
    with pytest.raises(StateError, match=f"has format {NOW + 1}"):
        Store(state)


def test_a_copy_that_cannot_be_made_stops_it(state: Path) -> None:
    state.with_name(f"visits.db.format{NOW}").mkdir()
    with next_version(), pytest.raises(StateUnavailable, match="upgrade without a copy"):
        upgrade(state)
    assert rows_in(state, "PRAGMA user_version") == [{"user_version": NOW}]
    with next_version():
        assert upgrade(state, copy=False).kept is None


@pytest.mark.parametrize("copy", [True, False])
def test_no_unfinished_copy_of_a_killed_upgrade_stays(state: Path, copy: bool) -> None:
    names = {path.name for path in state.parent.iterdir()}
    done = carried_over_until(state, 0, "copied")
    assert done == GONE
    (hidden,) = [path for path in state.parent.iterdir() if path.name.startswith(".")]
    assert hidden.stat().st_size > 0
    hidden.with_name(f"{hidden.name}-journal").touch()
    other = state.with_name(".visits.db.formats.txt")
    other.touch()
    with next_version():
        kept = upgrade(state, copy=copy).kept
    left = names | {other.name} | ({Path(kept).name} if kept else set())
    assert {path.name for path in state.parent.iterdir()} == left


def test_a_state_on_a_server_is_carried_over(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    make(postgres, key=str(tmp_path / "visits.key"))
    before = released(postgres)
    with next_version():
        assert released(postgres) == before
        assert rows_in(postgres, "SELECT format FROM counton_database") == [{"format": NOW}]
        done = upgrade(postgres)
        assert done[:2] == (NOW, NOW + 1)
        assert str(done.kept).endswith(f"_format_{NOW}")
        assert released(postgres) == before
        named = "SELECT tablename FROM pg_tables WHERE schemaname = "
        copies = rows_in(postgres, f"{named} :place ORDER BY 1", place=done.kept)
        own = rows_in(postgres, f"{named} current_schema() ORDER BY 1")
        assert copies == [one for one in own if one["tablename"] != "counton_made_up"]


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_every_statement_loses_nothing(state: Path, when: str) -> None:
    before, content = released(state), state.read_bytes()
    said: list[str] = []
    with next_version(), heard(said.append):
        upgrade(state)
    assert len(said) > 10
    for number in range(len(said)):
        for beside in state.parent.glob("visits.db-*"):
            beside.unlink()
        state.write_bytes(content)
        assert carried_over_until(state, number, when) == GONE
        (found,) = rows_in(state, "PRAGMA user_version")
        if found["user_version"] == NOW:
            assert released(state) == before
        with next_version():
            assert released(state) == before
            assert upgrade(state).after == NOW + 1
            assert released(state) == before
        assert not [*state.parent.glob(".*")]
