"""The joint distribution of noise in estimates on a tree over a line of cells.

Every node has an estimate of the sum of its cells. Given the noise X of a node's estimate, the
noises of its children's estimates are

    X_i = (b_i / b) X + G_i,    Cov(G_i, G_j) = b_i [i = j] - b_i b_j / b,    b = sum of the b_i,

where G is independent for each node. All estimators of this package on trees have such a
distribution: cascade sampling ("Ranges", Alg. 1) and Haar contrasts, with equal b_i, and least
squares on noisy nodes, where b_i is the variance of a child's estimate from its own subtree alone.

Let a query give the cells of child i the mean weight c_i. The variance of its answer is

    sum over nodes of [ sum b_i c_i^2 - (sum b_i c_i)^2 / b ]  +  (root variance) c_root^2,

where the mean weight of a node, which is used one level up, is (sum b_i c_i) / b. The mean weight
of a cell is its weight in the query.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

import numpy as np

from counton.base.arrays import Floats, Integers


def level_sizes(radices: Sequence[int]) -> list[int]:
    """Return the number of cells of a complete node at each level, leaves first."""
    return list(accumulate(radices, mul, initial=1))


def binary_radices(cells: int) -> tuple[int, ...]:
    """Return the radices (all 2), lowest level first, of a binary tree over ``cells`` leaves."""
    return (2,) * (cells - 1).bit_length()


@dataclass(frozen=True)
class TreeDistribution:
    """The joint distribution of the noise in the estimates of all nodes of a tree over a line.

    Nodes are filled from the left: only the last of each level may be incomplete. Below the root
    each has a number b, in proportion to which it gets its parent's noise; to this comes noise that
    sums to 0 over siblings. For least squares, b is the variance of the node's estimate from its
    own subtree.

    Attributes:
        cells: number of leaves.
        radices: number of children of a complete node, lowest level first.
        complete: b of a complete node, for each level below the root, leaves first.
        last: b of the last node of each of these levels, complete or not.
        root: variance of the root's estimate.

    >>> distribution = TreeDistribution(4, (2, 2), (1.5, 1.5), (1.5, 1.5), 1.0)  # the cascade
    >>> distribution.variance(np.array([0, 0, 0, 1]), np.array([1, 2, 4, 3])).tolist()
    [1.0, 1.0, 1.0, 1.75]
    """

    cells: int
    radices: tuple[int, ...]
    complete: tuple[float, ...]
    last: tuple[float, ...]
    root: float

    def counts(self) -> list[int]:
        """Return the number of nodes at each level, leaves first; 1 at the root."""
        return [-(-self.cells // size) for size in level_sizes(self.radices)]

    def interval_levels(self, low: Integers, high: Integers) -> Iterator[Floats]:
        """Yield what each level, lowest first, adds to variances of sums over low .. high - 1."""
        counts = self.counts()
        first = low
        second = high
        share_1 = np.zeros(low.shape)
        share_2 = np.zeros(high.shape)
        for level, radix in enumerate(self.radices):
            step_1 = self._climb(level, radix, counts, first, share_1)
            step_2 = self._climb(level, radix, counts, second, share_2)
            same = step_1.parent == step_2.parent
            one_node = (first == second) & (first < counts[level])
            both = np.where(
                one_node, step_1.before + step_1.weight * share_1 * share_2, step_1.covered
            )
            cross = both - step_1.covered * step_2.covered / step_1.total
            yield np.maximum(step_1.square + step_2.square - 2 * np.where(same, cross, 0.0), 0.0)
            first = step_1.parent
            second = step_2.parent
            share_1 = step_1.share
            share_2 = step_2.share
        # A prefix that ends with the whole tree covers the root (its "next node" does not exist).
        whole_1, whole_2 = (
            np.where(node > 0, 1.0, share) for node, share in ((first, share_1), (second, share_2))
        )
        yield self.root * (whole_2 - whole_1) ** 2

    def _climb(
        self, level: int, radix: int, counts: list[int], node: Integers, share: Floats
    ) -> _PrefixStep:
        """Return a level's part in the variances of prefix sums, and the next level's arguments.

        Args:
            radix: number of children of a complete node one level higher.
            counts: number of nodes at each level.
            node: for each prefix, the index of the node of ``level`` in which it ends.
            share: for each prefix, the mean weight of this node: a number from 0 to 1 (`_Profile`).
        """
        complete = self.complete[level]
        last = self.last[level]
        parent, rank = np.divmod(node, radix)
        final = counts[level + 1] - 1
        children = counts[level] - final * radix
        total = np.where(parent < final, radix * complete, (children - 1) * complete + last)
        weight = np.where(node == counts[level] - 1, last, complete)
        before = rank * complete
        covered = before + weight * share
        square = before + weight * share**2 - covered**2 / total
        beyond = node >= counts[level]  # the prefix ends with the tree: all children are covered
        if beyond.any():
            inside = beyond & (parent <= final)
            covered = np.where(beyond, np.where(inside, total, 0.0), covered)
            square = np.where(beyond, 0.0, square)
        return _PrefixStep(parent, before, weight, total, covered, square, covered / total)

    def variance(self, low: Integers, high: Integers) -> Floats:
        """Return the variances of sums over cells low .. high - 1, in the shape of ``low``."""
        total = np.zeros(low.shape)
        for part in self.interval_levels(low, high):
            total += part
        return total

    def functional_levels(self, weights: Floats) -> Iterator[float]:
        """Yield each level's part, leaves first, in the summed variance of (queries, cells)."""
        counts = self.counts()
        shares = weights.T
        for level, radix in enumerate(self.radices):
            node_weights = np.full((counts[level], 1), self.complete[level])
            node_weights[-1] = self.last[level]
            starts = np.arange(0, counts[level], radix)
            total = np.add.reduceat(node_weights, starts)
            covered = np.add.reduceat(node_weights * shares, starts)
            squares = np.add.reduceat(node_weights * shares**2, starts)
            yield max(float((squares - covered**2 / total).sum()), 0.0)
            shares = covered / total
        yield self.root * float((shares**2).sum())

    def prefix_levels(self, ranges: bool) -> Iterator[float]:
        """Yield each level's part, leaves first, in the summed variance of prefixes, or ranges."""
        # Time is proportional to the sum of the radices: complete nodes of one level are alike. A
        # range is the difference of two of the n + 1 prefixes, so the sum over all ranges of a
        # square is (n + 1) (sum of squares) - (square of the sum) over prefixes.
        pairs = self.cells + 1 if ranges else 1
        counts = self.counts()
        sizes = level_sizes(self.radices)
        leaf = _Profile(1, 1.0, 1.0)
        whole = leaf
        end = leaf
        for level, radix in enumerate(self.radices):
            complete = self.complete[level]
            last = self.last[level]
            final = counts[level + 1] - 1
            children = counts[level] - final * radix
            inner = _Family([whole] * radix, [complete] * radix)
            outer = _Family([whole] * (children - 1) + [end], [complete] * (children - 1) + [last])
            parts = [(final, inner), (1, outer)] if final else [(1, outer)]
            yield sum(
                count * (pairs * family.squares - (family.square_of_sum if ranges else 0.0))
                for count, family in parts
            )
            whole = inner.profile if sizes[level + 1] <= self.cells else whole
            end = outer.profile
        yield self.root * (pairs * end.squares - (end.sums**2 if ranges else 0.0))


