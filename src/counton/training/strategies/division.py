"""Division of power series in float64, along sequences of any length."""

from __future__ import annotations

import numpy as np

from counton.base.arrays import Floats

#: Largest number of entries of a banded matrix for which equations are solved.
_MOST_ENTRIES = 2**20


def divide_series(numerator: Floats, denominator: Floats) -> Floats:
    """Return the first coefficients of a quotient of two power series.

    Args:
        numerator: the coefficients of the numerator, shape (coefficients,).
        denominator: those of the denominator; the first is not 0, and those left out are 0.

    Returns:
        As many coefficients as the numerator has.

    >>> divide_series(np.array([1.0, 0.0, 0.0, 0.0]), np.array([1.0, -0.5])).tolist()
    [1.0, 0.5, 0.25, 0.125]
    """
    count = len(numerator)
    width = min(len(denominator), count)
    if count * width > _MOST_ENTRIES:
        from scipy.signal import lfilter

        return np.asarray(lfilter([1.0], denominator, numerator))
    # scipy.signal is slow to load: half a second, a quarter of the time of a plan.
    from scipy.linalg import solve_banded

    bands = np.repeat(denominator[:width, None], count, axis=1)
    return np.asarray(solve_banded((width - 1, 0), bands, numerator, check_finite=False))
