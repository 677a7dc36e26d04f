"""The cascade that grows: doubled as data arrives, as often as was fixed in advance.

"Ranges", appendix D.1: when the first 2^k cells are full, their root becomes the left child of a
new root; the noise of its sibling is X_1 = -X_0 / 2 + (sqrt 3 / 2) Y, and cascades down. Every
complete node of the binary tree over time has the same variance, whenever it is complete.
(Erratum: loop indices of the paper's Algorithm 2 are one short; the new subtree has 2^k leaves.)

After j doublings the squared sensitivity over root variance is 1 + j/3: it grows for ever, so no
fixed noise is private for an unbounded stream. The number of doublings is fixed in advance and
calibrated for; beyond it the stream refuses.

**Released is a function of the measurements.** In units of 2^-F, with weights w_0 of the first cell
and w of everything else, noise is built by floor division:

    first cell:   N = floor(z 2^F / w_0)
    doubling:     N_1 = floor((z 2^F - w N_0) / 2w),   measured is w (2 S_1 + S_0) + z
    in a subtree: N_0 = floor((z 2^F + w N) / 2w),  N_1 = N - N_0,   measured is w (S_0 - S_1) + z

If a cell changes by d, the shift of z by the change of the measurements moves the noise of the
nodes that hold it by exactly -d 2^F and no other: rounding commutes with it, since each numerator
changes by a multiple of its denominator or not at all.
"""

from __future__ import annotations

import numpy as np

from counton.arrays import Floats, Integers
from counton.errors import InvalidInput
from counton.strategies.base import NodeNoise
from counton.strategies.lines.haar import Haar
from counton.strategies.norms import ColumnNorms

#: Levels of the noise table: heights of differences below, doublings from here on.
_DOUBLINGS = 128
MOST_DOUBLINGS = 32


class GrowingCascade:
    """What a growing hierarchy measures, and the noise of its cells.

    Args:
        doublings: it serves 2^doublings cells.

    Attributes:
        doublings: as given.
        first: weight w_0 of the first cell.
        weight: weight w of everything else.

    Raises:
        InvalidInput: doublings outside 0..32.

    >>> cascade = GrowingCascade(doublings=10)
    >>> norms = cascade.norms()
    >>> cascade.horizon, round(norms.l2_squared / cascade.first**2, 9) == round(1 + 10 / 3, 9)
    (1024, True)
    """

    def __init__(self, doublings: int) -> None:
        if type(doublings) is not int or not 0 <= doublings <= MOST_DOUBLINGS:
            raise InvalidInput(
                f"doublings is {doublings!r}; it must be an integer from 0 to {MOST_DOUBLINGS}: "
                f"the stream then serves 2^doublings cells"
            )
        self.doublings = doublings
        self.first, self.weight = Haar.cascade(1 << max(doublings, 1)).weights[:2]

    @property
    def horizon(self) -> int:
        """How many cells it serves."""
        return 1 << self.doublings

    def norms(self) -> ColumnNorms:
        """Exact norms of the measurements' columns."""
        first, weight, times = self.first, self.weight, self.doublings
        l1 = first + times * weight
        moved = 2 * (times + 1) * weight**2 + 1
        return ColumnNorms(l1, first**2 + times * weight**2, 2 * l1, moved)

    def variance(self, low: Integers, high: Integers) -> Floats:
        """Variance of the sums over [low, high), in units of one measurement's noise variance."""
        return Haar.cascade(self.horizon).variance(low, high)

    def noise(self, field: NodeNoise, cells: range, bits: int) -> Integers:
        """Noise of consecutive cells in units of 2^-bits; the same however a window is cut."""
        parts = []
        start = cells.start
        while start < cells.stop:
            doubling = start.bit_length()  # cells 2^(d-1) .. 2^d - 1 came with doubling d
            stop = min(cells.stop, 1 << doubling)
            parts.append(self._subtree(field, bits, doubling, range(start, stop)))
            start = stop
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def _block(self, field: NodeNoise, bits: int, doubling: int) -> int:
        """Noise of the block that came with a doubling (0: the first cell)."""

        def draw(number: int) -> int:
            return int(field.run(_DOUBLINGS + number, range(1))[0]) << bits

        block = total = draw(0) // self.first
        for number in range(1, doubling + 1):
            block = (draw(number) - self.weight * total) // (2 * self.weight)
            total += block
        return block

    def _subtree(self, field: NodeNoise, bits: int, doubling: int, cells: range) -> Integers:
        """The cascade below the block of one doubling, restricted to some of its cells."""
        start, last = cells.start, cells.stop - 1
        nodes = np.array([self._block(field, bits, doubling)], dtype=np.int64)
        for height in range(doubling - 1, 0, -1):
            above = start >> height
            z = field.run(height, range(above, (last >> height) + 1)) << bits
            left = (z + self.weight * nodes) // (2 * self.weight)
            below = np.empty(2 * len(nodes), np.int64)
            below[0::2], below[1::2] = left, nodes - left
            offset = (start >> (height - 1)) - 2 * above
            count = (last >> (height - 1)) - (start >> (height - 1)) + 1
            nodes = below[offset : offset + count]
        return nodes
