"""Discrete Gaussian noise under (epsilon, delta), by the calibration of continuous Gaussian noise.

Balle and Wang (2018), Theorem 8: N(0, sigma^2) with l2 sensitivity D satisfies (epsilon, delta) iff

    Phi(D/2s - epsilon s/D) - e^epsilon Phi(-D/2s - epsilon s/D) <= delta,    s = sigma.

Comments at the beginning of this file prove a similar bound for discrete noise.
"""

# **From continuous to discrete.** Let P_c be the discrete Gaussian with parameter sigma^2 centred
# at an integer c, and 0 < tau^2 < sigma^2. Draw y from N(c, sigma^2 - tau^2), then an integer k
# with probability exp(-(k-y)^2 / 2 tau^2) / theta(y), theta(y) = sum over integers j of
# exp(-(j-y)^2 / 2 tau^2); call the distribution of k Q_c. By Poisson summation
#
#     theta(y) = sqrt(2 pi) tau (1 + 2 sum_{m>=1} q^(m^2) cos(2 pi m y)),   q = exp(-2 pi^2 tau^2),
#
# so theta(y) lies within sqrt(2 pi) tau [1 - eta, 1 + eta], eta = 2 sum_{m>=1} q^(m^2). Without the
# division by theta, integrating over y convolves two Gaussian densities into that of N(c, sigma^2)
# at k, and P_c(k) is that density divided by 1 + eta', where 0 <= eta' (the same sum with sigma for
# tau; it does not depend on the integer c). Hence for every k and every integer c
#
#     (1 - eta) / (1 + eta') <= P_c(k) / Q_c(k) <= (1 + eta) / (1 + eta').
#
# For n independent coordinates centred at c instead of 0, and any set S of outputs, Q is a
# post-processing of the continuous Gaussian, which satisfies (e, d) at variance sigma^2 - tau^2, so
#
#     P_c(S) <= ((1+eta)/(1+eta'))^n Q_c(S) <= ((1+eta)/(1+eta'))^n (e^e Q_0(S) + d)
#            <= ((1+eta)/(1-eta))^n e^e P_0(S) + (1+eta)^n d.
#
# Coordinates that do not move have the same distribution on both sides and do not count. So P
# satisfies (epsilon, delta) with e = epsilon - n ln((1+eta)/(1-eta)) and d = delta / (1+eta)^n. The
# price is tau^2 in the variance: small, since eta falls like exp(-2 pi^2 tau^2).
#
# **Around any centre.** With a strategy that is not causal, an attacker has seen part of the noise
# before he chooses the unit. He knows that z lies in a set which shifts by whole multiples of a map
# onto itself. On each line z + Z a the noise is then a discrete Gaussian of spacing |a| around some
# real centre c. In units of |a|, with s = |a| / sigma and w_k = exp(-(c + k)^2 s^2 / 2), delta is
# the largest value over c and K of the sum over k <= K of w_k - e^epsilon w_(k-1), divided by the
# sum of all w_k. With u = (c + K) s^2 and r_j = w_(K-j) / w_K = exp(u j - j^2 s^2 / 2) this is
#
#     delta(u) = (1 - (e^epsilon - 1) sum_{j>=1} r_j) / sum_j r_j.
#
#     - For each u, delta(u) falls as s falls: so shifts shorter than the longest are covered, and
#       sigma can be found by bisection.
#     - The numerator is concave in u and the denominator log-convex, so delta(u) is log-concave.
#       Take three equidistant points whose middle one is the highest. In logarithms, the maximum
#       exceeds the middle value by no more than the middle value exceeds the lower of the others.
#     - The best K takes exactly the terms above 0, so u lies within s^2 / 2 of -epsilon.
#
# For wide noise the sums are long. Then the first argument is used instead, with |a| as unit and
# one coordinate. The centre need not be an integer now, so eta' >= 0 no longer holds, but 1 + eta'
# is at least 1 - eta and the same for both distributions. So e = epsilon - f and d = delta e^-f
# with f = ln((1+eta)/(1-eta)).

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from counton.base.distributions import Sensitivity
from counton.base.errors import InvalidInputError
from counton.base.exact import Number, check_positive, exact, float_below, rounded_up, text

