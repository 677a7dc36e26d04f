"""Strategies for lines: an integer matrix C of noisy measurements from which cells are estimated.

A line is a sequence of cells with counts x, measured as y = C x + z, with an independent draw of
noise for each row of C. C has integer entries (real weights in units of ``2**-bits``), so y is
exact. All published values are functions of y alone: rounding in floating point cannot harm
privacy. `counton.testing` tests the properties that every strategy must have.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from typing_extensions import override

from counton.base.arrays import Floats, Integers, IntegersOrFloats
from counton.base.errors import InvalidInputError, SumOverflowError, is_text
from counton.base.exact import quote
from counton.strategies.strategy import Norm, TableStrategy

#: By default, weights are multiples of 2^-20 of the largest weight.
LATTICE_BITS = 20
LARGEST_CELLS = 2**32


class LineStrategy(TableStrategy):
    """A way to measure a line of cells with noise, and to estimate cells and their sums.

    Attributes:
        name: the name by which users choose the strategy.
        cells: the number of cells n.
        measurements: the number of rows of C.
        works_on_grids: whether it can measure one axis of a table with several.
    """

    name: str
    cells: int
    measurements: int
    works_on_grids: ClassVar[bool] = True

    @classmethod
    def examples(cls, cells: int) -> Sequence[LineStrategy]:
        """Return instances over ``cells`` cells, for the tests in ``counton.testing``.

        Args:
            cells: number of cells of each line.
        """
        return (cls(cells),)  # type: ignore[call-arg]

    @abstractmethod
    def measure(self, counts: Integers) -> Integers:
        """Return C x: shape (cells, ...) to (measurements, ...), int64.

        Args:
            counts: exact counts of cells, int64, shape (cells, ...).
        """

    @abstractmethod
    def estimate(self, measured: IntegersOrFloats) -> Floats:
        """Return unbiased estimates: shape (measurements, ...) to (cells, ...).

        Args:
            measured: C x plus noise, shape (measurements, ...).
        """

    def reads(self, weights: Floats) -> Floats:
        """Return the weight of each measurement in each query: shape (queries, measurements).

        Times the measurement matrix it is ``weights``. Use it for few cells.

        Args:
            weights: weight of each cell in each query, shape (queries, cells).
        """
        return np.asarray(weights @ self.estimate(np.eye(self.measurements)))

    @property
    def least_inner(self) -> int:
        """Lower bound of the inner product of any two columns, for `largest_move`."""
        return 0

    @override
    def largest_move(self, norm: Norm) -> int:
        """Return a bound on the 1-norm or squared 2-norm of the change if one unit moves.

        Args:
            norm: 1 for the 1-norm, 2 for the squared 2-norm.
        """
        # The triangle inequality and `least_inner` give this bound.
        return 2 * (self.largest_column(norm) - (self.least_inner if norm == 2 else 0))

    @abstractmethod
    def variance(self, low: Integers, high: Integers) -> Floats:
        """Return variances of sums over low .. high - 1, in units of a measurement's variance.

        Args:
            low: first cell of each sum, from 0.
            high: the cell after the last one of each sum, in the same shape.
        """

    @abstractmethod
    def ranges_variance(self) -> float:
        """Return the summed variance of all n (n + 1) / 2 intervals of cells."""

    @abstractmethod
    def functional_variance(self, weights: Floats) -> float:
        """Return the summed variance of queries with these weights: shape (queries, cells).

        Args:
            weights: weight of each cell in each query, shape (queries, cells).
        """

    def matrix(self) -> Integers:
        """Return C as a dense array, shape (measurements, cells): use it for few cells."""
        return self.measure(np.eye(self.cells, dtype=np.int64))


def rounded_sums(cells: Floats, bits: int) -> Integers:
    """Return running sums of ``cells`` along every axis, from 0, as integers in units of 2^-bits.

    An axis of n cells has n + 1 sums. ``cells`` is overwritten.

    Raises:
        SumOverflowError: a sum is 2^53 units or more.

    >>> rounded_sums(np.array([0.3, 0.3]), bits=2).tolist()
    [0, 1, 2]
    """
    for axis in range(cells.ndim):
        np.cumsum(cells, axis=axis, out=cells)
    np.rint(np.multiply(cells, 2.0**bits, out=cells), out=cells)
    largest = float(np.abs(cells).max())
    if largest >= 2.0**53:
        raise SumOverflowError(
            f"private sums reach {largest * 2.0 ** (-bits):.3g}, but with this noise they are "
            f"exact only up to {2.0 ** (53 - bits):.3g}: count in larger units"
        )
    sums = np.zeros(tuple(count + 1 for count in cells.shape), np.int64)
    sums[(slice(1, None),) * cells.ndim] = cells
    return sums


def on_lattice(weights: IntegersOrFloats, bits: int) -> tuple[int, ...]:
    """Return weights as integers, scaled to at most 2^bits and rounded; at least 1 if positive."""
    scaled = np.rint(weights / weights.max() * 2.0**bits).astype(np.int64)
    return tuple(int(v) for v in np.where(weights > 0, np.maximum(scaled, 1), 0))


def check_name(name: object) -> str:
    """Return the name of a strategy, if it is a text."""
    if isinstance(name, str) and is_text(name):
        return name
    raise InvalidInputError(f"the name of a strategy is {quote(name)}; give a text")
