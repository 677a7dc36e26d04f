"""A hierarchy that grows as data arrives: cells released one by one, blocks as accurate as cells.

The measurements and their privacy stand in `counton.strategies.trees.growing`; here they meet
guarantee, key and data.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counton.errors import HorizonExceeded, InvalidInput, SumOverflow
from counton.laws import Law
from counton.mechanisms.one_at_a_time import OneAtATime
from counton.mechanisms.releases import Release
from counton.mechanisms.tables import (
    checked_counts,
    fraction_bits,
    shift_of_cells,
)
from counton.mechanisms.terms import TableTerms
from counton.noise import Key
from counton.privacy import Contribution, Guarantee, calibrate
from counton.strategies import NodeNoise
from counton.strategies.trees import GrowingCascade


class HierarchyStream:
    """Private counts cell by cell, whose aligned blocks of 2^k cells all have the same accuracy.

    Args:
        guarantee: what is promised for the whole stream.
        contribution: the protected unit; default one unit in one cell, added or removed.
        key: where the noise comes from.
        name: of this stream; part of the noise address. Other cells under the same key and name
            would have the same noise, and the difference would give them away.
        doublings: the stream serves 2^doublings cells.
        step: how many cells were released before, to go on with a stream of the same terms. It
            is believed: going back over cells that were released shows the same noise on them, and
            on changed counts gives the change away.

    Raises:
        InvalidInput: doublings outside 0..32, a step beyond them, or no noise that gives the
            guarantee.

    >>> from counton.privacy import ZCDP
    >>> stream = HierarchyStream(ZCDP(0.5), key=Key.generate(), doublings=10)
    >>> values = stream.release_many([3, 1, 4, 1, 5, 9, 2, 6])
    >>> stream.step, round(stream.std, 4), round(float(stream.interval_std(0, 8)), 4)
    (8, 2.0817, 2.0817)
    """

    def __init__(
        self,
        guarantee: Guarantee,
        *,
        contribution: Contribution | None = None,
        key: Key,
        name: str = "hierarchy",
        doublings: int,
        step: int = 0,
    ) -> None:
        self.guarantee = guarantee
        self.contribution = Contribution.add_remove() if contribution is None else contribution
        self.cascade = GrowingCascade(doublings)
        shift = shift_of_cells(self.cascade.norms(), self.contribution)
        self.noise_law: Law = calibrate(guarantee, shift).law
        measured = {
            "doublings": doublings,
            "weights": [self.cascade.first, self.cascade.weight],
        }
        terms = TableTerms(
            released="hierarchy stream",
            name=name,
            addressed=measured,
            guarantee=guarantee,
            contribution=self.contribution,
            shape=(self.horizon,),
            law=self.noise_law,
        )
        self._noise: NodeNoise = terms.noise_field(key)
        self._bits = fraction_bits(self.std)
        if type(step) is not int or not 0 <= step <= self.horizon:
            raise InvalidInput(
                f"step is {step!r}; it must be an integer from 0 to {self.horizon}, the cells "
                f"the stream serves"
            )
        self._turn = OneAtATime(
            f"the hierarchy stream {name!r}",
            elsewhere="go on there alone with HierarchyStream(..., step=stream.step)",
        )
        self._step = step
        self._magnitude = 0.0  # of the released cells together, in units

    def __reduce__(self) -> NoReturn:
        raise InvalidInput(
            "hierarchy streams are never copied or pickled, since a copy would release the same "
            "noise over other data: go on with HierarchyStream(..., step=stream.step)"
        )

    @property
    def step(self) -> int:
        """How many cells have been released."""
        return self._step

    @property
    def horizon(self) -> int:
        """How many cells can be released."""
        return self.cascade.horizon

    @property
    def std(self) -> float:
        """Standard deviation of the noise of every cell and every complete aligned block."""
        return math.sqrt(self.noise_law.variance) / self.cascade.first

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
        variance = self.cascade.variance(np.atleast_1d(first), np.atleast_1d(last))
        return np.sqrt(variance * self.noise_law.variance).reshape(first.shape)[()]

    def release(self, count: int) -> Release:
        """Release the next cell: its number from 1, its private count and standard deviation.

        Raises:
            CountonError: as `release_many`.

        >>> from counton.privacy import ZCDP
        >>> HierarchyStream(ZCDP(0.5), key=Key.generate(), doublings=10).release(3)
        Release(step=1, value=..., std=2.08...)
        """
        with self._turn.take():
            value = float(self._released([count])[0])
            return Release(self.step, value, self.std)

    def release_many(self, counts: ArrayLike) -> NDArray[np.float64]:
        """Release the next cells: private counts, float64, one for each; each has `std`.

        Blocks are sums of the released cells. Cells are multiples of one power of two, and all that
        this object has released adds up to less than 2^53 of them, so float64 adds up any block
        exactly, in any order.

        Raises:
            InvalidInput: not non-negative integers; nothing is released then.
            HorizonExceeded: more cells than were fixed in advance.
            SumOverflow: a count, or the sum of the released cells' magnitudes, too large to be
                exact; nothing is released then.
            StreamConflict: in a fork of the stream's process, or in a handler within a release.
        """
        with self._turn.take():
            return self._released(counts)

    def _released(self, counts: ArrayLike) -> NDArray[np.float64]:
        data = checked_counts(counts)
        if data.ndim != 1:
            raise InvalidInput(f"the counts have shape {data.shape}; give one axis of cells")
        stop = self._step + len(data)
        if stop > self.horizon:
            raise HorizonExceeded(
                f"cell {stop} lies beyond the {self.horizon:,} that {self.cascade.doublings} "
                f"doublings allow; more would cost more privacy than promised: start a new stream"
            )
        largest = int(data.max(initial=0))
        if largest >> (52 - self._bits):
            raise SumOverflow(
                f"count {largest} is too large; at this noise cells are exact below "
                f"2^{52 - self._bits}: count in larger units"
            )
        released = (data << self._bits) + self.cascade.noise(
            self._noise, range(self._step, stop), self._bits
        )
        # A function of what is released, not of the counts; one more unit makes up for rounding.
        magnitude = self._magnitude + (float(np.abs(released).sum(dtype=np.float64)) + 1)
        if magnitude >= 2.0**53:
            raise SumOverflow(
                f"the released cells would sum to {magnitude * 2.0**-self._bits:.4g}; at this "
                f"noise sums are exact below 2^{53 - self._bits}: count in larger units"
            )
        self._magnitude = magnitude
        self._step = stop
        return np.asarray(released * 2.0**-self._bits)

    def describe(self) -> str:
        """What is released and what is protected, in words."""
        return (
            f"growing hierarchy over {self.horizon:,} cells, {self.step:,} released, standard "
            f"deviation {self.std:,.4g} at every complete node\n"
            f"protected: {self.contribution.describe(steps=False)}\n"
            f"guarantee: {self.guarantee}: {self.guarantee.meaning}"
        )
