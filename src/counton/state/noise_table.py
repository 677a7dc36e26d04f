"""Storage of noise that was drawn ahead for a stream's next steps: see
`counton.numbers.noise_ahead`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from counton.base.errors import CountonError
from counton.numbers.noise_ahead import SealedNoise
from counton.state.database import Database

_OF_CELL = "FROM counton_noise WHERE stream_id = :stream AND cell = :cell"
_FIND = (
    f"SELECT step, steps, cell, cells, noise, seal {_OF_CELL}"
    " AND step <= :step ORDER BY step DESC LIMIT 1"
)


class NoiseTable:
    """Encrypted noise of one stream's next steps, in the table ``counton_noise``.

    Rows may be deleted at any time, because the noise can be drawn again.
    """

    def __init__(self, database: Database, stream_id: int) -> None:
        self._database, self._stream_id = database, stream_id

    def find(self, step: int, cell: int) -> SealedNoise | None:
        """Return the stored noise of a block of cells, whose first cell is ``cell``: the last row
        that begins at ``step`` or before; None if there is none.
        """
        with suppress(CountonError), self._database.transaction(write=False) as connection:
            row = connection.first(_FIND, stream=self._stream_id, cell=cell, step=step)
            if row is not None:
                return SealedNoise._make(row)
        return None

    def replace(self, cell: int, rows: Sequence[SealedNoise]) -> None:
        """Replace the stored noise of the block of cells that begins with ``cell``; if that fails,
        keep none.
        """
        mine = {"stream_id": self._stream_id}
        with suppress(CountonError), self._database.transaction(write=True) as connection:
            connection.run(f"DELETE {_OF_CELL}", stream=self._stream_id, cell=cell)
            connection.insert("counton_noise", *(row._asdict() | mine for row in rows))
