"""Conversions between Renyi, zero-concentrated, pure and (epsilon, delta) privacy.

Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020), Proposition
12: if the Renyi divergence of one order alpha > 1 is at most R, (epsilon, delta)-DP holds with

    delta = exp((alpha-1) (R - epsilon)) / (alpha-1) * (1 - 1/alpha)^alpha.

Under rho-zCDP, R = alpha rho for every alpha. Each alpha gives a valid bound. So a search that
misses the best alpha still gives a valid guarantee.

**Whole orders.** If an attacker has seen part of the noise before he chooses the unit, the
divergence under discrete Gaussian noise is proved to be at most alpha rho only for alpha = 2, 3,
.... At other orders its divergence may exceed alpha rho (docs/guarantees/verification.md). `ZCDP`
therefore bounds divergences of whole orders alone, and conversions use one of these.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from counton.base.errors import InvalidInputError, param
from counton.base.exact import Number, exact, float_above, float_below, text

#: Relative margin for the rounding of float64; the formulas lose fewer than three digits.
_MARGIN = 1e-11
_LOWEST_LOG = -60.0  # bounds of ln(alpha - 1) in the search for the best order alpha
_HIGHEST_LOG = 60.0


def rho_within(epsilon: Fraction, delta: Fraction, *, every_order: bool = False) -> Fraction:
    """Return the largest known rho such that rho-zCDP implies (epsilon, delta)-DP; rounded down.

    With ``every_order`` the divergence is at most alpha rho for every order alpha > 1, otherwise
    for the orders 2, 3, ....

    >>> float(rho_within(Fraction(1), Fraction(1, 10**6)))
    0.02435...
    """
    rho = _rho(epsilon, delta)
    best = _highest(rho)
    return Fraction(rho(best if every_order else _whole(rho, best)))


def checked_delta(delta: Number) -> Fraction:
    """Return delta as a fraction.

    Raises:
        InvalidInputError: delta is not above 0 and below 1.

    >>> checked_delta("1e-6")
    Fraction(1, 1000000)
    """
    probability = exact(delta, "delta")
    if not 0 < probability < 1:
        raise InvalidInputError(
            f"{param('delta')} is {text(probability)}; it must be above 0 and below 1: try 1e-9"
        )
    return probability


def best_order(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the whole order alpha at which `rho_within` finds the largest rho."""
    rho = _rho(epsilon, delta)
    return Fraction(1 + round(math.exp(_whole(rho, _highest(rho)))))


def epsilon_within(rho: Fraction, delta: Fraction) -> float:
    """Return the least known epsilon such that rho-zCDP implies (epsilon, delta)-DP; rounded up.

    The divergence is at most alpha rho for the whole orders alpha = 2, 3, ....

    Args:
        rho: the zero-concentrated loss, above 0.
        delta: above 0 and below 1.

    >>> round(epsilon_within(rho_within(Fraction(1), Fraction(1, 10**6)), Fraction(1, 10**6)), 6)
    1.0
    """
    loss = float_above(rho)
    log_delta = log_rounded_down(delta)

    def negative_epsilon(log_u: float) -> float:
        slack, size = _slack(log_delta, log_u)
        divergence = loss * (1 + math.exp(log_u))
        return slack - divergence - (size + divergence) * _MARGIN

    best = _whole(negative_epsilon, _highest(negative_epsilon))
    return max(-negative_epsilon(best), 0.0)


def renyi_within(epsilon: Fraction, delta: Fraction, order: Fraction) -> Fraction:
    """Return the largest divergence of ``order`` that implies (epsilon, delta)-DP; rounded down.

    It is negative if at this order even a divergence of 0 does not imply (epsilon, delta).

    >>> float(renyi_within(Fraction(1), Fraction(1, 10**6), Fraction(23)))
    0.5589...
    """
    budget = float_below(epsilon)
    slack, size = _slack(log_rounded_down(delta), math.log(order - 1))
    return Fraction(budget + slack - (size + budget) * _MARGIN)


def renyi_by_pure(epsilon: Fraction, order: Fraction) -> Fraction:
    """Return the largest Renyi divergence of this order that epsilon-DP allows; rounded up.

    It is the divergence of randomised response, of which every epsilon-DP mechanism is a function
    (Kairouz, Oh and Viswanath, "The Composition Theorem for Differential Privacy", 2015):

        epsilon - (ln(1 + e^-epsilon) - ln(1 + e^-((2 alpha - 1) epsilon))) / (alpha - 1).

    It never exceeds epsilon or alpha epsilon^2 / 2 (Bun and Steinke 2016, Proposition 3.3).

    >>> [float(renyi_by_pure(Fraction(e), Fraction(20))) for e in ("0.01", "1", "50")]
    [0.00099..., 0.9835..., 50.0]
    """
    simple = min(order * epsilon**2 / 2, epsilon)
    a = float_above(order)
    e = float_above(epsilon)
    saved = math.log1p(math.exp(-e)) - math.log1p(math.exp(-(2 * a - 1) * e))
    loss = e - saved / (a - 1) + (e + 4 / (a - 1)) * 2**-50
    return min(simple, Fraction(loss))


