"""Counts of labelled cells, in a line or in a table of several columns, over time.

An integer matrix for each axis is applied to each step's exact counts, and these measured sums are
counted over time: the strategy C_time x C_1 x ... x C_d. An event is in one cell of one step, so
the sensitivities multiply.

Published numbers are differences of running sums, rounded to multiples of one power of 2. So boxes
of cells add up exactly, and so do steps.
"""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from typing_extensions import override

from counton.base.arrays import Floats, Integers, read_only
from counton.base.errors import InvalidInputError
from counton.base.exact import in_parts, quote, some_of, suggest
from counton.base.table_schema import refuse_reserved
from counton.continual.formulas import ClosedForm, Estimate
from counton.continual.intervals import (
    check_confidence_level,
    interval_halfwidth,
    is_narrow,
    smooth_halfwidth,
    weighted_halfwidth,
)
from counton.privacy import ContributionBound
from counton.privacy.contribution import Relation
from counton.statistics.accumulator_statistic import Part
from counton.statistics.measurement_choice import (
    TableStatistic,
    most_read,
    refuse_inexact_measurements,
)
from counton.statistics.results import StatisticResult
from counton.statistics.statistic import Events, distinct_names
from counton.strategies.lines.line_strategy import rounded_sums
from counton.tables.grid import Grid
from counton.tables.table_calibration import fraction_bits, sensitivity_of_cells

#: Largest number of cells. An index and a count of up to 2^32 then fit into one integer.
_MOST_CELLS = 2**26


class GridResult(StatisticResult):
    """Released counts in boxes of cells: a range of consecutive cells on each axis."""

    statistic: GridCells

    @cached_property
    def _bits(self) -> int:
        return self.statistic.bits_read(float(self.release._design.errors.std(range(1, 2))[0]))

    @cached_property
    def sums(self) -> Integers:
        """Released prefix sums of the cells along every axis, in units of 2^-16 or a larger power
        of two. An axis with n cells has n + 1. Between two steps they are differences of published
        sums.
        """
        now, *before = (
            rounded_sums(
                np.array(
                    self.statistic.grid.estimate(
                        np.asarray(release.value, np.float64).reshape(self.statistic.cells)
                    )
                ),
                self._bits,
            )
            for release in self.release.between or (self.release,)
        )
        sums: Integers = read_only(now - before[0] if before else now)
        return sums

    @property
    def _grain(self) -> float:
        """Largest rounding error of a box."""
        # The sum adds a rounded number for each corner, at one step or, between two steps, at both.
        ends = 1 if self.release.between is None else 2
        return float(2.0**-self._bits * 2 ** len(self.statistic.shape) * ends)

    @property
    def counts(self) -> Floats:
        """Released counts of all cells, in the shape of the table."""
        counts = self.sums
        for axis in range(counts.ndim):
            counts = np.diff(counts, axis=axis)
        return np.asarray(counts * 2.0**-self._bits)

    @property
    def total(self) -> float:
        return float(self.sums.ravel()[-1] * 2.0**-self._bits)

    def boxes(self, low: Integers, high: Integers) -> tuple[Floats, Floats]:
        """Return counts and standard deviations of boxes ``[low, high)``: ``(axes, boxes)``."""
        value = np.zeros(low.shape[1], np.int64)
        for corner in itertools.product((0, 1), repeat=len(low)):
            ends = tuple(high[axis] if upper else low[axis] for axis, upper in enumerate(corner))
            value += (-1) ** (len(corner) - sum(corner)) * self.sums[ends]
        std = self.release.std * np.sqrt(self.statistic.grid.variance(low, high))
        return np.asarray(value * 2.0**-self._bits), np.asarray(std)

    def halves(self, low: Integers, high: Integers, confidence_level: float) -> Floats:
        """Return half-widths of boxes; exact if each cell itself has one draw of noise."""
        # If each measured sum has one draw of noise, they come from the distribution of a sum of
        # discrete draws: exact if cells are measured themselves; otherwise, if noise is narrow, too
        # wide by at most a quarter of an atom or 1/128 of the standard deviation. In all other
        # cases, and if that distribution takes too long, they come from the standard deviation,
        # with a margin for all that it leaves open.
        confidence_level = check_confidence_level(confidence_level)
        grid = self.statistic.grid
        design = self.release._design
        distribution = design.distribution
        # Each corner of a box is rounded by half a unit.
        rounding = 2.0 ** (len(low) - 1 - self._bits)
        if not self.cells.one_draw:
            std = self.cells.std * np.sqrt(grid.variance(low, high))
            return (
                self.cells.halfwidths(std, confidence_level, math.prod(self.statistic.cells))
                + self._grain
            )
        if (weight := grid.cell_weight) is not None:
            draws, inverse = np.unique(_few(np.prod(high - low, axis=0)), return_inverse=True)
            half = np.array(
                [
                    interval_halfwidth(distribution, n, confidence_level) / weight
                    for n in draws.tolist()
                ]
            )
            half = design.errors.in_data_units(half[inverse.reshape(-1)])
            half = half + (rounding if weight > 1 else 0.0)
        elif is_narrow(distribution) and (read := grid.read_weights(low, high)) is not None:
            kinds, inverse = read
            half = np.array(
                [weighted_halfwidth(distribution, kind, confidence_level) for kind in kinds]
            )
            half = design.errors.in_data_units(half[inverse]) + rounding
        else:
            std = np.sqrt(grid.variance(low, high) * distribution.variance)
            half = (
                design.errors.in_data_units(smooth_halfwidth(std, distribution, confidence_level))
                + rounding
            )
        return np.asarray(np.where((high > low).all(axis=0), half, 0.0), np.float64)

    def of_boxes(self, low: Integers, high: Integers) -> ClosedForm:
        """Return the counts of boxes with their intervals."""
        estimate, std = self.boxes(low, high)
        return ClosedForm.symmetric(
            estimate, lambda confidence_level: self.halves(low, high, confidence_level), std
        )

    @override
    def number_of(self, name: Any = None) -> Estimate:
        """Return the count in the box that a name selects; in all cells for None."""
        low, high = self._box(name)
        numbers = self.of_boxes(low, high)
        reads = self.statistic.grid.reads(low[:, 0], high[:, 0])
        if reads is None:  # too many cells to be added to others
            return numbers.selected(0)
        weights = {int(cell): float(reads[cell]) for cell in np.flatnonzero(reads)}
        return numbers.selected(
            0, lambda: self.cells.sum(weights, float(numbers.value[0]), self._grain)
        )

    @override
    def whole(self) -> Estimate:
        return self.number_of()

    @abstractmethod
    def _box(self, name: object) -> tuple[Integers, Integers]:
        """Return both ends of the box that a name selects, each of shape ``(axes, 1)``."""


