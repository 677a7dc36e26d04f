"""Variances of released noise: of single releases, of weighted sums of releases, and the mean or
maximum over all releases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counton.strategies.strategy import (
    EndlessStrategy,
    Metric,
    ReleaseForm,
    Steps,
    StreamStrategy,
    check_release_form,
    read_variance,
    window_ends,
    window_rows,
)

if TYPE_CHECKING:
    from counton.base.arrays import Floats, Integers
    from counton.base.distributions import NoiseDistribution


def noise_variance(
    strategy: StreamStrategy, law: NoiseDistribution, steps: Steps, since: Steps | None = None
) -> Floats:
    """Return the exact variance of the noise of each release, rounding included, in squared data
    units.

    Args:
        strategy: a strategy for a stream.
        law: the calibrated noise distribution of one node (one noisy measurement).
        steps: the steps of the releases.
        since: earlier steps, or None. If steps are given here, the result is for the released
            counts of the steps since + 1 .. step.

    >>> from counton.base.distributions import DiscreteGaussian
    >>> from counton.strategies import Binary
    >>> noise_variance(Binary(31), DiscreteGaussian(9), [1, 3]).tolist()
    [9.0, 18.0]
    >>> noise_variance(Binary(31), DiscreteGaussian(9), 15, since=[0, 14]).tolist()
    [36.0, 9.0]
    """
    if isinstance(strategy, EndlessStrategy):
        return strategy.variance(steps, since, law)
    found = strategy.variance(steps, since) * (law.variance / 4.0**strategy.facts.lattice_bits)
    added = strategy.facts.rounding_variance
    if not added:
        return found
    first, last = window_ends(strategy, steps, since)
    rounded = (
        (first > 0) * 1.0 + (last > 0) if strategy.facts.workload == "totals" else last - first
    )
    return np.asarray(found + np.where(first < last, rounded, 0.0) * added)


def sum_noise_variance(
    strategy: StreamStrategy, law: NoiseDistribution, stops: Integers, weights: Floats
) -> float | None:
    """Return the exact variance of the noise of a weighted sum of totals, in squared data units.

    Total i counts all steps up to ``stops[i]`` and has the weight ``weights[i]``. ``law`` is the
    calibrated noise distribution of one node (one noisy measurement). The result is None if the
    nodes have different distributions, or if releases are rounded; then `noise_variance` still
    gives the variance of a difference of two totals.

    >>> import numpy as np
    >>> from counton.base.distributions import DiscreteLaplace
    >>> from counton.strategies import Binary
    >>> tree, law = Binary(31), DiscreteLaplace(1)
    >>> found = sum_noise_variance(tree, law, np.array([14, 15]), np.array([-1.0, 1.0]))
    >>> bool(found == noise_variance(tree, law, 15, since=14))
    True
    """
    if isinstance(strategy, EndlessStrategy) or strategy.facts.rounding_variance:
        return None
    faster = getattr(strategy, "_summed_variance", None)
    if faster is not None:
        found: float = faster(stops, weights)
    else:
        found = read_variance(
            strategy,
            (
                (sign * weight, step)
                for stop, weight in zip(stops.tolist(), weights.tolist(), strict=True)
                for sign, step in window_rows(strategy, 0, stop)
            ),
        )
    return found * (law.variance / 4.0**strategy.facts.lattice_bits)


def released_variance(
    strategy: StreamStrategy, metric: Metric, release: ReleaseForm = "totals"
) -> float:
    """Return the mean or the largest variance of all numbers released over the horizon.

    The unit is the variance of the noise of one node (one noisy measurement).

    Args:
        strategy: a strategy for a stream.
        metric: "mean" or "max".
        release: which numbers are meant: "totals" (the totals at all steps), "windows" (the counts
            of all single steps), or "both" (all of these).

    Raises:
        InvalidInput: an unknown metric or form, no horizon, or a horizon too long to compute.

    >>> from counton.strategies import Binary
    >>> tree = Binary(1000)
    >>> [released_variance(tree, "max", form) for form in ("totals", "windows", "both")]
    [9.0, 10.0, 10.0]
    """
    check_release_form(release)
    if release == "totals":
        return strategy.overall_variance(metric)
    alone = strategy.overall_variance(metric, "windows")
    if release == "windows":
        return alone
    totals = strategy.overall_variance(metric)
    return max(alone, totals) if metric == "max" else (alone + totals) / 2
