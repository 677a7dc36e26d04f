"""Exact inverse transform: a uniform number is read only as far as the answer needs.

X is the smallest integer j with U < F(j). Sixteen bits of U decide almost always, by one look into
a table; otherwise sixty-four bits decide by a search among integer thresholds; otherwise, about
once in 2^50 draws, as many bits as it takes are compared with F in certified integer arithmetic.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from counton.noise.blocks import Address, BlockSource, Tile, Words
from counton.noise.cumulative import CumulativeLaw
from counton.noise.uniform import Uniform, leading_bits

#: Marks table cells which sixteen bits do not decide; outside the range of every law.
UNDECIDED = -(2**62)
#: Samples per AES call: the working set stays in the first cache levels.
CHUNK = 2**15


class InverseTable:
    """Draws from a `CumulativeLaw`: sixteen bits, then sixty-four, then as many as needed.

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
        for part, place in tile.parts(CHUNK):
            sixteen = source.packed(address, part, "<u2")
            window = out[place]
            if window.flags.c_contiguous:
                np.take(self.cells, sixteen, out=window, mode="wrap")
            else:
                window[...] = self.cells[sixteen]
        flat = out.reshape(-1)
        open_positions = np.flatnonzero(flat == UNDECIDED)
        if len(open_positions):
            rows, columns = tile.places(*np.divmod(open_positions, tile.columns))
            sixteen = source.packed_at(address, rows, columns)
            flat[open_positions] = self.settle(source, address, rows, columns, sixteen)

    def settle(
        self, source: BlockSource, address: Address, rows: Words, columns: Words, sixteen: Words
    ) -> NDArray[np.int64]:
        """Draw single samples whose first sixteen bits are known."""
        leading = leading_bits(source, address, rows, columns, sixteen)
        ranks = np.searchsorted(self._floors, leading, side="left")
        values = ranks.astype(np.int64) + self.lowest
        # the real threshold lies within one unit above its floor: equality decides nothing
        near = self._floors[np.minimum(ranks, len(self._floors) - 1)]
        before = self._floors[np.maximum(ranks - 1, 0)]
        open_above = (ranks < len(self._floors)) & (near - leading <= self._guard)
        open_below = (ranks > 0) & (leading - before <= self._guard)
        for i in np.flatnonzero(open_above | open_below):
            sample = int(rows[i]), int(columns[i]), int(sixteen[i])
            values[i] = self._exact(Uniform(source, address, *sample), int(values[i]))
        return values

    def _exact(self, uniform: Uniform, start: int) -> int:
        """Smallest j with U < F(j)."""

        def is_below(value: int) -> bool:
            return uniform.below(lambda bits: self._law.bracket(value, bits))

        value = start
        while not is_below(value):
            value += 1
        while value != self._law.first and is_below(value - 1):
            value -= 1
        return value
