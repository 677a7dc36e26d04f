"""The joint distribution of noise in estimates on a tree over a line of cells: variances in closed
form.

Every node of the tree has an estimate of the sum of its cells. Given the noise X of a node's
estimate, the noises of its children's estimates are

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
    """Return the number of cells of a complete node at each level, leaves first.

    >>> level_sizes((4, 3))
    [1, 4, 12]
    """
    return list(accumulate(radices, mul, initial=1))


def binary_radices(cells: int) -> tuple[int, ...]:
    """Return the numbers of children (all 2), lowest level first, of a binary tree over ``cells``
    leaves.

    >>> binary_radices(5)
    (2, 2, 2)
    """
    return (2,) * (cells - 1).bit_length()


@dataclass(frozen=True)
class TreeLaw:
    """The joint distribution of the noise in the estimates of all nodes of a tree, whose leaves are
    a line of cells (counts in a fixed order).

    Nodes are filled from the left, so only the last node of each level may be incomplete. Each node
    below the root has a number b. The noise of a parent's estimate is divided among the children in
    proportion to their numbers b, and further noise that sums to 0 is added to the children. For
    least squares, b is the variance of the node's estimate from the measurements of its own subtree
    alone.

    Attributes:
        cells: number of leaves.
        radices: number of children of a complete node at each level, lowest level first.
        complete: the number b of a complete node, for each level below the root, leaves first.
        last: the number b of the last node of each level below the root, complete or not.
        root: variance of the root's estimate.

    >>> law = TreeLaw(4, (2, 2), (1.5, 1.5), (1.5, 1.5), 1.0)  # the cascade
    >>> law.variance(np.array([0, 0, 0, 1]), np.array([1, 2, 4, 3])).tolist()
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
        """Yield, for each level of the tree, what it adds to the variances of the estimated sums
        over the cells low .. high - 1.

        The lowest level comes first. The variance of a sum is the total over all levels. Arrays
        have the shape of ``low``.
        """
        counts = self.counts()
        first, second = low, high
        share_1, share_2 = np.zeros(low.shape), np.zeros(high.shape)
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
            first, second = step_1.parent, step_2.parent
            share_1, share_2 = step_1.share, step_2.share
        # A prefix that ends with the whole tree covers the root (its "next node" does not exist).
        whole_1, whole_2 = (
            np.where(node > 0, 1.0, share) for node, share in ((first, share_1), (second, share_2))
        )
        yield self.root * (whole_2 - whole_1) ** 2

    def _climb(
        self, level: int, radix: int, counts: list[int], node: Integers, share: Floats
    ) -> _PrefixStep:
        """Return what one level of the tree adds to the variances of several prefix sums, and the
        arguments for the next higher level.

        A prefix has the first cells of the line.

        Args:
            level: the level.
            radix: the number of children of a complete node one level higher.
            counts: the number of nodes at each level.
            node: for each prefix, the index of the node of ``level`` in which the prefix ends.
            share: for each prefix, the mean weight of this node in the prefix: a number between 0
                and 1, defined at `_Profile`.

        Returns:
            One array for each attribute of `_PrefixStep`. ``square`` is the part of the variance.
            ``parent`` and ``share`` are the arguments ``node`` and ``share`` for the next level.
        """
        complete, last = self.complete[level], self.last[level]
        parent, place = np.divmod(node, radix)
        final = counts[level + 1] - 1
        children = counts[level] - final * radix
        total = np.where(parent < final, radix * complete, (children - 1) * complete + last)
        weight = np.where(node == counts[level] - 1, last, complete)
        before = place * complete
        covered = before + weight * share
        square = before + weight * share**2 - covered**2 / total
        beyond = node >= counts[level]  # the prefix ends with the tree: all children are covered
        if beyond.any():
            inside = beyond & (parent <= final)
            covered = np.where(beyond, np.where(inside, total, 0.0), covered)
            square = np.where(beyond, 0.0, square)
        return _PrefixStep(parent, before, weight, total, covered, square, covered / total)

    def variance(self, low: Integers, high: Integers) -> Floats:
        """Return the variances of estimated sums over cells low .. high - 1, in the shape of
        ``low``.
        """
        total = np.zeros(low.shape)
        for part in self.interval_levels(low, high):
            total += part
        return total

    def functional_levels(self, weights: Floats) -> Iterator[float]:
        """Yield, for each level of the tree, the part that this level adds to the summed variance
        of the answers to queries; leaves first, root last.

        ``weights`` has the weight of each cell in each query: shape (queries, cells).
        """
        counts = self.counts()
        shares = weights.T
        for level, radix in enumerate(self.radices):
            own = np.full((counts[level], 1), self.complete[level])
            own[-1] = self.last[level]
            starts = np.arange(0, counts[level], radix)
            total = np.add.reduceat(own, starts)
            covered = np.add.reduceat(own * shares, starts)
            squares = np.add.reduceat(own * shares**2, starts)
            yield max(float((squares - covered**2 / total).sum()), 0.0)
            shares = covered / total
        yield self.root * float((shares**2).sum())

    def cell_levels(self) -> Iterator[float]:
        """Yield, for each level of the tree, its exact part in the summed variance of all cells'
        estimates, leaves first, root last.
        """
        # The time is proportional to the number of levels, since the sum over cells of their
        # squared mean weights in a node is enough.
        counts = self.counts()
        whole = end = 1.0
        for level, radix in enumerate(self.radices):
            complete, last = self.complete[level], self.last[level]
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
        yield self.root * end

    def prefix_levels(self, ranges: bool) -> Iterator[float]:
        """Yield, for each level of the tree, its exact part in the summed variance of all prefix
        sums, leaves first, root last.

        If ``ranges`` is True, the summed variance is over all intervals of cells, not over
        prefixes.
        """
        # Time is proportional to the sum of the radices: complete nodes of one level are alike. A
        # range is the difference of two of the n + 1 prefixes, so the sum over all ranges of a
        # square is (n + 1) (sum of squares) - (square of the sum) over prefixes.
        pairs = self.cells + 1 if ranges else 1
        counts = self.counts()
        sizes = level_sizes(self.radices)
        leaf = _Profile(1, 1.0, 1.0)
        whole, end = leaf, leaf
        for level, radix in enumerate(self.radices):
            complete, last = self.complete[level], self.last[level]
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
    """The part of one level of a tree in the variances of several estimated prefix sums, with the
    numbers needed for the next higher level.

    A prefix has the first cells of the line; each array has one entry for each prefix. A prefix
    ends inside one node of the level. The siblings are this node and all other children of the
    node's parent. Each sibling has two numbers. The number b is the one by which `TreeLaw` divides
    noise among siblings. The number c is the sibling's mean weight in the prefix: 1 if the prefix
    contains the sibling, 0 if the sibling comes after the prefix, else between.

    Attributes:
        parent: index of the parent, one level higher.
        before: sum of b over the siblings before the node in which the prefix ends.
        weight: b of the node in which the prefix ends.
        total: sum of b over all siblings.
        covered: sum of b c over all siblings.
        square: the siblings' part in the variance of the prefix's estimated sum.
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
    """Sums of the mean weights of one node of a tree, over all prefixes of the line that end in the
    node.

    A prefix has the first cells of the line. In a prefix, the mean weight of a cell is 1 if the
    cell belongs to the prefix, else 0. The mean weight of any other node is the average of its
    children's mean weights, in which child i counts in proportion to its number b_i (`TreeLaw`).

    Attributes:
        length: the number of prefixes that end in the node.
        sums: the sum of the node's mean weights over these prefixes.
        squares: the sum of the squares of these mean weights.
    """

    length: int
    sums: float
    squares: float


class _Family:
    """The children of one node of a tree, and what they add to the variances of prefix sums.

    A prefix has the first cells of the line. Only prefixes that end in one of the children are
    meant.

    Args:
        children: for each child, the sums of its mean weights over the prefixes that end in it.
        own: for each child, the number b by which `TreeLaw` divides noise among siblings.
    """

    def __init__(self, children: list[_Profile], own: list[float]) -> None:
        weight = np.array(own)
        length = np.array([child.length for child in children], dtype=np.float64)
        sums = np.array([child.sums for child in children])
        squares = np.array([child.squares for child in children])
        total = math.fsum(own)
        before = np.concatenate([[0.0], np.cumsum(weight)[:-1]])
        later = np.concatenate([np.cumsum(length[::-1])[::-1][1:], [0.0]])
        covered = length * before + weight * sums
        covered_squared = length * before**2 + 2 * before * weight * sums + weight**2 * squares
        self.squares = math.fsum(length * before + weight * squares - covered_squared / total)
        column = sums + later  # sum of c_i(t) over the prefixes that end in the family
        self.square_of_sum = math.fsum(weight * column**2) - math.fsum(weight * column) ** 2 / total
        self.profile = _Profile(
            int(length.sum()),
            math.fsum(covered) / total,
            math.fsum(covered_squared) / total**2,
        )
