"""Strategies on grids: one strategy for each axis, and their Kronecker product.

Measuring along one axis after the other gives y = (C_1 ⊗ ... ⊗ C_d) x + z, with the matrix C_i of
axis i, counts x and noise z. Columns of the product are products of columns, so norms multiply. The
covariance of the estimates is the Kronecker product of the axes' covariances, so the variance of a
box is the product of the variances of its sides.

The paper "Ranges" (Alg. 4) does not prove the privacy of its two-dimensional noise. Here it follows
from the product: with `Haar.cascade` on every axis, the squared sensitivity relative to the inverse
variance of the total is the product of (1 + k_i / 3), with 2^k_i cells on axis i.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Floats, Integers
from counton.base.errors import InvalidInputError
from counton.strategies.lines.line_strategy import LATTICE_BITS, LineStrategy
from counton.strategies.strategy import Norm, TableStrategy
from counton.tables.nodes import Nodes
from counton.tables.saved_lines import line_strategy_from_dict
from counton.tables.workloads import Workload

#: Largest number of bits of the weights of all axes together, so that noise in these units fits
#: int64.
_BITS_OF_ALL_AXES = 24
#: Largest product of the axes' weights, so that counts up to a total of 2^33 can be measured in
#: int64.
_LARGEST_WEIGHT = 2**28
#: All weights up to this one are tried; larger ones are powers of two.
_LARGEST_TRIED_WEIGHT = 64
#: Largest number of weights of measurements that are computed along one axis, and largest number of
#: different weights in sums over boxes.
_MOST_READ_WEIGHTS = 2**21
_MOST_DIFFERENT_WEIGHTS = 2048


def axis_bits(axes: int) -> int:
    """Return the most binary digits for the weights of one of ``axes`` axes."""
    return min(LATTICE_BITS, _BITS_OF_ALL_AXES // axes)


class Grid(TableStrategy):
    """A strategy for a table of several axes: the Kronecker product of one strategy for each.

    Args:
        axes: a strategy for the line of cells of each axis.

    Raises:
        InvalidInputError: no axis, or several axes with a strategy that works on a line only.

    >>> from counton.tables import Haar
    >>> grid = Grid((Haar.cascade(4), Haar.cascade(8)))
    >>> unit = math.prod(axis.weights[0] ** 2 for axis in grid.axes)
    >>> round(grid.sensitivities().l2_squared / unit, 9) == round((1 + 2 / 3) * (1 + 3 / 3), 9)
    True
    """

    def __init__(self, axes: Sequence[LineStrategy]) -> None:
        self.axes = tuple(axes)
        if not self.axes:
            raise InvalidInputError("a grid has no axes; it must have at least one")
        for axis in self.axes:
            if len(self.axes) > 1 and not axis.works_on_grids:
                raise InvalidInputError(
                    f"strategy {axis.name} works only on a line, but the table has "
                    f"{len(self.axes)} axes: use haar or optimal"
                )
        self.unit_columns = len(self.axes) == 1 and self.axes[0].unit_columns
        self.sources = tuple(dict.fromkeys(name for axis in self.axes for name in axis.sources))

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells along each axis."""
        return tuple(axis.cells for axis in self.axes)

    @property
    def name(self) -> str:
        """Names of the axes' strategies, or one name if they are equal."""
        names = [axis.name for axis in self.axes]
        return names[0] if len(set(names)) == 1 else " x ".join(names)

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON values that identify the measurement matrices of the axes."""
        return {"axes": [{"strategy": axis.name, **axis.parameters} for axis in self.axes]}

    @override
    def to_dict(self) -> dict[str, Any]:
        """Return the descriptions of the axes' strategies as JSON values."""
        return {"strategy": self.saved_name, "axes": [axis.to_dict() for axis in self.axes]}

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Self:
        """Rebuild the grid from `to_dict`.

        Args:
            description: JSON values that ``to_dict`` returned.

        Raises:
            InvalidInputError: not a grid, or an axis that is not a strategy for lines of counton.
        """
        axes = description.get("axes")
        if description.get("strategy") != cls.saved_name or not isinstance(axes, list):
            raise InvalidInputError(
                f"strategy is {description.get('strategy')!r}; it must be a Grid with a list of "
                "axes: give what to_dict wrote"
            )
        return cls([line_strategy_from_dict(axis) for axis in axes])

    @property
    def largest_entry(self) -> int:
        """Largest magnitude of an entry of the measurement matrix."""
        return math.prod(axis.largest_entry for axis in self.axes)

    @override
    def largest_column(self, norm: Norm) -> int:
        return math.prod(axis.largest_column(norm) for axis in self.axes)

    @override
    def largest_move(self, norm: Norm) -> int:
        """Return a bound on the change of measurements if one unit moves to another cell.

        Args:
            norm: 1 for the 1-norm, 2 for the squared 2-norm.
        """
        # The triangle inequality for norm 1. The squared 2-norm is at most 2 (largest squared norm
        # - least inner product) of columns. The least inner product of the product matrix is one
        # axis's negative one times the largest of the other axes; it is at least 0 if no axis has a
        # negative one.
        if len(self.axes) == 1:
            return self.axes[0].largest_move(norm)
        if norm == 1:
            return 2 * self.l1_sensitivity()
        squared = self.squared_sensitivity()
        least = min(
            axis.least_inner * (squared // axis.squared_sensitivity()) for axis in self.axes
        )
        return 2 * (squared - min(least, 0))

    def measure(self, counts: Integers) -> Integers:
        """Return the exact measurements: each axis of cells becomes one of measurements.

        Args:
            counts: exact counts of cells: int64, one axis for each axis of the grid.
        """
        measured = counts
        for number, axis in enumerate(self.axes):
            measured_along = np.moveaxis(measured, number, 0)
            measured = np.moveaxis(axis.measure(measured_along), 0, number)
        return measured

    def estimate(self, measured: NDArray[Any]) -> Floats:
        """Return unbiased estimates of cells: each axis of measurements becomes one of cells.

        Args:
            measured: noisy measurements: one axis for each axis of the grid.
        """
        cells = measured
        for number, axis in enumerate(self.axes):
            cells = np.moveaxis(axis.estimate(np.moveaxis(cells, number, 0)), 0, number)
        return cells

    def variance(self, low: Integers, high: Integers) -> Floats:
        """Return the variance of sums over boxes of cells, in units of one draw's variance.

        Box j has the cells low[i, j] .. high[i, j] - 1 of axis i.

        Args:
            low: first cell of each box on each axis, shape (axes, boxes).
            high: the cell after the last one, in the same shape.

        Returns:
            Shape (boxes,).
        """
        variance = math.prod(axis.variance(low[i], high[i]) for i, axis in enumerate(self.axes))
        return np.where((high > low).all(axis=0), variance, 0.0)  # an empty box: exactly 0

    @property
    def cell_weight(self) -> int | None:
        """Weight of every cell, if nothing but each single cell is measured; otherwise None."""
        weight = 1
        for axis in self.axes:
            if not (isinstance(axis, Nodes) and axis.leaves_only):
                return None
            weight *= axis.weights[0]
        return weight

    def read_weights(
        self, low: Integers, high: Integers
    ) -> tuple[list[tuple[tuple[float, int], ...]], Integers] | None:
        """Return the weights of measurements in the sum over each box, which decide its noise.

        Box j has the cells low[i, j] .. high[i, j] - 1 of axis i.

        Args:
            low: first cell of each box on each axis, shape (axes, boxes).
            high: the cell after the last one, in the same shape.

        Returns:
            The different sets of weights, and for each box the index of its set. A set has pairs
                (weight, number of measurements with it), magnitudes above 0 rounded to 10 digits.
                None if there are too many.

        >>> kinds, which = Grid((Nodes(2, (2,), (1, 1)),)).read_weights(
        ...     np.array([[0, 1, 0]]), np.array([[1, 2, 0]]))
        >>> kinds, which.tolist()
        ([(), ((0.3333333333, 2), (0.6666666667, 1))], [1, 1, 0])
        """
        if not low.shape[1]:
            return [], np.zeros(0, np.int64)
        sides: list[list[dict[float, int]]] = []
        codes_by_axis = []
        for axis, first, last in zip(self.axes, low, high, strict=True):
            ends, codes = np.unique(np.stack([first, last]), axis=1, return_inverse=True)
            room = max(axis.cells, ends.shape[1]) * axis.measurements
            if room > _MOST_READ_WEIGHTS:
                return None
            places_of_reads: dict[tuple[tuple[float, int], ...], int] = {}
            reads = _reads(axis)
            kinds = [
                places_of_reads.setdefault(
                    _distinct(reads[stop] - reads[start]), len(places_of_reads)
                )
                for start, stop in ends.T.tolist()
            ]
            sides.append([dict(read) for read in places_of_reads])
            codes_by_axis.append(np.array(kinds)[codes.reshape(-1)])
        combined, which = np.unique(np.stack(codes_by_axis), axis=1, return_inverse=True)
        parts = [
            [side[i] for side, i in zip(sides, kind, strict=True)] for kind in combined.T.tolist()
        ]
        if sum(math.prod(map(len, part)) for part in parts) > _MOST_DIFFERENT_WEIGHTS:
            return None
        return [_product(part) for part in parts], which.reshape(-1)

    def reads(self, low: Integers, high: Integers) -> Floats | None:
        """Return the weight of each measurement in the sum over one box; None: they are too many.

        The box has the cells low[i] .. high[i] - 1 of axis i.

        Args:
            low: first cell of the box on each axis, shape (axes,).
            high: the cell after the last one, in the same shape.
        """
        product = np.ones(1)
        for axis, first, last in zip(self.axes, low.tolist(), high.tolist(), strict=True):
            if axis.cells * axis.measurements > _MOST_READ_WEIGHTS:
                return None
            reads = _reads(axis)
            product = np.multiply.outer(product, reads[last] - reads[first]).ravel()
        return product if len(product) <= _MOST_READ_WEIGHTS else None

    def total(self, workloads: Sequence[Workload]) -> float:
        """Return the summed variance of all queries, each of which combines one of each axis.

        The unit is the variance of one draw of noise.

        Args:
            workloads: one for each axis, over its cells.
        """
        return math.prod(
            workload.total(axis) for workload, axis in zip(workloads, self.axes, strict=True)
        )


@lru_cache(maxsize=4)
def _reads(axis: LineStrategy) -> Floats:
    """Return the weights of measurements in running sums of an axis: (n + 1, measurements)."""
    cells = axis.estimate(np.eye(axis.measurements, dtype=np.int64))
    return np.concatenate([np.zeros((1, axis.measurements)), np.cumsum(cells, axis=0)])


def _distinct(weights: Floats) -> tuple[tuple[float, int], ...]:
    """Return pairs (magnitude, number of weights), equal up to 12 digits; without 0."""
    magnitudes = np.abs(weights)
    largest = float(magnitudes.max(initial=0.0))
    if largest == 0:
        return ()
    digits = 12 - math.ceil(math.log10(largest))
    values, counts = np.unique(np.round(magnitudes, digits), return_counts=True)
    return tuple(
        (value, count)
        for value, count in zip(values.tolist(), counts.tolist(), strict=True)
        if value > 0
    )


def _product(sides: Sequence[Mapping[float, int]]) -> tuple[tuple[float, int], ...]:
    """Return pairs (weight, number of measurements) of the sum over a box.

    A weight is the product of one of each of the ``sides``; those that differ by rounding are one.
    """
    values = np.ones(1)
    counts = np.ones(1, np.int64)
    for side in sides:
        values = np.multiply.outer(values, np.array(list(side), dtype=np.float64)).ravel()
        counts = np.multiply.outer(counts, np.array(list(side.values()), dtype=np.int64)).ravel()
    # Products that differ only by rounding are one weight.
    merged: dict[float, int] = {}
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        rounded = float(f"{value:.9e}")
        merged[rounded] = merged.get(rounded, 0) + count
    return tuple(sorted(merged.items()))


def margins_strategies(
    shape: Sequence[int], norm: Norm, *, equal: bool, largest_weight: int = _LARGEST_WEIGHT
) -> tuple[Nodes, ...]:
    """Return a strategy for each axis that measures its cells and their sum, with small weights.

    With ``equal`` weights give every margin (sum over some axes) the same variance, else the least
    summed error. Their product is at most ``largest_weight``, so that measurements are exact; a
    smaller one lets larger sums fit int64.

    >>> [axis.weights for axis in margins_strategies([4], 2, equal=False)]
    [(4096, 2277)]
    """
    # The weights of each axis are refined step by step, beginning with small integers. The axis
    # whose error falls most in relation to the growth of its weights is refined first.
    if equal:
        return tuple(_axis(cells, (1, 1)) for cells in shape)
    candidates = [_weights_by_error(cells, norm) for cells in shape]
    chosen = [0] * len(shape)
    while True:
        product = math.prod(
            axis_candidates[number].largest
            for axis_candidates, number in zip(candidates, chosen, strict=True)
        )
        room = largest_weight // product
        refinements = [
            _Refinement(
                _gain(axis_candidates[number], axis_candidates[later]), axis=axis, candidate=later
            )
            for axis, (axis_candidates, number) in enumerate(zip(candidates, chosen, strict=True))
            for later in range(number + 1, len(axis_candidates))
            if axis_candidates[later].largest <= room * axis_candidates[number].largest
        ]
        if not refinements:
            break
        best = max(refinements, key=_by_gain)
        chosen[best.axis] = best.candidate
    return tuple(
        _axis(cells, axis_candidates[number].weights)
        for cells, axis_candidates, number in zip(shape, candidates, chosen, strict=True)
    )


class _AxisWeights(NamedTuple):
    """Candidate for the weights of one axis.

    Attributes:
        error: the summed error that `_error` returns for them.
        cell: weight of each cell.
        total: weight of the sum of all cells; 0: it is not measured.
    """

    error: float
    cell: int
    total: int

    @property
    def weights(self) -> tuple[int, int]:
        """Weights of a cell and of the sum."""
        return (self.cell, self.total)

    @property
    def largest(self) -> int:
        """The larger of the two weights."""
        return max(self.weights)


class _Refinement(NamedTuple):
    """Another candidate for the weights of one axis, and what it gains."""

    gain: float
    axis: int
    candidate: int


def _by_gain(refinement: _Refinement) -> tuple[float, int, int]:
    """Return the order of refinements: of equal gains, the first axis counts, refined furthest."""
    return (refinement.gain, -refinement.axis, refinement.candidate)


def _gain(present: _AxisWeights, later: _AxisWeights) -> float:
    """Return the decrease of the error in relation to the growth of the weights, as logarithms."""
    return math.log(present.error / later.error) / math.log(later.largest / present.largest)


def _axis(cells: int, weights: tuple[int, int]) -> Nodes:
    if cells == 1:
        return Nodes(1, (), (1,), "margins")
    return Nodes(cells, (cells,), weights, "margins")


@lru_cache(maxsize=64)
def _weights_by_error(cells: int, norm: Norm) -> list[_AxisWeights]:
    """Return candidates for the weights of one axis.

    Later candidates have larger weights and smaller errors.
    """
    if cells == 1:
        return [_AxisWeights(1.0, cell=1, total=1)]
    # The best weight of the sum, relative to that of a cell. For Gaussian noise: with unit columns,
    # the summed variance is least if the eigenvalues of C^T C are proportional to the roots of
    # those of the workload's Gram matrix.
    best = _least_laplace(cells) if norm == 1 else math.sqrt((math.sqrt(cells + 1) - 1) / cells)
    candidates: list[_AxisWeights] = []
    for cell in (
        *range(1, _LARGEST_TRIED_WEIGHT + 1),
        *(1 << bits for bits in range(7, LATTICE_BITS + 1)),
    ):
        below = math.floor(best * cell)  # 0 leaves the sum unmeasured, which can be best
        candidate = min(
            _AxisWeights(_error(cells, norm, cell, total), cell=cell, total=total)
            for total in (below, below + 1)
        )
        if not candidates or candidate.error < candidates[-1].error * (1 - 1e-9):
            candidates.append(candidate)
    return candidates


def _error(cells: int, norm: Norm, cell: int, whole: float) -> float:
    """Return the summed error if cells have the weight ``cell``, and their sum ``whole``.

    It is the squared sensitivity times the summed variance of all cells and of the sum.
    """
    size = (cell + whole) ** 2 if norm == 1 else cell**2 + whole**2
    return size * ((cells - 1) / cell**2 + (1 + cells) / (cell**2 + cells * whole**2))


def _least_laplace(cells: int) -> float:
    """Return the ratio of the sum's weight to a cell's of least error with Laplace noise."""
    low = 1e-9
    high = 1.0
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(60):
        left = high - ratio * (high - low)
        right = low + ratio * (high - low)
        falls = _error(cells, 1, 1, left) < _error(cells, 1, 1, right)
        low, high = (low, right) if falls else (left, high)
    return low
