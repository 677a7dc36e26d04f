"""Where Laplace noise on a tree and Gaussian noise on a square root change places."""

from __future__ import annotations

from fractions import Fraction

from counton.exact import Number
from counton.plans.planner import plan
from counton.privacy import ApproxDP
from counton.strategies import Metric

#: Exponents of ten between which the crossing is looked for.
_LOWEST, _HIGHEST = -60.0, -1.0


def crossing_delta(horizon: int, epsilon: Number, metric: Metric = "mean") -> float:
    """Delta below which the best plan under (epsilon, delta) has Laplace noise; to three digits.

    0 if Gaussian noise is better down to 1e-60, 0.1 if Laplace noise is better up to there.
    Found by ranking all strategies at each delta. With odd arities only and Laplace noise as in
    Theorem 1.3 of "Count on Your Elders" (Andersson, Pagh, Steiner and Torkamani) the crossing at
    epsilon = 1 for the mean error over 2^10 steps lies at 1.13e-6.

    >>> f"{crossing_delta(2**10, 1):.3g}"
    '1.24e-06'
    """

    def laplace_wins(exponent: float) -> bool:
        guarantee = ApproxDP(epsilon, Fraction(10**exponent))
        return plan(horizon, guarantee, metric).best.family == "laplace"

    low, high = _LOWEST, _HIGHEST
    if not laplace_wins(low):
        return 0.0
    if laplace_wins(high):
        return 0.1
    while high - low > 2e-4:
        middle = (low + high) / 2
        low, high = (middle, high) if laplace_wins(middle) else (low, middle)
    return float(10 ** ((low + high) / 2))
