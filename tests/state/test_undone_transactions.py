"""A transaction that could not be undone by a statement holds no lock."""

import os
import sqlite3
from pathlib import Path

import pytest
from databases import heard

from counton.state.sql import Connections


@pytest.mark.parametrize(
    ("undoing", "seen"),
    [
        (sqlite3.OperationalError("disk I/O error"), ValueError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
    ids=["fails", "is interrupted"],
)
def test_failed_rollback_leaves_database_unlocked(
    undoing: BaseException, seen: type[BaseException], tmp_path: Path
) -> None:
    """Also where frames of the exception hold a cursor that has rows left."""

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(tmp_path / "a.db", timeout=0.1, isolation_level=None)

    connections = Connections(connect, is_sqlite=True)
    with connections.transaction("BEGIN IMMEDIATE") as connection:
        connection.script("CREATE TABLE seen (step BIGINT)")
        connection.insert("seen", {"step": 1}, {"step": 2})

    def fail(said: str) -> None:
        if said == "ROLLBACK":
            raise undoing

    def break_off() -> None:
        with heard(fail), connections.transaction("BEGIN IMMEDIATE") as connection:
            rows = connection.rows("SELECT step FROM seen")
            next(rows)
            connection.insert("seen", {"step": 3})
            raise ValueError("why")

    with pytest.raises(seen) as held:
        break_off()
    with connections.transaction("BEGIN IMMEDIATE") as connection:
        assert connection.value("SELECT count(*) FROM seen") == 2
    assert held.value is not None
    connections.close()


def test_a_forked_process_does_not_close_what_its_parent_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    connections = Connections(lambda: driver, is_sqlite=True)
    with connections.transaction("BEGIN"):
        pass
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: 0)
        connections.close()
    assert driver.execute("SELECT 1").fetchone() == (1,)
    connections.close()
    with pytest.raises(sqlite3.ProgrammingError):
        driver.execute("SELECT 1")
