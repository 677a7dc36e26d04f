"""The growing cascade: a tree over the steps that doubles as data arrives, a fixed number of times.

"Ranges", appendix D.1: cells are the steps. When the first 2^k cells are full, their root becomes
the left child of a new root. With X_0 the noise of this child and Y a new draw, the noise of its
sibling is X_1 = -X_0 / 2 + (sqrt 3 / 2) Y; from there noise cascades down to the leaves (`Haar`).
Every complete node of the binary tree over time has the same variance, from the time it is
complete. (Erratum: loop indices of the paper's Algorithm 2 are one short; the new subtree has 2^k
leaves.)

After j doublings the squared sensitivity is 1 + j/3, relative to the inverse variance of a node. It
grows without bound, so no fixed noise is private for an unbounded stream. So the number of
doublings is fixed in advance, noise is calibrated to it, and later steps are refused.

**Releases are functions of the measurements.** Noise is computed in units of 2^-F by division,
rounded to the nearest. With measurement noise z, the weight w_0 of the first cell and the weight w
of all other measurements, the noise N of a node's sum S is

    first cell:   N = round(z 2^F / w_0)
    doubling:     N_1 = round((z 2^F - w N_0) / 2w),   measured is w (2 S_1 + S_0) + z
    in a subtree: N_0 = round((z 2^F + w N) / 2w),  N_1 = N - N_0,   measured is w (S_0 - S_1) + z

Let a cell change by d, and z so that the measurements stay equal. Then the noise of the nodes that
contain the cell changes by exactly -d 2^F, and no other noise changes, because each numerator
changes by a multiple of its denominator or not at all. Rounding moves no node by more than one
unit.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Integers
from counton.base.distributions import NoiseDistribution
from counton.base.exact import check_integer
from counton.strategies.participation import Schedule, Structure, largest_sum
from counton.strategies.strategy import (
    Metric,
    Node,
    NodeNoise,
    Norm,
    Steps,
    StrategyFacts,
    StrategyReleaseForm,
    StreamStrategy,
    check_metric,
    check_step,
    check_width,
    check_window,
    window_ends,
)
from counton.strategies.streams.look_ahead import LookAhead

#: Noise levels below this number are heights of differences in subtrees; from this number on they
#: are doublings.
_FIRST_DOUBLING_LEVEL = 128
MOST_DOUBLINGS = 32
MOST_FRACTION_BITS = 16
#: The solution of w_0^2 = 3 w^2 + 1 below 2^20 (Pell): the best approximation of sqrt 3.
_PELL_ROOT = 978122
_PELL_WEIGHT = 564719
#: Noise with a standard deviation up to this, in units of 2^-F, stays below 2^61, except for one
#: draw in 2^250. Wider noise is refused beforehand, because stopping at a large draw would reveal
#: it.
LARGEST_STD = 2**54


class GrowingCascade(StreamStrategy):
    """A strategy that releases each step's count, with noise that cancels in sums over blocks.

    The sum over every complete aligned block of 2^k steps has the variance of a single count. The
    squared sensitivity is (1 + doublings / 3) w^2, where w is the weight of the first step's count.

    Source: Dharangutte, Gao, Gong and Wang, "Differentially Private Range Queries with Correlated
    Input Perturbation", appendix D.1.

    Args:
        doublings: the strategy serves 2^doublings steps, at most 2^32.
        fraction_bits: counts are multiples of 2^-fraction_bits, from 1 to 16.

    Raises:
        InvalidInputError: an argument out of range.

    >>> cascade = GrowingCascade(doublings=10)
    >>> cascade.horizon, (cascade.variance([1, 2, 8, 1024], since=0) * 3e12).round(2).tolist()
    (1024, [3.14, 3.14, 3.14, 3.14])
    """

    sources = ("ranges",)

    horizon: int

    def __init__(self, doublings: int, fraction_bits: int = 10) -> None:
        remedy = "the stream then serves 2^doublings steps"
        self.doublings = check_integer("doublings", doublings, 0, MOST_DOUBLINGS, remedy)
        self.fraction_bits = check_integer("fraction_bits", fraction_bits, 1, MOST_FRACTION_BITS)
        self.horizon = 1 << self.doublings
        bits = self.fraction_bits
        self.facts = StrategyFacts(release="windows", fraction_bits=bits, unit_columns=False)
        #: Weight of the first step's count, and of all other measurements.
        self.first = _PELL_ROOT
        self.weight = _PELL_WEIGHT

    @classmethod
    def examples(cls, horizon: int) -> tuple[GrowingCascade, ...]:
        doublings = (horizon - 1).bit_length()
        return cls(doublings), cls(doublings + 1, fraction_bits=3)

    def column(self, step: int) -> tuple[Node, ...]:
        """Return the nodes that the count of ``step`` enters.

        They are differences of siblings in the step's subtree, one node for the doubling that added
        it, and one for each later doubling.

        Args:
            step: step of the stream, from 1 to the horizon.
        """
        cell = check_step(self, step) - 1
        weight = self.weight
        came = cell.bit_length()
        later = [
            Node(_FIRST_DOUBLING_LEVEL + j, 0, weight) for j in range(came + 1, self.doublings + 1)
        ]
        if cell == 0:
            return (Node(_FIRST_DOUBLING_LEVEL, 0, self.first), *later)
        below = [
            Node(height, cell >> height, -weight if cell >> height - 1 & 1 else weight)
            for height in range(1, came)
        ]
        return (*below, Node(_FIRST_DOUBLING_LEVEL + came, 0, 2 * weight), *later)

    def row(self, step: int) -> tuple[Node, ...]:
        """Return the roots of all doublings up to the step's, and differences in its subtree.

        Args:
            step: step of the stream, from 1 to the horizon.
        """
        cell = check_step(self, step) - 1
        came = cell.bit_length()
        own_read = Fraction(1, 2 * self.weight)
        if cell == 0:
            return (Node(_FIRST_DOUBLING_LEVEL, 0, Fraction(1, self.first)),)
        # The block's noise is its own minus half of all before it; its cells share it evenly.
        shared = Fraction(1, 1 << came - 1)
        before = [Fraction(1, self.first)] + [own_read] * (came - 1)
        early = [
            Node(_FIRST_DOUBLING_LEVEL + j, 0, -weight * shared / (1 << came - j))
            for j, weight in enumerate(before)
        ]
        below = [
            Node(
                height,
                cell >> height,
                (-own_read if cell >> height - 1 & 1 else own_read) / (1 << height - 1),
            )
            for height in range(1, came)
        ]
        return (*below, *early, Node(_FIRST_DOUBLING_LEVEL + came, 0, own_read * shared))

    def l1_sensitivity(self) -> Fraction:
        """Return the 1-norm of the first step's column, the largest."""
        # The sum of its own weight and each doubling's.
        return Fraction(self.first + self.doublings * self.weight)

    def squared_sensitivity(self) -> Fraction:
        """Return the squared 2-norm of the first step's column, the largest."""
        # (3 + doublings) w^2 + 1; all other columns have (3 + doublings) w^2.
        return Fraction(self.first**2 + self.doublings * self.weight**2)

    @property
    @override
    def structure(self) -> Structure:
        """Only a bound on the norm of the sum of a unit's columns."""
        return Structure(largest_sum=self._largest_sum, aligned=lambda: True)

    def _largest_sum(self, norm: Norm, schedule: Schedule) -> int:
        """Return a bound on the sum of a unit's columns: 1-norm, or squared 2-norm."""
        # In the binary tree over the steps, let two steps have c nodes in common (heights 0 to
        # doublings). Then the product of their columns is (1 + c) w^2. The product of a step with
        # itself is (2 + c) w^2, and one more for the first step. So products are positive although
        # columns have negative entries. Hence the squared 2-norm for k steps is at most (k^2 + k +
        # sum of n_v^2) w^2 + 1, with n_v of the k steps below node v.
        k = schedule.steps
        w = self.weight
        if norm == 1:
            return self.first + self.doublings * w + (k - 1) * (self.doublings + 1) * w
        return (k * k + k + largest_sum(self._tree, 2, schedule)) * w**2 + 1

    @cached_property
    def _tree(self) -> LookAhead:
        """The binary tree in which every node is measured, for bounds on sensitivity."""
        return LookAhead(self.horizon, (2,) * self.doublings)

    def variance(self, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
        """Return the variance of single releases, or of the sums of the steps since + 1 .. step.

        Args:
            steps: one step or an array of steps, from 1 on.
            since: steps from 0 on, broadcast with ``steps``, after which each sum begins. Default:
                the variance of the releases themselves.
        """
        # The variance is nearly that of a tree: G = C^T C is H + e e^T. Here e is the first step's
        # unit vector, and H^-1 is the covariance of a tree whose complete nodes have variance v = 1
        # / (3 w^2): a total, halved at each node plus or minus half an independent draw of variance
        # 3 v. A sum has a part in the draws of the nodes that an end of the window cuts. (Sherman
        # and Morrison's formula handles e.)
        first, last = window_ends(self, steps, since)
        total = ((last - first) / float(self.horizon)) ** 2
        for height in range(1, self.doublings + 1):
            half = 1 << height - 1
            # Left minus right among the steps of a node before the cut, at most half of them.
            at_first, at_last = (
                half - np.abs((end & 2 * half - 1) - half) for end in (first, last)
            )
            apart = at_first.astype(np.float64) ** 2 + at_last.astype(np.float64) ** 2
            squares_within = (at_last - at_first).astype(np.float64) ** 2
            same = first >> height == last >> height
            total += 0.75 / half**2 * np.where(same, squares_within, apart)
        v = 1 / (3 * self.weight**2)
        return v * (total - v / (1 + v) * (_with_first(last) - _with_first(first)) ** 2)

    def _window_rounding(self, first: Integers, last: Integers) -> NDArray[np.float64]:
        """Return the most by which rounding moves a window, in units of 2^-fraction_bits."""
        # Each node that composes the window adds one unit; there are at most two per height.
        heights = np.ceil(np.log2(np.maximum(last - first, 1))) + 1
        return np.asarray(np.minimum(last - first, 2 * heights), dtype=np.float64)

    def overall_variance(self, metric: Metric, of: StrategyReleaseForm = "totals") -> float:
        """Return the mean or the largest variance of the releases.

        It is 1 / (3 w^2) or slightly less, with the weight w of all measurements but the first.

        Args:
            metric: "mean" over all steps, or "max" for the largest.
            of: has no effect.
        """
        check_metric(metric)
        # How far a step is below 1 / (3 w^2), by the doubling it came with; see `variance`.
        v = Fraction(1, 3 * self.weight**2)
        least = v * v / (1 + v)
        lacks = [least] + [least / 4 ** (2 * j - 1) for j in range(1, self.doublings + 1)]
        if metric == "max":
            return float(v - lacks[-1])
        many = [1] + [1 << j - 1 for j in range(1, self.doublings + 1)]
        mean = sum(n * lack for n, lack in zip(many, lacks, strict=True)) / self.horizon
        return float(v - mean)

    @override
    def _check_distribution(self, distribution: NoiseDistribution) -> None:
        check_width(self, distribution, LARGEST_STD >> self.fraction_bits)

    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        check_window(self, steps)
        out = np.empty((len(steps), *field.shape), np.int64)
        start = steps.start - 1
        end = steps.stop - 1
        while start < end:
            doubling = start.bit_length()  # cells 2^(d-1) .. 2^d - 1 came with doubling d
            stop = min(end, 1 << doubling)
            last = stop - 1
            nodes = self._block(field, doubling)[None]
            for height in range(doubling - 1, 0, -1):
                above = start >> height
                z = field.run(height, range(above, (last >> height) + 1)) << self.fraction_bits
                left_children = (z + self.weight * nodes + self.weight) // (2 * self.weight)
                below = np.empty((2 * len(nodes), *field.shape), np.int64)
                below[0::2] = left_children
                below[1::2] = nodes - left_children
                offset = (start >> height - 1) - 2 * above
                count = (last >> height - 1) - (start >> height - 1) + 1
                nodes = below[offset : offset + count]
            out[start + 1 - steps.start : stop + 1 - steps.start] = nodes
            start = stop
        return out

    def _block(self, field: NodeNoise, doubling: int) -> NDArray[np.int64]:
        """Return the noise of all steps that a doubling adds, in units of 2^-fraction_bits."""

        def draw(number: int) -> NDArray[np.int64]:
            drawn: NDArray[np.int64] = field.run(_FIRST_DOUBLING_LEVEL + number, range(1))[0]
            return drawn << self.fraction_bits

        block = total = (draw(0) + self.first // 2) // self.first
        for number in range(1, doubling + 1):
            block = (draw(number) - self.weight * total + self.weight) // (2 * self.weight)
            total = total + block
        return np.asarray(block, dtype=np.int64)


def _with_first(ends: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the covariance of the sums of the first step, and of the first ``ends`` steps.

    The unit is the variance that the estimates of all complete nodes of the tree have.
    """
    # In the tree it is halved from each node to the next, and shared evenly by the steps of a
    # sibling.
    block = 2.0 ** np.floor(np.log2(np.maximum(ends, 1)))
    return np.where(ends > 0, 1 / block - (ends - block) / (2 * block**2), 0.0)
