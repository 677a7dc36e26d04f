"""The binary tree without least squares: an interval is the sum of its dyadic pieces.

Chan, Shi and Song, "Private and continual release of statistics" (2011); Dwork, Naor, Pitassi and
Rothblum (2010). "Ranges" compares with it as "Binary Tree". Every node is measured as by
`Nodes.binary`; a query reads the largest nodes it is made of, and nothing else. So every node's
answer has the same variance, but answers do not add up: a node and the sum of its children are two
answers to one question. Least squares on the same measurements, `Nodes.binary`, is never worse.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Floats, Integers
from counton.strategies.lines.line_strategy import LineStrategy
from counton.strategies.lines.nodes import Nodes
from counton.strategies.lines.workloads import (
    AllRanges,
    Prefixes,
    Queries,
    RandomSubsets,
    TreeNodes,
    Workload,
)
from counton.strategies.strategy import NodeNoise


class Dyadic(LineStrategy):
    """Noisy nodes of a binary tree, each answering for itself.

    Args:
        cells: number of cells.

    Raises:
        InvalidInput: cells out of range.

    >>> strategy = Dyadic(16)
    >>> low, high = np.array([0, 4, 1, 1]), np.array([16, 8, 16, 15])
    >>> strategy.variance(low, high).tolist()  # one draw for each piece
    [1.0, 1.0, 4.0, 6.0]
    """

    sources = ("binary",)

    consistent: ClassVar[bool] = False
    works_on_grids: ClassVar[bool] = False  # a grid's answers are products of consistent ones
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
        """Rows of C that hold each level, leaves first."""
        return self._nodes.rows()

    @override
    def l1_sensitivity(self) -> int:
        return self.height + 1

    @override
    def squared_sensitivity(self) -> int:
        return self.height + 1

    @override
    def l1_move_sensitivity(self) -> int:
        """The root's sum does not change."""
        return self._nodes.l1_move_sensitivity()

    @override
    def squared_move_sensitivity(self) -> int:
        return self._nodes.squared_move_sensitivity()

    @property
    @override
    def least_inner(self) -> int:
        """Two leaves that share the root only."""
        return 1

    @property
    @override
    def largest_entry(self) -> int:
        return 1

    @override
    def estimate(self, measured: NDArray[Any]) -> Floats:
        """Each cell's largest node, the cell itself but for the last.

        The last cell of a line may be all there is of some nodes above it.
        """
        cells = np.array(measured[: self.cells], dtype=np.float64)
        level = 0
        while level < self.height and len(self._rows[level]) % 2:
            level += 1
        cells[-1] = measured[self._rows[level].stop - 1]
        return cells

    @override
    def running_sums(self, counts: Integers, noise: NodeNoise, bits: int) -> tuple[Integers, int]:
        """The sum of each prefix's own pieces, an integer."""
        measured = self.measure(counts)
        measured += noise.run(0, range(self.measurements))
        return self._prefixes(measured), 0

    def _prefixes(self, measured: Integers) -> Integers:
        """Sums of the first 0, 1, ..., n cells, from the root down."""
        sums = np.zeros(2, np.int64)
        sums[1] = measured[-1]
        for rows in reversed(self._rows[:-1]):
            own, above = measured[rows.start : rows.stop], sums
            sums = np.empty(len(own) + 1, np.int64)
            sums[::2] = above[: len(sums[::2])]
            sums[1::2] = above[: len(sums[1::2])] + own[::2]
            sums[-1] = above[-1]  # the prefix of everything is made of the root alone
        return sums

    def _node_weights(self, weights: Floats) -> Iterator[Floats]:
        """By level, leaves first: the weight with which queries (queries, cells) read each node.

        They read a node all of whose cells they weigh alike, unless that is so of its parent.
        """
        values, alike = weights, np.ones(weights.shape, bool)
        for _ in range(self.height):
            pairs, lone = divmod(values.shape[1], 2)
            left, right = values[:, 0 : 2 * pairs : 2], values[:, 1 : 2 * pairs : 2]
            same = alike[:, 0 : 2 * pairs : 2] & alike[:, 1 : 2 * pairs : 2] & (left == right)
            covered = np.repeat(same, 2, axis=1)
            if lone:  # an only child is its parent
                left = np.concatenate([left, values[:, -1:]], axis=1)
                same = np.concatenate([same, alike[:, -1:]], axis=1)
                covered = np.concatenate([covered, alike[:, -1:]], axis=1)
            yield np.where(alike & ~covered, values, 0.0)
            values, alike = left, same
        yield np.where(alike, values, 0.0)

    @override
    def reads(self, weights: Floats) -> Floats:
        return np.concatenate(list(self._node_weights(weights)), axis=1)

    def answer(self, measured: Integers, low: Integers, high: Integers) -> Integers:
        """Sums over the intervals [low, high): of the largest nodes they are made of.

        Args:
            measured: y = C x + z, shape (measurements,).
            low, high: ends of intervals, of one shape.

        >>> strategy = Dyadic(5)
        >>> nodes = strategy.measure(np.array([1, 2, 3, 4, 5]))
        >>> strategy.answer(nodes, np.array([0, 1]), np.array([5, 3])).tolist()
        [15, 5]
        """
        total = np.zeros(low.shape, np.int64)
        for rows, pieces in zip(self._rows, self._ends(low, high), strict=True):
            for where, node in pieces:
                total[where] += measured[rows.start + node[where]]
        return total

    def _ends(
        self, low: Integers, high: Integers
    ) -> Iterator[list[tuple[NDArray[np.bool_], Integers]]]:
        """By level, leaves first: which intervals read a node at one of their ends, and which."""
        first, stop = low, high
        for rows in self._rows[:-1]:
            more = first < stop
            only = (stop == len(rows)) & (len(rows) % 2 == 1)  # an only child is its parent
            yield [(more & (first % 2 == 1), first), (more & (stop % 2 == 1) & ~only, stop - 1)]
            first, stop = (first + 1) // 2, np.where(more & only, stop + 1, stop) // 2
        yield [(first < stop, first)]

    @override
    def variance(self, low: Integers, high: Integers) -> Floats:
        """The number of pieces."""
        pieces = np.zeros(low.shape)
        for ends in self._ends(low, high):
            for where, _ in ends:
                pieces += where
        return pieces

    @override
    def ranges_variance(self) -> float:
        """A node is read where its parent is not covered."""
        total, above = 0.0, 0.0
        for level, rows in reversed(list(enumerate(self._rows))):
            low = np.arange(len(rows), dtype=np.int64) << level
            high = np.minimum(low + (1 << level), self.cells)
            covering = ((low + 1.0) * (self.cells + 1 - high)).tolist()
            children = 2.0 * math.fsum(covering)
            if level and len(self._rows[level - 1]) % 2:
                children -= covering[-1]
            total += math.fsum(covering) - above
            above = children
        return total

    @override
    def functional_variance(self, weights: Floats) -> float:
        return math.fsum(float((used**2).sum()) for used in self._node_weights(weights))

    def subsets_variance(self, asked: RandomSubsets) -> float:
        """Expected number of pieces of one random set."""
        total, above = 0.0, 0.0
        for level, rows in reversed(list(enumerate(self._rows))):
            whole = asked.chance(min(1 << level, self.cells))
            last = asked.chance(self.cells - ((len(rows) - 1) << level))
            covered = (len(rows) - 1) * whole + last
            total += covered - above
            children = 1 if level and len(self._rows[level - 1]) % 2 else 2
            above = 2 * (len(rows) - 1) * whole + children * last
        return total

    @override
    def largest_error(self, asked: Workload, noise: NodeNoise, bits: int) -> float:
        """For all ranges in time linear in the cells."""
        drawn = noise.run(0, range(self.measurements))
        if isinstance(asked, AllRanges):
            return float(max(self._largest_range(drawn), self._largest_range(-drawn)))
        if isinstance(asked, Prefixes):
            return float(np.abs(self._prefixes(drawn)).max())
        if isinstance(asked, TreeNodes):  # an only child is the same query as its parent
            only = [rows.stop - 1 for rows in self._rows[:-1] if len(rows) % 2]
            return float(np.abs(np.delete(drawn, only)).max())
        if isinstance(asked, Queries):
            return float(np.abs(_read(self, asked) @ drawn).max())
        return asked.largest_error(self._prefixes(drawn))

    def _largest_range(self, drawn: Integers) -> int:
        """Largest sum of an interval's pieces, from the leaves up."""
        own = drawn[: self.cells]
        # Of what lies in a node and is not all of it: prefixes, suffixes, and any interval.
        before = after = inner = np.full(self.cells, _NOTHING)
        for rows in self._rows[1:]:
            pairs = len(own) // 2
            left, right = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
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
def _read(strategy: Dyadic, asked: Queries) -> Floats:
    """What the queries read: the same for every draw of the noise."""
    return strategy.reads(asked.matrix)


#: Less than any sum, and so little that sums of two of it do not overflow.
_NOTHING = -(2**60)
