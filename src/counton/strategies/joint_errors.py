"""Variances of released noise: of releases, of weighted sums, and the mean or maximum of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counton.strategies.strategy import (
    EndlessStrategy,
    Metric,
    ReleaseForm,
    Steps,
    StreamStrategy,
    check_metric,
    read_variance,
    window_ends,
    window_rows,
)

if TYPE_CHECKING:
    from counton.base.arrays import Floats, Integers
    from counton.base.distributions import NoiseDistribution


def noise_variance(
    strategy: StreamStrategy,
    distribution: NoiseDistribution,
    steps: Steps,
    since: Steps | None = None,
) -> Floats:
    """Return the exact noise variance of each release, rounding included, in squared data units.

    Args:
        strategy: strategy of the stream.
        distribution: the calibrated distribution of a node.
        steps: one step or an array of steps, from 1 on.
        since: earlier steps: the result is then for the counts of the steps since + 1 .. step.

    >>> from counton.base.distributions import DiscreteGaussian
    >>> from counton.strategies import Binary
    >>> noise_variance(Binary(31), DiscreteGaussian(9), [1, 3]).tolist()
    [9.0, 18.0]
    >>> noise_variance(Binary(31), DiscreteGaussian(9), 15, since=[0, 14]).tolist()
    [36.0, 9.0]
    """
    if isinstance(strategy, EndlessStrategy):
        return strategy.variance(steps, since, distribution)
    variances = strategy.variance(steps, since) * (
        distribution.variance / 4.0**strategy.facts.lattice_bits
    )
    added = strategy.facts.rounding_variance
    if not added:
        return variances
    first, last = window_ends(strategy, steps, since)
    rounded = (
        (first > 0) * 1.0 + (last > 0) if strategy.facts.workload == "totals" else last - first
    )
    return np.asarray(variances + np.where(first < last, rounded, 0.0) * added)


def sum_noise_variance(
    strategy: StreamStrategy, distribution: NoiseDistribution, stops: Integers, weights: Floats
) -> float | None:
    """Return the exact variance of the noise of a weighted sum of totals, in squared data units.

    Total i counts all steps up to ``stops[i]`` and has the weight ``weights[i]``. None: nodes have
    different distributions, or releases are rounded; `noise_variance` still gives differences.
    """
    if isinstance(strategy, EndlessStrategy) or strategy.facts.rounding_variance:
        return None
    variance = strategy._summed_variance(stops, weights)
    if variance is None:
        variance = read_variance(
            strategy,
            (
                (sign * weight, step)
                for stop, weight in zip(stops.tolist(), weights.tolist(), strict=True)
                for sign, step in window_rows(strategy, 0, stop)
            ),
        )
    return variance * (distribution.variance / 4.0**strategy.facts.lattice_bits)


def released_variance(
    strategy: StreamStrategy, metric: Metric, release: ReleaseForm = "totals"
) -> float:
    """Return the mean or the largest variance of all numbers, in units of one node's variance.

    Args:
        release: "totals", "windows" (counts of single steps), or "both".

    Raises:
        InvalidInputError: an unknown metric or form, or no horizon, or one too long to compute.

    >>> from counton.strategies import Binary
    >>> tree = Binary(1000)
    >>> [released_variance(tree, "max", form) for form in ("totals", "windows", "both")]
    [9.0, 10.0, 10.0]
    """
    check_metric(metric, release)
    if release == "totals":
        return strategy.overall_variance(metric)
    alone = strategy.overall_variance(metric, "windows")
    if release == "windows":
        return alone
    totals = strategy.overall_variance(metric)
    return max(alone, totals) if metric == "max" else (alone + totals) / 2
