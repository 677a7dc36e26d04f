"""The released cells of a statistic, from which its numbers are computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import IntegersOrFloats
from counton.base.errors import InvalidInputError
from counton.continual import Design, StepRelease
from counton.continual.design import stream_cell
from counton.continual.formulas import CellSum, ClosedForm, Formula, Term
from counton.continual.intervals import is_narrow, smooth_halfwidth
from counton.continual.releases import DecayedRelease
from counton.strategies.strategy import checks_distributions, window_rounding


class Cells:
    """The released cells of a statistic, at one step or as a difference of two.

    They hold nothing exact. They belong to one group, or to ``groups`` at once. ``first`` is the
    index of the first cell in the stream or, for a statistic of a report, in all its groups.
    """

    def __init__(self, release: StepRelease, first: int = 0, groups: int | None = None) -> None:
        self.release = release
        self.first = first
        self.groups = groups

    @property
    def design(self) -> Design:
        """Design of the stream."""
        return self.release._design

    @property
    def std(self) -> float:
        """Standard deviation of each cell's noise, in data units."""
        return self.release.std

    @cached_property
    def values(self) -> NDArray[Any]:
        """Released values in data units, of shape ``(cells,)`` or ``(groups, cells)``."""
        return self.in_shape(self.release.value)

    def in_shape(self, values: Any) -> IntegersOrFloats:
        """Reshape one number for each cell to the shape of ``values``."""
        return np.reshape(values, -1 if self.groups is None else (self.groups, -1))

    @property
    def ends(self) -> tuple[int, int]:
        """Pair (start, stop): rows of steps start + 1 to stop count, minus the delay."""
        return self.release.ends

    def since(self, earlier: Cells) -> Cells:
        """Subtract earlier cells of the same stream.

        Raises:
            InvalidInputError: ``earlier`` is of another stream, is later, or is a difference
                itself; or the stream does not release running totals.
        """
        if earlier.first != self.first:
            raise InvalidInputError(
                "numbers of one group cannot be subtracted from those of another: give numbers of "
                "the same group"
            )
        return Cells(self.release.since(earlier.release), self.first, self.groups)

    def part(self, of: Callable[[IntegersOrFloats], Any], design: Design, first: int) -> Cells:
        """Return the cells ``of`` one statistic with its design and first cell's index."""
        return Cells(self.release.part(of, design), first)

    def cell(self, cell: int, scale: Fraction = Fraction(1)) -> ClosedForm:
        """Return one cell times ``scale``, with the interval of its noise's exact distribution."""

        def times(array: IntegersOrFloats) -> Any:
            number = array[..., cell] if self.groups else array[cell].item()
            return number * (int(scale) if scale.denominator == 1 else float(scale))

        def ends(confidence_level: float) -> tuple[Any, Any]:
            low, high = self.release.interval(confidence_level)
            return times(self.in_shape(low)), times(self.in_shape(high))

        return ClosedForm(
            times(self.values),
            ends,
            self.std * float(scale),
            lambda: self.sum({cell: float(scale)}),
        )

    def all(self) -> Formula:
        """Return the sum of all cells."""
        return self.sum(dict.fromkeys(range(len(self.values)), 1.0))

    def sum(
        self, weights: Mapping[int, float], value: float | None = None, grain: float = 0.0
    ) -> Formula:
        """Return a weighted sum of cells of one group.

        ``grain`` is the largest rounding error of a published ``value``, by default the sum itself.
        """
        if isinstance(self.release, DecayedRelease):
            raise InvalidInputError(
                "numbers of decayed sums are not added up or compared: read each number alone"
            )
        if value is None:
            terms = (weight * float(self.values[cell]) for cell, weight in weights.items())
            value = math.fsum(terms)
        start, stop = self.ends
        parts = tuple(
            Term(float(weight), start, stop, stream_cell(self.design, self.first + cell))
            for cell, weight in weights.items()
            if weight
        )
        return Formula.from_cell_sum(CellSum(float(value), self.design, parts, grain))

    @property
    def one_draw(self) -> bool:
        """True if each cell has a single draw of noise."""
        strategy = self.design.strategy
        only = (
            strategy.horizon == 1
            and not strategy.facts.lattice_bits
            and not strategy.facts.fraction_bits
        )
        return only and self.release.between is None

    def halfwidth(self, confidence_level: float = 0.95) -> float:
        """Return the half-width of a single cell's interval, in data units.

        Raises:
            InvalidInputError: the level is outside (0, 1 - 1e-9].
        """
        errors = self.design.errors
        if isinstance(self.release, DecayedRelease):
            factor = self.release.factor
            return float(errors.decayed_halfwidths(self.std, factor, confidence_level))
        return errors.cell_halfwidth(*self.ends, confidence_level)

    @cached_property
    def _least_draws(self) -> int:
        """A number of draws at full weight that a cell at least adds up."""
        strategy = self.design.strategy
        if checks_distributions(strategy):
            return 1
        # They have the variance of the cell.
        variance = float(strategy.variance(self.ends[1], since=self.ends[0]))
        (full,) = strategy.largest_reads(np.array([self.ends[1]])).tolist()
        return max(int(variance / full**2 * (1 + 1e-9)), 1)

    def halfwidths(
        self, std: NDArray[np.float64], confidence_level: float = 0.95, read: int | None = None
    ) -> NDArray[np.float64]:
        """Return half-widths of weighted sums, given their standard deviations.

        ``read``: the largest number of cells in a sum, if released cells are rounded. In sums of
        decayed cells, the squares of the weights add up to at most 1.

        Raises:
            InvalidInputError: the level is outside (0, 1 - 1e-9].
        """
        if isinstance(self.release, DecayedRelease):
            factor = self.release.factor
            cells = max(self.values.shape[-1], 1)
            return self.design.errors.decayed_halfwidths(std, factor, confidence_level, cells=cells)
        # Cells have independent noise of one distribution. In standard deviations the half-width is
        # the largest of three: of a single cell, of sums of a few cells, of a normal distribution.
        # The margin added to it is that of `smooth_halfwidth`.
        cell_half = self.halfwidth(confidence_level)
        distribution = self.design.distribution
        strategy = self.design.strategy
        if not self.std:
            return np.zeros_like(std)
        draws = self._least_draws
        coarse = (1.0 if is_narrow(distribution) else 0.5) / distribution.std
        scaled_half = std * (cell_half / self.std + coarse)
        half = np.maximum(
            scaled_half, smooth_halfwidth(std, distribution, confidence_level, draws=draws)
        )
        if read is not None:
            # By Cauchy and Schwarz, rounding moves a sum by at most this.
            rounded = float(window_rounding(strategy, *self.ends))
            rounded *= float(self.design.units.released)
            half = half + rounded * std / self.std * math.sqrt(read)
        return np.asarray(half, np.float64)
