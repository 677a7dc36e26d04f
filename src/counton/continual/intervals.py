"""Half-widths of two-sided intervals: how far a released number may be from the true one.

With a tree, the error of a release is a sum of draws of discrete distributions, and its half-width
the smallest integer c with P(|N| <= c) >= confidence_level, for the noise N: no normal
approximation. Each interval is about one released number.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import Floats, Integers
from counton.base.distributions import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer, is_whole, quote
from counton.base.expiry import Expiry
from counton.privacy import ExpiringDP, ExpiringZCDP, Guarantee
from counton.strategies import Metric, StreamStrategy, noise_variance
from counton.strategies.joint_errors import (
    recent_variance,
    recent_variances,
    released_variance,
)
from counton.strategies.strategy import (
    EndlessStrategy,
    ReleaseForm,
    Steps,
    check_ends,
    check_metric,
    check_steps,
    checks_distributions,
    node_distribution,
    window_rounding,
    window_rows,
)

if TYPE_CHECKING:
    from counton.privacy.loss_by_age import Analysis
    from counton.strategies.workloads import Part, RecentWorkload

#: Sums of float64 numbers cannot distinguish smaller tail probabilities from 0.
SMALLEST_TAIL = 1e-9
#: Probability with which the intervals of a job hold that states none.
LEVEL = 0.95
#: Below this variance of drawn integers, the probability of a single integer matters.
_NARROW = 400
#: A sum of draws is assumed to be at most this many times (standard deviation + largest weight).
_PERIOD = 32
#: Number of frequencies, in units of 1 / jitter, after which an eighth power of a sine is below
#: 1e-11.
_SMOOTHED = 64
_SERIES_ERROR = 1e-10
#: Laplace noise so wide that its sums are distributed like continuous ones.
_WIDE = DiscreteLaplace(Fraction(2**24))


def interval_halfwidth(
    distribution: NoiseDistribution, draws: int, confidence_level: float = 0.95
) -> int:
    """Return the smallest c with P(|N| <= c) >= confidence_level, where N sums ``draws``
    independent draws.

    The result is exact up to float64 (about 1e-12 in probability). Only Gaussian sums with a
    standard deviation beyond 4096 may get a larger c. The interval is never too short.

    Args:
        distribution: distribution of one draw.
        draws: number of nodes whose noise is added or subtracted.
        confidence_level: wanted probability, above 0 and at most 1 - 1e-9.

    Raises:
        InvalidInputError: the level or the number of draws is out of range.

    >>> from fractions import Fraction
    >>> interval_halfwidth(DiscreteLaplace(Fraction(3)), 1), interval_halfwidth(
    ...     DiscreteLaplace(Fraction(3)), 10)
    (9, 26)
    """
    # Gaussian sums with a standard deviation beyond 4096 use an integral. From one standard
    # deviation on the integral is above the sum; below it its error bound, 1 / (12 variance), is
    # added to the tail.
    untyped: Any = distribution
    if not isinstance(untyped, DiscreteLaplace | DiscreteGaussian):
        raise InvalidInputError(
            f"the noise distribution is {untyped!r}; give a distribution such as DiscreteLaplace(5)"
        )
    counts = ((distribution, check_integer("draws", draws, 0)),)
    return _sum_halfwidth(counts, check_confidence_level(confidence_level))


@lru_cache(maxsize=4096)
def _sum_halfwidth(
    counts: tuple[tuple[NoiseDistribution, int], ...], confidence_level: float
) -> int:
    """Return the smallest c with P(|N| <= c) >= confidence_level, for a sum N of numbers of
    draws."""
    return _within(dict(counts), confidence_level, 0, None)


def _within(
    counts: Mapping[NoiseDistribution, int], confidence_level: float, low: int, high: int | None
) -> int:
    """Return the smallest c, from ``low`` to ``high``, with P(|N| <= c) >= confidence_level."""
    tail = sum_tail(counts)
    if tail(low) <= 1 - confidence_level:
        return low
    if high is None:
        step = max(low // 16, 1)
        while not tail(low + step) <= 1 - confidence_level:
            low = low + step
            step = 2 * step
        high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tail(middle) <= 1 - confidence_level else (middle, high)
    return high


def _halfwidths_of_draws(
    distribution: NoiseDistribution, numbers: NDArray[np.int64], confidence_level: float
) -> NDArray[np.float64]:
    """Return the half-widths of sums of n noise draws, for each n in ``numbers``."""
    # One more draw never brings a symmetric distribution with one peak closer to 0. So half-widths
    # grow with the number of draws. If two numbers of draws have equal half-widths, all numbers
    # between them have the same.
    several, where = np.unique(numbers, return_inverse=True)
    halfwidths = np.empty(len(several))
    if not len(several):
        return halfwidths
    halfwidths[[0, -1]] = [
        _sum_halfwidth(((distribution, int(n)),), confidence_level) for n in several[[0, -1]]
    ]
    open_stretches = [(0, len(several) - 1)]
    while open_stretches:
        first, last = open_stretches.pop()
        low = int(halfwidths[first])
        high = int(halfwidths[last])
        if low == high:
            halfwidths[first:last] = low
        elif last - first > 1:
            middle = (first + last) // 2
            halfwidths[middle] = _within(
                {distribution: int(several[middle])}, confidence_level, low, high
            )
            open_stretches += [(first, middle), (middle, last)]
    return halfwidths[where.reshape(-1)]


def halfwidths(
    strategy: StreamStrategy,
    distribution: NoiseDistribution,
    steps: range | NDArray[np.int64],
    confidence_level: float = 0.95,
) -> NDArray[np.float64]:
    """Return half-widths of a stream's releases, in units of the exact sums.

    Args:
        strategy: the correlation of the noise over time.
        distribution: the distribution of one node's noise.
        steps: steps of the stream, from 1.
        confidence_level: coverage of each interval, above 0 and at most 1 - 1e-9.

    Returns:
        float64, shape ``(len(steps),)``.

    Raises:
        InvalidInputError: the level is out of range, or the strategy does not serve a step.

    >>> from fractions import Fraction
    >>> from counton.strategies import Binary
    >>> halfwidths(Binary(7), DiscreteLaplace(Fraction(3)), range(1, 8)).tolist()
    [9.0, 9.0, 12.0, 9.0, 12.0, 12.0, 15.0]
    """
    stops = check_steps(strategy, steps)
    starts = stops - 1 if strategy.facts.workload == "windows" else np.zeros_like(stops)
    return window_halfwidths(strategy, distribution, starts, stops, confidence_level)


def window_halfwidths(
    strategy: StreamStrategy,
    distribution: NoiseDistribution,
    starts: Steps,
    stops: Steps,
    confidence_level: float = 0.95,
    *,
    cells: int = 1,
) -> NDArray[np.float64]:
    """Return half-widths of the intervals for the sums over steps start + 1 to stop.

    It may add up several ``cells``, whose noise is independent. Half-widths are in units of the
    exact sums: multiply by the resolution of a clipped contribution. If nodes have weights +1 and
    -1 only, they are exact, except for a few very wide Laplace distributions.

    Args:
        strategy, distribution: as for the counter.
        starts, stops: integers whose shapes broadcast.
        confidence_level: wanted probability, above 0 and at most 1 - 1e-9.
        cells: number of cells that are added up.

    Raises:
        InvalidInputError: the level, the number of cells or an end of a window is out of range.
        HorizonExceededError: an end beyond the horizon.

    >>> from fractions import Fraction
    >>> from counton.strategies import Binary
    >>> distribution = DiscreteLaplace(Fraction(3))
    >>> window_halfwidths(Binary(7), distribution, 3, [3, 4, 7]).tolist()
    [0.0, 15.0, 19.0]
    """
    # Trees get the exact half-width for their nodes, also if the noise differs by level. If few
    # Laplace draws of different scales add up to a standard deviation beyond 8192, half-widths are
    # too wide by up to 1/4096 of it for each node.
    #
    # Strategies with fractional weights get the larger of two quantiles. One is of a normal
    # distribution of the exact variance. The other is of equal nodes with the largest weight that
    # together have this variance: they have heavier tails, because the true nodes are no fewer and
    # no heavier. Two widths are added: half the distance of two values of the heaviest node (the
    # whole distance if noise is narrow), and the largest rounding error of releases.
    confidence_level = check_confidence_level(confidence_level)
    cells = check_integer("cells", cells, 1)
    first, last = check_ends(strategy, starts, stops)
    shape = first.shape
    first = first.ravel()
    last = last.ravel()
    if strategy.facts.fraction_bits == 0:
        exact = _tree_halfwidths(strategy, distribution, first, last, confidence_level, cells)
        if exact is not None:
            return exact.reshape(shape)
    std = np.sqrt(noise_variance(strategy, distribution, last, since=first) * cells)
    rounding = window_rounding(strategy, first, last) * cells
    variance = strategy.variance(last, since=first) * cells
    full = strategy._largest_reads(last)
    if distribution.variance and checks_distributions(strategy):  # these numbers to their last bits
        variance = (
            std * 2.0**strategy.facts.lattice_bits / distribution.std
        ) ** 2  # as the distributions are wide
    half = _halfwidths_of_variances(
        strategy, distribution, variance, std, rounding, confidence_level, full
    )
    alone = (first == 0) & (last == 1)
    if alone.any() and strategy.facts.lattice_bits == 0:
        counts = _distributions_in_sum(strategy, distribution, 0, 1, cells)
        if (
            counts is not None
        ):  # the first release reads one node, whose distribution is known exactly
            half[alone] = _sum_halfwidth(counts, confidence_level)
    half[last == first] = 0.0
    return half.reshape(shape)


def _halfwidths_of_variances(
    strategy: StreamStrategy,
    distribution: NoiseDistribution,
    variance: NDArray[np.float64],
    std: NDArray[np.float64],
    rounding: NDArray[np.float64],
    confidence_level: float,
    full: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return half-widths for releases with fractional weights, from variances.

    Comments in `window_halfwidths` explain the method. Arrays have shape ``(releases,)``.

    Args:
        variance: in units of one node's variance.
        std: in units of the exact sums.
        rounding: largest rounding error, in units of its last binary place.
        full: largest weight of a node.
    """
    # Lattice cells of the node read at full weight, often by the first release.
    lattice = full * 2.0**-strategy.facts.lattice_bits
    # Equal nodes that have this variance; a float just below an integer counts as that integer.
    nodes = np.maximum(np.floor(variance / full**2 * (1 + 1e-9)), 1).astype(np.int64)
    heavy = {
        n: _sum_halfwidth(((distribution, n),), confidence_level) / math.sqrt(n)
        for n in np.unique(nodes).tolist()
    }
    scaled = np.array([heavy[n] for n in nodes.tolist()]) * np.sqrt(variance) * lattice / full
    half = np.maximum(NormalDist().inv_cdf((1 + confidence_level) / 2) * std, scaled)
    # Nodes are whole lattice cells: sums of few of them jump while a normal distribution is smooth.
    coarse = (1.0 if distribution.variance < _NARROW else 0.5) * lattice
    cell = 2.0**-strategy.facts.fraction_bits
    return np.asarray(np.ceil((half + coarse) / cell + rounding) * cell)


