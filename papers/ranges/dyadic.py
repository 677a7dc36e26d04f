"""The binary tree without least squares: an interval is the sum of the largest nodes in it.

Chan, Shi and Song, "Private and continual release of statistics" (2011); Dwork, Naor, Pitassi and
Rothblum (2010); "Binary Tree" in "Ranges". Every node is measured as in `Nodes.binary`, and a query
is the sum of the largest nodes that compose it. So every node's answer has the same variance, but
answers do not add up: that of a node differs from the sum of those of its children. Least squares
on the same measurements, `Nodes.binary`, is never worse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Floats, Integers
from counton.strategies.lines.line_strategy import LineStrategy
from counton.strategies.strategy import NodeNoise, Norm
from counton.tables.nodes import Nodes
from counton.tables.workloads import AllRanges, Queries, Workload
from papers.ranges.workloads import RandomSubsets, TreeNodes


class Dyadic(LineStrategy):
    """A strategy for a line of cells that adds up noisy nodes of a binary tree.

    The sum over an interval is the sum of the fewest nodes that compose it.

    Raises:
        InvalidInputError: cells out of range.

    >>> strategy = Dyadic(16)
    >>> low, high = np.array([0, 4, 1, 1]), np.array([16, 8, 16, 15])
    >>> strategy.variance(low, high).tolist()  # one draw for each piece
    [1.0, 1.0, 4.0, 6.0]
    """

    sources = ("binary",)

    consistent: ClassVar[bool] = False
    works_on_grids: ClassVar[bool] = False  # answers on a grid are products of consistent answers
    unit_columns = True

    def __init__(self, cells: int) -> None:
        self._nodes = Nodes.binary(cells)
        self.cells = self._nodes.cells
        self.measurements = self._nodes.measurements
        self.height = len(self._nodes.radices)
        self.name = "dyadic"

    @override
    def measure(self, counts: Integers) -> Integers:
        return self._nodes.measure(counts)

    @cached_property
    def _rows(self) -> list[range]:
        """The indices of the measurements of each level's nodes, leaves first."""
        return self._nodes.rows()

    @override
    def largest_column(self, norm: Norm) -> int:
        return self.height + 1

    @override
    def largest_move(self, norm: Norm) -> int:
        return self._nodes.largest_move(norm)

    @property
    @override
    def largest_entry(self) -> int:
        return 1

    @override
    def estimate(self, measured: NDArray[Any]) -> Floats:
        """Return each cell's measurement, or that of the largest node with this cell alone."""
        cells = np.arange(self.cells)
        return np.asarray(self.answer(measured, cells, cells + 1), np.float64)

    def running_sums(self, counts: Integers, noise: NodeNoise, bits: int) -> tuple[Integers, int]:
        """Return noisy sums of the first 0, 1, ..., n cells, and their fraction bits, 0."""
        measured = self.measure(counts)
        measured += noise.run(0, range(self.measurements))
        return self._prefixes(measured), 0

    def _prefixes(self, measured: Integers) -> Integers:
        """Return the sums of the first 0, 1, ..., n cells, from measurements of the nodes."""
        ends = np.arange(self.cells + 1)
        return self.answer(measured, np.zeros_like(ends), ends)

    @override
    def reads(self, weights: Floats) -> Floats:
        """Return the weights of measurements in queries: shape (queries, measurements)."""
        # A query uses a node if it gives all cells of the node one weight, but not all cells of its
        # parent.
        values = weights
        alike = np.ones(weights.shape, bool)
        read = []
        for _ in range(self.height):
            pairs, lone = divmod(values.shape[1], 2)
            left = values[:, 0 : 2 * pairs : 2]
            right = values[:, 1 : 2 * pairs : 2]
            same = alike[:, 0 : 2 * pairs : 2] & alike[:, 1 : 2 * pairs : 2] & (left == right)
            covered = np.repeat(same, 2, axis=1)
            if lone:  # an only child equals its parent
                left = np.concatenate([left, values[:, -1:]], axis=1)
                same = np.concatenate([same, alike[:, -1:]], axis=1)
                covered = np.concatenate([covered, alike[:, -1:]], axis=1)
            read.append(np.where(alike & ~covered, values, 0.0))
            values = left
            alike = same
        return np.concatenate([*read, np.where(alike, values, 0.0)], axis=1)

    def answer(self, measured: NDArray[Any], low: Integers, high: Integers) -> NDArray[Any]:
        """Return sums over the cells low .. high - 1, from the largest nodes that compose them.

        ``measured`` is exact or noisy: shape (measurements, ...).

        >>> strategy = Dyadic(5)
        >>> nodes = strategy.measure(np.array([1, 2, 3, 4, 5]))
        >>> strategy.answer(nodes, np.array([0, 1]), np.array([5, 3])).tolist()
        [15, 5]
        """
        total = np.zeros((*low.shape, *measured.shape[1:]), measured.dtype)
        for rows, pieces in zip(self._rows, self._ends(low, high), strict=True):
            for where, node in pieces:
                total[where] += measured[rows.start + node[where]]
        return total

    def _ends(
        self, low: Integers, high: Integers
    ) -> Iterator[list[tuple[NDArray[np.bool_], Integers]]]:
        """Yield the nodes of each level, from the leaves up, that compose the intervals.

        An interval has at most one at its beginning and one at its end: two pairs of a mask of the
        intervals that have it, and its indices.
        """
        first = low
        stop = high
        for rows in self._rows[:-1]:
            more = first < stop
            only = (stop == len(rows)) & (len(rows) % 2 == 1)  # an only child equals its parent
            yield [(more & (first % 2 == 1), first), (more & (stop % 2 == 1) & ~only, stop - 1)]
            first = (first + 1) // 2
            stop = np.where(more & only, stop + 1, stop) // 2
        yield [(first < stop, first)]

    @override
    def variance(self, low: Integers, high: Integers) -> Floats:
        """Return the variance of sums over low .. high - 1, in units of one draw's variance."""
        # The number of nodes that compose the interval.
        pieces = np.zeros(low.shape)
        for ends in self._ends(low, high):
            for where, _ in ends:
                pieces += where
        return pieces

    @override
    def ranges_variance(self) -> float:
        return self._pieces(lambda low, high: (low + np.float64(1)) * (self.cells + 1 - high))

    @override
    def functional_variance(self, weights: Floats) -> float:
        return float((self.reads(weights) ** 2).sum())

    def subsets_variance(self, workload: RandomSubsets) -> float:
        """Return the expected variance of a random set's sum, in units of one draw's variance."""
        # The number of nodes that compose the set.

        def covering(low: Integers, high: Integers) -> Floats:
            sizes, which = np.unique(high - low, return_inverse=True)
            return np.array([chance(workload.cells, size) for size in sizes.tolist()])[which]

        return self._pieces(covering)

    def _pieces(self, covering: Callable[[Integers, Integers], Floats]) -> float:
        """Return how many nodes all answers add up, by how many queries cover each node."""
        # A query uses a node if it contains all cells of the node, but not all of its parent.
        total = 0.0
        above = 0.0
        for level, rows in reversed(list(enumerate(self._rows))):
            low = np.arange(len(rows), dtype=np.int64) << level
            covered = covering(low, np.minimum(low + (1 << level), self.cells)).tolist()
            total += math.fsum(covered) - above
            above = 2.0 * math.fsum(covered)
            if level and len(self._rows[level - 1]) % 2:
                above -= covered[-1]
        return total

    def largest_error(self, workload: Workload, drawn: Integers) -> float | None:
        """Return the largest error among all answers to a workload for these draws of noise; None
        if it is that of running sums.
        """
        if isinstance(workload, AllRanges):
            return float(max(self._largest_range(drawn), self._largest_range(-drawn)))
        if isinstance(workload, TreeNodes):
            return float(np.abs(self.answer(drawn, *workload.intervals())).max())
        if isinstance(workload, Queries):
            return float(np.abs(_read(self, workload) @ drawn).max())
        return None

    def _largest_range(self, drawn: Integers) -> int:
        """Return the largest error of the sum over any interval, from the noise of the nodes."""
        own = drawn[: self.cells]
        # Within a node, for proper parts of it: prefixes, suffixes, and all intervals.
        before = after = inner = np.full(self.cells, _NOTHING)
        for rows in self._rows[1:]:
            pairs = len(own) // 2
            left = slice(0, 2 * pairs, 2)
            right = slice(1, 2 * pairs, 2)
            prefix = np.maximum(np.maximum(before[left], own[left]), own[left] + before[right])
            suffix = np.maximum(np.maximum(after[right], own[right]), own[right] + after[left])
            within = np.maximum(np.maximum(prefix, suffix), after[left] + before[right])
            within = np.maximum(within, np.maximum(inner[left], inner[right]))
            before, after, inner = (
                np.concatenate([paired, old[2 * pairs :]])
                for paired, old in ((prefix, before), (suffix, after), (within, inner))
            )
            own = drawn[rows.start : rows.stop]
        return int(max(own[0], inner[0]))


@lru_cache(maxsize=1)
def _read(strategy: Dyadic, workload: Queries) -> Floats:
    """Return the weights of measurements in queries; the last result is cached."""
    return strategy.reads(workload.matrix)


#: Less than any sum, yet sums of two do not overflow.
_NOTHING = -(2**60)


def chance(cells: int, given: int) -> float:
    """Return the probability that so many given cells are all in the set of `RandomSubsets`."""
    least = -(-cells // 4)
    # logarithms of factorials
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1.0, cells + 1)))])
    sizes = np.arange(max(least, given), cells + 1)
    falls = logs[sizes] - logs[sizes - given] - (logs[cells] - logs[cells - given])
    return float(np.exp(falls).sum()) / (cells + 1 - least)