@dataclass(frozen=True)
class _PrefixStep:
    """The part of one level in the variances of prefix sums, with what the next level needs.

    A prefix ends inside one node of the level; the siblings are this node and the other children of
    its parent. Each has the number b by which `TreeDistribution` divides noise, and its mean
    weight c in the
    prefix: 1 if the prefix contains it, 0 if it comes after, else between.

    Attributes:
        parent: index of the parent, one level higher.
        before: sum of b over the siblings before that node.
        weight: b of that node.
        total: sum of b over all siblings.
        covered: sum of b c over all siblings.
        square: the siblings' part in the variance.
        share: mean weight of the parent in the prefix, ``covered / total``.
    """

    parent: Integers
    before: Floats
    weight: Floats
    total: Floats
    covered: Floats
    square: Floats
    share: Floats


@dataclass(frozen=True)
class _Profile:
    """Sums of one node's mean weights, over all prefixes that end in it.

    In a prefix, the mean weight of a cell is 1 if it belongs to the prefix, else 0; that of any
    other node averages its children's, in which child i counts in proportion to its b_i
    (`TreeDistribution`).

    Attributes:
        length: number of these prefixes.
        sums, squares: sums of the mean weights, and of their squares.
    """

    length: int
    sums: float
    squares: float


class _Family:
    """The children of one node, and what they add to the variances of prefixes that end there."""

    def __init__(self, children: list[_Profile], own_weights: list[float]) -> None:
        weight = np.array(own_weights)
        length = np.array([child.length for child in children], dtype=np.float64)
        sums = np.array([child.sums for child in children])
        squares = np.array([child.squares for child in children])
        total = math.fsum(own_weights)
        before = np.concatenate([[0.0], np.cumsum(weight)[:-1]])
        later = np.concatenate([np.cumsum(length[::-1])[::-1][1:], [0.0]])
        covered = length * before + weight * sums
        covered_squared = length * before**2 + 2 * before * weight * sums + weight**2 * squares
        self.squares = math.fsum(length * before + weight * squares - covered_squared / total)
        column = sums + later  # sum of c_i(t) over the prefixes that end in the family
        self.square_of_sum = math.fsum(weight * column**2) - math.fsum(weight * column) ** 2 / total
        self.profile = _Profile(
            int(length.sum()), math.fsum(covered) / total, math.fsum(covered_squared) / total**2
        )
