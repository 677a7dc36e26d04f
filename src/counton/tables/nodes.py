"""Noisy sums of the nodes of a tree over a line of cells, made consistent by least squares.

With binary branching and equal weights this is the hierarchical method of Hay, Rastogi, Miklau and
Suciu (2010). If only leaves are measured, every cell has independent noise. With Laplace noise,
many children per node and unequal weights of levels are far better; `Nodes.best` finds them.

Least squares on a tree needs two passes. The first goes from leaves to root: a node's own
measurement and the sum of its children's estimates are averaged, weighted by 1 / variance. The
second goes from root to leaves: the difference between a node's final estimate and the sum of its
children's is distributed among the children in proportion to their variances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Self

import numpy as np
from typing_extensions import override

from counton.base.arrays import Floats, Integers, IntegersOrFloats
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer
from counton.strategies.descent import descend
from counton.strategies.lines.line_strategy import (
    LARGEST_CELLS,
    LATTICE_BITS,
    check_name,
    on_lattice,
)
from counton.strategies.strategy import Norm
from counton.tables.tree_distribution import TreeDistribution, binary_radices
from counton.tables.weighted_tree import WeightedTree
from counton.tables.workloads import AllRanges, Workload

_BRANCHING = (2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 32)
_FEW_BRANCHING = (2, 4, 16)
_LARGEST_FAMILY = 2**16
#: Numbers of children that `good_trees` tries on the two lowest levels.
_LOWEST_BRANCHING = (10, 12, 14, 16)


class Nodes(WeightedTree):
    """A strategy that measures all nodes of a tree, with one weight for each level.

    Cells are estimated by least squares.

    Args:
        radices: number of children of a complete node, lowest level first; their product is at
            least ``cells``.
        weights: integer weight of each level, leaves first; 0 leaves a level but the leaves
            unmeasured.
        name: the name by which the user chose the strategy; it changes no number.

    Raises:
        InvalidInputError: radices or weights that do not make a tree over the cells.

    >>> Nodes(3, (2, 2), (1, 2, 0)).matrix().tolist()
    [[1, 0, 0], [0, 1, 0], [0, 0, 1], [2, 2, 0], [0, 0, 2]]
    """

    sources = ("consistency",)

    def __init__(
        self, cells: int, radices: Sequence[int], weights: Sequence[int], name: str = "hierarchy"
    ) -> None:
        self.cells = check_integer("cells", cells, 1, LARGEST_CELLS)
        self.radices = tuple(int(radix) for radix in radices)
        self.weights = tuple(int(weight) for weight in weights)
        if min(self.radices, default=2) < 1 or math.prod(self.radices) < cells:
            raise InvalidInputError(
                f"radices are {self.radices}; each must be at least 1, and their product at least "
                f"{cells}, the number of cells"
            )
        if (
            len(self.weights) != len(self.radices) + 1
            or min(self.weights) < 0
            or self.weights[0] < 1
        ):
            raise InvalidInputError(
                f"weights are {self.weights}; give {len(self.radices) + 1} integers, the first at "
                "least 1 and the others at least 0"
            )
        self.name = check_name(name)
        self.unit_columns = max(self.weights) == 1
        self.measurements = sum(map(len, self.rows()))

    @classmethod
    def independent(cls, cells: int) -> Self:
        """Return the strategy that measures each cell, and nothing else.

        Args:
            cells: number of cells of the line, from 1.

        >>> Nodes.independent(10).ranges_variance()
        220.0
        """
        return cls(cells, (cells,), (1, 0), "identity")

    @classmethod
    def binary(cls, cells: int) -> Self:
        """Return the binary tree with all nodes measured at equal weight (Hay and others, 2010).

        Args:
            cells: number of cells of the line, from 1.
        """
        radices = binary_radices(check_integer("cells", cells, 1, LARGEST_CELLS))
        return cls(cells, radices, (1,) * (len(radices) + 1), "binary")

    @classmethod
    def best(cls, workload: Workload, norm: Norm, bits: int = LATTICE_BITS) -> Self:
        """Return the strategy of least total error over ``workload`` that a search finds.

        Args:
            workload: the queries whose summed variance counts.
            norm: 1 for Laplace noise, 2 for Gaussian noise.
            bits: weights are rounded to multiples of 2^-bits of the largest.
        """
        return cls.with_weights(workload, *best_branching(workload, norm), bits)

    @classmethod
    def with_weights(
        cls, workload: Workload, radices: Sequence[int], weights: Floats, bits: int = LATTICE_BITS
    ) -> Self:
        """Return the strategy with real weights, rounded to a grid.

        Args:
            workload: its number of cells is that of the line.
            radices: number of children of a node for each level, lowest level first.
            weights: weight of the nodes of each level, leaves first, 0 or more.
            bits: weights are rounded to multiples of 2^-bits of the largest.
        """
        return cls(workload.cells, radices, on_lattice(weights, bits))

    @classmethod
    @override
    def examples(cls, cells: int) -> Sequence[Self]:
        return (
            cls.independent(cells),
            cls.binary(cells),
            *(cls.best(AllRanges(cells), norm) for norm in (1, 2)),
            cls(cells, (3, -(-cells // 3)), (5, 2, 1)),
            cls(cells, (cells,), (1, 1)),
            cls(cells, (2, cells), (3, 0, 1)),
        )

    def rows(self) -> list[range]:
        """Return the indices of each level's measurements; empty for unmeasured levels."""
        ranges = []
        start = 0
        nodes = self.cells
        for radix, weight in zip((*self.radices, 1), self.weights, strict=True):
            stop = start + (nodes if weight else 0)
            ranges.append(range(start, stop))
            start = stop
            nodes = -(-nodes // radix)
        return ranges

    @override
    def measure(self, counts: Integers) -> Integers:
        measured = np.empty((self.measurements, *counts.shape[1:]), np.int64)
        sums = counts
        for level, (rows, weight) in enumerate(zip(self.rows(), self.weights, strict=True)):
            if level:
                starts = np.arange(0, len(sums), self.radices[level - 1])
                sums = np.add.reduceat(sums, starts, axis=0)
            if weight:
                np.multiply(sums, weight, out=measured[rows.start : rows.stop])
        return measured

    @override
    def estimate(self, measured: IntegersOrFloats) -> Floats:
        """Return least-squares estimates: shape (measurements, ...) to (cells, ...).

        Args:
            measured: noisy measurements, shape (measurements, ...).
        """
        # Upwards, each node is estimated from its own measurement and those below it. Lists have an
        # array for each level, leaves first: these estimates, the sums of the children's estimates,
        # and the variances of both.
        extra = (slice(None),) + (None,) * (measured.ndim - 1)
        rows = self.rows()
        upward: list[Floats] = [measured[rows[0].start : rows[0].stop] / self.weights[0]]
        summed = [upward[0]]
        spread = [np.full(self.cells, 1 / self.weights[0] ** 2)]
        sums = [spread[0]]
        for level, (radix, weight) in enumerate(
            zip(self.radices, self.weights[1:], strict=True), 1
        ):
            starts = np.arange(0, len(upward[-1]), radix)
            total = np.add.reduceat(upward[-1], starts, axis=0)
            summed.append(total)
            sums.append(np.add.reduceat(spread[-1], starts))
            spread.append(1 / (1 / sums[-1] + weight**2))
            if weight:
                node_values = measured[rows[level].start : rows[level].stop]
                precise = total / sums[-1][extra] + node_values * float(weight)
                total = precise * spread[-1][extra]
            upward.append(total)
        final = upward[-1]
        for level in range(len(self.radices) - 1, -1, -1):
            parent = np.arange(len(upward[level])) // self.radices[level]
            share = spread[level] / sums[level + 1][parent]
            final = upward[level] + share[extra] * (final - summed[level + 1])[parent]
        return np.asarray(final, dtype=np.float64)

    @override
    def largest_move(self, norm: Norm) -> int:
        return 2 * max(sum(int(weight**norm) for weight in self.weights[:-1]), 1)

    @property
    @override
    def least_inner(self) -> int:
        """Least inner product of two columns: of leaves whose only common ancestor is the root."""
        return self.weights[-1] ** 2

    @cached_property
    @override
    def joint_distribution(self) -> TreeDistribution:
        # Variances of nodes' estimates from their own subtrees, by level: of complete nodes, and of
        # the last one.
        whole = end = 1 / self.weights[0] ** 2
        complete = [whole]
        last = [end]
        count = self.cells
        for radix, weight in zip(self.radices, self.weights[1:], strict=True):
            parents = -(-count // radix)
            total = (count - (parents - 1) * radix - 1) * whole + end
            whole, end = (1 / (1 / value + weight**2) for value in (radix * whole, total))
            complete.append(whole)
            last.append(end)
            count = parents
        return TreeDistribution(
            self.cells, self.radices, tuple(complete[:-1]), tuple(last[:-1]), last[-1]
        )

    @property
    def leaves_only(self) -> bool:
        """Whether the strategy measures each cell, and nothing else."""
        return not any(self.weights[1:])

    @override
    def variance(self, low: Integers, high: Integers) -> Floats:
        if self.leaves_only:
            return np.asarray(high - low, dtype=np.float64) / self.weights[0] ** 2
        return super().variance(low, high)

    @override
    def ranges_variance(self) -> float:
        if self.leaves_only:
            return self.cells * (self.cells + 1) * (self.cells + 2) / (6 * self.weights[0] ** 2)
        return super().ranges_variance()


def best_branching(workload: Workload, norm: Norm) -> tuple[tuple[int, ...], Floats]:
    """Return the best tree that a search finds for a workload: its radices and real weights.

    Radices begin with the lowest level, weights with the leaves.

    >>> from counton.tables.workloads import AllRanges
    >>> best_branching(AllRanges(1024), norm=1)[0]
    (10, 12, 9)
    """
    # Uniform branching is tried first, then the two lowest levels are varied.
    cells = workload.cells
    few = workload.costly and cells > _LARGEST_FAMILY
    branching = _FEW_BRANCHING if few else _BRANCHING
    trees = {_complete_radices(cells, (radix,) * 64) for radix in branching}
    if cells <= _LARGEST_FAMILY:
        trees.add(_complete_radices(cells, ()))  # the root has all cells as children
    weighed = [(*_weigh(workload, radices, norm), radices) for radices in sorted(trees)]
    error, weights, radices = min(weighed, key=lambda entry: entry[0])
    for index in range(min(2, len(radices) - 1)):
        for radix in branching:
            changed = _complete_radices(cells, (*radices[:index], radix, *radices[index + 1 : -1]))
            other, others = _weigh(workload, changed, norm)
            if other < error:
                error = other
                radices = changed
                weights = others
    return radices, weights


def good_trees(workload: Workload, norm: Norm) -> list[tuple[tuple[int, ...], Floats]]:
    """Return the tree of `best_branching`, and some whose lowest nodes have more children.

    >>> from counton.tables.workloads import AllRanges
    >>> [radices for radices, _ in good_trees(AllRanges(1024), norm=1)]
    [(10, 12, 9), (12, 10, 9), (14, 10, 8), (16, 10, 7)]
    """
    cells = workload.cells
    best_trees = dict([best_branching(workload, norm)])
    for low in _LOWEST_BRANCHING:
        trees = sorted({_complete_radices(cells, (low, radix, 64)) for radix in _LOWEST_BRANCHING})
        tried = {radices: _weigh(workload, radices, norm) for radices in trees}
        least = min(tried, key=lambda radices: tried[radices][0])
        best_trees[least] = tried[least][1]
    return sorted(best_trees.items(), key=lambda entry: entry[0])


def _complete_radices(cells: int, radices: Sequence[int]) -> tuple[int, ...]:
    """Return the radices of a tree over all cells whose lowest levels have ``radices``.

    Levels that are not needed are left out; the root has as many children as needed.
    """
    kept: list[int] = []
    nodes_left = cells
    for radix in radices:
        if nodes_left > radix:
            kept.append(radix)
            nodes_left = -(-nodes_left // radix)
    return (*kept, nodes_left) if nodes_left > 1 else tuple(kept)


@lru_cache(maxsize=1024)
def _energy(workload: Workload, radices: tuple[int, ...]) -> Floats:
    """Return how strongly the variances of each level count in the error, leaves first.

    If the variance of every node's estimate on the level, from its own subtree, grows by 1, the
    summed variance of all queries grows by this number.
    """
    ones = (1.0,) * len(radices)
    return np.maximum(
        workload.levels(TreeDistribution(workload.cells, radices, ones, ones, 1.0)), 0.0
    )


@lru_cache(maxsize=4096)
def _weigh(workload: Workload, radices: tuple[int, ...], norm: Norm) -> tuple[float, Floats]:
    """Return the logarithm of the least error on a tree, and the weights of levels.

    The error is the summed variance of all queries times the squared sensitivity.
    """
    energy = _energy(workload, radices)
    ratios = np.array(radices, dtype=np.float64)

    def error_and_slope(logs: Floats) -> tuple[float, Floats]:
        weights = np.exp(logs)
        precision = np.empty_like(weights)
        precision[0] = weights[0] ** 2
        for level, ratio in enumerate(ratios):
            precision[level + 1] = precision[level] / ratio + weights[level + 1] ** 2
        error = float((energy / precision).sum())
        slope = np.zeros_like(weights)
        carried = 0.0
        for level in range(len(weights) - 1, -1, -1):
            carried = -energy[level] / precision[level] ** 2 + (
                carried / ratios[level] if level < len(ratios) else 0.0
            )
            slope[level] = carried * 2 * weights[level] ** 2
        size = float((weights**norm).sum())
        value = math.log(error) + 2 / norm * math.log(size)
        return value, slope / error + 2 * weights**norm / size

    start = np.zeros(len(radices) + 1)
    least, logs = descend(error_and_slope, start, [(-30, 30)] * len(start))
    weights = np.exp(logs)
    weights[1:][weights[1:] < weights.max() * 1e-5] = 0.0
    weights.flags.writeable = False
    return least, weights