#: Relative error allowed to each of erfcx, ndtr and exp; documented or measured errors are smaller.
_FUNCTION_ERROR = 1e-13
_LARGEST_SIGMA = 2.0**60
_LEAST_WIDE_STD = 64.0  # from this std on, in units of the shift, a bound is as good as the sums
_SMALLEST_DELTA = 1e-280  # below it the densities underflow


def analytic_gaussian_sigma(epsilon: Number, delta: Number) -> float:
    """Return the least standard deviation of continuous Gaussian noise at l2 sensitivity 1.

    It keeps (epsilon, delta) by Balle and Wang (2018), Theorem 8. It is correct to 11 digits, and
    never below the true value.

    Raises:
        InvalidInputError: epsilon not above 0, delta not within (0, 1) or too small for float64.

    >>> analytic_gaussian_sigma(1, 1e-6)
    4.22467888...
    """
    budget = check_positive("epsilon", epsilon, "try epsilon=1")
    rest = exact(delta, "delta")
    if not 0 < rest < 1:
        raise InvalidInputError(f"delta is {text(rest)}; it must be above 0 and below 1: try 1e-9")
    return _sigma(float_below(budget), float_below(rest))


@lru_cache(maxsize=4096)
def _sigma(epsilon: float, delta: float) -> float:
    if delta < _SMALLEST_DELTA:
        raise InvalidInputError(
            f"delta is {delta:g}; Gaussian noise is calibrated down to {_SMALLEST_DELTA:g}: use "
            f"Laplace noise, which needs no delta"
        )
    low = 1.0
    high = 1.0
    while delta_at_most(high, epsilon) > delta:
        low = high
        high = high * 2
        if high > _LARGEST_SIGMA:
            raise InvalidInputError(
                f"epsilon {epsilon:g} with delta {delta:g} needs Gaussian noise with a standard "
                f"deviation beyond 2^60: raise epsilon or delta"
            )
    while low == high or delta_at_most(low, epsilon) <= delta:
        low, high = low / 2, low
        if low < 1 / _LARGEST_SIGMA:
            return high
    for _ in range(48):
        middle = (low + high) / 2
        enough = delta_at_most(middle, epsilon) <= delta
        low, high = (low, middle) if enough else (middle, high)
    return high


def delta_at_most(sigma: float, epsilon: float) -> float:
    """Return delta of continuous Gaussian noise, to about 12 digits, never below the true one."""
    # With the normal density phi and Mills' ratio M(x) = Phi(-x) / phi(x), both terms of Balle and
    # Wang's formula have the factor phi(epsilon s - 1/2s). So their difference loses no digits to
    # the size of e^epsilon.
    from scipy.special import erfcx, ndtr

    half = 1 / (2 * sigma)
    low = epsilon * sigma - half
    high = epsilon * sigma + half
    density = math.exp(-low * low / 2)
    lost = density * 0.5 * float(erfcx(high / math.sqrt(2)))
    kept = float(ndtr(-low)) if low <= 0 else density * 0.5 * float(erfcx(low / math.sqrt(2)))
    rounding = _FUNCTION_ERROR + low * low * 2**-52
    return kept - lost + (kept + lost) * rounding


def log_factor(tau_squared: float) -> tuple[float, float]:
    """Return bounds on how much rounding of Gaussian noise weakens epsilon, and delta.

    They bound ln((1+eta)/(1-eta)), which each coordinate adds to epsilon, and ln(1+eta), which it
    adds to ln(delta). Comments above define eta, by the variance tau^2 of the rounding.
    """
    q = math.exp(-2 * math.pi**2 * tau_squared)
    eta = 2 * q / (1 - q**3) * (1 + 1e-12)
    return math.log1p(2 * eta / (1 - eta)), math.log1p(eta)


def variance_for(epsilon: Fraction, delta: Fraction, sensitivity: Sensitivity) -> Fraction:
    """Return a variance of discrete Gaussian noise that keeps (epsilon, delta) at this sensitivity.

    Raises:
        InvalidInputError: delta is too small or the noise too large for float64.
    """
    # A larger rounding variance tau^2 (see the beginning of this file) adds noise and costs less
    # epsilon; the best of nine values is taken.
    budget = float_below(epsilon)
    rest = float_below(delta)
    count = sensitivity.most_affected
    best = math.inf
    for exponent in range(1, 10):
        q = min(budget, 1.0) * 10.0**-exponent / (4 * count)
        tau_squared = -math.log(q) / (2 * math.pi**2)
        epsilon_factor, delta_factor = log_factor(tau_squared)
        epsilon_left = (budget - count * epsilon_factor) * (1 - 1e-15)
        scale = math.exp(-count * delta_factor) * (1 - 1e-13)
        sigma = _sigma(epsilon_left, rest * scale)
        best = min(best, (sensitivity.l2_squared * sigma**2 + tau_squared) * (1 + 1e-14))
    return rounded_up(best)


