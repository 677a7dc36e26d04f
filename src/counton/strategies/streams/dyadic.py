"""The binary digits of 1..T: how often each is set, and the heaviest step."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from counton.strategies.base import Metric


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
