"""Gradual privacy expiration: counting without an end, while the guarantee for old data weakens.

The nodes are the dyadic intervals [j 2^l, (j + 1) 2^l - 1] of steps with j >= 1. A release adds the
noise of the intervals that contain its step. Their number grows with the logarithm of the step, so
no horizon is needed. The privacy loss of an item from the releases so far grows slowly with its
age: ``counton.privacy.loss_by_age``.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.distributions import NoiseDistribution
from counton.base.errors import InvalidInputError
from counton.base.exact import Number
from counton.base.expiry import Expiry
from counton.strategies.participation import Structure
from counton.strategies.strategy import (
    EndlessStrategy,
    Node,
    NodeNoise,
    Steps,
    StrategyFacts,
    check_step,
    check_window,
    node_distribution,
    window_ends,
)


class Expiring(EndlessStrategy):
    """Running totals of a stream without an end, under a guarantee that weakens as items age.

    Each dyadic interval of the steps from 1 on has a draw of noise; level l has those of 2^l steps.
    The release at t is 0 for t <= delay. Otherwise it is the sum of the items up to t - delay plus
    the noise of the 1 + floor(log2(t - delay)) intervals that contain t - delay. Noise of level l
    has (1 + l)^(1 - growth) times the scale (Laplace) or variance (Gaussian) of level 0.

    Args:
        growth: the paper's lambda, 0 to 16: the loss grows like log(age)^growth. Text such as "3/2"
            is exact.
        delay: the paper's B: releases count items up to this many steps ago.
        levels: the number of levels of intervals; None for all. ``Expiring(1, delay=1, levels=1)``
            is the paper's Algorithm 1 (fresh noise at each step: the loss at age d is d),
            ``Expiring(1)`` its Algorithm 2.

    Source: Andersson et al., "Continual Counting with Gradual Privacy Expiration", Algorithm 3.

    Erratum: Algorithm 3 as printed shifts by the delay twice (I_t already contains t - B), so that
    the outputs B + 1 .. 2B would carry no noise at all. Here the shift is done once.

    >>> s = Expiring(growth=2)
    >>> s.row(6)
    (Node(level=0, index=6, weight=1), Node(level=1, index=3, weight=1), Node(level=2, index=1, ...
    >>> s.variance([1, 2, 6]).round(6).tolist()
    [1.0, 1.25, 1.361111]

    Raises:
        InvalidInputError: growth, delay or levels out of range.
    """

    sources = ("expiration",)

    def __init__(self, growth: Number = 1, delay: int = 0, levels: int | None = None) -> None:
        #: Growth, delay and levels, on which guarantees that expire and their calibration depend.
        self.expiry = Expiry(growth, delay, levels)
        self.delay = self.expiry.delay
        self.facts = StrategyFacts(delay=self.delay)

    @classmethod
    def examples(cls, horizon: int) -> Sequence[Expiring]:
        return (cls(0), cls(1), cls("3/2", delay=3), cls(3), cls(1, delay=1, levels=1))

    @property
    def growth(self) -> Fraction:
        """How fast privacy expires with age: the paper's lambda."""
        return self.expiry.growth

    @property
    def levels(self) -> int | None:
        """The number of levels of intervals that are measured; None for all."""
        return self.expiry.levels

    @property
    def parameters(self) -> dict[str, Any]:
        return self.expiry.to_dict()

    def row(self, step: int) -> tuple[Node, ...]:
        """Return the intervals that contain ``step - delay``, smallest first.

        Args:
            step: step of the stream, from 1.
        """
        released_step = check_step(self, step) - self.delay
        if released_step < 1:
            return ()
        return tuple(
            Node(level, released_step >> level, 1) for level in range(self._height(released_step))
        )

    def column(self, step: int, last: int | None = None) -> tuple[Node, ...]:
        """Return the nodes that the count enters, with noise in some release up to ``last``.

        They are disjoint intervals by level, which cover the step and all later ones.

        Args:
            step: step of the stream, from 1.
            last: the last release that is considered. It must be given.
        """
        position = check_step(self, step)
        end = self._check_end(last) - self.delay
        nodes = []
        while position <= end:
            level = min((position & -position).bit_length() - 1, self.expiry.top)
            nodes.append(Node(level, position >> level, 1))
            position += 1 << level
        return tuple(sorted(nodes))

    @property
    @override
    def structure(self) -> Structure:
        """Only one fact: nodes sum consecutive steps, so columns are aligned."""
        return Structure(aligned=lambda: True)

    def l1_sensitivity(self) -> Fraction:
        """Raise InvalidInputError: over an endless stream the sensitivity is infinite."""
        raise InvalidInputError(
            f"{self!r} has no finite sensitivity, because the stream never ends: use ExpiringDP or "
            f"ExpiringZCDP, whose loss grows with the age of an item, or a strategy with a horizon"
        )

    def _node_factor(self, level: int) -> Fraction:
        """Return (1 + level)^(1 - growth), rounded up: a ratio of scales, or of variances."""
        return self.expiry.factor(level)

    @override
    def _check_distribution(self, distribution: NoiseDistribution) -> None:
        node_distribution(self, distribution, self.expiry.top)

    def largest_reads(self, stops: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return, for each of ``stops``, the width of the widest noise up to this step."""
        factors = [float(self.expiry.factor(level)) for level in range(self.expiry.top + 1)]
        starts = 2 ** np.arange(1, len(factors), dtype=np.int64)
        height = np.searchsorted(starts, np.asarray(stops) - self.delay, side="right")
        return np.asarray(np.maximum.accumulate(factors)[height])

    def variance(
        self,
        steps: Steps,
        since: Steps | None = None,
        distribution: NoiseDistribution | None = None,
    ) -> NDArray[np.float64]:
        """Return the variances of releases, or of their differences.

        Items of the last ``delay`` steps are not included as an error.

        Args:
            steps: one step or an array of steps, from 1 on.
            since: steps from 0 on, broadcast with ``steps``, after which each sum begins. Default:
                the variance of the releases themselves.
            distribution: noise distribution of level 0, for variances in squared data units.
                Default: variances relative to Laplace noise of level 0.
        """
        # For noise of scale 1/epsilon multiply by 2 / epsilon^2 (Theorem 1.2's first sum). In a
        # difference a level counts if the two ends lie in different intervals of it.
        levels = range(self.expiry.top + 1)
        variances_by_level = [float(self.expiry.factor(level)) ** 2 for level in levels]
        if distribution is not None:
            variances_by_level = [
                node_distribution(self, distribution, level).variance for level in levels
            ]
        ends = window_ends(self, steps, since)
        first, last = (np.maximum(end - self.delay, 0) for end in ends)
        sums = np.concatenate([[0.0], np.cumsum(variances_by_level)])
        low = below_split(first, last)
        bits = [np.bitwise_count(below_split(0 * end, end) & low) for end in (first, last)]
        total: NDArray[np.float64] = sums[np.minimum(bits[0], len(variances_by_level))]
        return np.asarray(total + sums[np.minimum(bits[1], len(variances_by_level))])

    def mean_variance(
        self, steps: int, distribution: NoiseDistribution | None = None, *, gaussian: bool = False
    ) -> float:
        """Return the mean of ``variance`` over the steps 1..steps, in closed form.

        Args:
            steps: number of releases, from 1.
            distribution: noise distribution of level 0, for variances in squared data units.
                Default: variances relative to that of level 0.
            gaussian: whether the noise is Gaussian, not Laplace, if ``distribution`` is not given.

        >>> round(Expiring(growth=2).mean_variance(1000), 6)
        1.535758
        """
        # With Gaussian noise (1 + level)^(1 - growth) multiplies the variance and not the scale.
        reach = check_step(self, steps) - self.delay
        total = Fraction(0)
        for level in range(self._height(reach) if reach > 0 else 0):
            factor = self.expiry.factor(level)
            node = factor if gaussian else factor**2
            if distribution is not None:
                node = Fraction(node_distribution(self, distribution, level).variance)
            total += node * (reach - (1 << level) + 1)
        return float(total / steps)

    def largest_variance(self, steps: int, distribution: NoiseDistribution | None = None) -> float:
        """Return the variance of release ``steps``, the largest up to there.

        Args:
            steps: number of releases, from 1.
            distribution: noise distribution of level 0, for variances in squared data units.
                Default: variances relative to that of level 0.
        """
        return float(self.variance([check_step(self, steps)], distribution=distribution)[0])

    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        check_window(self, steps)
        out = np.zeros((len(steps), *field.shape), np.int64)
        first = max(steps.start - self.delay, 1)
        stop = steps.stop - self.delay
        if first >= stop:
            return out
        sums = np.zeros((1, *field.shape), np.int64)  # nothing lies above the highest level
        for level in reversed(range(stop.bit_length())):
            low = first >> level
            high = (stop - 1 >> level) + 1
            sums = np.repeat(sums, 2, axis=0)[low & 1 : (low & 1) + high - low]
            nodes = range(max(low, 1), high)  # no interval starts at 0
            if level <= self.expiry.top and nodes:
                sums[nodes.start - low :] += field.run(level, nodes)
        out[len(steps) - len(sums) :] = sums
        return out

    def _height(self, position: int) -> int:
        """Return the number of intervals that contain the step ``position``."""
        return min(position.bit_length(), self.expiry.top + 1)


def below_split(first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a mask of the bits up to the highest in which two numbers differ; 0 if equal.

    >>> below_split(np.array([8, 5]), np.array([12, 5])).tolist()
    [7, 0]
    """
    ones = first ^ last
    for places in (1, 2, 4, 8, 16, 32):
        ones = ones | ones >> places
    return ones
