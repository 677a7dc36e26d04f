"""What trees that halve their steps have in common: errors that follow from the bits of a step."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from counton.strategies.base import Metric, StreamStrategy


def below_split(first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ones in the highest bit in which two numbers differ and in all below; 0 if they do not.

    >>> below_split(np.array([8, 5]), np.array([12, 5])).tolist()
    [7, 0]
    """
    ones = first ^ last
    for places in (1, 2, 4, 8, 16, 32):
        ones = ones | ones >> places
    return ones


def dyadic_error(horizon: int, weight: Callable[[int], Fraction], metric: Metric) -> Fraction:
    """Mean or maximum over t = 1..horizon of the sum of ``weight(level)`` over the set bits of t.

    >>> dyadic_error(6, lambda level: Fraction(1), "mean"), max(t.bit_count() for t in range(1, 7))
    (Fraction(3, 2), 2)
    """
    levels = range(horizon.bit_length())
    if metric == "mean":
        # Among 0..horizon the bit is set in every second block of 2**level numbers.
        total = Fraction(0)
        for level in levels:
            pairs, rest = divmod(horizon + 1, 2 << level)
            total += weight(level) * ((pairs << level) + max(0, rest - (1 << level)))
        return total / horizon
    # The heaviest step is the horizon, or shares its higher bits, clears one and sets all below.
    heaviest = kept = Fraction(0)
    below = [Fraction(0)]
    for level in levels:
        below.append(below[-1] + weight(level))
    for level in reversed(levels):
        if horizon >> level & 1:
            heaviest = max(heaviest, kept + below[level])
            kept += weight(level)
    return max(heaviest, kept)


def dyadic_window_error(tree: StreamStrategy, metric: Metric) -> float:
    """Mean or maximum variance of single steps, where it follows from the step's trailing zeros.

    >>> from counton.strategies import Binary
    >>> dyadic_window_error(Binary(6), "mean"), dyadic_window_error(Binary(6), "max")
    (1.6666666666666667, 3.0)
    """
    assert tree.horizon is not None
    zeros = np.arange(tree.horizon.bit_length())
    last = np.int64(1) << zeros
    variances = tree.window_variance(last - 1, last)
    if metric == "max":
        return float(variances.max())
    steps = [tree.horizon + (1 << z) >> z + 1 for z in zeros.tolist()]
    return math.fsum(variances * np.array(steps, np.float64)) / tree.horizon