def widest_halfwidth(
    strategy: StreamStrategy, distribution: NoiseDistribution, confidence_level: float = 0.95
) -> float:
    """Return the half-width of a running total's interval at the step of largest variance.

    With ``level = 1 - (1 - p) / T``, where T is the number of releases, the errors of all releases
    are within this half-width with probability p (union bound).

    >>> from fractions import Fraction
    >>> from counton.strategies import Binary
    >>> widest_halfwidth(Binary(7), DiscreteLaplace(Fraction(3)))
    15.0
    """
    confidence_level = check_confidence_level(confidence_level)
    variance = strategy.overall_variance("max")
    whole = strategy.facts.fraction_bits == strategy.facts.lattice_bits == 0
    if whole and not isinstance(strategy, EndlessStrategy):
        return float(
            _sum_halfwidth(((distribution, math.ceil(variance * (1 - 1e-9))),), confidence_level)
        )
    std = math.sqrt(variance * distribution.variance / 4.0**strategy.facts.lattice_bits)
    ends = np.array([1, strategy.horizon or 1])
    rounding = window_rounding(strategy, np.zeros_like(ends), ends).max(keepdims=True)
    full = strategy._largest_reads(ends[:1])
    return float(
        _halfwidths_of_variances(
            strategy,
            distribution,
            np.array([variance]),
            np.array([std]),
            rounding,
            confidence_level,
            full,
        )[0]
    )


