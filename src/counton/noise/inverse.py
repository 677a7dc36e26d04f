"""Exact inverse transform: a uniform number is read only as far as the answer needs.

X is the smallest integer j with U < F(j). Sixteen bits of U decide almost always, by one look into
a table; otherwise sixty-four bits decide by a search among integer thresholds; otherwise, about
once in 2^50 draws, as many bits as it takes are compared with F in certified integer arithmetic.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from counton.errors import NoiseAddressError
from counton.noise.blocks import LAST_LANE, Address, BlockSource, Tile
from counton.noise.cumulative import CumulativeLaw

#: Marks table cells which sixteen bits do not decide; outside the range of every law.
UNDECIDED = -(2**62)
#: Samples per AES call: the working set stays in the first cache levels.
CHUNK = 2**15


class InverseTable:
    """Draws from a :class:`CumulativeLaw`: sixteen bits, then sixty-four, then as many as needed.

    ``guard_bits`` widens the band in which the certified comparison decides. It changes the speed,
    never a value; tests use it to take the exact path often.
    """

    def __init__(self, law: CumulativeLaw, guard_bits: int = 0) -> None:
        self._law = law
        self._guard = np.uint64((1 << guard_bits) - 1)
        self.lowest, floors = self._thresholds()
        self._floors = np.array(floors, np.uint64)
        edges = np.arange(2**16, dtype=np.uint64) << np.uint64(48)
        below = np.searchsorted(self._floors, edges, side="left")
        above = np.append(below[1:], len(floors))
        self.cells = np.where(below == above, below + self.lowest, UNDECIDED).astype(np.int64)

    def _thresholds(self) -> tuple[int, list[int]]:
        """The lowest value of note and floor(F * 2**64) from it upwards."""
        law, top = self._law, 2**64 - 1
        lowest = law.first if law.first is not None else 0
        if law.first is None:
            while law.floor(lowest, 64) >= 1:
                lowest = 2 * lowest - 1
            low, high = lowest, 0  # floor is 0 at low and above 0 at high, or both are 0
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if law.floor(middle, 64) == 0 else (low, middle)
            lowest = low
        floors: list[int] = []
        value = lowest
        while law.last is None or value < law.last:
            floors.append(law.floor(value, 64))
            if floors[-1] == top:
                break
            value += 1
        return lowest, floors

    def draw(
        self, source: BlockSource, address: Address, tile: Tile, out: NDArray[np.int64]
    ) -> None:
        """Fill ``out``, shape ``(rows, columns)``, with exact draws for a tile."""
        rows_at_once = max(CHUNK // tile.columns, 1)
        columns_at_once = min(tile.columns, CHUNK)
        for row in range(0, tile.rows, rows_at_once):
            rows = min(rows_at_once, tile.rows - row)
            for column in range(0, tile.columns, columns_at_once):
                columns = min(columns_at_once, tile.columns - column)
                part = Tile(tile.first_row + row, rows, tile.first_column + column, columns)
                sixteen = source.packed(address, part, "<u2")
                window = out[row : row + rows, column : column + columns]
                if window.flags.c_contiguous:
                    np.take(self.cells, sixteen, out=window, mode="wrap")
                else:
                    window[...] = self.cells[sixteen]
        flat = out.reshape(-1)
        open_positions = np.flatnonzero(flat == UNDECIDED)
        if len(open_positions):
            rows_, columns_ = np.divmod(open_positions, tile.columns)
            flat[open_positions] = self._settle(source, address, tile, rows_, columns_)

    def _settle(
        self,
        source: BlockSource,
        address: Address,
        tile: Tile,
        rows: NDArray[np.intp],
        columns: NDArray[np.intp],
    ) -> NDArray[np.int64]:
        """Draw the samples of a tile at (rows, columns), which sixteen bits left open."""
        at_rows = rows.astype(np.uint64) + np.uint64(tile.first_row)
        at_columns = columns.astype(np.uint64) + np.uint64(tile.first_column)
        sixteen = source.packed_at(address, at_rows, at_columns)
        return self.settle(source, address, at_rows, at_columns, sixteen)

    def settle(
        self,
        source: BlockSource,
        address: Address,
        rows: NDArray[np.uint64],
        columns: NDArray[np.uint64],
        sixteen: NDArray[np.uint64],
    ) -> NDArray[np.int64]:
        """Draw single samples whose first sixteen bits are known."""
        words = source.refine(address, rows, columns, lane=1)
        leading = sixteen << np.uint64(48) | words[:, 0] >> np.uint64(16)
        ranks = np.searchsorted(self._floors, leading, side="left")
        values = ranks.astype(np.int64) + self.lowest
        # the real threshold lies within one unit above its floor: equality decides nothing
        near = self._floors[np.minimum(ranks, len(self._floors) - 1)]
        before = self._floors[np.maximum(ranks - 1, 0)]
        open_above = (ranks < len(self._floors)) & (near - leading <= self._guard)
        open_below = (ranks > 0) & (leading - before <= self._guard)
        for i in np.flatnonzero(open_above | open_below):
            bits = (int(sixteen[i]) << 64) | int(words[i, 0])
            bits = (bits << 64) | int(words[i, 1])
            place = (rows[i : i + 1], columns[i : i + 1])
            values[i] = self._exact(source, address, place, bits, int(values[i]))
        return values

    def _exact(
        self,
        source: BlockSource,
        address: Address,
        place: tuple[NDArray[np.uint64], NDArray[np.uint64]],
        uniform: int,
        start: int,
    ) -> int:
        """Smallest j with U < F(j), reading more of U for as long as the comparison is open."""
        known = 16 + 128
        lane = 1
        value = start

        def below(candidate: int) -> bool:
            """Whether U < F(candidate), for certain."""
            nonlocal known, lane, uniform
            while True:
                low, high = self._law.bracket(candidate, known)
                if uniform + 1 <= low:
                    return True
                if uniform >= high:
                    return False
                lane += 1
                if lane > LAST_LANE:
                    raise NoiseAddressError(
                        "a draw is still open after 32,000 bits, which happens once in 2^32000 "
                        "draws: the key or the AES implementation is broken"
                    )
                high_word, low_word = (int(w) for w in source.refine(address, *place, lane)[0])
                uniform = (uniform << 128) | (high_word << 64) | low_word
                known += 128

        while not below(value):
            value += 1
        while value != self._law.first and below(value - 1):
            value -= 1
        return value