def pure_within(loss: Fraction, order: Fraction) -> Fraction:
    """Return the largest epsilon that implies a divergence <= ``loss`` at ``order``; rounded down.

    >>> float(pure_within(Fraction(1, 10), Fraction(20)))
    0.1328...
    """
    low = float_below(loss)
    high = float_above(loss) + 1 / float(order - 1)
    for _ in range(60):
        middle = (low + high) / 2
        if middle == low:  # no float lies between
            break
        is_within = renyi_by_pure(Fraction(middle), order) <= loss
        low, high = (middle, high) if is_within else (low, middle)
    return max(loss, Fraction(low))


def concentrated_by_pure(epsilon: Fraction) -> Fraction:
    """Return the least rho such that epsilon-DP implies rho-zCDP: min(epsilon^2 / 2, epsilon).

    Bun and Steinke 2016, Proposition 3.3. The second term holds since no Renyi divergence exceeds
    epsilon.
    """
    if epsilon < 0:
        raise InvalidInputError(f"epsilon is {text(epsilon)}; it must be at least 0")
    return min(epsilon**2 / 2, epsilon)


def log_rounded_down(delta: Fraction) -> float:
    """Return a float at or slightly below ln(delta), for any delta in (0, 1).

    >>> log_rounded_down(1 - Fraction(1, 10**30)), log_rounded_down(Fraction(1, 10**400))
    (-1.0000...e-30, -921.03...)
    """
    if 2 * delta > 1:  # a difference of logarithms would cancel
        return math.log1p(-float_above(1 - delta)) * (1 + 1e-15)
    if delta.numerator < 2**20:
        log = math.log(delta.numerator) - math.log(delta.denominator)
    else:
        size = delta.numerator.bit_length() - delta.denominator.bit_length()
        log = math.log(delta / Fraction(2) ** size) + size * math.log(2)
    return log - (abs(log) + 1) * 1e-15


def _slack(log_delta: float, log_u: float) -> tuple[float, float]:
    """Return s: (epsilon, delta) holds if the divergence of order alpha is at most epsilon + s.

    With u = alpha - 1 it is s = (ln delta + ln u - alpha ln(1 - 1/alpha)) / u. The second result
    has the size of the terms of s, of which its rounding error is a small fraction.
    """
    # If delta is near 1, s is small and its terms are not. Then the terms added to ln delta are
    # written as a sum of positive numbers, so that the rounding error is a fraction of both sums.
    u = math.exp(log_u)
    if log_delta < -math.log(2):
        slack = (log_delta + log_u + (1 + u) * math.log1p(1 / u)) / u
        return slack, abs(slack)
    gained = (1 + u) * math.log1p(u) - u * log_u if u < 1 else log_u + (1 + u) * math.log1p(1 / u)
    return (log_delta + gained) / u, (gained - log_delta) / u


def _rho(epsilon: Fraction, delta: Fraction) -> Callable[[float], float]:
    """Return the function from ln(alpha - 1) to the largest rho by order alpha, rounded down."""
    budget = float_below(epsilon)
    log_delta = log_rounded_down(delta)

    def rho(log_u: float) -> float:
        u = math.exp(log_u)
        slack, size = _slack(log_delta, log_u)
        return (budget + slack) / (1 + u) - (size + budget) / (1 + u) * _MARGIN

    return rho


def _whole(value: Callable[[float], float], best: float) -> float:
    """Round an order to the neighbouring whole one of larger ``value``.

    Orders alpha are given and returned as ln(alpha - 1). Those beyond 2^40 differ too little.
    """
    if best > math.log(2**40):
        return math.log(2**40)
    below = max(math.floor(math.exp(best)), 1)
    return max((math.log(below), math.log(below + 1)), key=value)


def _highest(value: Callable[[float], float]) -> float:
    """Return the ln(alpha - 1) at which a function with one maximum is largest."""
    low = _LOWEST_LOG
    high = _HIGHEST_LOG
    for _ in range(12):
        width = (high - low) / 24
        best = max((low + i * width for i in range(25)), key=value)
        low = best - width
        high = best + width
    return best