def largest_expiring_error(
    guarantee: ExpiringDP | ExpiringZCDP, steps: int, probability: float
) -> float:
    """Return a bound that, with ``probability``, no error of the steps up to ``steps`` exceeds.

    It is Chernoff's bound for the noise of each step, and a union bound over steps. `bound_to` must
    have added a strategy's growth and delay to the guarantee.

    >>> from counton.strategies import Expiring
    >>> guarantee = ExpiringDP(0.5).bound_to(Expiring(2))
    >>> round(largest_expiring_error(guarantee, steps=1000, probability=2 / 3), 1)
    24.1
    """
    if not 0 < probability < 1:
        raise InvalidInputError(f"probability is {probability}; it must be between 0 and 1")
    expiry = guarantee.bound_expiry
    if isinstance(guarantee, ExpiringZCDP):
        unit = largest_noise(expiry, steps, probability, gaussian=True)
        return unit / math.sqrt(guarantee.rho)
    unit = largest_noise(expiry, steps, probability, gaussian=False)
    return unit / float(guarantee.epsilon)


def largest_noise(expiry: Expiry, steps: int, probability: float, *, gaussian: bool) -> float:
    """Bound the noise up to ``steps`` at epsilon = 1 or, if ``gaussian``, at rho = 1.

    It holds with ``probability``. Divide it by another epsilon, or by the square root of rho.
    """
    height = min(max(steps - expiry.delay, 1).bit_length(), expiry.top + 1)
    return _largest_noise(expiry.growth, height, math.log(2 * steps / (1 - probability)), gaussian)


@lru_cache(maxsize=2**14)
def _largest_noise(growth: Fraction, height: int, log_count: float, gaussian: bool) -> float:
    """Bound a sum of one draw from each of ``height`` levels, for epsilon = 1 or rho = 1.

    It fails with probability at most 2 exp(-log_count). The scale of Laplace noise, or the variance
    of Gaussian noise, is (1 + l)^(1 - growth) times as large on level l as on level 0.
    """
    expiry = Expiry(growth)
    scales = np.array([float(expiry.factor(level)) for level in range(height)])
    if gaussian:  # P(|sum| > x) <= 2 exp(-x^2 / (2 variance))
        return math.sqrt(log_count * float(scales.sum()))
    # P(|sum| > x) <= 2 exp(-s x) prod 1 / (1 - s^2 b^2); releases of later steps have more terms.
    s = np.geomspace(1e-2, 1 - 1e-9, 1000)[:, None] / scales.max()
    log_moment = -np.log1p(-((s * scales) ** 2)).sum(axis=1)
    return float(np.min((log_count + log_moment) / s[:, 0]))


def _tree_halfwidths(
    strategy: StreamStrategy,
    distribution: NoiseDistribution,
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    confidence_level: float,
    cells: int,
) -> NDArray[np.float64] | None:
    """Return exact half-widths of windows if nodes have weights +1 and -1 only; else None."""
    one_distribution = not isinstance(strategy, EndlessStrategy)
    if one_distribution and strategy.facts.unit_rows:
        numbers = np.rint(strategy.variance(last, since=first)).astype(np.int64)
        return _halfwidths_of_draws(distribution, numbers * cells, confidence_level)
    if one_distribution or not first.any():
        # If all nodes have one distribution, the variance is their number. Otherwise totals, unlike
        # differences, use nodes of the lowest levels, and the variance tells how many.
        variances = strategy.variance(last, since=first)
        _, some, where = np.unique(variances, return_index=True, return_inverse=True)
    else:
        ends = np.stack([first, last])
        _, some, where = np.unique(ends, axis=1, return_index=True, return_inverse=True)
    halfwidths = np.empty(len(some))
    for i, index in enumerate(some.tolist()):
        counts = _distributions_in_sum(
            strategy, distribution, int(first[index]), int(last[index]), cells
        )
        if counts is None:
            return None
        halfwidths[i] = _sum_halfwidth(counts, confidence_level)
    return halfwidths[where.reshape(-1)]


def check_confidence_level(confidence_level: float | None, *, usual: float | None = None) -> float:
    """Return the probability of an interval, in (0, 1 - 1e-9]; None stands for ``usual``."""
    confidence_level = usual if confidence_level is None else confidence_level
    try:
        number = float(confidence_level)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not 0 < number <= 1 - SMALLEST_TAIL:
        raise InvalidInputError(
            f"confidence_level is {quote(confidence_level)}; it is the probability of an interval, "
            "and must be above 0 and at most 1 - 1e-9: try 0.95"
        )
    return number


def _distributions_in_sum(
    strategy: StreamStrategy, distribution: NoiseDistribution, start: int, stop: int, cells: int
) -> tuple[tuple[NoiseDistribution, int], ...] | None:
    """Return distributions and numbers of draws in a window; None: a weight is not 1 or -1."""
    weights: dict[tuple[int, int], int | Fraction] = {}
    for sign, step in window_rows(strategy, start, stop):
        for row_level, index, weight in strategy.row(step):
            weights[row_level, index] = weights.get((row_level, index), 0) + sign * weight
    read = {node: weight for node, weight in weights.items() if weight}
    if any(abs(weight) != 1 for weight in read.values()):
        return None
    counts = Counter(node_distribution(strategy, distribution, node[0]) for node in read)
    return tuple((node_distribution, count * cells) for node_distribution, count in counts.items())


class NodeReads(NamedTuple):
    """The weights of nodes in releases, as far as intervals depend on them.

    Attributes:
        whole: whether all weights are +1 or -1, so a variance gives its number of nodes.
        largest: the largest weight of a node in a release.
        rounding: the largest rounding error of a total, in units of ``2**-fraction_bits``.
        lattice_bits: noise of nodes is a multiple of ``2**-lattice_bits``, in units of the exact
            sums.
        fraction_bits: releases are multiples of ``2**-fraction_bits``, in units of the exact sums.
    """

    whole: bool
    largest: float
    rounding: float
    lattice_bits: int
    fraction_bits: int


