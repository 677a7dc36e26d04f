"""Statements that are compiled once do what they say, in every kind of database."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from counton import Key, PureDP, Stream
from counton.state import schema
from counton.state.database import Database
from counton.state.sql import ADVANCE, JOURNAL
from counton.strategies import Binary


def test_a_writer_goes_on_only_from_the_step_it_knows(state: str) -> None:
    with Stream.create(state, "s", Binary(7), PureDP(1), key=Key.generate()):
        pass
    database = Database(state)
    table = schema.streams
    moved: dict[str, Any] = {"stream": 1, "now": 5, "saved": b"\0saved", "sealed": b"seal\xff"}
    try:
        for epoch, before, changed in ((2, 0, 0), (1, 1, 0), (1, 0, 1), (1, 0, 0)):
            with database.transaction(write=True) as connection:
                found = ADVANCE.run(connection, {**moved, "epoch": epoch, "before": before})
                assert found == changed, (epoch, before)
        with database.transaction(write=True) as connection:
            row = connection.execute(sa.select(table)).one()
            assert (row.step, bytes(row.checkpoint), bytes(row.seal)) == (
                5,
                b"\0saved",
                b"seal\xff",
            )
    finally:
        database.close()


@pytest.mark.parametrize("steps", [[1], [1, 2, 3]])
def test_rows_of_the_journal(steps: list[int], state: str) -> None:
    with Stream.create(state, "s", Binary(7), PureDP(1), key=Key.generate()):
        pass
    rows: list[dict[str, Any]] = [
        {
            "stream_id": 1,
            "step": step,
            "steps": 1,
            "input_digests": bytes([step, 0, 255]),
            "unit": None if step == 1 else "1/2",
            "estimates": b"",
            "std": 0.1 * step,
            "digest": None if step == 1 else "ab" * 32,
        }
        for step in steps
    ]
    database = Database(state)
    try:
        with database.transaction(write=True) as connection:
            JOURNAL.run(connection, *rows)
        with database.transaction(write=False) as connection:
            found = connection.execute(sa.select(schema.journal).order_by(schema.journal.c.step))
            assert [dict(row._mapping) for row in found] == rows
    finally:
        database.close()
