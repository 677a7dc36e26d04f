"""Noise of a stream's next steps, kept in its state: see `counton.numbers.noise_ahead`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import sqlalchemy as sa

from counton.base.errors import CountonError
from counton.numbers.noise_ahead import SealedNoise
from counton.state import schema
from counton.state.database import Database


class NoiseTable:
    """The rows of one stream in ``counton_noise``. They may be deleted at any time."""

    def __init__(self, database: Database, stream_id: int) -> None:
        self._database, self._stream_id = database, stream_id

    def find(self, step: int, cell: int) -> SealedNoise | None:
        """The last row of some cells that begins with this step, or before it; None without one."""
        table = schema.noise.c
        query = (
            sa.select(table.step, table.steps, table.cell, table.cells, table.noise, table.seal)
            .where(table.stream_id == self._stream_id, table.cell == cell, table.step <= step)
            .order_by(table.step.desc())
            .limit(1)
        )
        with suppress(CountonError), self._database.transaction(write=False) as connection:
            row = connection.execute(query).first()
            if row is not None:
                return SealedNoise(*row[:4], bytes(row.noise), bytes(row.seal))
        return None

    def replace(self, cell: int, rows: Sequence[SealedNoise]) -> None:
        """Keep these rows of some cells, and no others of them; or none, where that fails."""
        table, mine = schema.noise, {"stream_id": self._stream_id}
        with suppress(CountonError), self._database.transaction(write=True) as connection:
            connection.execute(
                table.delete().where(table.c.stream_id == self._stream_id, table.c.cell == cell)
            )
            connection.execute(table.insert(), [row._asdict() | mine for row in rows])
