"""The workloads of the paper that no plan has: nodes of the binary tree, and random subsets.

Users who want the nodes of a tree release a hierarchy, and random sets of cells are read with least
error from the cells themselves (`--line identity`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike
from typing_extensions import override

from counton import tables
from counton.base.arrays import Floats, Integers
from counton.tables.tree_distribution import TreeDistribution, level_sizes
from counton.tables.workloads import Estimator, NamedWorkload, Workload, tree_distribution

#: Number of intervals that are processed together, so that they stay in the cache.
_STRETCH = 2**14


def _stretches(*arrays: Integers) -> Iterator[list[Integers]]:
    """Yield pieces of at most 2^14 entries of several arrays of one length."""
    for start in range(0, len(arrays[0]), _STRETCH):
        yield [array[start : start + _STRETCH] for array in arrays]


class TreeNodes(NamedWorkload):
    """The workload of all nodes of the binary tree: intervals j 2^k .. (j + 1) 2^k - 1.

    The last node of a level may have fewer cells.

    >>> low, high = TreeNodes(3).intervals()
    >>> list(zip(low.tolist(), high.tolist()))
    [(0, 1), (1, 2), (2, 3), (0, 2), (0, 3)]
    """

    name = "nodes"
    costly = True

    @property
    @override
    def queries(self) -> int:
        return 2 * self.cells - 1

    @override
    def total(self, estimator: Estimator) -> float:
        distribution = tree_distribution(estimator)
        if distribution is not None and self._alike(distribution) is not None:
            return float(self.levels(distribution).sum())
        parts = _stretches(*self.intervals())
        return sum(float(estimator.variance(*part).sum()) for part in parts)

    @override
    def levels(self, joint_distribution: TreeDistribution) -> Floats:
        groups = self._alike(joint_distribution)
        if groups is None:
            low, high = self.intervals()
            groups = low, high, np.ones_like(low)
        totals = np.zeros(len(joint_distribution.radices) + 1)
        for low, high, times in _stretches(*groups):
            levels = joint_distribution.interval_levels(low, high)
            totals += [float((level * times).sum()) for level in levels]
        return totals

    def gram(self) -> Floats:
        """Return W^T W: entry (i, j) is the number of intervals that contain both cells."""
        self.check_dense()
        low, high = self.intervals()
        corners = np.zeros((self.cells + 1, self.cells + 1))
        np.add.at(corners, (low, low), 1)
        np.add.at(corners, (low, high), -1)
        np.add.at(corners, (high, low), -1)
        np.add.at(corners, (high, high), 1)
        return corners.cumsum(0).cumsum(1)[:-1, :-1]

    def _alike(
        self, joint_distribution: TreeDistribution
    ) -> tuple[Integers, Integers, Integers] | None:
        """Return groups of intervals whose sums have equal variance under ``joint_distribution``.

        Three arrays, shape (groups,), have start and end of one interval, and the number in the
        group. None: some radix of ``joint_distribution`` is no power of two.
        """
        # Then a query of 2^k cells either consists of whole nodes or lies within one. Two queries
        # of one size differ only in the level from which on their ancestors are the last nodes of
        # their levels, which may be incomplete.
        if any(radix & (radix - 1) for radix in joint_distribution.radices):
            return None
        lows = []
        highs = []
        times = []
        size = 1
        while size < 2 * self.cells:
            # without a last node that has the same cells as its only child
            nodes = -(-self.cells // size)
            left = self.cells - (nodes - 1) * size
            nodes = nodes if size == 1 or left > size // 2 else nodes - 1
            starts = {0, nodes - 1, nodes}
            for within in level_sizes(joint_distribution.radices):
                if within >= size:
                    last = (self.cells - 1) // within * within
                    starts.add(min(last // size, nodes))
            edges = sorted(starts)
            for first, stop in pairwise(edges):
                lows.append(first * size)
                highs.append(min((first + 1) * size, self.cells))
                times.append(stop - first)
            size *= 2
        return np.array(lows), np.array(highs), np.array(times)

    def intervals(self) -> tuple[Integers, Integers]:
        """Return the starts and ends of all nodes: cells low .. high - 1.

        An only child's parent is left out, since it is the same query.
        """
        lows = []
        highs = []
        size = 1
        while True:
            low = np.arange(0, self.cells, size)
            high = np.minimum(low + size, self.cells)
            proper = (high - low > size // 2) | (size == 1)
            lows.append(low[proper])
            highs.append(high[proper])
            if size >= self.cells:
                return np.concatenate(lows), np.concatenate(highs)
            size *= 2


class RandomSubsets(NamedWorkload):
    """The workload of one random set of cells, whose sum is the query; errors are expectations.

    The size of the set is uniform on ceil(n/4)..n, and all sets of that size are equally likely.

    Source: Dharangutte, Gao, Gong and Wang, "Differentially Private Range Queries with Correlated
    Input Perturbation", appendix E.3.

    >>> RandomSubsets(4).gram().round(3)[0].tolist()
    [0.625, 0.417, 0.417, 0.417]
    """

    name = "subsets"

    @property
    @override
    def queries(self) -> int:
        return 1

    @override
    def total(self, estimator: Estimator) -> float:
        own = getattr(estimator, "subsets_variance", None)
        if own is not None:
            return float(own(self))
        if (distribution := tree_distribution(estimator)) is not None:
            return float(self.levels(distribution).sum())
        single, together = self._weights()
        low = np.arange(self.cells)
        ends = np.array([0]), np.array([self.cells])
        return single * float(estimator.variance(low, low + 1).sum()) + together * float(
            estimator.variance(*ends)[0]
        )

    @override
    def levels(self, joint_distribution: TreeDistribution) -> Floats:
        single, together = self._weights()
        ends = np.array([0]), np.array([self.cells])
        parts = zip(
            cell_levels(joint_distribution), joint_distribution.interval_levels(*ends), strict=True
        )
        return np.array([single * cell + together * float(whole[0]) for cell, whole in parts])

    @override
    def gram(self) -> Floats:
        self.check_dense()
        single, together = self._weights()
        return single * np.eye(self.cells) + together

    def _weights(self) -> tuple[float, float]:
        """Return a and b: `gram` is a times the identity plus b times the matrix of ones."""
        # They follow from the probabilities that one, and two, given cells are in the set.
        n = self.cells
        sizes = np.arange(max(-(-n // 4), 1), n + 1.0)
        one = float((sizes / n).mean())
        two = float((sizes * (sizes - 1)).mean() / max(n * (n - 1), 1))
        return one - two, two


def cell_levels(distribution: TreeDistribution) -> Iterator[float]:
    """Yield each level's part, leaves first, in the summed variance of all cells; exact."""
    # The time is proportional to the number of levels, since the sum over cells of their
    # squared mean weights in a node is enough.
    counts = distribution.counts()
    whole = end = 1.0
    for level, radix in enumerate(distribution.radices):
        complete = distribution.complete[level]
        last = distribution.last[level]
        final = counts[level + 1] - 1
        others = counts[level] - final * radix - 1
        inner = radix * complete, radix * complete * whole, radix * complete**2 * whole
        outer = (
            others * complete + last,
            others * complete * whole + last * end,
            others * complete**2 * whole + last**2 * end,
        )
        yield sum(
            count * (linear - square / total)
            for count, (total, linear, square) in ((final, inner), (1, outer))
        )
        whole, end = (square / total**2 for total, _, square in (inner, outer))
    yield distribution.root * end


#: The paper's own workloads by name.
OWN: dict[str, type[NamedWorkload]] = {kind.name: kind for kind in (TreeNodes, RandomSubsets)}


def workload(kind: str | Workload | ArrayLike, cells: int) -> Workload:
    """Return the workload with this name over ``cells`` cells, as `counton.tables.workload`.

    >>> workload("nodes", 4).queries, workload("ranges", 4).queries
    (7, 10)
    """
    if isinstance(kind, str) and kind in OWN:
        return OWN[kind](cells)
    return tables.workload(kind, cells)
