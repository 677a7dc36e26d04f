"""Fichtenberger, Henzinger and Upadhyay, "Constant matters": what no factorisation can beat.

Lower bounds on running totals, section 1: for every factorisation
A = B C of the T x T prefix-sum matrix the product of B's largest row norm and C's largest column
norm (both 2-norms) is at least the norm |A|_cb, which Mathias (1993) gives to within 1/2.
"""

from __future__ import annotations

import math

import numpy as np

from counton.exact import check_integer

__all__ = ["factorisation_bounds", "mathias_sum"]


def mathias_sum(horizon: int) -> float:
    """gamma_hat(T) = (1/T) sum_{j=1..T} |csc((2j - 1) pi / (2T))|.

    >>> round(mathias_sum(2), 6)
    1.414214
    """
    horizon = check_integer("horizon", horizon, 1, 2**32)
    total, half, block = float(horizon % 2), horizon // 2, 2**20
    for start in range(1, half + 1, block):  # symmetric; the middle term of an odd number is 1
        j = np.arange(start, min(start + block, half + 1))
        total += 2 * float(np.sum(1 / np.sin((2 * j - 1) * (math.pi / (2 * horizon)))))
    return total / horizon


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
