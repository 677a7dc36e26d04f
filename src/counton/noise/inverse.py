"""Exact inverse transform: a uniform number is read only as far as the answer needs.

X is the smallest integer j with U < F(j). Sixteen bits of U decide almost always, by one look into
a table; otherwise sixty-four bits decide by a search among integer thresholds; otherwise, about
once in 2^50 draws, as many bits as it takes are compared with F in certified integer arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from counton.errors import NoiseAddressError
from counton.noise.blocks import LAST_LANE, Address, BlockSource, Tile, Words
from counton.noise.cumulative import CumulativeLaw

#: Marks table cells which sixteen bits do not decide; outside the range of every table.
UNDECIDED = -(2**15)


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
        self.cells = np.where(below == above, below + self.lowest, UNDECIDED).astype(np.int16)

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
        sixteen = source.packed(address, tile, "<u2")
        cells = self.cells.take(sixteen, mode="wrap")
        out[...] = cells
        (undecided,) = (cells == UNDECIDED).reshape(-1).nonzero()
        if len(undecided):
            at = np.divmod(undecided, tile.columns)
            known = sixteen[at].astype(np.uint64)
            out[at] = self.settle(source, address, *tile.places(*at), known)

    def settle(
        self, source: BlockSource, address: Address, rows: Words, columns: Words, sixteen: Words
    ) -> NDArray[np.int64]:
        """Draw single samples whose first sixteen bits are known."""
        leading = leading_bits(source, address, rows, columns, sixteen)
        # A real threshold lies within one unit above its floor: equality decides nothing.
        least = leading - np.minimum(leading, self._guard)
        most = leading + np.minimum(~leading, self._guard)
        ranks = self._floors.searchsorted(least, side="left")
        values = ranks + self.lowest
        for i in (ranks != self._floors.searchsorted(most, side="right")).nonzero()[0]:
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


def leading_bits(
    source: BlockSource, address: Address, rows: Words, columns: Words, sixteen: Words
) -> NDArray[np.uint64]:
    """The first 64 bits of uniform numbers whose first sixteen are known."""
    words = source.refine(address, rows, columns, lane=1)
    return sixteen << np.uint64(48) | words[:, 0] >> np.uint64(16)


class Uniform:
    """One uniform number in [0, 1): sixteen known bits, then those of lanes 1, 2, 3, ..."""

    def __init__(
        self, source: BlockSource, address: Address, row: int, column: int, sixteen: int
    ) -> None:
        self._source = source
        self._address = address
        self._place = np.array([row], np.uint64), np.array([column], np.uint64)
        self._value, self._bits, self._lane = sixteen, 16, 0
        self._read_on()

    def below(self, bracket: Callable[[int], tuple[int, int]]) -> bool:
        """Whether the number is below a threshold, for certain.

        Args:
            bracket: gives, for any number of bits, integers ``low <= threshold * 2**bits <= high``.

        Raises:
            NoiseAddressError: still open after 32,000 bits.
        """
        while True:
            low, high = bracket(self._bits)
            if self._value + 1 <= low:
                return True
            if self._value >= high:
                return False
            self._read_on()

    def _read_on(self) -> None:
        self._lane += 1
        if self._lane > LAST_LANE:
            raise NoiseAddressError(
                "a draw is still open after 32,000 bits, which happens once in 2^32000 draws: "
                "the key or the AES implementation is broken"
            )
        upper, lower = self._source.refine(self._address, *self._place, self._lane)[0]
        self._value = self._value << 128 | int(upper) << 64 | int(lower)
        self._bits += 128
