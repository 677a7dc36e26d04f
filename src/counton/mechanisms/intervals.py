"""How far a release may lie from the truth: half-widths of two-sided intervals.

A release of a tree is the truth plus a sum of independent draws of discrete laws, so its interval
is computed from the law of that sum, not from a normal approximation: the smallest integer c with
P(|N| <= c) >= level. Each interval speaks of one released number, not of all at once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from counton.errors import InvalidInput
from counton.exact import check_integer
from counton.laws import DiscreteGaussian, DiscreteLaplace, Law
from counton.strategies import StreamStrategy

#: Tail probabilities below this are not told apart from 0 by the sums of float64 numbers here.
SMALLEST_TAIL = 1e-9
#: Below this variance, in lattice cells, an atom of a node's law is more than a rounding.
_NARROW = 400


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
    counts = ((law, check_integer("terms", terms, 0)),)
    return _of_sum(counts, check_level(level))


@lru_cache(maxsize=4096)
def _of_sum(counts: tuple[tuple[Law, int], ...], level: float) -> int:
    """Smallest c with P(|N| <= c) >= level, N the sum of so many draws of each law."""
    tail = sum_tail(dict(counts))
    return _first(lambda c: tail(c) <= 1 - level)


def halfwidths(
    strategy: StreamStrategy, law: Law, steps: range | NDArray[np.int64], level: float = 0.95
) -> NDArray[np.float64]:
    """Half-widths of the intervals at ``steps``: float64, shape ``(len(steps),)``.

    In units of the exact sums (multiply by the resolution of a clipped contribution). Trees get the
    exact half-width for the nodes they read, also where laws differ by level, computed once for
    each set of nodes; where different Laplace laws add up to a standard deviation beyond 8192, they
    are too wide by up to 1/4096 of it for each node. Strategies with fractional weights get the
    quantile of a normal law of the exact variance, plus half a lattice cell of their nodes (a whole
    one where these are narrow) and the grid they are rounded to; with Laplace nodes the quantile of
    a single Laplace law if that is larger, which is up to 8% too wide at 95%.

    Raises:
        InvalidInput: a level out of range or steps the strategy does not serve.

    >>> from fractions import Fraction
    >>> from counton.strategies import Binary
    >>> halfwidths(Binary(7), DiscreteLaplace(Fraction(3)), range(1, 8)).tolist()
    [9.0, 9.0, 12.0, 9.0, 12.0, 12.0, 15.0]
    """
    level = check_level(level)
    if strategy.fraction_bits == 0:
        variances, where = np.unique(strategy.variance(steps), return_inverse=True)
        first = np.zeros(len(variances), np.int64)
        first[where[::-1]] = np.asarray(steps, dtype=np.int64)[::-1]
        sums = [_summed(strategy, law, int(step)) for step in first]
        if None not in sums:
            exact = [float(_of_sum(counts, level)) for counts in sums if counts is not None]
            return np.array(exact, dtype=np.float64)[where]
    std = np.sqrt(strategy.noise_variance(law, steps))
    quantile = NormalDist().inv_cdf((1 + level) / 2)
    if isinstance(law, DiscreteLaplace):
        quantile = max(quantile, -math.log1p(-level) / math.sqrt(2))
    # Nodes are whole lattice cells: steps that read few of them jump where a normal law is smooth.
    coarse = (1.0 if law.variance < _NARROW else 0.5) * 2.0**-strategy.lattice_bits
    cell = 2.0**-strategy.fraction_bits
    result: NDArray[np.float64] = np.ceil((quantile * std + coarse) / cell + 0.5) * cell
    alone = _summed(strategy, law, 1) if 1 in steps and strategy.lattice_bits == 0 else None
    if alone is not None:  # the first step reads one node, and its law is known exactly
        result[np.asarray(steps) == 1] = _of_sum(alone, level)
    return result


def check_level(level: float) -> float:
    """``level`` as a float, if it is a probability that intervals are computed for.

    Raises:
        InvalidInput: not above 0 or above 1 - 1e-9.
    """
    if not 0 < level <= 1 - SMALLEST_TAIL:
        raise InvalidInput(f"level is {level!r}; it must be above 0 and at most 1 - 1e-9: try 0.95")
    return float(level)


def _summed(strategy: StreamStrategy, law: Law, step: int) -> tuple[tuple[Law, int], ...] | None:
    """Laws the release at ``step`` adds up draws of, and of each how many; weights all +1 or -1."""
    row = strategy.row(step)
    if any(abs(node.weight) != 1 for node in row):
        return None
    return tuple(Counter(strategy.node_law(law, node.level) for node in row).items())


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