class GridCells(TableStatistic):
    """Counts of labelled cells on several axes; base class of `Ranges` and `Contingency`.

    ``columns`` has the labels of each axis by its name.
    """

    def __init__(
        self,
        columns: Mapping[str, Sequence[str]] | Sequence[Sequence[object]],
        *,
        counts: bool,
        grid: Mapping[str, object] | Grid | None,
        neighbours: Relation,
        unit: str | None,
    ) -> None:
        labels_by_column: Any = columns
        if isinstance(
            labels_by_column, list
        ):  # as in `parameters`, where a mapping would lose its order
            labels_by_column = dict(labels_by_column)
        if not isinstance(labels_by_column, Mapping) or not columns:
            raise InvalidInputError(
                f"columns are {quote(columns)}; give a dictionary from each column to its labels, "
                "such as {'sex': ['f', 'm']}"
            )
        refuse_reserved(list(labels_by_column))
        self.columns: dict[str, tuple[str, ...]] = {}
        for name, labels in labels_by_column.items():
            self.columns[str(name)] = distinct_names(labels, f"the labels of {name!r} are")
            if "" in self.columns[str(name)]:
                raise InvalidInputError(f"a label of {name!r} is empty: give it a name")
        self.shape = tuple(map(len, self.columns.values()))
        self.size = f"{' x '.join(f'{cells:,}' for cells in self.shape)} cells"
        self.n_accumulators = math.prod(self.shape)
        if self.n_accumulators > _MOST_CELLS:
            raise InvalidInputError(
                f"there are {self.n_accumulators:,} cells, and at most {_MOST_CELLS:,} are "
                "possible: take fewer columns or labels"
            )
        self._protect(neighbours, unit, counts=counts)
        self._measurement = Grid.from_dict(grid) if isinstance(grid, Mapping) else grid
        if self._measurement is not None:
            self.sources = self._measurement.sources
        if self._measurement is not None and self._measurement.shape != self.shape:
            raise InvalidInputError(
                f"the strategy is made for {self._measurement.shape} cells, but there are "
                f"{self.shape}: build it for these"
            )
        parts = [Part(name, "label", labels) for name, labels in self.columns.items()]
        self.parts = (*parts, Part("value", "count")) if self.counts else tuple(parts)

    _measured_by = "grid"

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        """The arguments that all kinds of tables of cells have."""
        grid = {} if self._measurement is None else {"grid": self._measurement.to_dict()}
        return {**self._parameters_of("counts", "neighbours", "unit"), **grid}

    def __repr__(self) -> str:
        cells = " x ".join(f"{name} {len(labels):,}" for name, labels in self.columns.items())
        return f"{type(self).__name__}({cells})"

    @property
    def grid(self) -> Grid:
        grid: Grid = self.measurement
        return grid

    @property
    @override
    def cells(self) -> tuple[int, ...]:
        return tuple(axis.measurements for axis in self.grid.axes)

    @override
    def contribution(self, *, batched: bool = False) -> ContributionBound:
        return self._contribution_of(
            sensitivity_of_cells(self.grid, ContributionBound(self.neighbours)),
            f"which counts in one of {self.n_accumulators:,} cells, which are measured together",
        )

    @cached_property
    def _codes(self) -> list[dict[str, int]]:
        """Index of the cell of each label, by axis."""
        return [
            {label: place for place, label in enumerate(axis)} for axis in self.columns.values()
        ]

    @override
    def columns_of(self, events: Events) -> tuple[Any, ...]:
        places = np.zeros((len(self.columns), len(events)), np.int64)
        counts = np.ones(len(events))
        for row, event in enumerate(events):
            named, counts[row] = self._count_of(event, "its cell")
            labels = in_parts(named)
            if len(labels) != len(self.columns):
                raise InvalidInputError(
                    f"an event is {quote(named)}; it must have a label for each of the columns "
                    f"{', '.join(self.columns)}"
                )
            places[:, row] = [self.place_of(axis, label) for axis, label in enumerate(labels)]
        return (*places, counts) if self.counts else tuple(places)

    @override
    def encode(self, *parts: Any) -> Integers:
        """Return a row's cell or, with ``counts``, the cell plus the times multiplied by the number
        of cells; -1 for an unknown label.
        """
        place = np.zeros(len(parts[0]), np.int64)
        is_listed = np.ones(len(parts[0]), dtype=bool)
        for codes, size in zip(parts, self.shape, strict=False):
            is_listed &= codes >= 0
            place = place * size + np.maximum(codes, 0)
        if self.counts:
            place += np.asarray(parts[-1], np.float64).astype(np.int64) * self.n_accumulators
        return np.where(is_listed, place, -1)

    @override
    def measure(self, sums: Integers) -> Integers:
        refuse_inexact_measurements(sums, self.largest_entry)
        counts = np.ascontiguousarray(np.moveaxis(sums.reshape(-1, *self.shape), 0, -1))
        rows = np.moveaxis(self.grid.measure(counts), -1, 0)
        return np.asarray(np.ascontiguousarray(rows), np.int64)

    def _box_stds(self) -> tuple[float, float]:
        """Return the standard deviations of one cell and of the total, the smaller one first, for a
        standard deviation of 1 of a measured sum.
        """
        count = len(self.shape)
        first = np.zeros((count, 1), np.int64)
        ones = np.ones((count, 1), np.int64)
        cell = float(self.grid.variance(first, ones)[0])
        whole = float(self.grid.variance(first, np.array(self.shape)[:, None])[0])
        return math.sqrt(min(cell, whole)), math.sqrt(max(cell, whole))

    def bits_read(self, first: float) -> int:
        """Return how many bits after the point are published; ``first``: a measured sum's standard
        deviation at the first step.
        """
        # All steps use one grid, so that differences of them add up too.
        return fraction_bits(first * self._box_stds()[0])

    @override
    def most_counted(self, first: float, last: float) -> float:
        """Return the largest number of rows below 2^53 rounding units."""
        return most_read(self.bits_read(first), last * self._box_stds()[1])

    @override
    def total(self, cells: Integers) -> Floats:
        rows = np.moveaxis(cells.reshape(-1, *self.cells), 0, -1).astype(np.float64)
        estimates = np.array(self.grid.estimate(rows))
        return np.asarray(estimates.reshape(-1, estimates.shape[-1]).sum(axis=0), np.float64)

    def place_of(self, axis: int, label: object) -> int:
        if not isinstance(label, str) or label not in self._codes[axis]:
            raise InvalidInputError(
                f"{quote(label)} is not among the labels of {list(self.columns)[axis]!r}: "
                f"{suggest(label, [*self._codes[axis]])}give one of {some_of([*self._codes[axis]])}"
            )
        return self._codes[axis][label]


#: Largest number of different numbers of draws for which each sum gets a distribution of its own.
_MOST_SUM_DISTRIBUTIONS = 512


def _few(draws: Integers) -> Integers:
    """Round numbers of draws up to few values: intervals become wider, never too narrow."""
    if len(np.unique(draws)) <= _MOST_SUM_DISTRIBUTIONS:
        return draws
    step = 2 ** np.maximum(np.floor(np.log2(np.maximum(draws, 1))).astype(np.int64) - 6, 0)
    rounded: Integers = -(-draws // step) * step
    return rounded