def node_reads(
    strategy: StreamStrategy, distribution: NoiseDistribution, step: int
) -> NodeReads | None:
    """Return how releases add up the noise of nodes, so that readers need no strategy.

    It is None if the stream has no last step, releases windows again, or rounds their counts.

    >>> from counton import PureDP, plan
    >>> best = plan(31, PureDP(1), series="per-window").best
    >>> node_reads(best.strategy, best.distribution, 7)
    NodeReads(whole=True, largest=1.0, rounding=0.0, lattice_bits=0, fraction_bits=0)
    """
    facts = strategy.facts
    windows = facts.workload == "windows"
    if isinstance(strategy, EndlessStrategy) or facts.reads_another:
        return None
    if windows and facts.fraction_bits:
        return None
    whole = facts.fraction_bits == 0 and None not in (
        _distributions_in_sum(strategy, distribution, start, step, 1)
        for start in ((step - 1,) if windows else (0, step - 1))
    )
    rounding = float(window_rounding(strategy, 0, 1))
    largest = float(strategy._largest_reads(np.array([step]))[0])
    return NodeReads(whole, largest, rounding, facts.lattice_bits, facts.fraction_bits)


@lru_cache(maxsize=4096)
def weighted_halfwidth(
    distribution: NoiseDistribution,
    weights: tuple[tuple[float, int], ...],
    confidence_level: float = 0.95,
) -> float:
    """Return c with P(|N| <= c) >= confidence_level, where N is a weighted sum of draws of
    ``distribution``.

    It is exact if all weights are equal; else never too short, and too wide by at most 1/4 of the
    largest weight or 1/128 of the standard deviation, whichever is larger.

    >>> from fractions import Fraction
    >>> distribution = DiscreteLaplace(Fraction(1, 3))
    >>> weighted_halfwidth(distribution, ((0.5, 4),))
    0.5
    >>> weighted_halfwidth(distribution, ((0.75, 1), (0.25, 3)))
    0.84521484375
    """
    confidence_level = check_confidence_level(confidence_level)
    if not weights or distribution.variance == 0:
        return 0.0
    if len(weights) == 1:
        return weights[0][0] * _sum_halfwidth(((distribution, weights[0][1]),), confidence_level)
    at, inside, jitter = _smooth_distribution(distribution, weights)
    reached = inside >= confidence_level + _SERIES_ERROR
    if not reached.any():  # beyond float64: as one draw with all of the variance
        return (
            _std(distribution, weights)
            / distribution.std
            * (_sum_halfwidth(((distribution, 1),), confidence_level) + 1)
        )
    # |N + V| <= c implies |N| <= c + jitter / 2, with V of `_smooth_distribution`.
    return float(at[int(np.argmax(reached))] + jitter / 2)


def _std(distribution: NoiseDistribution, weights: tuple[tuple[float, int], ...]) -> float:
    return math.sqrt(distribution.variance * sum(count * weight**2 for weight, count in weights))


@lru_cache(maxsize=8)
def _smooth_distribution(
    distribution: NoiseDistribution, weights: tuple[tuple[float, int], ...]
) -> tuple[Floats, Floats, float]:
    """Return half-widths c, P(|N + V| <= c), and twice the largest V, which smooths the density."""
    # The values of N are not evenly spaced. V, at most half of jitter, is a sum of eight uniform
    # variables. The transform of N + V, with a power of a sine, falls so quickly that few
    # frequencies give the distribution to 1e-11.
    largest = max(weight for weight, _ in weights)
    std = _std(distribution, weights)
    jitter = max(largest / 4, std / 128)
    bits = math.ceil(math.log2(2 * _PERIOD * (std + largest) / jitter * _SMOOTHED))
    period = 2**bits * jitter / (2 * _SMOOTHED)
    angles: NDArray[np.float64] = np.arange(2 ** (bits - 1) + 1) * (2 * math.pi / period)
    product = np.sinc(angles * (jitter / 16 / math.pi)) ** 8
    for weight, count in weights:
        product *= np.exp(_log_transform({distribution: count}, angles * weight))
    # P(|N + V| <= c) by integrating the series of its density term by term.
    product[1:] /= angles[1:]
    sines = -np.fft.irfft(1j * np.append(0.0, product[1:]), 2**bits)[: 2 ** (bits - 1)]
    at = np.arange(len(sines), dtype=np.float64) * (jitter / (2 * _SMOOTHED))
    inside: Floats = 2 * at / period + 2 * 2**bits / period * sines
    return at, inside, jitter


def smooth_halfwidth(
    std: Any, distribution: NoiseDistribution, confidence_level: float = 0.95, *, draws: int = 1
) -> Any:
    """Return half-widths for weighted sums of draws, given the sums' standard deviations.

    Each term of a sum is a weight times a sum of at least ``draws`` draws.

    >>> from fractions import Fraction
    >>> round(float(smooth_halfwidth(1.0, DiscreteGaussian(Fraction(10**6)))), 3)
    1.96
    """
    # The largest of several quantiles: of a normal distribution and, with Laplace noise, of the
    # distribution of each term and of sums of a few terms, which exceed both around a level of
    # 0.907. Half of the largest weight of a single draw, std / distribution.std, is added: draws
    # are whole numbers, so sums of few draws jump while those distributions are smooth. If noise is
    # narrow, a whole one is added to the quantile of one term as well.
    confidence_level = check_confidence_level(confidence_level)
    if distribution.variance == 0:
        return np.zeros_like(np.asarray(std, dtype=np.float64))
    factor = NormalDist().inv_cdf((1 + confidence_level) / 2)
    if distribution.family == "laplace":
        # Sums of very many terms are as good as normal.
        few = [n * draws for n in (1, 2, 3, 4, 6) if n * draws <= _MIXED]
        factors = [
            _sum_halfwidth(((_WIDE, n),), confidence_level) / math.sqrt(n) / _WIDE.std
            for n in few
            if n > 1
        ]
        if draws == 1:
            factors.append(-math.log(1 - confidence_level) / math.sqrt(2))
        factor = max([factor, *factors])
    coarse = 0.5
    if is_narrow(distribution):
        draws_factor = (
            _sum_halfwidth(((distribution, draws),), confidence_level)
            / math.sqrt(draws)
            / distribution.std
        )
        factor = max(factor, draws_factor)
        coarse = 1.0
    return (factor + coarse / distribution.std) * np.asarray(std)


