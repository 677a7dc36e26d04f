"""Variances of released noise: of releases, of weighted sums, and the mean or maximum of all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from counton.base.errors import InvalidInputError
from counton.strategies.strategy import (
    EndlessStrategy,
    Metric,
    ReleaseForm,
    Steps,
    StreamStrategy,
    check_metric,
    check_steps,
    read_variance,
    window_ends,
    window_rows,
)

if TYPE_CHECKING:
    from counton.base.arrays import Floats, Integers
    from counton.base.distributions import NoiseDistribution
    from counton.strategies.workloads import WorkloadPart

#: Longest horizon for which decayed sums of any strategy are compared.
LONGEST_DECAYED_HORIZON = 512
#: Up to these numbers of steps the errors of a workload are those of all steps; beyond, of some.
_MOST_ENUMERATED_STEPS = 2**12
_MOST_CHEAP_STEPS = 2**20
_SAMPLED_STEPS = 1024


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
    rounded = (first > 0) * 1.0 + (last > 0) if strategy.facts.release == "totals" else last - first
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


def recent_variances(
    strategy: StreamStrategy, distribution: NoiseDistribution, part: WorkloadPart, steps: Steps
) -> Floats:
    """Return the noise variances of one number of a workload at ``steps``, in squared data units.

    Args:
        part: a rolling sum, a decayed sum, or totals, computed from what the strategy releases.

    Raises:
        InvalidInputError: a decayed sum of a strategy for which it cannot be computed.

    >>> from counton.base.distributions import DiscreteGaussian
    >>> from counton.strategies import Independent
    >>> from counton.strategies.workloads import Rolling
    >>> part = Rolling(7).parts[0]
    >>> recent_variances(Independent(31), DiscreteGaussian(9), part, [1, 7, 30]).tolist()
    [9.0, 63.0, 63.0]
    """
    stops = check_steps(strategy, steps)
    if part.factor == 1:
        starts = np.zeros_like(stops) if part.width is None else np.maximum(stops - part.width, 0)
        return noise_variance(strategy, distribution, stops, since=starts)
    unit = distribution.variance / 4.0**strategy.facts.lattice_bits
    faster = strategy._decayed_variance(part.factor, stops)
    if faster is not None:
        return np.asarray(faster * unit)
    # Each released number was rounded, and two of them enter each step's own number.
    rounded = 2 * strategy.facts.rounding_variance / (1 - part.factor**2)
    long = strategy.horizon is None or strategy.horizon > LONGEST_DECAYED_HORIZON
    decays_by_step = [_summed_decay(strategy, part.factor, stop) for stop in stops.tolist() if long]
    if long and None not in decays_by_step:
        return np.asarray(np.array(decays_by_step, np.float64) * unit + rounded)
    if long:
        raise InvalidInputError(
            f"errors of decayed sums of {strategy!r} can be computed up to a horizon of "
            f"{LONGEST_DECAYED_HORIZON:,} steps: use BandedRoot or Independent"
        )
    variances = _decayed_variances(strategy, part.factor)
    return np.asarray(variances[stops - 1] * unit + rounded)


def _summed_decay(strategy: StreamStrategy, factor: float, stop: int) -> float | None:
    """Return the variance of a decayed sum, as a weighted sum of totals, in a node's.

    None: the strategy knows no fast way.
    """
    # Steps so long ago that their weight is below e^-40 are left out.
    count = min(stop, math.ceil(-40 / math.log(factor)))
    weights = factor ** np.arange(count - 1, -1, -1.0)
    weights[:-1] -= weights[1:]
    return strategy._summed_variance(np.arange(stop - count + 1, stop + 1), weights)


def _decayed_variances(strategy: StreamStrategy, factor: float) -> Floats:
    """Return the variances of sums with the weight factor^age at all steps, in a node's."""
    # The covariance of two totals follows from the variances of both and of their difference.
    assert strategy.horizon is not None
    last = strategy.horizon
    starts, stops = np.tril_indices(last + 1)[::-1]
    window_variances = np.zeros((last + 1, last + 1))
    inner = starts < stops
    window_variances[starts[inner], stops[inner]] = strategy.variance(
        stops[inner], since=starts[inner]
    )
    window_variances += np.triu(window_variances, 1).T
    total_variances = window_variances[0]
    covariances = (total_variances[:, None] + total_variances[None, :] - window_variances) / 2
    covariances = np.diff(np.diff(covariances, axis=0), axis=1)
    variances = np.empty(last)
    carried = np.zeros(last)  # covariances of the decayed sum with each step's number
    variance = 0.0
    for index, step_covariances in enumerate(covariances):
        variance = factor**2 * variance + 2 * factor * carried[index] + step_covariances[index]
        carried = factor * carried + step_covariances
        variances[index] = variance
    return variances


def recent_steps(strategy: StreamStrategy, last: int) -> Integers:
    """Return the steps over which the errors of a workload are compared: all, or some of many."""
    cheap = strategy._decayed_variance(0.5, np.ones(1, np.int64)) is not None
    if last <= (_MOST_CHEAP_STEPS if cheap else _MOST_ENUMERATED_STEPS):
        return np.arange(1, last + 1)
    return np.unique(np.linspace(1, last, _SAMPLED_STEPS).astype(np.int64))


def recent_variance(
    strategy: StreamStrategy,
    distribution: NoiseDistribution,
    parts: Sequence[WorkloadPart],
    metric: Metric,
    last: int,
) -> float:
    """Return the mean or the largest variance of a workload in the first ``last`` steps.

    The mean is weighted by the shares of the parts. On long streams it is that of some steps.
    """
    steps = recent_steps(strategy, last)
    part_variances = [recent_variances(strategy, distribution, part, steps) for part in parts]
    if metric == "max":
        return max(float(variances.max()) for variances in part_variances)
    shares = [part.share for part in parts]
    means = [float(variances.mean()) for variances in part_variances]
    return sum(s * mean for s, mean in zip(shares, means, strict=True)) / sum(shares)


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
