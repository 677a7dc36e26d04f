"""How what is not a whole number becomes one: one rule for real numbers, and one for fractions.

*Sums of the entries of C^-1 z* are numbers with ever more digits. They are rounded to the nearest
multiple of a power of two, but the boundary of two multiples lies at an irrational place
(`OFFSET`), so that no rational number lies on it: a few digits decide, whatever computes them.

*Parts of differences* of two estimates of one count are fractions. The part is rounded to a
multiple of 2^-40 beforehand (`part_of`), and the product to the nearest integer, halves up
(`part_times`), by integers alone.

Both commute with whole numbers, so that what is released is a function of the measurements.
``counton.reference`` has both as a reader without arrays writes them.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from counton.base.arrays import Integers

#: Where rounding changes lies 1/2 + (sqrt(2) - 1) / 2^20 below the upper number: floor(x + OFFSET).
_OFFSET_BITS = 20
OFFSET = 0.5 + (math.sqrt(2) - 1) / 2**_OFFSET_BITS
#: Parts of differences of estimates are multiples of 2^-40.
PART_BITS = 40
_HALF_BITS = PART_BITS // 2


def boundary(places: int) -> int:
    """floor(2^places OFFSET), of the irrational number itself.

    >>> boundary(2), boundary(40) - 2**39
    (2, 434334)
    """
    root = math.isqrt(2 << 2 * (places + _OFFSET_BITS)) - (1 << (places + _OFFSET_BITS))
    return (1 << places >> 1) + (root >> 2 * _OFFSET_BITS)


def rounded_within(total: int, error: int, places: int) -> int | None:
    """A number rounded, of which total / 2^places is known within error / 2^places; None: open.

    >>> rounded_within(1000, 3, 6), rounded_within(1000, 30, 6)
    (16, None)
    """
    middle = total + boundary(places)
    low, high = (middle - error) >> places, (middle + error + 1) >> places
    return low if low == high else None


def part_of(exact: Fraction) -> int:
    """A part of 1, to the nearest multiple of 2^-40.

    >>> part_of(Fraction(1, 4)), part_of(Fraction(2, 3))
    (274877906944, 733007751851)
    """
    return (2 * (exact.numerator << PART_BITS) + exact.denominator) // (2 * exact.denominator)


def part_times(numbers: Integers, part: int) -> Integers:
    """Numbers times a part in units of 2^-40, from 0 to 1: to the nearest integer, halves up.

    In three places of the numbers, so that no product leaves int64.

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
