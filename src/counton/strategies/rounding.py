"""Rounding of released noise: one rule for real numbers, and one for fractions.

*Sums of real numbers* (entries of C^-1 z, where C measures counts with noise z) are rounded to the
nearest multiple of a power of two, but the boundary between two multiples is irrational (`OFFSET`),
so no rational number lies on it. Hence finitely many digits decide, on every processor.

*Parts of the difference* of two estimates of one count: the part is a fraction. It is first rounded
to a multiple of 2^-40 (`part_of`). Then the product is rounded to the nearest integer, halves up
(`part_times`), in integer arithmetic only.

Both rules commute with adding integers, so a release is a function of the measurements.
``counton.reference`` has both rules without arrays.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from counton.base.arrays import Integers

#: Rounding changes 1/2 + (sqrt(2) - 1) / 2^20 below the upper number: floor(x + OFFSET).
_OFFSET_BITS = 20
OFFSET = 0.5 + (math.sqrt(2) - 1) / 2**_OFFSET_BITS
#: Parts of differences of estimates are multiples of 2^-40.
PART_BITS = 40
_HALF_BITS = PART_BITS // 2


def boundary(places: int) -> int:
    """Return the first ``places`` binary digits of the rounding boundary, floor(2^places OFFSET).

    Here OFFSET is the exact irrational number.

    >>> boundary(2), boundary(40) - 2**39
    (2, 434334)
    """
    root = math.isqrt(2 << 2 * (places + _OFFSET_BITS)) - (1 << (places + _OFFSET_BITS))
    return (1 << places >> 1) + (root >> 2 * _OFFSET_BITS)


def rounded_within(total: int, error: int, places: int) -> int | None:
    """Return the integer to which a number rounds if it is known only up to an error; None:
    undecided.

    The number is total / 2^places, with an error of at most error / 2^places.

    >>> rounded_within(1000, 3, 6), rounded_within(1000, 30, 6)
    (16, None)
    """
    middle = total + boundary(places)
    low, high = (middle - error) >> places, (middle + error + 1) >> places
    return low if low == high else None


def part_of(exact: Fraction) -> int:
    """Return a fraction between 0 and 1 as an integer in units of 2^-40, to the nearest.

    >>> part_of(Fraction(1, 4)), part_of(Fraction(2, 3))
    (274877906944, 733007751851)
    """
    return (2 * (exact.numerator << PART_BITS) + exact.denominator) // (2 * exact.denominator)


def part_times(numbers: Integers, part: int) -> Integers:
    """Return numbers times a fraction between 0 and 1, rounded to the nearest integer, halves up.

    ``part`` is the fraction in units of 2^-40. The numbers are split into three digits, so no
    product leaves int64.

    >>> part_times(np.array([3, -3, 2**62]), 1 << 39).tolist() == [2, -1, 2**61]
    True
    """
    middle = (numbers >> _HALF_BITS) & ((1 << _HALF_BITS) - 1)
    found = (numbers & ((1 << _HALF_BITS) - 1)) * part
    found += 1 << PART_BITS - 1
    found >>= _HALF_BITS
    found += middle * part
    found >>= _HALF_BITS
    found += (numbers >> PART_BITS) * part
    return np.asarray(found)
