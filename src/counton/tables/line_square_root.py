"""The square-root factorisation on a line of cells: intervals as differences of running totals.

"Constant matters" (Fichtenberger, Henzinger and Upadhyay), section 3, by `SqrtToeplitz`, whose
noise for running totals is exact and correctly rounded.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import ClassVar

import numpy as np
from typing_extensions import override

from counton.base.arrays import Floats, Integers, IntegersOrFloats
from counton.strategies.lines.line_strategy import LineStrategy
from counton.strategies.strategy import Norm
from counton.strategies.streams.power_series import convolve, convolve_modulo, reciprocal
from counton.strategies.streams.square_root import SqrtToeplitz

_EXACT_TERMS = 64


class SquareRoot(LineStrategy):
    """A strategy for a line of cells that releases totals by the square-root factorisation.

    Raises:
        InvalidInputError: more than 2^24 cells.

    >>> strategy = SquareRoot(1000)
    >>> variance = strategy.variance(np.array([0, 500]), np.array([1000, 501]))
    >>> (variance * strategy.largest_entry**2).round(4).tolist()
    [3.265, 1.2732]
    """

    sources = ("constants",)

    works_on_grids: ClassVar[bool] = False  # running sums are rounded exactly on a line only

    def __init__(self, cells: int) -> None:
        self.strategy = SqrtToeplitz(cells)
        self.cells = self.measurements = cells
        self.name = "square_root"

    @override
    def measure(self, counts: Integers) -> Integers:
        """Return the exact measurements C x modulo 2^64: int64, in the shape of ``counts``.

        Args:
            counts: exact counts of cells, int64, shape (cells, ...).
        """
        numerators = self.strategy.root.numerators
        lines = counts.reshape(self.cells, -1).T
        measured = [convolve_modulo(numerators, line, self.cells) for line in lines]
        return np.stack(measured, axis=1).reshape(counts.shape)

    @override
    def estimate(self, measured: IntegersOrFloats) -> Floats:
        """Return the estimates C^-1 y from noisy measurements y, in their shape.

        Args:
            measured: noisy measurements, shape (measurements, ...).
        """
        inverse = reciprocal(self.strategy.root.numerators.astype(np.float64), self.cells)
        lines = measured.reshape(self.cells, -1).T.astype(np.float64)
        cells = [convolve(inverse, line, self.cells) for line in lines]
        return np.stack(cells, axis=1).reshape(measured.shape)

    @override
    def largest_column(self, norm: Norm) -> int:
        root_strategy = self.strategy
        largest = (
            root_strategy.l1_sensitivity() if norm == 1 else root_strategy.squared_sensitivity()
        )
        return int(largest * 2 ** (norm * root_strategy.facts.lattice_bits))

    @property
    @override
    def largest_entry(self) -> int:
        return 1 << self.strategy.facts.lattice_bits

    @cached_property
    def _row(self) -> Floats:
        """Weights of draws in the running total of t cells: the first t, the latest first."""
        steps = np.arange(1, self.cells + 1)
        squares = np.diff(self.strategy.variance(steps), prepend=0.0)
        return np.asarray(np.sqrt(squares) * 2.0**-self.strategy.facts.lattice_bits)

    @cached_property
    def _cumulative(self) -> Floats:
        return np.concatenate([[0.0], np.cumsum(self._row**2)])

    @cached_property
    def _cells(self) -> Floats:
        """Variance of each cell's estimate, the difference of two running totals."""
        return np.asarray(np.cumsum(np.diff(self._row, prepend=0.0) ** 2))

    def _common(self, low: Integers, gap: Integers) -> Floats:
        """Return the covariance of totals of the first ``low`` and the first ``low + gap`` cells.

        The unit is the variance of one draw; the error is at most 5e-6.
        """
        # The sum over k < low of b(k) b(k + gap). The first terms are added one by one. From there
        # on b(k) is 1 / sqrt(pi (k + 1/4)) up to a relative 1 / (64 k^2), and the sum is an
        # integral by Euler and Maclaurin.
        total = np.zeros(low.shape)
        few = min(_EXACT_TERMS, self.cells)
        for k in range(few):
            inside = k < low
            total += np.where(inside, self._row[k] * self._row[np.where(inside, k + gap, 0)], 0.0)
        distance = np.where(low > few, gap, 1).astype(np.float64)
        last = self._primitive(np.where(low > few, low, few) - 0.25, distance)
        first = self._primitive(np.full(low.shape, few - 0.25), distance)
        unit = 4.0**-self.strategy.facts.lattice_bits / math.pi
        return np.asarray(total + np.where(low > few, (last - first) * unit, 0.0))

    @staticmethod
    def _primitive(end: Floats, distance: Floats) -> Floats:
        """Return F(end) for a function F that approximates sums of 1 / sqrt(w (w + distance)).

        The sum over w = a + 1/2, a + 3/2, .. up to b - 1/2 is about F(b) - F(a): an antiderivative
        with a correction.
        """
        # The correction is g'(end) / 24, subtracted, with g the integrand.
        value = 1 / np.sqrt(end * (end + distance))
        slope = -value / 2 * (1 / end + 1 / (end + distance))
        return np.asarray(2 * np.arcsinh(np.sqrt(end / distance)) - slope / 24)

    @override
    def variance(self, low: Integers, high: Integers) -> Floats:
        if (high - low == 1).all():
            return self._cells[low]
        cumulative = self._cumulative
        apart = high > low
        gap = np.where(apart, high - low, 1)
        both = self._common(np.where(apart, low, 0), gap)
        return np.where(apart, np.maximum(cumulative[high] + cumulative[low] - 2 * both, 0.0), 0.0)

    @override
    def ranges_variance(self) -> float:
        columns = np.cumsum(self._row)  # sum of each column of B over all rows, last first
        return float((self.cells + 1) * self._cumulative.sum() - (columns**2).sum())

    @override
    def functional_variance(self, weights: Floats) -> float:
        from scipy.signal import fftconvolve

        totals = weights - np.concatenate([weights[:, 1:], np.zeros((len(weights), 1))], axis=1)
        reads = fftconvolve(totals[:, ::-1], self._row[None, :], axes=1)[:, : self.cells]
        return float((reads**2).sum())
