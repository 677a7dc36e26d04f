"""Limits and formulas of strategies that add up noise in integers of 64 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from counton.base.arrays import Floats, Integers

#: Fraction bits of releases, and further bits of numbers that are rounded before they are added up.
FRACTION_BITS: Final = 10
GUARD_BITS: Final = 10
#: Noise, or a sum of it, exceeds this many standard deviations with a probability below 2^-180.
WIDEST_STDS: Final = 2**7
#: Largest magnitude of intermediate integers.
LARGEST_SUM: Final = 2.0**62
#: Most steps whose noise is computed at once, and most numbers.
_MOST_STEPS: Final = 2**14
_MOST_NUMBERS: Final = 2**22


def steps_at_once(cells: int) -> int:
    """Return the number of steps whose noise is computed at once.

    Args:
        cells: number of cells of each step.
    """
    return max(1, min(_MOST_STEPS, _MOST_NUMBERS // max(cells, 1)))


def rounding_of_releases(first: Integers, last: Integers) -> Floats:
    """Return the largest errors by which releases are rounded, in units of their grid.

    The count of the steps first + 1 to last is a difference of two releases, each of which is
    rounded; of none if it has no step, and of one if it begins with the first step.
    """
    return np.asarray((first > 0) * 0.5 + (last > first) * 0.5, dtype=np.float64)