def variance_around(epsilon: Fraction, delta: Fraction, l2_squared: int) -> Fraction:
    """Return a variance of discrete Gaussian noise for (epsilon, delta) around any centre.

    An attacker may learn something about the noise, and then choose the unit. Comments at the
    beginning of this file have the proof, under "Around any centre".

    Raises:
        InvalidInputError: delta is too small or the noise too large for float64.
    """
    sigma = _sigma_around(float_below(epsilon), float_below(delta))
    return rounded_up(l2_squared * sigma**2 * (1 + 1e-14))


@lru_cache(maxsize=4096)
def _sigma_around(epsilon: float, delta: float) -> float:
    """Return the std for (epsilon, delta) around any centre, over the change, rounded up."""
    low = _sigma(epsilon, delta)
    high = math.inf
    for exponent in range(1, 10):
        tau_squared = -math.log(min(epsilon, 1.0) * 10.0**-exponent / 4) / (2 * math.pi**2)
        factor = log_factor(tau_squared)[0]
        epsilon_left = (epsilon - factor) * (1 - 1e-15)
        rest = delta * math.exp(-factor) * (1 - 1e-13)
        high = min(high, math.sqrt(_sigma(epsilon_left, rest) ** 2 + tau_squared) * (1 + 1e-15))
    if not 2**-20 < low < _LEAST_WIDE_STD:
        return high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        enough = delta_around(middle, epsilon) <= delta
        low, high = (low, middle) if enough else (middle, high)
    return high


def delta_around(sigma: float, epsilon: float) -> float:
    """Return the largest delta of discrete Gaussian noise over all real centres of the noise.

    It is never below the true value, and tight to about 10 digits. ``sigma`` is a multiple of the
    change by one unit, up to some hundreds.

    >>> delta_around(4.22467888, 1) / delta_at_most(4.22467888, 1)
    1.04...
    """
    middle = 0.0
    half = 0.5
    while True:
        points = middle + half * np.linspace(-1, 1, 9)
        logs = _log_deltas(points, sigma, epsilon)
        best = min(max(int(np.argmax(logs)), 1), 7)
        middle = float(points[best])
        half = half / 4
        above = logs[best] - min(logs[best - 1], logs[best + 1])
        if above < 1e-11 or half < 2**-40:
            return math.exp(float(logs[best] + above)) * (1 + 1e-11)


def _log_deltas(points: NDArray[np.float64], sigma: float, epsilon: float) -> NDArray[np.float64]:
    """Return ln(delta) of discrete Gaussian noise around several centres.

    Here delta is computed for one set of outputs: all outputs up to K. It depends on K and the
    centre c only through u = (c + K) / sigma^2, and is computed at u = -epsilon + points / sigma^2.
    Comments at the beginning of this file have its formula.
    """
    # Both sums have no negative term.
    inverse_variance = sigma**-2
    u = (-epsilon + points * inverse_variance)[:, None]
    reach = math.ceil(10 * sigma) + 3
    up = np.arange(reach)
    falls = -np.expm1((points[:, None] - up - 0.5) * inverse_variance)
    gained = np.sum(np.exp(u * up - up**2 * (inverse_variance / 2)) * np.maximum(falls, 0), axis=1)
    peaks = np.round(u / inverse_variance)
    near = peaks + np.arange(-reach, reach + 1)
    # Budgets beyond float64 give NaN, and no delta is below it: the noise stays wider.
    with np.errstate(over="ignore", invalid="ignore"):
        exponents = u * near - near**2 * (inverse_variance / 2)
        highest = exponents.max(axis=1)
        total = highest + np.log(np.sum(np.exp(exponents - highest[:, None]), axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        logs: NDArray[np.float64] = np.log(gained) - total
    return logs
