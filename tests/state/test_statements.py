"""Statements that are compiled once do what they say, in every kind of database."""

from typing import Any

import pytest
from databases import looked_into, rows_in

from counton import Key, PureDP, Stream
from counton.base.errors import ConcurrentWriterError
from counton.state.database import Database
from counton.strategies import Binary


@pytest.mark.parametrize("column", ["step", "writer_epoch"])
def test_writer_continues_only_from_its_step_and_epoch(column: str, state: str) -> None:
    with Stream.create(state, "s", Binary(7), PureDP(1), key=Key.generate()) as stream:
        with looked_into(state) as connection:
            said = f"UPDATE counton_streams SET {column} = {column} + 1"  # noqa: S608 - ours
            assert connection.execute(said).rowcount == 1
        with pytest.raises(ConcurrentWriterError, match="opened by another process"):
            stream.release(1)
    assert rows_in(state, "SELECT * FROM counton_journal") == []


@pytest.mark.parametrize("steps", [[1], [1, 2, 3]])
def test_rows_are_read_as_written(steps: list[int], state: str) -> None:
    with Stream.create(state, "s", Binary(7), PureDP(1), key=Key.generate()):
        pass
    rows: list[dict[str, Any]] = [
        {
            "stream_id": 1,
            "step": step,
            "steps": 1,
            "input_digests": bytes([step, 0, 255]),
            "unit": None if step == 1 else "1/2 of 100% :step",
            "estimates": b"",
            "std": 0.1 * step,
            "digest": None if step == 1 else "ab" * 32,
            "checksum": bytes(16),
        }
        for step in steps
    ]
    database = Database(state)
    try:
        with database.transaction(write=True) as connection:
            connection.insert("counton_journal", *rows)
    finally:
        database.close()
    assert rows_in(state, "SELECT * FROM counton_journal WHERE unit LIKE '%' OR 1 = 1") == rows
