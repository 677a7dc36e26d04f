"""A hierarchy that grows as data arrives: cascade sampling upwards, doublings fixed in advance.

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

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counton.errors import HorizonExceeded, InvalidInput
from counton.laws import Law
from counton.mechanisms.cells import (
    Columns,
    checked_counts,
    families,
    fraction_bits,
    noise_field,
    protected,
)
from counton.noise import Key
from counton.privacy import Contribution, Guarantee, Shift, calibrate
from counton.strategies import NodeNoise
from counton.strategies.ranges import Haar

Integers = NDArray[np.int64]

#: Levels of the noise table: heights of differences below, doublings from here on.
_DOUBLINGS = 128
_MOST_DOUBLINGS = 32


def _least(guarantee: Guarantee, shift: Shift) -> Law:
    """The law of least variance among the kinds of noise that can give the guarantee."""
    laws, reasons = [], []
    for family in families(guarantee):
        try:
            laws.append(calibrate(guarantee, shift, family).law)
        except InvalidInput as error:
            reasons.append(error)
    if not laws:
        raise reasons[0]
    return min(laws, key=lambda law: law.variance)


class HierarchyStream:
    """Private counts cell by cell, whose aligned blocks of 2^k cells all have the same accuracy.

    Args:
        guarantee: what is promised for the whole stream.
        doublings: the stream serves 2^doublings cells.
        key: where the noise comes from.
        name: of this stream; part of the noise address. Other cells under the same key and name
            would have the same noise, and the difference would give them away.
        contribution: the protected unit; default one unit in one cell, added or removed.
        step: how many cells were released before, to go on with a stream of the same terms.

    Raises:
        InvalidInput: doublings outside 0..32, a step beyond them, or no noise that gives the
            guarantee.

    >>> from counton.privacy import ZCDP
    >>> stream = HierarchyStream(ZCDP(0.5), doublings=10, key=Key.generate())
    >>> values = stream.release_many([3, 1, 4, 1, 5, 9, 2, 6])
    >>> stream.step, round(stream.std, 4), round(float(stream.interval_std(0, 8)), 4)
    (8, 2.0817, 2.0817)
    """

    def __init__(
        self,
        guarantee: Guarantee,
        *,
        doublings: int,
        key: Key,
        name: str = "hierarchy",
        contribution: Contribution | None = None,
        step: int = 0,
    ) -> None:
        if type(doublings) is not int or not 0 <= doublings <= _MOST_DOUBLINGS:
            raise InvalidInput(
                f"doublings is {doublings!r}; it must be an integer from 0 to {_MOST_DOUBLINGS}: "
                f"the stream then serves 2^doublings cells"
            )
        self.guarantee = guarantee
        self.contribution = Contribution.add_remove() if contribution is None else contribution
        self.doublings = doublings
        self._first, self._weight = (*Haar.cascade(1 << max(doublings, 1)).weights[:2],)
        shift = self.columns().shift(self.contribution)
        self.law: Law = _least(guarantee, shift)
        measured = {"doublings": doublings, "weights": [self._first, self._weight]}
        self._noise: NodeNoise = noise_field(
            key, "hierarchy stream", name, measured, guarantee, self.contribution, self.law
        )
        self._bits = fraction_bits(self.std)
        if type(step) is not int or not 0 <= step <= self.horizon:
            raise InvalidInput(
                f"step is {step!r}; it must be an integer from 0 to {self.horizon}, the cells "
                f"the stream serves"
            )
        self._step = step

    def columns(self) -> Columns:
        """Exact norms of the measurements' columns."""
        first, weight, times = self._first, self._weight, self.doublings
        l1 = first + times * weight
        moved = 2 * (times + 1) * weight**2 + 1
        return Columns(l1, first**2 + times * weight**2, 2 * l1, moved)

    @property
    def step(self) -> int:
        """How many cells have been released."""
        return self._step

    @property
    def horizon(self) -> int:
        """How many cells can be released."""
        return 1 << self.doublings

    @property
    def std(self) -> float:
        """Standard deviation of the noise of every cell and every complete aligned block."""
        return math.sqrt(self.law.variance) / self._first

    def interval_std(self, low: ArrayLike, high: ArrayLike) -> Any:
        """Standard deviation of the sum of the released cells [low, high).

        Raises:
            InvalidInput: an interval that is reversed or reaches beyond the horizon.
        """
        first, last = np.broadcast_arrays(np.asarray(low), np.asarray(high))
        if first.dtype.kind not in "iu" or last.dtype.kind not in "iu":
            raise InvalidInput(f"ends of intervals must be integers; got {low!r}, {high!r}")
        if ((first < 0) | (first > last) | (last > self.horizon)).any():
            raise InvalidInput(
                f"intervals must satisfy 0 <= low <= high <= {self.horizon}; got {low!r}, {high!r}"
            )
        law = Haar.cascade(self.horizon).law
        variance = law.variance(np.atleast_1d(first), np.atleast_1d(last)) * self.law.variance
        return np.sqrt(variance).reshape(first.shape)[()]

    def release(self, count: int) -> float:
        """Release the next cell; as `release_many`."""
        return float(self.release_many([count])[0])

    def release_many(self, counts: ArrayLike) -> NDArray[np.float64]:
        """Release the next cells: private counts, float64, one for each.

        Blocks are sums of the released cells; they are exact, so blocks agree with their cells.

        Raises:
            InvalidInput: not non-negative integers; nothing is released then.
            HorizonExceeded: more cells than were fixed in advance.
            SumOverflow: a count too large to be exact.
        """
        data = checked_counts(counts)
        if data.ndim != 1:
            raise InvalidInput(f"the counts have shape {data.shape}; give one axis of cells")
        stop = self._step + len(data)
        if stop > self.horizon:
            raise HorizonExceeded(
                f"cell {stop} lies beyond the {self.horizon:,} that {self.doublings} doublings "
                f"allow; more would cost more privacy than promised: start a new stream"
            )
        largest = int(data.max(initial=0))
        if largest >> (52 - self._bits):
            raise InvalidInput(
                f"count {largest} is too large; at this noise cells are exact below "
                f"2^{52 - self._bits}: count in larger units"
            )
        released = (data << self._bits) + self.noise(range(self._step, stop))
        self._step = stop
        return np.asarray(released * 2.0**-self._bits)

    def noise(self, cells: range) -> Integers:
        """Noise of consecutive cells in units of 2^-F; the same however a window is cut."""
        parts = []
        start = cells.start
        while start < cells.stop:
            doubling = start.bit_length()  # cells 2^(d-1) .. 2^d - 1 came with doubling d
            stop = min(cells.stop, 1 << doubling)
            parts.append(self._subtree(doubling, start, stop))
            start = stop
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def _draw(self, level: int, nodes: range) -> Integers:
        return self._noise.run(level, nodes) << self._bits

    def _root(self, doubling: int) -> tuple[int, int]:
        """Noise of the block that came with a doubling (0: the first cell), and of all so far."""
        block = total = int(self._draw(_DOUBLINGS, range(1))[0]) // self._first
        for number in range(1, doubling + 1):
            z = int(self._draw(_DOUBLINGS + number, range(1))[0])
            block = (z - self._weight * total) // (2 * self._weight)
            total += block
        return block, total

    def _subtree(self, doubling: int, start: int, stop: int) -> Integers:
        """The cascade below the block of one doubling, restricted to cells start .. stop - 1."""
        nodes = np.array([self._root(doubling)[0]], dtype=np.int64)
        for height in range(doubling - 1, 0, -1):
            first, last = start >> height, (stop - 1) >> height
            z = self._draw(height, range(first, last + 1))
            left = (z + self._weight * nodes) // (2 * self._weight)
            below = np.empty(2 * len(nodes), np.int64)
            below[0::2], below[1::2] = left, nodes - left
            offset = (start >> (height - 1)) - 2 * first
            count = ((stop - 1) >> (height - 1)) - (start >> (height - 1)) + 1
            nodes = below[offset : offset + count]
        return nodes

    def describe(self) -> str:
        """What is released and what is protected, in words."""
        return (
            f"growing hierarchy over {self.horizon:,} cells, {self.step:,} released, standard "
            f"deviation {self.std:,.4g} at every complete node\n"
            f"protected: {protected(self.contribution)}\n"
            f"guarantee: {self.guarantee}: {self.guarantee.meaning}"
        )
