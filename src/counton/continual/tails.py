"""Tail probabilities of sums of independent noise draws.

One-sided tails are computed as mixtures, by convolution, or by inverting a characteristic function;
the number and width of the draws decide which is exact and fast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from counton.base.distributions import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from counton.base.errors import InvalidInputError

#: From this variance on, a sum of discrete Gaussians is a discrete Gaussian, up to
#: 2 e^(-4 pi^2) < 2e-17 for each term.
LEAST_SMOOTH_VARIANCE = Fraction(4)

#: From this standard deviation on, probabilities of a discrete Gaussian are integrated, not summed.
_LEAST_INTEGRATED_STD = 4096.0

#: Largest number of terms for which the tail of a sum of Laplace noise is computed as a mixture.
MOST_MIXED_TERMS = 256

#: Largest number of frequencies with which the distribution of a sum is computed.
_MOST_FREQUENCIES = 2**16

#: Up to this standard deviation, sums of different distributions are exact; wider sums are rounded
#: to a coarser grid.
_LARGEST_EXACT_STD = 8192.0


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
        if min(parameters) >= LEAST_SMOOTH_VARIANCE:
            return _gaussian_tail(float(sum(n * s for s, n in parameters.items())))
        if std <= _LEAST_INTEGRATED_STD:
            return _transformed_tail(counts, std)
        # A narrow distribution lies closer to 0 than one of variance 4.
        total = sum(n * max(s, LEAST_SMOOTH_VARIANCE) for s, n in parameters.items())
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
    if len(scales) == 1 and (many := max(scales.values())) <= MOST_MIXED_TERMS:
        return laplace_tail(DiscreteLaplace(next(iter(scales))), many)
    if std <= _LARGEST_EXACT_STD and len(scales) > 1:
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
    further_draws = np.arange(draws)  # n - i
    # Logarithms of q / (1+q) and 1 / (1+q), finite even if q is not: little noise has small q.
    log_rest = -math.log1p(math.exp(-rate))
    log_share = log_rest - rate
    log_weights = (
        np.array([math.lgamma(draws + m) - math.lgamma(m + 1) for m in range(draws)])
        - math.lgamma(draws)
        + further_draws * log_share
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
    sums = np.fft.irfft(np.exp(log_transform(counts, angles)), length)[: length // 2]
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
    most = min(_MOST_FREQUENCIES, length // 2) + 1
    # The transform falls from 1; find where float64 no longer notices it.
    reached = 1
    while (
        reached < most and log_transform(counts, np.array([2 * math.pi * reached / length])) > -50
    ):
        reached *= 2
    if reached >= most and most < length // 2 + 1:
        return None
    halves: NDArray[np.float64] = np.arange(1.0, min(reached, most)) * (math.pi / length)
    shares = 2 * np.exp(log_transform(counts, 2 * halves)) / np.sin(halves)

    def tail(c: int) -> float:
        if 2 * c >= length:
            return 0.0
        inner = (2 * c + 1 + float(np.dot(shares, np.sin((2 * c + 1) * halves)))) / length
        return max(1 - inner, 0.0)

    return tail


def log_transform(
    counts: Mapping[NoiseDistribution, int], angles: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the logarithm of a sum's characteristic function; the first angle is 0."""
    total = np.zeros(len(angles))
    for distribution, count in counts.items():
        if isinstance(distribution, DiscreteLaplace):
            rate = 1 / float(distribution.scale)
            weight = 4 * math.exp(-rate) / math.expm1(-rate) ** 2
            total -= count * np.log1p(weight * np.sin(angles / 2) ** 2)
        elif distribution.sigma_squared >= LEAST_SMOOTH_VARIANCE:
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
    grid = 1 << math.ceil(math.log2(std / _LARGEST_EXACT_STD))
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
    if sigma <= _LEAST_INTEGRATED_STD:
        x = np.arange(math.ceil(9 * sigma))
        mass = np.exp(-(x**2) / (2 * sigma_squared))
        mass[1:] *= 2
        inner = np.cumsum(mass) / mass.sum()
        return lambda c: 1 - float(inner[c]) if c < len(inner) else 0.0

    def tail(c: int) -> float:
        outside = math.erfc((c + 0.5) / (sigma * math.sqrt(2)))
        # From sigma on the density is convex: each term is below the integral around it.
        return outside if c + 0.5 >= sigma else outside + 1 / (12 * sigma_squared)

    return tail


# --------------------------------------------------------------------------- errors of a design
