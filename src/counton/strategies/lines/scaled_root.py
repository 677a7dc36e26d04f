"""A measurement matrix for Gaussian noise within half a percent of the least error, by a formula.

Its entries are IEEE sums, products and square roots in a fixed order, the same on every machine.
Saved strategies store the name of the formula. So formulas must never be changed; add another
instead.
"""

from __future__ import annotations

import numpy as np

from counton.base.arrays import Floats, Integers
from counton.base.errors import InvalidInputError

#: Entries are multiples of 2^-16.
BITS = 16
#: Names of the formulas: the error that is minimised is the mean or the largest over all steps.
FORMULAS = ("mean", "max")


def scaled_root(steps: int, formula: str) -> Integers:
    """Return a matrix C for running totals, int64, shape (steps, steps), in units of 2^-16.

    C is the square root of the lower-triangular matrix of ones, with scaled rows and columns of
    norm 1. Middle rows are scaled up, because many releases depend on them.

    Raises:
        InvalidInputError: an unknown formula.

    >>> scaled_root(3, "mean").tolist()
    [[57381, 0, 0], [26605, 60204, 0], [17164, 25893, 65536]]
    """
    # C_ij = p_i f(i - j) / d_j, with p_i = (i + a)^b (T - i + c)^d (1 + e i / T), fitted at 1024
    # steps, and d_j so that all columns have norm 1.
    if formula not in FORMULAS:
        raise InvalidInputError(
            f"the formula {formula!r} is not known to this version: read it with the version of "
            "counton that wrote it"
        )
    step = np.arange(steps, dtype=np.float64)
    if formula == "mean":
        rows = _power(step + 10.5, 3, 5) * _power(steps - step + 0.58, 2, 3, 4)
        rows *= 1 + 0.17 * (step + 0.5) / steps
    else:
        rows = _power(step + 8, 3, 4) * _power(steps - step, 2)
    series = np.ones(steps)
    for k in range(1, steps):
        series[k] = series[k - 1] * (2 * k - 1) / (2 * k)
    matrix = np.zeros((steps, steps))
    squares = np.zeros(steps)
    for t in range(steps):
        matrix[t, : t + 1] = series[t::-1] * rows[t]
        squares += matrix[t] ** 2  # row by row: the sum has a definite order
    return np.rint(matrix / np.sqrt(squares) * 2.0**BITS).astype(np.int64)


def _power(base: Floats, *roots: int) -> Floats:
    """Return the product of the 2^k-th roots of ``base`` over the integers k in ``roots``."""
    product = np.ones_like(base)
    for root in roots:
        factor = base
        for _ in range(root):
            factor = np.sqrt(factor)
        product = product * factor
    return product
