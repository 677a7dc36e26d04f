"""k-ary trees over the steps, with and without subtraction ("Count on Your Elders", Alg. 1 and 2).

A node is the noisy sum of k^l consecutive steps; l is its level. The digit of level l of a step t,
in base k, is the number of nodes of that level that the release at t adds or, if it is negative,
subtracts. Node p of level l covers the items (p-1) k^l + 1 .. p k^l, and p is its right end.

Removing the lowest digit of a number q leaves Q. The noise of the first q nodes of level l is
computed from that of the first Q nodes of level l+1, plus the nodes from kQ+1 to q, or minus those
from q+1 to kQ: a difference of two prefix sums.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby, islice

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Integers
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer
from counton.strategies.participation import Structure, check_norm, tree_structure
from counton.strategies.strategy import (
    Metric,
    Node,
    NodeNoise,
    Norm,
    Reader,
    Steps,
    StrategyFacts,
    StrategyReleaseForm,
    StreamStrategy,
    add_up,
    check_metric,
    check_step,
    check_window,
    nodes_per_chunk,
    window_ends,
)

#: All arities up to this one are candidates; from there on, those with fewer levels.
_LARGEST_CANDIDATE_ARITY = 128
#: Numbers of noise whose higher levels are computed together.
_NUMBERS_PER_DRAW = 2**21


@dataclass(frozen=True, slots=True)
class Digits:
    """One way of writing numbers in base k, with digits from ``-below`` to ``k - 1 - below``.

    >>> balanced = Digits(base=5, below=2)
    >>> balanced.cut(8), balanced.weight(8)  # 8 = 2 * 5 - 2
    (2, 4)
    """

    base: int
    below: int

    @property
    def above(self) -> int:
        """The largest digit."""
        return self.base - 1 - self.below

    def cut(self, number: int) -> int:
        """Return ``number`` without its lowest digit d: ``number`` = base * result + d."""
        return (number + self.below) // self.base

    def count(self, number: int) -> int:
        """Return the number of digits that suffice for every number from 0 to ``number``."""
        digits = largest = 0
        while largest < number:
            largest = largest * self.base + self.above
            digits = digits + 1
        return digits

    def weight(self, number: int) -> int:
        """Return the sum of the absolute values of the digits of ``number``."""
        total = 0
        while number > 0:
            cut = self.cut(number)
            total = total + abs(number - cut * self.base)
            number = cut
        return total

    def total_weight(self, last: int) -> int:
        """Return the sum of `weight` over 0..last."""
        if (cut := self.cut(last)) == 0:
            return _triangle(last)
        digit = last - cut * self.base
        up = _triangle(self.above)
        down = _triangle(self.below)
        lowest = up + (cut - 1) * (up + down) + down
        lowest += _triangle(digit) if digit >= 0 else -_triangle(-digit - 1)
        in_last_group = (digit + self.below + 1) * self.weight(cut)
        return self.base * self.total_weight(cut - 1) + in_last_group + lowest

    def largest_weight(self, last: int) -> int:
        """Return the maximum of ``weight`` over 0..last."""
        if (cut := self.cut(last)) == 0:
            return last
        in_last_group = self.weight(cut) + max(self.below, last - cut * self.base)
        return max(in_last_group, self.largest_weight(cut - 1) + self.above)


def _triangle(n: int) -> int:
    """Return 1 + 2 + .. + n."""
    return n * (n + 1) // 2


class DigitTree(StreamStrategy):
    """A tree in which the digits of a step's number state the nodes of its running total."""

    horizon: int

    def __init__(self, horizon: int, digits: Digits) -> None:
        self.horizon = horizon
        self.arity = digits.base
        self._digits = digits
        #: Number of levels, and of nodes that the first item enters.
        self.height = digits.count(horizon)
        # Only nodes that are subtracted contain items after the step of the release.
        causal = digits.below == 0 or self.height == 1
        self.facts = StrategyFacts(unit_rows=True, causal=causal)

    def _field_by_last_step(self, field: NodeNoise) -> NodeNoise:
        """Return ``field`` with nodes numbered by their last step; a subclass translates."""
        return field

    def column(self, step: int) -> tuple[Node, ...]:
        """Return a node on each level, unless no release uses it."""
        check_step(self, step)
        right_ends = enumerate(-(-step // self.arity**level) for level in range(self.height))
        below = self._digits.below
        return tuple(Node(level, p, 1) for level, p in right_ends if (p + below) % self.arity)

    def row(self, step: int) -> tuple[Node, ...]:
        """Return the nodes that the digits of the step add or subtract, highest level first."""
        nodes: list[Node] = []
        q = check_step(self, step)
        for level in range(self.height):
            start = self._digits.cut(q) * self.arity
            added = [Node(level, p, 1) for p in range(start + 1, q + 1)]
            nodes = [*added, *(Node(level, p, -1) for p in range(q + 1, start + 1)), *nodes]
            q = start // self.arity
        return tuple(nodes)

    def l1_sensitivity(self) -> Fraction:
        """Return the number of levels: the first step enters a node of each."""
        return Fraction(self.height)

    @property
    @override
    def structure(self) -> Structure:
        """Facts about the tree; of each group of siblings one node is left out."""
        unread = -self._digits.below % self.arity or self.arity
        widths = [self.arity**level for level in range(self.height)]
        return tree_structure(self.horizon, widths, (unread, self.arity))

    def variance(self, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
        """Return the number of nodes that are added or subtracted."""
        # For a difference, consider the highest level at which the digits of the two steps differ.
        # Below it, each release has as many nodes as the absolute values of its digits add up to.
        # At this level, the nodes between both digits remain. Above it, both releases have the same
        # nodes, which cancel.
        first, last = window_ends(self, steps, since)
        total = np.zeros(first.shape, np.int64)
        for _ in range(self.height):
            cuts = [(end + self._digits.below) // self.arity for end in (first, last)]
            apart = np.abs(first - cuts[0] * self.arity) + np.abs(last - cuts[1] * self.arity)
            total += np.where(cuts[0] == cuts[1], last - first, apart)
            first, last = cuts
        return total.astype(np.float64)

    def overall_variance(self, metric: Metric, of: StrategyReleaseForm = "totals") -> float:
        # The time is O(height^2) integer operations. For the count of a single step, the variance
        # is 1, plus k - 1 for each digit that is carried when the step's number is counted up.
        check_metric(metric)
        if of == "totals":
            return float(self._error(metric))
        carried = 0
        largest = 0
        number = self.horizon  # its cuts count how often each digit was carried to the next
        while (number := self._digits.cut(number)) > 0:
            carried = carried + number
            largest = largest + 1
        return 1.0 + (self.arity - 1) * (largest if metric == "max" else carried / self.horizon)

    def _error(self, metric: Metric) -> Fraction:
        """Return the mean or the largest variance of the totals, exactly."""
        if metric == "max":
            return Fraction(self._digits.largest_weight(self.horizon))
        return Fraction(self._digits.total_weight(self.horizon), self.horizon)

    def noise(self, field: NodeNoise, steps: range) -> Integers:
        named = self._field_by_last_step(field)
        numbers = self._numbers(steps)
        totals = np.zeros((min(len(steps), 1), *field.shape), np.int64)
        for level in reversed(range(len(numbers) - 1)):
            totals = self._expand(named, level, numbers[level], numbers[level + 1], totals)
        return totals

    @override
    def _reader(self, field: NodeNoise) -> Reader:
        return Reader(self, field, self._parts)

    def _parts(self, field: NodeNoise, steps: range) -> Iterator[Integers]:
        """Yield the noise of consecutive steps, some groups of siblings at a time."""
        named = self._field_by_last_step(field)
        many = nodes_per_chunk(field.shape, _NUMBERS_PER_DRAW)
        few = max(1, nodes_per_chunk(field.shape) // self.arity)
        for start in range(0, len(steps), many):
            own_range, groups, *higher = numbers = self._numbers(steps[start : start + many])
            expanded = np.zeros((1, *field.shape), np.int64)
            for level in reversed(range(1, 1 + len(higher))):
                expanded = self._expand(named, level, numbers[level], numbers[level + 1], expanded)
            for first in range(0, len(groups), few):
                some = groups[first : first + few]
                low = max(own_range[0], some[0] * self.arity - self._digits.below)
                high = min(own_range[-1], some[-1] * self.arity + self._digits.above)
                totals = expanded[first : first + few]
                yield self._expand(named, 0, range(low, high + 1), some, totals)

    def _numbers(self, steps: range) -> list[range]:
        """Return the steps, then for each level the numbers to which the level below is cut."""
        numbers = [check_window(self, steps)]
        for _ in range(self.height if steps else 0):
            low, high = (self._digits.cut(numbers[-1][end]) for end in (0, -1))
            numbers.append(range(low, high + 1))
        return numbers

    def _expand(
        self, named: NodeNoise, level: int, own_range: range, groups: range, group_totals: Integers
    ) -> Integers:
        """Return the noise at the numbers ``own_range`` of a level from that of ``groups``."""
        middle = np.arange(groups.start, groups.stop) * self.arity
        first = min(own_range[0], int(middle[0]))
        last = max(own_range[-1], int(middle[-1]))
        if len(own_range) == 1:  # only what it reads
            read = named.run(level, range(first + 1, last + 1)).sum(axis=0, keepdims=True)
            return np.asarray(group_totals + np.sign(own_range[0] - middle[0]) * read, np.int64)
        sums = named.run(level, range(first, last + 1))
        add_up(sums)  # the noise of the node ``first`` cancels in differences
        group_totals = group_totals - sums[middle - first]
        sums = sums[own_range.start - first : own_range.stop - first]
        if len(own_range) == len(groups) * self.arity:  # whole groups
            sums.reshape(len(groups), self.arity, *named.shape)[:] += group_totals[:, None]
            return sums
        counts = np.full(len(groups), self.arity)
        counts[0] -= own_range[0] - (middle[0] - self._digits.below)
        counts[-1] -= middle[-1] + self._digits.above - own_range[-1]
        sums += np.repeat(group_totals, counts, axis=0)
        return sums


class KAry(DigitTree):
    """A tree over the steps of a stream in which each node has k children.

    Both sensitivities (1-norm, and squared 2-norm) are the height: the digits that the horizon
    needs in base k. The variance at a step is the sum of the absolute values of its digits.

    Source: Andersson et al., "Count on Your Elders", Alg. 1 (no subtraction) and Alg. 2
    (subtraction, odd arity). Even arity uses the digits -k/2+1 .. k/2. Erratum: Alg. 2 line 14 sums
    x_j where it means the items of one node; Alg. 3 line 15 must subtract the interval [p - k^(l-1)
    + 1, p].

    >>> tree = KAry(1000, 13)
    >>> tree.height, float(tree.l1_sensitivity()), tree.row(20)
    (3, 3.0, (Node(level=1, index=1, weight=1), Node(level=1, index=2, weight=1),
     Node(level=0, index=21, weight=-1), ...Node(level=0, index=26, weight=-1)))

    Args:
        horizon: number of steps.
        arity: children per node, k >= 2.
        subtraction: whether nodes are subtracted for negative digits, which halves the error.

    Raises:
        InvalidInputError: horizon below 1, arity below 2, or either not an integer.
    """

    sources: tuple[str, ...] = ("elders",)

    def __init__(self, horizon: int, arity: int, subtraction: bool = True) -> None:
        horizon = check_integer("horizon", horizon, 1)
        arity = check_integer("arity", arity, 2)
        if not isinstance(subtraction, bool):
            raise InvalidInputError(f"subtraction is {subtraction!r}; give True or False")
        self.subtraction = subtraction
        if arity > horizon and not subtraction:  # then each step has its own noise
            self.sources = ("calibration",)
        super().__init__(horizon, Digits(arity, below=(arity - 1) // 2 if subtraction else 0))

    @classmethod
    def candidates(cls, horizon: int, subtraction: bool = True, of_each: int = 8) -> list[KAry]:
        """Return the trees that are worth comparing if a unit counts in several steps.

        They are the ``of_each`` smallest arities of each height. In all cases examined, the best
        tree was among the default.

        Args:
            horizon: number of steps of the stream, from 1.
            subtraction: whether nodes may be subtracted.
            of_each: the most trees of each height, from 1.

        >>> [tree.arity for tree in KAry.candidates(1000)][-4:]
        [51, 52, 2000, 2001]
        """
        # For a given height the smallest arity that reaches the horizon is best, or one of the next
        # few, of the other parity.
        largest = 2 * check_integer("horizon", horizon, 1) + 1
        arities = set(range(2, min(largest, _LARGEST_CANDIDATE_ARITY) + 1))

        def height(arity: int) -> int:
            return Digits(arity, below=(arity - 1) // 2 if subtraction else 0).count(horizon)

        for tree_height in range(height(largest), height(min(largest, _LARGEST_CANDIDATE_ARITY))):
            least = bisect_left(range(2, largest), -tree_height, key=lambda k: -height(k)) + 2
            arities.update(range(least, min(least + 4, largest + 1)))
        # For such units sensitivities are not a function of the height alone. Of two trees of one
        # height the wider has more error, and longer nodes, which hold more of a unit's steps; the
        # ends of nodes matter too. The eight smallest arities of each height contained the best in
        # all cases examined.
        trees = (cls(horizon, arity, subtraction) for arity in sorted(arities))
        trees_by_height = groupby(
            trees, key=lambda tree: tree.height
        )  # the height falls with the arity
        return [tree for _, same in trees_by_height for tree in islice(same, of_each)]

    @classmethod
    def undominated_trees(
        cls, horizon: int, metric: Metric = "mean", subtraction: bool = True
    ) -> list[KAry]:
        """Return the trees for which no other has both a smaller height and a smaller variance.

        They are sorted by decreasing height. One is the best for any noise, since both
        sensitivities equal the height.

        Args:
            horizon: number of steps of the stream, from 1.
            metric: "mean" over all steps, or "max" for the largest.
            subtraction: whether nodes may be subtracted.

        >>> [tree.arity for tree in KAry.undominated_trees(100)]
        [2, 3, 4, 6, 14, 200]
        """
        check_metric(metric)
        front: list[KAry] = []
        least: float | Fraction = math.inf
        trees = cls.candidates(horizon, subtraction, 2 * _LARGEST_CANDIDATE_ARITY)
        for tree in sorted(trees, key=lambda tree: (tree.height, tree._error(metric))):
            if tree._error(metric) < least:
                front.append(tree)
                least = tree._error(metric)
        return front[::-1]

    @classmethod
    def best(
        cls, horizon: int, metric: Metric = "mean", subtraction: bool | None = True, norm: Norm = 1
    ) -> KAry:
        """Return the tree of least error for a horizon.

        The error is the mean or largest variance times D^2, where D is the 1-norm sensitivity for
        Laplace noise, the 2-norm sensitivity for Gaussian noise.

        Args:
            horizon: number of steps of the stream, from 1.
            metric: "mean" over all steps, or "max" for the largest.
            subtraction: whether nodes may be subtracted; None tries both.
            norm: 1 for Laplace noise, 2 for Gaussian noise.

        Raises:
            InvalidInputError: an unknown metric or norm, or a horizon that is not an integer above
                0.

        >>> KAry.best(2**20)
        KAry(horizon=1048576, arity=19, subtraction=True)
        """
        power = 3 - check_norm(norm)
        forms = (True, False) if subtraction is None else (subtraction,)
        trees = [tree for form in forms for tree in cls.undominated_trees(horizon, metric, form)]
        return min(trees, key=lambda tree: tree._error(metric) * tree.height**power)

    @classmethod
    def examples(cls, horizon: int) -> tuple[KAry, ...]:
        forms = [cls(horizon, k, form) for k in (2, 3, 4, 7, 10) for form in (True, False)]
        return (*forms, cls.best(horizon))
