"""How real parameters of a strategy are searched for: by L-BFGS with slopes, then on a grid.

A processor, and the threads that share its sums, decide the last digits of what a search finds, and
sometimes where it ends. So what is found is *rounded to a grid before it is used* (`on_grid`), a
description holds these numbers and not how to look for them, and noise has its address by them.
Whoever goes on elsewhere reads the description and searches for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counton.base.arrays import Floats, Integers

#: Of parameters: a number, and its slopes.
Value = Callable[[Floats], tuple[float, Floats]]
#: How far parameters are moved to see a slope.
DIFFERENCE = 1e-5
#: Binary digits of the grid of single parameters. Errors are higher by up to 3e-6 for it.
DIGITS = 12
#: And of matrices, whose many entries count together: with 16 errors were higher by 4e-5.
MATRIX_DIGITS = 20


def descend(
    value: Value,
    start: Floats,
    bounds: Sequence[tuple[float, float]] | None = None,
    **options: Any,
) -> tuple[float, Floats]:
    """The least value that is found from a start, and its parameters.

    Args:
        value: of what.
        start: parameters.
        bounds: of each of them; None: there are none.
        options: of scipy's L-BFGS-B, as ``maxiter``.

    >>> least, found = descend(lambda x: (float(((x - 3) ** 2).sum()), 2 * (x - 3)), np.zeros(2))
    >>> round(least, 9), found.round(6).tolist()
    (0.0, [3.0, 3.0])
    """
    from scipy.optimize import minimize

    found = minimize(value, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return float(found.fun), np.asarray(found.x, np.float64)


def on_grid(found: ArrayLike, digits: int = DIGITS) -> Floats:
    """What a search found, each number rounded to so many binary digits of its own.

    >>> on_grid([0.3141592, 31.41592]).tolist()
    [0.314208984375, 31.4140625]
    """
    fractions, powers = np.frexp(np.asarray(found, np.float64))
    return np.asarray(np.ldexp(np.rint(np.ldexp(fractions, digits)), powers - digits))


def matrix_on_grid(found: Floats) -> tuple[Integers, int]:
    """A matrix that a search found, as whole multiples of 2^-bits, and these bits.

    The largest magnitude, at most a power of two, decides the grid: 20 digits below that power.

    >>> entries, bits = matrix_on_grid(np.array([[1.0, 0.0], [-0.3, 0.7]]))
    >>> (entries * 2.0**-bits).round(5).tolist(), bits
    ([[1.0, 0.0], [-0.3, 0.7]], 20)
    """
    fraction, power = math.frexp(float(np.abs(found).max(initial=0.0)))
    bits = MATRIX_DIGITS - (power - 1 if fraction == 0.5 else power)
    entries = np.rint(np.ldexp(found, bits)).astype(np.int64)
    if np.abs(entries).max(initial=0) == 2 ** (MATRIX_DIGITS - 1):  # a power of two by rounding
        entries, bits = 2 * entries, bits + 1
    return entries, bits


def with_differences(value: Callable[[Floats], float]) -> Value:
    """A function with its slopes, by central differences.

    >>> with_differences(lambda x: float(x @ x))(np.array([1.0, 2.0]))[1].round(6).tolist()
    [2.0, 4.0]
    """

    def with_slopes(x: Floats) -> tuple[float, Floats]:
        shifts = DIFFERENCE * np.eye(len(x))
        slopes = [(value(x + e) - value(x - e)) / (2 * DIFFERENCE) for e in shifts]
        return value(x), np.array(slopes)

    return with_slopes
