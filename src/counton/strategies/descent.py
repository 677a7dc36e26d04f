"""Search for the real parameters of a strategy: by L-BFGS, then rounding to a grid.

A search's last digits, and sometimes where it ends, depend on the processor and on threads. So the
result is *rounded to a grid before it is used* (`on_grid`). A saved stream stores the rounded
numbers, from which with the key its noise is derived; another machine reads them back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counton.base.arrays import Floats, Integers, one_thread

#: A function of parameters, shape (n,): it returns its value and its gradient, shape (n,).
Value = Callable[[Floats], tuple[float, Floats]]
#: Step of the parameters for a difference quotient.
DIFFERENCE = 1e-5
#: Binary digits of the grid of single parameters. Rounding raises errors by up to 3e-6.
DIGITS = 12
#: Binary digits for the entries of matrices. With 16 digits, the roundings of the many entries
#: together raised errors by 4e-5.
MATRIX_DIGITS = 20


def descend(
    value: Value, start: Floats, bounds: Sequence[tuple[float, float]] | None = None, **options: Any
) -> tuple[float, Floats]:
    """Minimise a function by L-BFGS; return the least value, and where it was found.

    ``value`` returns a value and its gradient.

    >>> least, optimum = descend(lambda x: (float(((x - 3) ** 2).sum()), 2 * (x - 3)), np.zeros(2))
    >>> round(least, 9), optimum.round(6).tolist()
    (0.0, [3.0, 3.0])
    """
    from scipy.optimize import minimize

    with one_thread():
        optimum = minimize(
            value, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
        )
    return float(optimum.fun), np.asarray(optimum.x, np.float64)


def on_grid(values: ArrayLike) -> Floats:
    """Return ``values``, each rounded to 12 significant binary digits."""
    fractions, powers = np.frexp(np.asarray(values, np.float64))
    return np.asarray(np.ldexp(np.rint(np.ldexp(fractions, DIGITS)), powers - DIGITS))


def matrix_on_grid(matrix: Floats) -> tuple[Integers, int]:
    """Return a matrix in integer units of 2^-bits, and ``bits``.

    The largest magnitude becomes an integer above 2^19 and at most 2^20.
    """
    fraction, power = math.frexp(float(np.abs(matrix).max(initial=0.0)))
    bits = MATRIX_DIGITS - (power - 1 if fraction == 0.5 else power)
    entries = np.rint(np.ldexp(matrix, bits)).astype(np.int64)
    # Rounding may have reached the power of two.
    if np.abs(entries).max(initial=0) == 2 ** (MATRIX_DIGITS - 1):
        entries = 2 * entries
        bits = bits + 1
    return entries, bits


def with_differences(value: Callable[[Floats], float]) -> Value:
    """Return a function that returns ``value(x)`` and its gradient by central differences."""

    def with_slopes(x: Floats) -> tuple[float, Floats]:
        shifts = DIFFERENCE * np.eye(len(x))
        slopes = [(value(x + e) - value(x - e)) / (2 * DIFFERENCE) for e in shifts]
        return value(x), np.array(slopes)

    return with_slopes
