"""Workloads of intervals: all of them, running totals, the nodes of a binary tree."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from counton.arrays import Floats, Integers
from counton.strategies.lines.tree import TreeLaw, level_sizes
from counton.strategies.lines.workload import Estimator, NamedWorkload, tree_law

#: Intervals looked at together, so that they stay in the cache.
_STRETCH = 2**14


def _stretches(*arrays: Any) -> Iterator[list[Any]]:
    """Pieces of arrays of one length; None stays out."""
    given = [array for array in arrays if array is not None]
    for start in range(0, len(given[0]), _STRETCH):
        yield [array[start : start + _STRETCH] for array in given]


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

    def gram_times(self, rows: Floats) -> Floats:
        """See `Workload.gram_times`; running sums from both ends."""
        i = np.arange(1.0, self.cells + 1)
        left = self.cells + 1 - i
        outer = rows * left
        beyond = outer.sum(axis=1, keepdims=True) - np.cumsum(outer, axis=1)
        return np.asarray(left * np.cumsum(rows * i, axis=1) + i * beyond)


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
        if (law := tree_law(estimator)) is not None:
            return float(self.levels(law).sum())
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

    def gram_times(self, rows: Floats) -> Floats:
        """See `Workload.gram_times`; running sums from both ends."""
        left = self.cells - np.arange(0.0, self.cells)
        outer = rows * left
        beyond = outer.sum(axis=1, keepdims=True) - np.cumsum(outer, axis=1)
        return np.asarray(left * np.cumsum(rows, axis=1) + beyond)


class _Intervals(NamedWorkload):
    costly = True

    @abstractmethod
    def intervals(self) -> tuple[Integers, Integers]: ...

    def total(self, estimator: Estimator) -> float:
        """See `Workload.total`."""
        law = tree_law(estimator)
        if law is not None and self._alike(law) is not None:
            return float(self.levels(law).sum())
        low, high = self.intervals()
        return sum(float(estimator.variance(*part).sum()) for part in _stretches(low, high))

    def levels(self, joint_law: TreeLaw) -> Floats:
        """See `Workload.levels`."""
        alike = self._alike(joint_law)
        low, high, times = (*self.intervals(), None) if alike is None else alike
        totals = np.zeros(len(joint_law.radices) + 1)
        for part in _stretches(low, high, times):
            weigh = [1.0] if times is None else part[2]
            totals += [
                float((level * weigh).sum()) for level in joint_law.interval_levels(*part[:2])
            ]
        return totals

    def _alike(self, joint_law: TreeLaw) -> tuple[Integers, Integers, Integers] | None:
        """One interval of each kind that the law treats alike, and how many there are; if known."""
        return None

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

    def _alike(self, joint_law: TreeLaw) -> tuple[Integers, Integers, Integers] | None:
        """See `_Intervals._alike`: known if the tree's radices are powers of two.

        Then a query of 2^k cells either is made of whole nodes or lies within one. Two of one size
        differ only in where, upwards, their ancestors begin to be the last nodes of their levels,
        which may be incomplete.
        """
        if any(radix & (radix - 1) for radix in joint_law.radices):
            return None
        lows, highs, times = [], [], []
        size = 1
        while size < 2 * self.cells:
            nodes = self._proper(size)
            starts = {0, nodes - 1, nodes}
            for within in level_sizes(joint_law.radices):
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

    def _proper(self, size: int) -> int:
        """How many nodes of a size there are, but for a last one that is its only child."""
        nodes = -(-self.cells // size)
        left = self.cells - (nodes - 1) * size
        return nodes if size == 1 or left > size // 2 else nodes - 1

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
