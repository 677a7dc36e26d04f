"""Honaker's online estimator: a binary tree over the steps, whose nodes are all measured and used.

The estimate of a completed node is the best linear combination of its own measurement and its
children's estimates. Node j of level l covers the items j 2^l + 1 .. (j+1) 2^l.

The weights are rounded to multiples of 2^-40, and estimates to the nearest multiple of 2^-16,
halves up. In units of 2^-16, with the noise z and the weight v of the node's own measurement, and
left and right the noise of its children's estimates, the noise of the estimate is

    estimate = z + round((1 - v) * (left + right - z))

An item in the node changes its measurement and exactly one child's estimate by 1, so it does not
change the children's estimates minus the measurement. So rounding the product commutes with a
change of the data, and the release is a function of the private measurements C x + z alone.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.distributions import NoiseDistribution
from counton.base.errors import SumOverflowError
from counton.base.exact import check_integer
from counton.strategies.participation import Structure, tree_structure
from counton.strategies.rounding import PART_BITS, part_of, part_times
from counton.strategies.strategy import (
    Metric,
    Node,
    NodeNoise,
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
from counton.strategies.streams.expiring import below_split

LARGEST_HORIZON = 2**40
#: Estimates are multiples of 2^-16.
FRACTION_BITS = 16
#: Largest noise of a node. A release adds up to 41 estimates, each at most (1.3 + level / 2) times
#: the largest noise of a node, together below 2^9 times; 2^9 * 2^37 * 2^16 is 2^62.
LARGEST_NOISE = 2**37
#: Noise with a standard deviation up to this stays below LARGEST_NOISE, except for one node in
#: 2^130. Wider noise is refused beforehand, because stopping at a large draw would reveal it.
LARGEST_STD = 2**31


class HonakerOnline(StreamStrategy):
    """A binary tree whose nodes are all measured, and estimated from the nodes below too.

    Both sensitivities (1-norm, and squared 2-norm) are bit_length(horizon). The estimate of a node
    of level l has variance v_l = 2^l / (2^(l+1) - 1). The variance at step t is the sum of v_l over
    the set bits of t, apart from rounding to 2^-16.

    Source: Honaker, "Efficient Use of Differentially Private Binary Trees", estimation from below;
    the baseline of Andersson and Pagh, "A Smooth Binary Mechanism".

    >>> tree = HonakerOnline(2**20)
    >>> round(float(tree.squared_sensitivity()) * tree.overall_variance("max"), 6)
    226.870289

    Args:
        horizon: number of steps, at most 2^40.

    Raises:
        InvalidInputError: horizon not an integer, below 1 or above 2^40.
    """

    sources = ("honaker",)

    horizon: int
    facts = StrategyFacts(fraction_bits=FRACTION_BITS, local=False, causal=True)

    def __init__(self, horizon: int) -> None:
        self.horizon = check_integer("horizon", horizon, 1, LARGEST_HORIZON)
        #: Number of levels.
        self.height = self.horizon.bit_length()

    def column(self, step: int) -> tuple[Node, ...]:
        """Return the nodes that cover the step and are complete by the horizon.

        Args:
            step: step of the stream, from 1 to the horizon.
        """
        leaf = check_step(self, step) - 1
        return tuple(
            Node(level, leaf >> level, 1)
            for level in range(self.height)
            if (leaf >> level) + 1 <= self.horizon >> level
        )

    def row(self, step: int) -> tuple[Node, ...]:
        """Return the nodes of the set bits of ``step``, and all below them, with fractions.

        Args:
            step: step of the stream, from 1 to the horizon.
        """
        check_step(self, step)
        nodes: list[Node] = []
        for top in reversed(range(self.height)):
            if not step >> top & 1:
                continue
            inherited = Fraction(1)
            for level in range(top, -1, -1):
                share = 1 - Fraction(_of_children(level), 1 << PART_BITS)
                end = step >> top << top - level
                count = 1 << top - level
                nodes += [Node(level, j, inherited * share) for j in range(end - count, end)]
                inherited *= 1 - share
        return tuple(nodes)

    def l1_sensitivity(self) -> Fraction:
        """Return the number of levels: the first step enters a node of each."""
        return Fraction(self.height)

    @property
    @override
    def structure(self) -> Structure:
        """A tree of the nodes that are complete by the horizon."""
        widths = [1 << level for level in range(self.height)]
        return tree_structure(self.horizon, widths, whole=True)

    def variance(self, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
        # Let N be the node of the highest bit in which the ends differ: the later release contains
        # N's estimate, the earlier one those of nodes below it. The estimate of a node m of level l
        # below N enters N's estimate with a weight that is the product of the (1 - v_j) over the
        # levels between. So the covariance of m and N is v_l times this weight, which is 2^l / (2^h
        # - 1), with h one more than the level of N.
        first, last = window_ends(self, steps, since)
        low = below_split(first, last)
        early = first & low
        late = last & low
        total = -2.0 * early / np.maximum(low, 1)
        for level in range(self.height):
            total += ((early >> level & 1) + (late >> level & 1)) * float(_variance(level))
        return total

    @property
    @override
    def _release_rounding(self) -> float:
        """Largest change of a release by rounding, in units of 2^-16."""
        # Half a unit for each level of each estimate in a release.
        return self.height**2 / 4

    def overall_variance(self, metric: Metric, of: StrategyReleaseForm = "totals") -> float:
        # There is a closed form: the variance v_l of an estimate of level l counts once for each
        # step that has bit l set.
        check_metric(metric)
        if of == "windows":  # they depend on the number of zeros at the end of the step
            zeros = np.arange(self.height)
            last = np.int64(1) << zeros
            variances = self.variance(last, last - 1)
            if metric == "max":
                return float(variances.max())
            steps = [self.horizon + (1 << z) >> z + 1 for z in zeros.tolist()]
            return math.fsum(variances * np.array(steps, np.float64)) / self.horizon
        horizon = self.horizon
        levels = range(self.height)
        if metric == "mean":
            # Among 0..horizon the bit is set in every second block of 2**level numbers.
            total = Fraction(0)
            for level in levels:
                pairs, rest = divmod(horizon + 1, 2 << level)
                total += _variance(level) * ((pairs << level) + max(0, rest - (1 << level)))
            return float(total / horizon)
        # The heaviest step is the horizon, or shares its higher bits, clears one and sets all
        # below.
        heaviest = kept = Fraction(0)
        below = list(accumulate(map(_variance, levels), initial=Fraction(0)))
        for level in reversed(levels):
            if horizon >> level & 1:
                heaviest = max(heaviest, kept + below[level])
                kept += _variance(level)
        return float(max(heaviest, kept))

    @override
    def _check_distribution(self, distribution: NoiseDistribution) -> None:
        check_width(self, distribution, LARGEST_STD)

    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        """Return the noise of releases in units of 2^-16; all nodes from step 1 on are drawn.

        Args:
            field: source of the noise of nodes.
            steps: consecutive steps, from 1 on.

        Raises:
            SumOverflowError: a node's noise is 2^37 or more.
        """
        check_window(self, steps)
        if not steps:
            return np.empty((0, *field.shape), np.int64)
        last = steps.stop - 1
        bits = FRACTION_BITS
        levels = [_draw(field, 0, last) << bits]
        for level in range(1, last.bit_length()):
            below = levels[-1]
            nodes = last >> level
            children = below[0 : 2 * nodes : 2] + below[1 : 2 * nodes : 2]
            node_noise = _draw(field, level, nodes) << bits
            levels.append(node_noise + part_times(children - node_noise, _of_children(level)))
        sums = np.zeros((1, *field.shape), np.int64)
        for level in reversed(range(len(levels))):
            sums = np.repeat(sums, 2, axis=0)[: (last >> level) + 1]
            sums[1::2] += levels[level][: len(sums) - 1 : 2]
        return sums[steps.start :]


def _variance(level: int) -> Fraction:
    """Return the variance of a node's estimate, which is the weight of its own measurement."""
    return Fraction(2**level, 2 ** (level + 1) - 1)


def _of_children(level: int) -> int:
    """Return the weight of the sum of the children in a node's estimate, in units of 2^-40."""
    return part_of(1 - _variance(level))


def _draw(field: NodeNoise, level: int, nodes: int) -> NDArray[np.int64]:
    noise = field.run(level, range(nodes))
    if noise.size and not -LARGEST_NOISE < noise.min() <= noise.max() < LARGEST_NOISE:
        raise SumOverflowError(
            f"the noise of a partial sum of HonakerOnline is {LARGEST_NOISE} or more, too large "
            "for its exact sums: give a larger epsilon or resolution, or use Binary or KAry"
        )
    return noise
