"""How likely a sum of independent noise lies beyond a bound: P(|N| > c) as a function of c."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from counton.errors import InvalidInput
from counton.laws import DiscreteGaussian, DiscreteLaplace, Law

#: From this variance on a sum of discrete Gaussians is one, to 2 e^(-4 pi^2) < 2e-17 a term.
SMOOTH = Fraction(4)

#: From this standard deviation on a discrete Gaussian is integrated instead of summed.
_INTEGRATED = 4096.0

#: Sums of unequal laws up to this standard deviation are exact, wider ones on a coarser grid.
_TRANSFORMED = 8192.0


def sum_tail(counts: Mapping[Law, int]) -> Callable[[int], float]:
    """P(|N| > c) of a sum of so many independent draws of each law.

    Exact up to float64 (about 1e-12), but for two cases which are above it by little: Gaussian
    sums beyond a standard deviation of 4096, and unequal Laplace laws beyond one of 8192.
    """
    counts = {law: count for law, count in counts.items() if count and law.variance > 0}
    if not counts:
        return lambda c: 0.0
    std = math.sqrt(sum(count * law.variance for law, count in counts.items()))
    parameters = {x.sigma_squared: n for x, n in counts.items() if isinstance(x, DiscreteGaussian)}
    if len(parameters) == len(counts):
        if std > _INTEGRATED or min(parameters) >= SMOOTH:
            # A narrow law lies more closely around 0 than one of variance 4.
            total = sum(n * max(s, SMOOTH) for s, n in parameters.items())
            return _gaussian_tail(float(total))
        return _transformed_tail(counts, std)
    scales = {law.scale: n for law, n in counts.items() if isinstance(law, DiscreteLaplace)}
    if len(scales) < len(counts):
        raise InvalidInput("a sum of Laplace and Gaussian noise has no interval here: use one kind")
    if len(scales) == 1:
        (scale,) = scales
        return _laplace_tail(DiscreteLaplace(scale), scales[scale])
    if std > _TRANSFORMED:
        return _coarse_tail(scales, std)
    return _transformed_tail(counts, std)


def _laplace_tail(law: DiscreteLaplace, terms: int) -> Callable[[int], float]:
    """P(|N| > c) of a sum of n discrete Laplace variables, as a mixture with positive weights.

    With q = exp(-1/scale), a discrete Laplace variable is the difference of two geometric ones. In
    generating functions a = (1-q)/(1-qz) and b = (1-q)/(1-q/z) satisfy (partial fractions)
    a b = a / (1+q) + z^-1 b q / (1+q). Applied to a^n b^n until one of them is used up:

        P(N > c) = sum_{i=1..n} C(2n-i-1, n-1) q^(n-i) / (1+q)^(2n-i) P(G_i > c + n - i),

    G_i a sum of i geometric variables (negative binomial), whose tail is an incomplete beta
    function.
    """
    from scipy.special import betaincc

    rate = 1 / float(law.scale)
    left = np.arange(terms)  # n - i
    # Logarithms of q / (1+q) and 1 / (1+q), finite also where q is not: little noise has small q.
    log_rest = -math.log1p(math.exp(-rate))
    log_share = log_rest - rate
    log_weights = (
        np.array([math.lgamma(terms + m) - math.lgamma(m + 1) for m in range(terms)])
        - math.lgamma(terms)
        + left * log_share
        + terms * log_rest
    )
    weights = np.exp(log_weights)

    def tail(c: int) -> float:
        reached = betaincc(terms - left, c + 1.0 + left, -math.expm1(-rate))
        return float(2 * np.dot(weights, reached))

    return tail


def _transformed_tail(counts: Mapping[Law, int], std: float) -> Callable[[int], float]:
    """P(|N| > c) by multiplying transforms over a support of 64 standard deviations and more."""
    length = 1 << math.ceil(64 * std + 64).bit_length()
    angles = np.linspace(0, math.pi, length // 2 + 1)
    product = np.ones(len(angles))
    for law, count in counts.items():
        product *= _transform(law, angles, length) ** count
    sums = np.fft.irfft(product, length)[: length // 2]
    inner = np.cumsum(sums) * 2 - sums[0]

    def tail(c: int) -> float:
        return 1 - float(inner[c]) if c < len(inner) else 0.0

    return tail


def _transform(law: Law, angles: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    """Characteristic function of a law, cut to ``length`` integers, at the given angles."""
    if isinstance(law, DiscreteLaplace):
        rate = 1 / float(law.scale)
        square = math.expm1(-rate) ** 2
        laplace: NDArray[np.float64] = square / (
            square + 4 * math.exp(-rate) * np.sin(angles / 2) ** 2
        )
        return laplace
    x = np.minimum(np.arange(length), length - np.arange(length)).astype(np.float64)
    mass = np.exp(-(x**2) / (2 * float(law.sigma_squared)))
    gaussian: NDArray[np.float64] = np.fft.rfft(mass / mass.sum()).real
    return gaussian


def _coarse_tail(scales: Mapping[Fraction, int], std: float) -> Callable[[int], float]:
    """Upper bound of P(|N| > c) for wide Laplace laws: n terms, on a grid of g integers.

    A discrete Laplace variable is the difference of two geometric ones. Rounded down to the grid
    they are geometric again, with g times less scale, and lose less than g each: the difference
    moves by at most g - 1.
    """
    grid = 1 << math.ceil(math.log2(std / _TRANSFORMED))
    coarse = sum_tail({DiscreteLaplace(scale / grid): n for scale, n in scales.items()})
    moved = sum(scales.values()) * (grid - 1)
    # |N| > c needs grid |N'| > c - moved.
    return lambda c: coarse((c - moved) // grid) if c >= moved else 1.0


def _gaussian_tail(sigma_squared: float) -> Callable[[int], float]:
    """Upper bound of P(|N| > c) for one discrete Gaussian; exact up to a std of 4096.

    A sum of n discrete Gaussians of parameter s is one of parameter n s up to factors
    1 +- 2 exp(-pi^2 s) (Poisson summation). Beyond, the sum is the integral by the midpoint rule.
    """
    sigma = math.sqrt(sigma_squared)
    if sigma <= _INTEGRATED:
        x = np.arange(math.ceil(9 * sigma))
        mass = np.exp(-(x**2) / (2 * sigma_squared))
        mass[1:] *= 2
        inner = np.cumsum(mass) / mass.sum()
        return lambda c: 1 - float(inner[c]) if c < len(inner) else 0.0
    return lambda c: math.erfc((c + 0.5) / (sigma * math.sqrt(2))) + 1 / (12 * sigma_squared)
