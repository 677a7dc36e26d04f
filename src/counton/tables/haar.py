"""Haar contrasts with a weight for each level of a binary tree over a line of cells.

A node of the tree is the sum of its cells. The measurements are the total and, for every node with
two children, the difference of the children. If the differences at height h have weight w_h and
noise z, and X is the noise of a node's estimate, its children's estimates have noise X_0 = (X + z /
w_h) / 2 and X_1 = X - X_0. This is the noise distribution of "Ranges", Alg. 1 and 3 (an only child
has its parent's noise).

A cell enters one difference at each height, so the sensitivity is the sum of the weights, or of
their squares. Erratum: the paper calibrates by its Theorem 3.9, which needs 63% more variance at n
= 1024.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from typing_extensions import override

from counton.base.arrays import Floats, Integers, IntegersOrFloats
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer
from counton.strategies.lines.line_strategy import (
    LARGEST_CELLS,
    LATTICE_BITS,
    check_name,
    on_lattice,
)
from counton.strategies.strategy import Norm
from counton.tables.tree_distribution import TreeDistribution, binary_radices
from counton.tables.weighted_tree import WeightedTree
from counton.tables.workloads import AllRanges, Queries, Workload


class Haar(WeightedTree):
    """A strategy for a line of cells: the total, and differences of siblings in a binary tree.

    Args:
        weights: integers, of the total, then of the differences at heights 1, 2, ...

    Raises:
        InvalidInputError: the weights do not fit the tree, or one is below 1.

    >>> Haar(4, (2, 1, 1)).matrix().tolist()
    [[2, 2, 2, 2], [1, -1, 0, 0], [0, 0, 1, -1], [1, 1, -1, -1]]
    """

    sources = ("wavelets", "ranges")

    def __init__(self, cells: int, weights: tuple[int, ...], name: str = "haar") -> None:
        self.cells = check_integer("cells", cells, 1, LARGEST_CELLS)
        self.height = len(binary_radices(cells))
        if len(weights) != self.height + 1 or min(weights) < 1:
            raise InvalidInputError(
                f"weights are {weights}; a tree over {cells} cells needs {self.height + 1} "
                "integers of at least 1: one for the total, and one for each level"
            )
        self.weights = tuple(int(weight) for weight in weights)
        self.name = check_name(name)
        self.measurements = self.cells
        self.unit_columns = max(self.weights) == 1

    @classmethod
    def cascade(cls, cells: int, bits: int = LATTICE_BITS) -> Self:
        """Return the strategy whose estimates of all nodes have the same variance.

        Every difference has the weight 1 / sqrt 3, relative to the total. The squared sensitivity
        is (1 + height / 3) w^2, where w is the weight of the total. Weights are below 2^bits.

        Source: Dharangutte, Gao, Gong and Wang, "Differentially Private Range Queries with
        Correlated Input Perturbation", Definition 3.2.

        Args:
            cells: number of cells of the line, from 1.
            bits: the most binary digits of a weight.

        >>> strategy = Haar.cascade(1024)
        >>> round(strategy.squared_sensitivity() / strategy.weights[0] ** 2 * 3, 10)
        13.0
        """
        height = len(binary_radices(check_integer("cells", cells, 1, LARGEST_CELLS)))
        # total^2 = 3 difference^2 + 1, Pell's equation: its solutions are the best approximations.
        total = 2
        difference = 1
        while 2 * total + 3 * difference <= 1 << bits:
            total, difference = 2 * total + 3 * difference, total + 2 * difference
        return cls(cells, (total,) + (difference,) * height, "cascade")

    @classmethod
    def wavelet(cls, cells: int) -> Self:
        """Return the strategy of Privelet: all measurements have weight 1.

        Source: Xiao, Wang and Gehrke, "Differential privacy via wavelet transforms" (2010), section
        IV.

        Args:
            cells: number of cells of the line, from 1.
        """
        # There a coefficient, half the difference of the means of two subtrees, has noise in
        # inverse proportion to the number of cells below it. In sums instead of means all
        # measurements have the same noise.
        height = len(binary_radices(check_integer("cells", cells, 1, LARGEST_CELLS)))
        return cls(cells, (1,) * (height + 1), "wavelet")

    @classmethod
    def best(cls, workload: Workload, norm: Norm, bits: int = LATTICE_BITS) -> Self:
        """Return the weights of least total error over a workload, by a closed formula.

        Args:
            workload: the queries whose summed variance counts.
            norm: 1 for Laplace noise, 2 for Gaussian noise.
            bits: weights are rounded to multiples of 2^-bits of the largest.
        """
        # With E_h the error of the workload at height h for weight 1, the error is sum E_h / w_h^2
        # times (sum w_h^p)^(2/p): least at w_h proportional to E_h^(1/(p+2)), for p = 2 (Gaussian)
        # and p = 1 (Laplace).
        height = len(binary_radices(workload.cells))
        unit = TreeDistribution(
            workload.cells, (2,) * height, (0.5,) * height, (0.5,) * height, 1.0
        )
        energy = np.maximum(workload.levels(unit), 0.0)
        weights = np.maximum(energy / energy.max(), 1e-24) ** (1 / (norm + 2))
        return cls(workload.cells, on_lattice(np.concatenate([weights[-1:], weights[:-1]]), bits))

    @classmethod
    @override
    def examples(cls, cells: int) -> Sequence[Self]:
        ranges = AllRanges(cells)
        slope = Queries(np.arange(1, cells + 1)[None])
        return (
            cls.cascade(cells),
            cls.cascade(cells, bits=8),
            cls.wavelet(cells),
            *(cls.best(workload, norm) for workload in (ranges, slope) for norm in (1, 2)),
        )

    def _pairs(self) -> list[tuple[int, int]]:
        """Return, for each height from 1 on, how many nodes are one below, and their pairs."""
        below = self.cells
        pairs_by_level = []
        for _ in range(self.height):
            pairs_by_level.append((below, below // 2))
            below -= below // 2
        return pairs_by_level

    def rows(self) -> list[range]:
        """Return the indices of the measurements: of the total, then of heights 1, 2, ..."""
        ranges = [range(1)]
        start = 1
        for _, pairs in self._pairs():
            ranges.append(range(start, start + pairs))
            start += pairs
        return ranges

    @override
    def measure(self, counts: Integers) -> Integers:
        measured = np.empty((self.measurements, *counts.shape[1:]), np.int64)
        sums = counts
        for (below, pairs), rows, weight in zip(
            self._pairs(), self.rows()[1:], self.weights[1:], strict=True
        ):
            left = sums[0 : 2 * pairs : 2]
            right = sums[1 : 2 * pairs : 2]
            target = measured[rows.start : rows.stop]
            np.subtract(left, right, out=target)
            target *= weight
            parents = np.empty((below - pairs, *sums.shape[1:]), np.int64)
            np.add(left, right, out=parents[:pairs])
            parents[pairs:] = sums[2 * pairs :]
            sums = parents
        measured[0] = self.weights[0] * sums[0]
        return measured

    @override
    def estimate(self, measured: IntegersOrFloats) -> Floats:
        return self.run_cascade(lambda rows: measured[rows.start : rows.stop], measured.shape[1:])

    def run_cascade(self, read: Any, shape: tuple[int, ...] = ()) -> Floats:
        """Return estimates of the cells, shape (cells, *shape), from the root down.

        Args:
            read: function from a range of rows to their noisy measurements, shape (len(rows),
                *shape).
            shape: shape of one measurement. Default: a single number.
        """
        # Memory is that of the result and of one array of half its size.
        nodes = np.asarray(read(range(1)), dtype=np.float64) / self.weights[0]
        for (below, pairs), rows, weight in reversed(
            list(zip(self._pairs(), self.rows()[1:], self.weights[1:], strict=True))
        ):
            children = np.empty((below, *shape))
            stretch = max(_NODES_AT_ONCE // max(math.prod(shape), 1), 1)
            for start in range(0, pairs, stretch):
                stop = min(start + stretch, pairs)
                half = read(range(rows.start + start, rows.start + stop)) * (0.5 / weight)
                parent = nodes[start:stop]
                left = children[2 * start : 2 * stop : 2]
                np.multiply(parent, 0.5, out=left)
                left += half
                np.subtract(parent, left, out=children[2 * start + 1 : 2 * stop : 2])
            children[2 * pairs :] = nodes[pairs:]
            nodes = children
        return nodes

    @override
    def largest_move(self, norm: Norm) -> int:
        """Return the largest 1-norm or squared 2-norm of the change if a unit moves.

        Args:
            norm: 1 for the 1-norm, 2 for the squared 2-norm.
        """
        # Columns of two leaves differ in all ancestors below their common one, and by twice the
        # weight in the common one. For `cascade` the squared norm is 2 (height + 1) / 3.
        most = 0
        below = 0
        for weight in self.weights[1:]:
            most = max(most, (2 * weight) ** norm + 2 * below)
            below += weight**norm
        return int(max(most, self.weights[0] ** norm if self.cells == 1 else 1))

    @property
    @override
    def least_inner(self) -> int:
        """Least inner product of two columns of the measurement matrix."""
        # It is that of two leaves whose lowest common ancestor has few ancestors.
        least_squared = self.squared_sensitivity()
        pairs = [0, *(count for _, count in self._pairs())]
        for meet in range(1, self.height + 1):
            for node in {0, pairs[meet] - 1}:
                shared = sum(
                    self.weights[h] ** 2
                    for h in range(meet + 1, self.height + 1)
                    if node >> (h - meet) < pairs[h]
                )
                least_squared = min(
                    least_squared, self.weights[0] ** 2 + shared - self.weights[meet] ** 2
                )
        return least_squared

    @cached_property
    @override
    def joint_distribution(self) -> TreeDistribution:
        inner = tuple(0.5 / weight**2 for weight in self.weights[1:])
        return TreeDistribution(
            self.cells, (2,) * self.height, inner, inner, 1 / self.weights[0] ** 2
        )


#: Nodes cascaded at once, so that their noise and halves stay in the cache.
_NODES_AT_ONCE = 2**16
