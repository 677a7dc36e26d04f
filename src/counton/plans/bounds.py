"""What no factorisation can beat: lower bounds on the variance of releases.

For every A = B C whose columns of C have norm at most 1, in units of the variance of one node:

- *mean of totals, Gaussian noise*: ||B||_F^2 / T >= (||A||_* / T)^2, since ||B||_F ||C||_F is at
  least the sum of the singular values of A and ||C||_F^2 <= T. They are
  1 / (2 sin((2j - 1) pi / (4T + 2))), j = 1..T. On short horizons `gaussian_bound` is tighter.
- *largest of totals, Gaussian noise*: the square of |A|_cb, the least product of B's largest row
  norm and C's largest column norm, which Mathias ("The Hadamard operator norm of a circulant and
  applications", 1993, Corollary 3.5; "Constant matters", section 1) gives to within 1/2.
- *each step's own count*: 1, whatever the noise, since tr (C^T C)^-1 >= sum 1 / ||C e_t||_2^2.
- *totals and counts*: with W the matrix of both ||B||_F^2 >= ||W||_*^2 / T, and the singular
  values of W are sqrt(s^2 + 1) for those of A.
- *Laplace noise*: columns of 1-norm at most 1 have 2-norm at most 1, so all of these hold. They say
  little: the best strategies known need several times as much, and no better bound is known to us.
"""

from __future__ import annotations

import math

import numpy as np

from counton.exact import check_integer
from counton.strategies.base import Metric, ReleaseForm, check_metric, check_release_form

#: Sums of more terms are replaced by their limit, to within 1e-12.
_MOST_TERMS = 2**20
#: Below every rounding of what is summed here.
_SAFE = 1 - 1e-9
#: Up to here the tighter bound, which has to be searched for, takes under a second.
LARGEST_SEARCHED = 256


def least_variance(horizon: int, metric: Metric = "mean", release: ReleaseForm = "totals") -> float:
    """No factorisation with columns of norm 1 has less variance, in units of a node's variance.

    Proven for columns of 2-norm 1 (Gaussian noise), so also for those of 1-norm 1 (Laplace noise).

    Args:
        horizon: number of steps T.
        metric: of the mean over all released numbers, or the largest of them.
        release: totals, each step's own count, or both.

    Raises:
        InvalidInput: a horizon below 1 or above 2^62, or an unknown metric or release.

    >>> round(least_variance(1024) ** 0.5, 3), round(least_variance(1024, "max") ** 0.5, 3)
    (2.91, 2.91)
    """
    horizon = check_integer("horizon", horizon, 1, 2**62)
    check_metric(metric)
    check_release_form(release)
    if release == "windows":
        return 1.0
    mean = (nuclear_norm(horizon) / horizon) ** 2
    if metric == "max":
        return max(factorisation_bounds(horizon)[0] ** 2, mean) * _SAFE
    if release == "both":
        if horizon <= _MOST_TERMS:
            singular = np.hypot(_singular_values(horizon), 1.0)
            return float((singular.sum() / horizon) ** 2 / 2) * _SAFE
        return (mean + 1) / 2 * _SAFE
    if horizon <= LARGEST_SEARCHED:
        from counton.strategies.lines.optimal import gaussian_bound
        from counton.strategies.lines.workloads import Prefixes

        mean = max(mean, gaussian_bound(Prefixes(horizon)) / horizon)
    return mean * _SAFE


def _singular_values(horizon: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Of the T x T matrix of prefix sums, largest first."""
    j = np.arange(1, horizon + 1)
    return np.asarray(0.5 / np.sin((2 * j - 1) * (math.pi / (4 * horizon + 2))))


def nuclear_norm(horizon: int) -> float:
    """Sum of the singular values of the T x T matrix of prefix sums.

    >>> round(nuclear_norm(2), 6)  # of [[1, 0], [1, 1]]: the square root of 5
    2.236068
    """
    # As many cosecants as on one side of the middle of Mathias' sum over 2T + 1, where stands 1.
    odd = 2 * check_integer("horizon", horizon, 1, 2**62) + 1
    return (odd * mathias_sum(odd) - 1) / 4


def mathias_sum(horizon: int) -> float:
    """gamma_hat(T) = (1/T) sum_{j=1..T} |csc((2j - 1) pi / (2T))|.

    Beyond 2^20 terms by the trapezoidal rule's limit, good to 1e-12.

    >>> round(mathias_sum(2), 6)
    1.414214
    """
    horizon = check_integer("horizon", horizon, 1, 2**63)
    half, middle = divmod(horizon, 2)  # symmetric; the middle term of an odd number is 1
    if half <= _MOST_TERMS:
        j = np.arange(1, half + 1)
        below = float(np.sum(1 / np.sin((2 * j - 1) * (math.pi / (2 * horizon)))))
        return (2 * below + middle) / horizon
    # The sum of 1/x over x = (2j - 1) pi / 2T, and the integral of csc x - 1/x up to the middle.
    end = half * math.pi / horizon
    odd = (math.log(half) + np.euler_gamma + 2 * math.log(2)) / 2  # of 1 / (2j - 1)
    smooth = math.log(math.tan(end / 2)) - math.log(end / 2)
    below = 2 * horizon / math.pi * odd + horizon / math.pi * smooth
    return float(2 * below + middle) / horizon


def factorisation_bounds(horizon: int) -> tuple[float, float]:
    """Lower and upper bound of |A|_cb, the least possible product of row and column norm.

    (1/2 + 1/(2T)) gamma_hat <= |A|_cb <= gamma_hat / 2 + 1/2 (Mathias 1993, Corollary 3.5). The
    square-root factorisation's product is Psi*(T), within 0.5851 of the lower bound.

    >>> from counton.strategies.streams.square_root import square_root_sensitivity
    >>> lower, upper = factorisation_bounds(1024)
    >>> lower < square_root_sensitivity(1024) < lower + 0.5851
    True
    """
    gamma = mathias_sum(horizon)
    return (0.5 + 0.5 / horizon) * gamma, gamma / 2 + 0.5
