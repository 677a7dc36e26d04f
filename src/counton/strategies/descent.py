"""Descent: how real parameters of a strategy are searched for, by L-BFGS with slopes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from counton.base.arrays import Floats

#: Of parameters: a number, and its slopes.
Value = Callable[[Floats], tuple[float, Floats]]
#: How far parameters are moved to see a slope.
DIFFERENCE = 1e-5


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