def is_narrow(distribution: NoiseDistribution) -> bool:
    """Return whether noise is so narrow that the probability of a single integer matters."""
    return distribution.variance < _NARROW


#: From this variance on, a sum of discrete Gaussians is a discrete Gaussian, up to
#: 2 e^(-4 pi^2) < 2e-17 for each term.
SMOOTH = Fraction(4)

#: From this standard deviation on, probabilities of a discrete Gaussian are integrated, not summed.
_INTEGRATED = 4096.0

#: Largest number of terms for which the tail of a sum of Laplace noise is computed as a mixture.
_MIXED = 256

#: Largest number of frequencies with which the distribution of a sum is computed.
_FREQUENCIES = 2**16

#: Up to this standard deviation, sums of different distributions are exact; wider sums are rounded
#: to a coarser grid.
_TRANSFORMED = 8192.0


def sum_tail(counts: Mapping[NoiseDistribution, int]) -> Callable[[int], float]:
    """Return the function c -> P(|N| > c) for a sum N of independent draws.

    It is exact up to float64 (about 1e-12), and slightly too large for Gaussian sums with a
    standard deviation beyond 4096, and sums of few different Laplace distributions beyond 8192.
    """
    counts = {
        distribution: count
        for distribution, count in counts.items()
        if count and distribution.variance > 0
    }
    if not counts:
        return lambda c: 0.0
    std = math.sqrt(sum(count * distribution.variance for distribution, count in counts.items()))
    parameters = {x.sigma_squared: n for x, n in counts.items() if isinstance(x, DiscreteGaussian)}
    if len(parameters) == len(counts):
        if min(parameters) >= SMOOTH:
            return _gaussian_tail(float(sum(n * s for s, n in parameters.items())))
        if std <= _INTEGRATED:
            return _transformed_tail(counts, std)
        # A narrow distribution lies closer to 0 than one of variance 4.
        total = sum(n * max(s, SMOOTH) for s, n in parameters.items())
        return _inverted_tail(counts, std) or _gaussian_tail(float(total))
    scales = {
        distribution.scale: n
        for distribution, n in counts.items()
        if isinstance(distribution, DiscreteLaplace)
    }
    if len(scales) < len(counts):
        raise InvalidInputError(
            "the interval of a sum of Laplace and Gaussian noise is not known here: use one kind "
            "of noise"
        )
    if len(scales) == 1 and (many := max(scales.values())) <= _MIXED:
        return laplace_tail(DiscreteLaplace(next(iter(scales))), many)
    if std <= _TRANSFORMED and len(scales) > 1:
        return _transformed_tail(counts, std)
    return _inverted_tail(counts, std) or _coarse_tail(scales, std)


def laplace_tail(distribution: DiscreteLaplace, draws: int) -> Callable[[int], float]:
    """Return c -> P(|N| > c) for a sum of Laplace draws, small probabilities exactly too."""
    # A positive mixture: nothing is subtracted.
    #
    # With q = exp(-1/scale), a discrete Laplace variable is the difference of two geometric ones.
    # In generating functions a = (1-q)/(1-qz) and b = (1-q)/(1-q/z) satisfy (partial fractions) a b
    # = a / (1+q) + z^-1 b q / (1+q). Applied to a^n b^n until one of them is used up:
    #
    #     P(N > c) = sum_{i=1..n} C(2n-i-1, n-1) q^(n-i) / (1+q)^(2n-i) P(G_i > c + n - i),
    #
    # G_i a sum of i geometric variables. It is above c + n - i if fewer than i of the first c + n
    # trials end one, each with probability 1 - q: a sum of i binomial probabilities.
    rate = 1 / float(distribution.scale)
    left = np.arange(draws)  # n - i
    # Logarithms of q / (1+q) and 1 / (1+q), finite even if q is not: little noise has small q.
    log_rest = -math.log1p(math.exp(-rate))
    log_share = log_rest - rate
    log_weights = (
        np.array([math.lgamma(draws + m) - math.lgamma(m + 1) for m in range(draws)])
        - math.lgamma(draws)
        + left * log_share
        + draws * log_rest
    )
    weights = np.exp(log_weights)

    ends = -math.expm1(-rate)
    numbers = np.arange(1.0, draws)

    def tail(c: int) -> float:
        trials = float(c + draws)
        # Logarithms of the binomial probabilities of 0, 1, ... ends, over q to the power of trials.
        steps = np.log(ends * (trials + 1 - numbers) / numbers) + rate
        ended = np.concatenate([[0.0], np.cumsum(steps)]) - rate * trials
        fewer = np.cumsum(np.exp(ended))  # than 1, 2, ... ends
        return float(2 * np.dot(weights, fewer[::-1]))

    return tail


