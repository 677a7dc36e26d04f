"""How far a release may lie from the truth: half-widths of two-sided intervals.

A release of a tree is the truth plus a sum of n independent draws of one discrete law, so its
interval is computed from the law of that sum, not from a normal approximation: the smallest integer
c with P(|N| <= c) >= level. Each interval speaks of one released number, not of all at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from counton.errors import InvalidInput
from counton.laws import DiscreteGaussian, DiscreteLaplace, Law
from counton.strategies import Strategy
from counton.strategies.base import check_integer

#: Tail probabilities below this are not told apart from 0 by the sums of float64 numbers here.
SMALLEST_TAIL = 1e-9

#: From this variance on a sum of discrete Gaussians is one, to 2 e^(-4 pi^2) < 2e-17 a term.
_SMOOTH = 4.0

#: From this standard deviation on a discrete Gaussian is integrated instead of summed.
_INTEGRATED = 4096.0


@lru_cache(maxsize=4096)
def interval_halfwidth(law: Law, terms: int, level: float = 0.95) -> int:
    """Smallest c with P(|N| <= c) >= level, N the sum of ``terms`` independent draws of ``law``.

    Exact up to float64 (about 1e-12 in probability). Only for Gaussian sums with a standard
    deviation beyond 4096 it rests on an integral; then its error bound, 1 / (12 variance), is added
    to the level, so that the interval is never too short.

    Args:
        law: law of one node's noise.
        terms: number of nodes a release reads, with weights +1 or -1.
        level: wanted probability, above 0 and at most 1 - 1e-9.

    Raises:
        InvalidInput: a level or number of terms out of range.

    >>> from fractions import Fraction
    >>> interval_halfwidth(DiscreteLaplace(Fraction(3)), 1), interval_halfwidth(
    ...     DiscreteLaplace(Fraction(3)), 10)
    (9, 26)
    """
    terms, level = check_integer("terms", terms, 0), check_level(level)
    if terms == 0:
        return 0
    if isinstance(law, DiscreteLaplace):
        tail = _laplace_tail(law, terms)
    elif law.variance < _SMOOTH:
        tail = _convolved_tail(law, terms)
    else:
        tail = _gaussian_tail(terms * float(law.sigma_squared))
    return _first(lambda c: tail(c) <= 1 - level)


def halfwidths(
    strategy: Strategy, law: Law, steps: range | NDArray[np.int64], level: float = 0.95
) -> NDArray[np.float64]:
    """Half-widths of the intervals at ``steps``: float64, shape ``(len(steps),)``.

    In units of the exact sums (multiply by the resolution of a clipped contribution). Trees get the
    exact half-width for their number of nodes, computed once for each number. Other strategies
    (with fractional weights or laws that differ by level) get the quantile of a normal law of the
    exact variance plus the grid they are rounded to; with Laplace nodes the quantile of a single
    Laplace law if that is larger, which is up to 8% too wide at 95%.

    Raises:
        InvalidInput: a level out of range or steps the strategy does not serve.

    >>> from fractions import Fraction
    >>> from counton.strategies import Binary
    >>> halfwidths(Binary(7), DiscreteLaplace(Fraction(3)), range(1, 8)).tolist()
    [9.0, 9.0, 12.0, 9.0, 12.0, 12.0, 15.0]
    """
    level = check_level(level)
    if strategy.fraction_bits == 0 and type(strategy).node_law is Strategy.node_law:
        counts, where = np.unique(strategy.variance(steps), return_inverse=True)
        first = np.zeros(len(counts), np.int64)
        first[where[::-1]] = np.asarray(steps, dtype=np.int64)[::-1]
        if all(_reads(strategy, int(step)) == n for n, step in zip(counts, first, strict=True)):
            exact = [float(interval_halfwidth(law, int(n), level)) for n in counts]
            return np.array(exact, dtype=np.float64)[where]
    std = np.sqrt(strategy.noise_variance(law, steps))
    quantile = NormalDist().inv_cdf((1 + level) / 2)
    if isinstance(law, DiscreteLaplace):
        quantile = max(quantile, -math.log1p(-level) / math.sqrt(2))
    # A law on few integers is coarser than its variance tells.
    coarse = 0.5 * 2.0**-strategy.lattice_bits if law.variance < _SMOOTH else 0.0
    cell = 2.0**-strategy.fraction_bits
    result: NDArray[np.float64] = np.ceil((quantile * std + coarse) / cell + 0.5) * cell
    return result


def check_level(level: float) -> float:
    """``level`` as a float, if it is a probability that intervals are computed for.

    Raises:
        InvalidInput: not above 0 or above 1 - 1e-9.
    """
    if not 0 < level <= 1 - SMALLEST_TAIL:
        raise InvalidInput(
            f"level is {level!r}; it must be above 0 and at most 1 - 1e-9: try level=0.95"
        )
    return float(level)


def _reads(strategy: Strategy, step: int) -> int | None:
    """Number of nodes the release at ``step`` reads, if all weights are +1 or -1."""
    row = strategy.row(step)
    return len(row) if all(abs(node.weight) == 1 for node in row) else None


def _first(holds: Callable[[int], bool]) -> int:
    """Smallest c >= 0 from which on ``holds``."""
    if holds(0):
        return 0
    high = 1
    while not holds(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


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


def _convolved_tail(law: DiscreteGaussian, terms: int) -> Callable[[int], float]:
    """P(|N| > c) by multiplying transforms: for narrow laws, whose support is short."""
    sigma_squared = float(law.sigma_squared)
    reach = math.ceil(12 * math.sqrt(terms * (sigma_squared + 1)) + 40)
    length = 1 << (2 * reach).bit_length()
    x = np.minimum(np.arange(length), length - np.arange(length)).astype(np.float64)
    mass = np.exp(-(x**2) / (2 * sigma_squared))
    sums = np.fft.irfft(np.fft.rfft(mass / mass.sum()) ** terms, length)
    inner = np.cumsum(sums[: length // 2]) * 2 - sums[0]

    def tail(c: int) -> float:
        return 1 - float(inner[c]) if c < len(inner) else 0.0

    return tail


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
