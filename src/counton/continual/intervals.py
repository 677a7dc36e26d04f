"""Half-widths of two-sided intervals: how far a released number may be from the true one.

With a tree, the error of a release is a sum of draws of discrete distributions, and its half-width
the smallest integer c with P(|N| <= c) >= confidence_level, for the noise N: no normal
approximation. Each interval is about one released number.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import Floats
from counton.base.distributions import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer, quote
from counton.base.expiry import Expiry
from counton.continual.tails import MOST_MIXED_TERMS, log_transform, sum_tail
from counton.privacy import ExpiringDP, ExpiringZCDP
from counton.strategies import StreamStrategy, noise_variance
from counton.strategies.strategy import (
    EndlessStrategy,
    Steps,
    check_ends,
    check_steps,
    checks_distributions,
    node_distribution,
    window_rounding,
    window_rows,
)

#: Sums of float64 numbers cannot distinguish smaller tail probabilities from 0.
SMALLEST_TAIL = 1e-9
#: Probability with which the intervals of a job hold that states none.
DEFAULT_CONFIDENCE_LEVEL = 0.95
#: Below this variance of drawn integers, the probability of a single integer matters.
_LARGEST_NARROW_VARIANCE = 400
#: A sum of draws is assumed to be at most this many times (standard deviation + largest weight).
_PERIOD_STDS = 32
#: Number of frequencies, in units of 1 / jitter, after which an eighth power of a sine is below
#: 1e-11.
_MOST_FREQUENCIES = 64
_SERIES_ERROR = 1e-10
#: Laplace noise so wide that its sums are distributed like continuous ones.
_WIDE_LAPLACE = DiscreteLaplace(Fraction(2**24))


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
    starts = stops - 1 if strategy.facts.release == "windows" else np.zeros_like(stops)
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
    full = strategy.largest_reads(last)
    if distribution.variance and checks_distributions(strategy):  # these numbers to their last bits
        # The variance is that of the distributions which levels have.
        relative_std = std * 2.0**strategy.facts.lattice_bits / distribution.std
        variance = relative_std**2
    half = _halfwidths_of_variances(
        strategy, distribution, variance, std, rounding, confidence_level, full
    )
    alone = (first == 0) & (last == 1)
    if alone.any() and strategy.facts.lattice_bits == 0:
        # The first release reads one node, whose distribution is known exactly.
        counts = _distributions_in_sum(strategy, distribution, 0, 1, cells)
        if counts is not None:
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
    nodes = np.maximum(np.floor(variance / full**2 * (1 + 1e-9)), 1).astype(np.int64).tolist()
    heavy = {
        n: _sum_halfwidth(((distribution, n),), confidence_level) / math.sqrt(n)
        for n in {*nodes}  # `np.unique` imports masked arrays, which takes longer
    }
    scaled = np.array([heavy[n] for n in nodes]) * np.sqrt(variance) * lattice / full
    half = np.maximum(NormalDist().inv_cdf((1 + confidence_level) / 2) * std, scaled)
    # Nodes are whole lattice cells: sums of few of them jump while a normal distribution is smooth.
    coarse = (1.0 if distribution.variance < _LARGEST_NARROW_VARIANCE else 0.5) * lattice
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
    full = strategy.largest_reads(ends[:1])
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
    log_count = math.log(2 * steps / (1 - probability))
    return _largest_noise(expiry.growth, height, log_count, gaussian=gaussian)


@lru_cache(maxsize=2**14)
def _largest_noise(growth: Fraction, height: int, log_count: float, *, gaussian: bool) -> float:
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
    windows = facts.release == "windows"
    if isinstance(strategy, EndlessStrategy) or facts.reads_another:
        return None
    if windows and facts.fraction_bits:
        return None
    whole = facts.fraction_bits == 0 and None not in (
        _distributions_in_sum(strategy, distribution, start, step, 1)
        for start in ((step - 1,) if windows else (0, step - 1))
    )
    rounding = float(window_rounding(strategy, 0, 1))
    largest = float(strategy.largest_reads(np.array([step]))[0])
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
    widths, inside, jitter = _smooth_distribution(distribution, weights)
    reached = inside >= confidence_level + _SERIES_ERROR
    if not reached.any():  # beyond float64: as one draw with all of the variance
        return (
            _std(distribution, weights)
            / distribution.std
            * (_sum_halfwidth(((distribution, 1),), confidence_level) + 1)
        )
    # |N + V| <= c implies |N| <= c + jitter / 2, with V of `_smooth_distribution`.
    return float(widths[int(np.argmax(reached))] + jitter / 2)


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
    bits = math.ceil(math.log2(2 * _PERIOD_STDS * (std + largest) / jitter * _MOST_FREQUENCIES))
    period = 2**bits * jitter / (2 * _MOST_FREQUENCIES)
    angles: NDArray[np.float64] = np.arange(2 ** (bits - 1) + 1) * (2 * math.pi / period)
    product = np.sinc(angles * (jitter / 16 / math.pi)) ** 8
    for weight, count in weights:
        product *= np.exp(log_transform({distribution: count}, angles * weight))
    # P(|N + V| <= c) follows if the series of its density is integrated term by term.
    product[1:] /= angles[1:]
    sines = -np.fft.irfft(1j * np.append(0.0, product[1:]), 2**bits)[: 2 ** (bits - 1)]
    widths = np.arange(len(sines), dtype=np.float64) * (jitter / (2 * _MOST_FREQUENCIES))
    inside: Floats = 2 * widths / period + 2 * 2**bits / period * sines
    return widths, inside, jitter


def smooth_halfwidth(
    std: Any, distribution: NoiseDistribution, confidence_level: float = 0.95, *, draws: int = 1
) -> Any:
    """Return half-widths for weighted sums of draws, given the sums' standard deviations.

    Each term of a sum is a weight times a sum of at least ``draws`` draws.

    >>> from fractions import Fraction
    >>> round(float(smooth_halfwidth(1.0, DiscreteGaussian(Fraction(10**6)))), 3)
    1.96
    """
    # This is the largest of several quantiles: of a normal distribution and, with Laplace noise, of
    # the distribution of each term and of sums of a few terms, which exceed both around a level of
    # 0.907. Half of the largest weight of a single draw, std / distribution.std, is added: draws
    # are whole numbers, so sums of few draws jump while those distributions are smooth. If noise is
    # narrow, a whole one is added to the quantile of one term as well.
    confidence_level = check_confidence_level(confidence_level)
    if distribution.variance == 0:
        return np.zeros_like(np.asarray(std, dtype=np.float64))
    factor = NormalDist().inv_cdf((1 + confidence_level) / 2)
    if distribution.family == "laplace":
        # Sums of very many terms are as good as normal.
        few = [n * draws for n in (1, 2, 3, 4, 6) if n * draws <= MOST_MIXED_TERMS]
        factors = [
            _sum_halfwidth(((_WIDE_LAPLACE, n),), confidence_level)
            / math.sqrt(n)
            / _WIDE_LAPLACE.std
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
    return distribution.variance < _LARGEST_NARROW_VARIANCE