def _transformed_tail(
    counts: Mapping[NoiseDistribution, int], std: float
) -> Callable[[int], float]:
    """Return c -> P(|N| > c) by a Fourier transform over at least 64 standard deviations."""
    length = 1 << math.ceil(64 * std + 64).bit_length()
    angles = np.linspace(0, math.pi, length // 2 + 1)
    sums = np.fft.irfft(np.exp(_log_transform(counts, angles)), length)[: length // 2]
    inner = np.cumsum(sums) * 2 - sums[0]

    def tail(c: int) -> float:
        return 1 - float(inner[c]) if c < len(inner) else 0.0

    return tail


def _inverted_tail(
    counts: Mapping[NoiseDistribution, int], std: float
) -> Callable[[int], float] | None:
    """Return c -> P(|N| > c) by inverting the characteristic function; None if it is too long."""
    # Over a period of L integers, with L so long that nothing lies beyond half of it, P(|N| <= c) =
    # sum over k of phi(2 pi k / L) sin((2c+1) pi k / L) / sin(pi k / L) / L.
    length = math.ceil(64 * std + 64) | 1  # odd: all frequencies but 0 come in pairs
    most = min(_FREQUENCIES, length // 2) + 1
    # The transform falls from 1; find where float64 no longer notices it.
    reached = 1
    while (
        reached < most and _log_transform(counts, np.array([2 * math.pi * reached / length])) > -50
    ):
        reached *= 2
    if reached >= most and most < length // 2 + 1:
        return None
    halves: NDArray[np.float64] = np.arange(1.0, min(reached, most)) * (math.pi / length)
    shares = 2 * np.exp(_log_transform(counts, 2 * halves)) / np.sin(halves)

    def tail(c: int) -> float:
        if 2 * c >= length:
            return 0.0
        inner = (2 * c + 1 + float(np.dot(shares, np.sin((2 * c + 1) * halves)))) / length
        return max(1 - inner, 0.0)

    return tail


def _log_transform(
    counts: Mapping[NoiseDistribution, int], angles: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the logarithm of a sum's characteristic function; the first angle is 0."""
    total = np.zeros(len(angles))
    for distribution, count in counts.items():
        if isinstance(distribution, DiscreteLaplace):
            rate = 1 / float(distribution.scale)
            weight = 4 * math.exp(-rate) / math.expm1(-rate) ** 2
            total -= count * np.log1p(weight * np.sin(angles / 2) ** 2)
        elif distribution.sigma_squared >= SMOOTH:
            near = np.remainder(angles + math.pi, 2 * math.pi) - math.pi
            near = np.where(angles > math.pi, near, angles)
            total -= count * near**2 * (float(distribution.sigma_squared) / 2)
        else:
            x = np.arange(1, 80)
            mass = 2 * np.exp(-(x**2) / (2 * float(distribution.sigma_squared)))
            falls = np.zeros(len(angles))
            for k, mass_there in zip(x.tolist(), mass.tolist(), strict=True):
                falls += 2 * mass_there * np.sin(angles * (k / 2)) ** 2
            total += count * np.log1p(-falls / (1 + mass.sum()))
    return total


def _coarse_tail(scales: Mapping[Fraction, int], std: float) -> Callable[[int], float]:
    """Return an upper bound on c -> P(|N| > c), for a sum N of very wide Laplace noise."""
    # n terms, a grid of g integers: a discrete Laplace variable is the difference of two geometric
    # ones. Rounded down to the grid these are geometric again, with a scale divided by g, and lose
    # less than g each. So the difference moves by at most g - 1.
    grid = 1 << math.ceil(math.log2(std / _TRANSFORMED))
    coarse = sum_tail({DiscreteLaplace(scale / grid): n for scale, n in scales.items()})
    moved = sum(scales.values()) * (grid - 1)
    # |N| > c needs grid |N'| > c - moved.
    return lambda c: coarse((c - moved) // grid) if c >= moved else 1.0


def _gaussian_tail(sigma_squared: float) -> Callable[[int], float]:
    """Return an upper bound on the function c -> P(|N| > c), for a discrete Gaussian N.

    It is exact up to a standard deviation of 4096.
    """
    # A sum of n discrete Gaussians of parameter s is one of parameter n s up to factors 1 +- 2
    # exp(-pi^2 s) (Poisson summation). Beyond that std, the sum is the midpoint rule's integral.
    sigma = math.sqrt(sigma_squared)
    if sigma <= _INTEGRATED:
        x = np.arange(math.ceil(9 * sigma))
        mass = np.exp(-(x**2) / (2 * sigma_squared))
        mass[1:] *= 2
        inner = np.cumsum(mass) / mass.sum()
        return lambda c: 1 - float(inner[c]) if c < len(inner) else 0.0

    def tail(c: int) -> float:
        beyond = math.erfc((c + 0.5) / (sigma * math.sqrt(2)))
        # From sigma on the density is convex: each term is below the integral around it.
        return beyond if c + 0.5 >= sigma else beyond + 1 / (12 * sigma_squared)

    return tail


# --------------------------------------------------------------------------- errors of a design


class ErrorsOf(NamedTuple):
    """The numbers to which the errors of a design refer; by default a released cell.

    Attributes:
        release: "totals", "windows" or "both", as in `counton.plan`; None: the strategy decides.
        steps: the first steps to which errors refer, if there is no last step.
        mean, largest: ratios of their mean, and largest, standard deviation to that of a cell.
        what: the numbers in words; "": one cell.
        per_step: expected items in a step; those that a delay holds back add to the error.
        workload: sums over recent steps, which are computed from released numbers; None: the
            released numbers themselves.
    """

    release: ReleaseForm | None = None
    steps: int | None = None
    mean: float = 1.0
    largest: float = 1.0
    what: str = ""
    per_step: float = 0.0
    workload: RecentWorkload | None = None


@dataclass(frozen=True, eq=False)
class Errors:
    """The errors of a stream's releases, or of numbers computed from them, in data units.

    Attributes:
        strategy, distribution: the correlation of the noise, and the distribution of one node.
        resolution: resolution of the exact sums in data units; 1 for counts.
        cells: number of cells in each step.
        of: the numbers to which the errors refer.

    >>> from counton import PureDP, plan
    >>> errors = plan(365, PureDP(1)).best.errors
    >>> round(errors.mean_std, 1), round(errors.max_std), round(errors.halfwidth(365), 1)
    (7.9, 9, 18.7)
    """

    strategy: StreamStrategy
    distribution: NoiseDistribution
    guarantee: Guarantee
    resolution: Fraction
    cells: int
    of: ErrorsOf

    @property
    def steps(self) -> int:
        """Number of steps over which `mean_std` is a mean and `max_std` a maximum."""
        steps = self.of.steps or self.strategy.horizon
        if steps is None:
            raise InvalidInputError(f"{self.strategy!r} has no last step: give the number of steps")
        return steps

    @property
    def release(self) -> ReleaseForm:
        """The numbers to which ``mean_std`` and ``max_std`` refer: totals, windows or both."""
        return self.of.release or self.strategy.facts.workload

    @cached_property
    def mean_std(self) -> float:
        """Square root of the mean noise variance over all steps; exact, in data units."""
        return float(self.in_data_units(math.sqrt(self._variance("mean"))))

    @cached_property
    def max_std(self) -> float:
        """Square root of the largest noise variance over all steps, in data units."""
        return math.sqrt(self._variance("max")) * float(self.resolution) * self.of.largest

    def _variance(self, metric: Metric) -> float:
        """Return a cell's mean or largest noise variance, in squared units of the resolution."""
        strategy = self.strategy
        steps = self.of.steps
        if self.of.workload is not None:
            parts = self.of.workload.parts
            return recent_variance(strategy, self.distribution, parts, metric, self.steps)
        if steps is not None and isinstance(strategy, EndlessStrategy):
            if metric == "mean":
                return strategy.mean_variance(steps, self.distribution)
            return strategy.largest_variance(steps, self.distribution)
        node = self.distribution.variance / 4.0**strategy.facts.lattice_bits
        # A difference rounds both totals; the largest variances are of totals.
        both = metric == "mean" and self.release == "both"
        roundings = 1.5 - 0.5 / (strategy.horizon or 1) if both else 1.0
        released = released_variance(strategy, metric, self.release)
        return released * node + roundings * strategy.facts.rounding_variance

    def by(self, metric: Metric) -> float:
        """Return ``mean_std`` or ``max_std``.

        Args:
            metric: "mean" for ``mean_std``, "max" for ``max_std``.
        """
        check_metric(metric)
        return self.mean_std if metric == "mean" else self.max_std

    @property
    def rmse(self) -> float:
        """Root mean squared error in data units, with items that a delay holds back."""
        return math.hypot(self.mean_std, self.of.per_step * self.strategy.facts.delay)

    def largest_error(self, probability: float = 2 / 3) -> float:
        """Return a bound on the errors of all totals together, which holds with a probability.

        It is a union bound over steps and cells, or Chernoff's bound for an expiring guarantee, and
        counts items that a delay holds back. It is infinite if totals are not released, if there is
        no last step, or for more than 10^9 * (1 - probability) numbers.

        Args:
            probability: the probability with which all errors are within the bound, above 0 and
                below 1.

        Raises:
            InvalidInputError: the probability is outside (0, 1).
        """
        if not 0 < probability < 1:
            raise InvalidInputError(f"probability is {probability}; it must be between 0 and 1")
        steps = self.of.steps or self.strategy.horizon
        if steps is None or self.release == "windows" or self.of.workload is not None:
            return math.inf
        if isinstance(self.guarantee, ExpiringDP | ExpiringZCDP):
            held_back = self.of.per_step * self.strategy.facts.delay
            return largest_expiring_error(self.guarantee, steps, probability) + held_back
        missed = (1 - probability) / (steps * self.cells)
        if missed < SMALLEST_TAIL or self.strategy.horizon is None:
            return math.inf
        return widest_halfwidth(self.strategy, self.distribution, 1 - missed) * float(
            self.resolution
        )

    def loss(self, ages: Iterable[int], analysis: Analysis = "exact") -> NDArray[np.float64]:
        """Return an item's privacy loss at each age: epsilon or rho.

        Args:
            ages: ages of the item, in steps.
            analysis: "exact" for the loss that ``guarantee.at_age`` states, or another one of
                `expiration_loss`.

        Returns:
            float64, one for each age.

        Raises:
            InvalidInputError: the guarantee does not expire, or there are no ages.
        """
        guarantee = self.guarantee
        if isinstance(guarantee, ExpiringDP | ExpiringZCDP):
            return guarantee.loss(ages, analysis)
        raise InvalidInputError(
            f"{guarantee} is equal at every age; losses by age exist only for guarantees that "
            "expire: use the guarantee itself"
        )

    def std(self, steps: Any = None) -> Any:
        """Return the standard deviation of the noise at ``steps``, in data units.

        Args:
            steps: one step for a float, several for an array; None: all up to the horizon.

        Raises:
            InvalidInputError: a value that is no step, or None without a last step.
            HorizonExceededError: a step beyond the horizon.

        >>> from counton import PureDP, plan
        >>> best = plan(365, PureDP(1)).best
        >>> best.errors.std([5, 365]).round(2).tolist()[0] == round(best.errors.std(5), 2)
        True
        """
        is_single = is_whole(steps)
        if steps is None:
            if self.strategy.horizon is None:
                raise InvalidInputError(
                    "steps is None, but the stream has no last step: give the steps, as in "
                    "std(range(1, 101))"
                )
            steps = range(1, self.strategy.horizon + 1)
        if isinstance(steps, str):
            raise InvalidInputError(
                f"steps are {steps!r}; give a number, a range or a list of steps"
            )
        served = check_steps(self.strategy, [steps] if is_single else steps)
        variances = (
            noise_variance(self.strategy, self.distribution, served)
            if self.of.workload is None
            else self._recent_variances(self.of.workload.parts, served)
        )
        stds = self.in_data_units(np.sqrt(variances))
        return float(stds[0]) if is_single else stds

    def _recent_variances(self, parts: Sequence[Part], steps: Integers) -> Floats:
        """Return the weighted mean of the variances of a workload's numbers at each step."""
        shares = sum(part.share for part in parts)
        variances = np.zeros(len(steps))
        for part in parts:
            of_part = recent_variances(self.strategy, self.distribution, part, steps)
            variances += part.share / shares * of_part
        return variances

    def recent_stds(self, steps: Steps) -> dict[str, Floats]:
        """Return, by name, the standard deviations of the workload's numbers at ``steps``.

        A single number has the name "". Values are in data units, of shape ``(len(steps),)``.

        Args:
            steps: steps of the stream, from 1.

        Raises:
            InvalidInputError: the errors are not of a workload of recent steps.

        >>> from counton import Stack, ZCDP, plan
        >>> errors = plan(365, ZCDP(0.5), workload=Stack({1: 1, 7: 1})).best.errors
        >>> {name: stds.round(2).tolist() for name, stds in errors.recent_stds([300]).items()}
        {'last 1': [1.19], 'last 7': [1.85]}
        """
        served = check_steps(self.strategy, steps)
        return {
            part.name: np.asarray(
                self.in_data_units(np.sqrt(self._recent_variances([part], served)))
            )
            for part in self._recent_parts()
        }

    def recent_halfwidths(self, steps: Steps, confidence_level: float = 0.95) -> dict[str, Floats]:
        """Return, by name, the half-widths of the workload's numbers at ``steps``.

        Args:
            steps: steps of the stream, from 1.
            confidence_level: coverage of each interval, above 0 and at most 1 - 1e-9.

        Raises:
            InvalidInputError: the errors are not of a workload of recent steps, or the level is
                outside (0, 1 - 1e-9].
        """
        stops = check_steps(self.strategy, steps)
        halfwidths: dict[str, Floats] = {}
        for part in self._recent_parts():
            if part.factor < 1:
                std = np.sqrt(self._recent_variances([part], stops))
                half = smooth_halfwidth(std, self.distribution, confidence_level)
                # Each step's own number is a difference of two rounded releases.
                rounding = 2 * float(window_rounding(self.strategy, 0, 1)) / (1 - part.factor)
                half = half + rounding * 2.0**-self.strategy.facts.fraction_bits
                halfwidths[part.name] = np.asarray(self.in_data_units(half))
                continue
            starts = np.zeros_like(stops)
            if part.width is not None:
                starts = np.maximum(stops - part.width, 0)
            halfwidths[part.name] = self.window_halfwidths(starts, stops, confidence_level)
        return halfwidths

    def _recent_parts(self) -> Sequence[Part]:
        if self.of.workload is None:
            raise InvalidInputError(
                "these errors are of released numbers: give plan a workload, such as Rolling(28)"
            )
        return self.of.workload.parts

    def window_std(self, starts: Steps, stops: Steps) -> NDArray[np.float64]:
        """Return the standard deviation of sums over steps start + 1 to stop, in data units.

        Args:
            starts: the steps after which sums begin, from 0.
            stops: the last steps of the sums. The shapes of both are broadcast.
        """
        variance = noise_variance(self.strategy, self.distribution, stops, since=starts)
        deviation: NDArray[np.float64] = self.in_data_units(np.sqrt(variance))
        return deviation

    def window_covariance(self, starts: Steps, stops: Steps) -> NDArray[np.float64]:
        """Return the covariance matrix of the noise in sums over steps start + 1 to stop.

        It is for one cell, in squared data units. The variance of the difference of two sums, such
        as week on week, is the sum of their variances less twice their covariance.

        Args:
            starts, stops: one start and one stop for each sum.

        Raises:
            InvalidInputError: ends that are not integers, below 0, or in the wrong order.
            HorizonExceededError: an end beyond the horizon.

        >>> from counton import Rolling, ZCDP, plan
        >>> errors = plan(365, ZCDP(0.5), workload=Rolling(7)).best.errors
        >>> covariance = errors.window_covariance([286, 293], [293, 300])
        >>> float((covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]) ** 0.5) < 2.7
        True
        """
        first, last = check_ends(self.strategy, starts, stops)
        ends = np.concatenate([first.ravel(), last.ravel()])
        low = np.minimum(ends[:, None], ends[None, :])
        high = np.maximum(ends[:, None], ends[None, :])
        differ = low < high
        of_ends = np.zeros(differ.shape)
        of_ends[differ] = noise_variance(
            self.strategy, self.distribution, high[differ], since=low[differ]
        )
        # Cov(b - a, d - c) = (Var(b - c) + Var(a - d) - Var(b - d) - Var(a - c)) / 2
        count = first.size
        crossed = of_ends[count:, :count] + of_ends[:count, count:]
        covariance = (crossed - of_ends[count:, count:] - of_ends[:count, :count]) / 2
        return np.asarray(covariance * float(self.in_data_units(1.0)) ** 2)

    def halfwidths(self, steps: Any, confidence_level: float = 0.95) -> NDArray[np.float64]:
        """Return the half-widths, in data units, of the releases of some steps.

        With a workload of several numbers, it is the largest of their half-widths.

        Args:
            steps: steps of the stream, from 1: a range or an array.
            confidence_level: coverage of each interval, above 0 and at most 1 - 1e-9.

        Returns:
            float64, shape ``(len(steps),)``.
        """
        if self.of.workload is not None:
            several = self.recent_halfwidths(steps, confidence_level).values()
            largest: Floats = np.max(np.stack([*several]), axis=0)
            return largest
        widths: NDArray[np.float64] = halfwidths(
            self.strategy, self.distribution, steps, confidence_level
        )
        return np.asarray(self.in_data_units(widths))

    def halfwidth(self, step: int, confidence_level: float = 0.95) -> float:
        """Return the half-width of the interval at one step, in data units.

        Args:
            step: step of the stream, from 1.
            confidence_level: coverage of the interval, above 0 and at most 1 - 1e-9.

        Raises:
            InvalidInputError: the level is outside (0, 1 - 1e-9].
            HorizonExceededError: a step beyond the horizon.

        >>> from counton import PureDP, plan
        >>> plan(365, PureDP(1)).best.errors.halfwidth(365)
        18.66...
        """
        return float(self.halfwidths(range(step, step + 1), confidence_level)[0])

    def window_halfwidths(
        self, starts: Steps, stops: Steps, confidence_level: float = 0.95, *, cells: int = 1
    ) -> NDArray[np.float64]:
        """Return half-widths of sums over steps and cells, in data units.

        Args:
            starts: the steps after which sums begin, from 0.
            stops: the last steps of the sums. The shapes of both are broadcast.
            confidence_level: coverage of each interval, above 0 and at most 1 - 1e-9.
            cells: number of cells that are added up.
        """
        halfwidths = window_halfwidths(
            self.strategy, self.distribution, starts, stops, confidence_level, cells=cells
        )
        return np.asarray(self.in_data_units(halfwidths))

    def cell_halfwidth(self, start: int, stop: int, confidence_level: float = 0.95) -> float:
        """Return the half-width of one cell's interval for some steps, in data units.

        Args:
            start: the step after which the sum begins, from 0.
            stop: the last step of the sum.
            confidence_level: coverage of the interval, above 0 and at most 1 - 1e-9.

        Raises:
            InvalidInputError: the level is outside (0, 1 - 1e-9].
        """
        asked = start, stop, confidence_level
        if asked not in self._cell_halfwidths:
            halfwidths = self.window_halfwidths(start, stop, confidence_level)
            self._cell_halfwidths[asked] = float(halfwidths.reshape(-1)[0])
        return self._cell_halfwidths[asked]

    @cached_property
    def _cell_halfwidths(self) -> dict[tuple[int, int, float], float]:
        return {}

    def in_data_units(self, errors: Any) -> Any:
        """Convert errors of a cell to errors of the numbers that ``of`` describes.

        Args:
            errors: a number or an array, in multiples of the resolution.
        """
        # No other code multiplies an error by the resolution, or by the factor of ``of``.
        return errors * float(self.resolution) * self.of.mean
