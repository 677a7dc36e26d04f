"""What a release of a line or grid answers: any interval or box, with its standard deviation."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counton.arrays import Floats, Integers
from counton.errors import InvalidInput
from counton.laws import Family, Law
from counton.mechanisms.ranges.plan import RangesChoice, RangesPlan
from counton.privacy import Contribution, Guarantee
from counton.strategies.lines import LineStrategy


@dataclass(frozen=True, eq=False)
class RangesRelease:
    """Private sums over any interval (line) or box (grid), with their standard deviations.

    Attributes:
        shape: cells along each axis.
        strategy: name of the strategy used.
        family: kind of noise, "laplace" or "gaussian".
        noise_law: law of one measurement's noise, in units of the strategy's lattice.
        guarantee, contribution: what is promised, and to whom.
        expected_error: total squared error over the workload, known before the data.
        plan: all strategies that were compared.

    >>> from counton import Key, ZCDP, release_ranges
    >>> release = release_ranges([3, 1, 4], guarantee=ZCDP(2), key=Key.generate())
    >>> release.sum([0, 0], [1, 3]).shape, release.strategy
    ((2,), 'identity')
    """

    shape: tuple[int, ...]
    plan: RangesPlan
    choice: RangesChoice
    _sums: NDArray[Any] = field(repr=False)
    _unit: float = field(repr=False)

    @property
    def strategy(self) -> str:
        """Name of the strategy used."""
        return self.choice.name

    @property
    def strategies(self) -> tuple[LineStrategy, ...]:
        """The strategy of every axis: as ``strategy=`` of `release_ranges`, the same again.

        >>> from counton import Key, ZCDP, release_ranges
        >>> key = Key.generate()
        >>> release = release_ranges([3, 1, 4, 1, 5], guarantee=ZCDP(2), key=key)
        >>> again = release_ranges(
        ...     [3, 1, 4, 1, 5], guarantee=ZCDP(2), key=key, strategy=release.strategies
        ... )
        >>> bool((again.cells() == release.cells()).all())
        True
        """
        return self.choice.grid.axes

    @property
    def family(self) -> Family:
        """Kind of noise."""
        return self.choice.family

    @property
    def noise_law(self) -> Law:
        """Law of one measurement's noise, in units of the strategy's lattice."""
        return self.choice.noise_law

    @property
    def expected_error(self) -> float:
        """Total squared error over the workload, in squared counts."""
        return self.choice.expected_error

    @property
    def guarantee(self) -> Guarantee:
        """What is promised."""
        return self.plan.guarantee

    @property
    def contribution(self) -> Contribution:
        """The protected unit and the neighbouring relation."""
        return self.plan.contribution

    def sum(self, low: ArrayLike, high: ArrayLike) -> Any:
        """Private sum over [low, high), one or millions at once.

        Args:
            low, high: integers, scalars or arrays that broadcast; on a grid the last axis holds
                the corner's coordinates.

        Returns:
            float64 of their common shape (without the coordinates); 0 where low equals high.

        Raises:
            InvalidInput: not integers, low above high, or an end outside the cells.
        """
        first, last = self._corners(low, high)
        if len(self.shape) == 1:
            return (self._sums.take(last[0]) - self._sums.take(first[0])) * self._unit
        total = None
        for ends in itertools.product((0, 1), repeat=len(self.shape)):
            corner = self._sums[tuple((first, last)[e][i] for i, e in enumerate(ends))]
            odd = (len(ends) - sum(ends)) % 2
            signed = -corner if odd else corner
            total = signed if total is None else total + signed
        assert total is not None
        return total * self._unit

    def variance(self, low: ArrayLike, high: ArrayLike) -> Any:
        """Variance of the noise in `sum`, as `sum` takes its arguments."""
        first, last = self._corners(low, high)
        grid = self.choice.grid
        shape = np.broadcast_shapes(first[0].shape, last[0].shape)
        firsts = np.stack([np.broadcast_to(part, shape) for part in first]).reshape(len(first), -1)
        lasts = np.stack([np.broadcast_to(part, shape) for part in last]).reshape(len(last), -1)
        variance = grid.variance(firsts, lasts) * self.noise_law.variance
        return variance.reshape(shape)[()]

    def std(self, low: ArrayLike, high: ArrayLike) -> Any:
        """Standard deviation of the noise in `sum`, as `sum` takes its arguments."""
        return np.sqrt(self.variance(low, high))

    def cells(self) -> Floats:
        """Private count of every cell: float64 of shape ``shape``; they add up to every sum."""
        cells = self._sums
        for axis in range(len(self.shape)):
            cells = np.diff(cells, axis=axis)
        return np.asarray(cells * self._unit)

    def _corners(
        self, low: ArrayLike, high: ArrayLike
    ) -> tuple[tuple[Integers, ...], tuple[Integers, ...]]:
        """Both ends by axis, checked."""
        axes = len(self.shape)
        ends = []
        for name, value in (("low", low), ("high", high)):
            array = np.asarray(value)
            if not array.size:  # an empty list has no type of its own
                array = array.astype(np.int64)
                array = array.reshape(0, axes) if axes > 1 and array.ndim == 1 else array
            if array.dtype == object:
                self._refuse_huge(name, array)
            if array.dtype.kind not in "iu":
                raise InvalidInput(
                    f"{name} has type {array.dtype}; ends of intervals must be integers"
                )
            if axes > 1 and (array.ndim == 0 or array.shape[-1] != axes):
                raise InvalidInput(
                    f"{name} has shape {array.shape}; its last axis must hold {axes} coordinates"
                )
            ends.append(tuple(array[..., i] for i in range(axes)) if axes > 1 else (array,))
        first, last = ends
        for axis, cells in enumerate(self.shape):
            self._check_axis(first[axis], last[axis], cells)
        return first, last

    def _refuse_huge(self, name: str, array: NDArray[Any]) -> None:
        """Integers beyond int64 are no objects to the caller, only out of range."""
        for end in array.ravel().tolist():
            if isinstance(end, int) and not -(2**63) <= end < 2**63:
                cells = " x ".join(map(str, self.shape))
                raise InvalidInput(
                    f"{name} is {end}, which is out of range; there are {cells} cells"
                )

    @staticmethod
    def _check_axis(low: NDArray[Any], high: NDArray[Any], cells: int) -> None:
        try:
            reversed_ = low > high
        except ValueError as error:
            raise InvalidInput(f"low and high do not go together: {error}") from error
        if reversed_.any():
            place = tuple(np.argwhere(reversed_)[0])
            a, b = np.broadcast_arrays(low, high)
            raise InvalidInput(
                f"interval [{a[place]}, {b[place]}) is reversed; low must not be above high: swap "
                f"them"
            )
        if low.size and low.min() < 0:
            raise InvalidInput(f"low is {low.min()}; intervals lie within [0, {cells})")
        if high.size and high.max() > cells:
            raise InvalidInput(
                f"high is {high.max()}; there are {cells} cells, so it must be at most {cells}"
            )

    def describe(self) -> str:
        """What was released and what is protected, in words."""
        cells = " x ".join(f"{count:,}" for count in self.shape)
        kind = "Laplace" if self.family == "laplace" else "Gaussian"
        return (
            f"{cells} cells, strategy {self.strategy}, {kind} noise\n"
            f"protected: {self.contribution.describe(steps=False)}\n"
            f"guarantee: {self.guarantee}: {self.guarantee.meaning}\n"
            f"expected squared error over the workload: {self.expected_error:,.4g}"
        )

    def __str__(self) -> str:
        return self.describe()
