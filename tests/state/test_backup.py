"""Copies of a state that somebody writes: each holds all that was committed, by itself."""

import shutil
import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from counton import Key, PureDP, Stream
from counton.base.errors import InvalidInputError, StateError
from counton.cli.app import app
from counton.state import state_summary, verify
from counton.state.backup import back_up
from counton.strategies import Binary


@pytest.fixture
def stream(tmp_path: Path) -> Any:
    """An open stream, whose newest releases lie in the log."""
    Key.generate().save(tmp_path / "key")
    made = Stream.create(
        tmp_path / "visits.db", "visits", Binary(10_000), PureDP(1), key=tmp_path / "key"
    )
    with made:
        made.release_many([1, 2, 3])
        yield made


def step_of(state: Path) -> int:
    return int(state_summary(state)["streams"][0]["step"])


def alone(copy: Path, folder: Path) -> Path:
    """A copy in a folder of its own, without whatever lies beside it."""
    folder.mkdir()
    return Path(shutil.copy(copy, folder / "alone.db"))


def test_a_copy_is_complete_by_itself(stream: Stream, tmp_path: Path) -> None:
    """The file of the state is not: what was committed last is in its log."""
    state = tmp_path / "visits.db"
    copy = tmp_path / "night.db"
    naive = alone(state, tmp_path / "naive")
    assert state_summary(naive)["streams"] == []
    assert back_up(state, copy) == copy
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert step_of(alone(copy, tmp_path / "one")) == 3
    assert {path.name for path in tmp_path.glob("night*")} == {"night.db"}
    (found,) = verify(alone(copy, tmp_path / "two"), key=tmp_path / "key")
    assert found.right


def test_backup_merges_log_of_idle_state(stream: Stream, tmp_path: Path) -> None:
    state = tmp_path / "visits.db"
    log = tmp_path / "visits.db-wal"
    assert log.stat().st_size > 0
    with closing(sqlite3.connect(state)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM counton_journal").fetchone()
        stream.release(4)
        back_up(state, tmp_path / "one.db")  # a reader of before needs the log
        assert log.stat().st_size > 0
    back_up(state, tmp_path / "two.db")
    assert log.stat().st_size == 0
    assert stream.release(5).step == 5
    assert (step_of(tmp_path / "one.db"), step_of(tmp_path / "two.db")) == (4, 4)
    assert step_of(alone(state, tmp_path / "merged")) == 4


def test_backup_during_writes_is_complete(stream: Stream, tmp_path: Path) -> None:
    state = tmp_path / "visits.db"
    over = threading.Event()
    errors: list[BaseException] = []

    def write() -> None:
        try:
            while not over.is_set():
                stream.release(1)
        except BaseException as error:
            errors.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(8):
            before = stream.step
            while stream.step == before and writer.is_alive():
                over.wait(0.001)
            before = stream.step
            copy = alone(back_up(state, tmp_path / f"{number}.db"), tmp_path / f"{number}")
            assert before <= step_of(copy) <= stream.step + 1
            with closing(sqlite3.connect(copy)) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    finally:
        over.set()
        writer.join()
    assert errors == []


def test_backup_refuses_existing_target_and_server(
    stream: Stream, tmp_path: Path, postgres: str
) -> None:
    state = tmp_path / "visits.db"
    with pytest.raises(InvalidInputError, match="exists already; give a new file"):
        back_up(state, state)
    (tmp_path / "night.db-wal").write_text("")
    with pytest.raises(InvalidInputError, match=r"night.db-wal' exists already"):
        back_up(state, tmp_path / "night.db")
    with pytest.raises(StateError, match="could not be copied to"):
        back_up(state, tmp_path / "nowhere" / "night.db")
    with pytest.raises(StateError, match="does not exist"):
        back_up(tmp_path / "other.db", tmp_path / "copy.db")
    Stream.create(postgres, "visits", Binary(9), PureDP(1), key=tmp_path / "key").close()
    with pytest.raises(InvalidInputError, match="use pg_dump"):
        back_up(postgres, tmp_path / "copy.db")
    assert sorted(path.name for path in tmp_path.iterdir() if "copy" in path.name) == []


def test_backup_command_copies_state_with_note(stream: Stream, tmp_path: Path) -> None:
    words = ["backup", str(tmp_path / "visits.db"), "--output", str(tmp_path / "night.db")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "as secret as the state" in " ".join(done.output.split())
    assert step_of(tmp_path / "night.db") == 3
    assert CliRunner().invoke(app, words).exit_code == 2
