"""Between zero-concentrated and (epsilon, delta) differential privacy.

Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020), Proposition
12: rho-zCDP implies (epsilon, delta)-DP with, for every alpha > 1,

    delta = exp((alpha-1) (alpha rho - epsilon)) / (alpha-1) * (1 - 1/alpha)^alpha.

Every alpha gives a valid bound, so a search that misses the best one errs towards privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from counton.errors import InvalidInput
from counton.exact import float_above, float_below, text

#: Relative margin for the rounding of float64; the formulas lose fewer than three digits.
_MARGIN = 1e-11
_SMALLEST = 2.0**-60  # a guarantee's epsilon is above 0


def rho_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Largest known rho such that rho-zCDP implies (epsilon, delta)-DP; rounded down.

    >>> float(rho_within(Fraction(1), Fraction(1, 10**6)))
    0.02435...
    """
    budget, log_delta = float_below(epsilon), _log_below(delta)

    def rho(log_u: float) -> float:
        u = math.exp(log_u)  # alpha - 1
        slack = (log_delta + log_u + (1 + u) * math.log1p(1 / u)) / u
        return (budget + slack) / (1 + u) - (abs(slack) + budget) / (1 + u) * _MARGIN

    return Fraction(rho(_highest(rho)))


def epsilon_within(rho: Fraction, delta: Fraction) -> Fraction:
    """Least known epsilon such that rho-zCDP implies (epsilon, delta)-DP; rounded up.

    >>> float(epsilon_within(Fraction(1, 2), Fraction(1, 10**6)))
    5.2215...
    """
    loss, log_delta = float_above(rho), _log_below(delta)

    def minus_epsilon(log_u: float) -> float:
        u = math.exp(log_u)
        slack = (log_delta + log_u + (1 + u) * math.log1p(1 / u)) / u
        return slack - (1 + u) * loss - (abs(slack) + (1 + u) * loss) * _MARGIN

    return Fraction(max(_SMALLEST, -minus_epsilon(_highest(minus_epsilon))))


def _log_below(delta: Fraction) -> float:
    """A float just below ln(delta), also where delta is below the smallest float."""
    log = math.log(delta.numerator) - math.log(delta.denominator)
    return log - (abs(log) + 1) * 1e-15


def _highest(value: Callable[[float], float]) -> float:
    """Place of the maximum of a unimodal function of ln(alpha - 1), by narrowing grids."""
    low, high = -60.0, 60.0
    for _ in range(12):
        width = (high - low) / 24
        best = max((low + i * width for i in range(25)), key=value)
        low, high = best - width, best + width
    return best


def concentrated_by_pure(epsilon: Fraction) -> Fraction:
    """Least known rho such that epsilon-DP implies rho-zCDP: min(epsilon^2 / 2, epsilon).

    Bun and Steinke 2016, Proposition 3.3; the second since no Renyi divergence exceeds epsilon.
    """
    if epsilon < 0:
        raise InvalidInput(f"epsilon is {text(epsilon)}; it must be at least 0")
    return min(epsilon**2 / 2, epsilon)
