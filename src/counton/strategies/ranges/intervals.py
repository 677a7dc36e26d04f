"""Workloads of intervals: all of them, running totals, the nodes of a binary tree."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from counton.arrays import Floats, Integers
from counton.strategies.ranges.tree import TreeLaw
from counton.strategies.ranges.workload import Estimator, NamedWorkload

#: Intervals looked at together.
_STRETCH = 2**14


class AllRanges(NamedWorkload):
    """Every interval [low, high) with low < high.

    >>> AllRanges(3).gram().astype(int).tolist()
    [[3, 2, 1], [2, 4, 2], [1, 2, 3]]
    """

    name = "ranges"

    def _queries(self) -> int:
        return self.cells * (self.cells + 1) // 2

    def total(self, estimator: Estimator) -> float:
        """See `Workload.total`."""
        return estimator.ranges_variance()

    def levels(self, joint_law: TreeLaw) -> Floats:
        """See `Workload.levels`."""
        return np.array(list(joint_law.prefix_levels(ranges=True)))

    def gram(self) -> Floats:
        """Entry (i, j), from 1: min(i, j) (n + 1 - max(i, j))."""
        self.check_dense()
        i = np.arange(1.0, self.cells + 1)
        return np.asarray(np.minimum.outer(i, i) * (self.cells + 1 - np.maximum.outer(i, i)))


class Prefixes(NamedWorkload):
    """Every prefix [0, high): running totals.

    >>> Prefixes(3).gram().astype(int).tolist()
    [[3, 2, 1], [2, 2, 1], [1, 1, 1]]
    """

    name = "prefixes"

    def _queries(self) -> int:
        return self.cells

    def total(self, estimator: Estimator) -> float:
        """See `Workload.total`."""
        high = np.arange(1, self.cells + 1)
        return float(estimator.variance(np.zeros_like(high), high).sum())

    def levels(self, joint_law: TreeLaw) -> Floats:
        """See `Workload.levels`."""
        return np.array(list(joint_law.prefix_levels(ranges=False)))

    def gram(self) -> Floats:
        """Entry (i, j), from 1: n + 1 - max(i, j)."""
        self.check_dense()
        i = np.arange(1.0, self.cells + 1)
        return np.asarray(self.cells + 1 - np.maximum.outer(i, i))


class _Intervals(NamedWorkload):
    costly = True

    @abstractmethod
    def intervals(self) -> tuple[Integers, Integers]: ...

    def total(self, estimator: Estimator) -> float:
        """See `Workload.total`."""
        return float(estimator.variance(*self.intervals()).sum())

    def levels(self, joint_law: TreeLaw) -> Floats:
        """See `Workload.levels`."""
        low, high = self.intervals()
        totals = np.zeros(len(joint_law.radices) + 1)
        for start in range(0, len(low), _STRETCH):  # stretches that stay in the cache
            stretch = slice(start, start + _STRETCH)
            totals += [
                float(part.sum()) for part in joint_law.interval_levels(low[stretch], high[stretch])
            ]
        return totals

    def gram(self) -> Floats:
        """Entry (i, j): how many of the intervals hold both cells."""
        self.check_dense()
        low, high = self.intervals()
        corners = np.zeros((self.cells + 1, self.cells + 1))
        np.add.at(corners, (low, low), 1)
        np.add.at(corners, (low, high), -1)
        np.add.at(corners, (high, low), -1)
        np.add.at(corners, (high, high), 1)
        return corners.cumsum(0).cumsum(1)[:-1, :-1]


class TreeNodes(_Intervals):
    """Every node of the binary tree over the cells: powers of two, aligned.

    >>> low, high = TreeNodes(3).intervals()
    >>> list(zip(low.tolist(), high.tolist()))
    [(0, 1), (1, 2), (2, 3), (0, 2), (0, 3)]
    """

    name = "nodes"

    def _queries(self) -> int:
        return 2 * self.cells - 1

    def intervals(self) -> tuple[Integers, Integers]:
        """Ends of all nodes; a node that has one child is the same query as that child."""
        lows, highs, size = [], [], 1
        while True:
            low = np.arange(0, self.cells, size)
            high = np.minimum(low + size, self.cells)
            proper = (high - low > size // 2) | (size == 1)
            lows.append(low[proper])
            highs.append(high[proper])
            if size >= self.cells:
                return np.concatenate(lows), np.concatenate(highs)
            size *= 2
