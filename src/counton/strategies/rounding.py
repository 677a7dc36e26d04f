"""Rounding of released noise: for real numbers, multiples of fractions, and integers.

*Sums of real numbers* (entries of C^-1 z, for a measurement matrix C and its noise z) are rounded
to a multiple of a power of two, nearly always to the nearest. The boundary between two multiples is
irrational (`OFFSET`), so no rational number lies on it. Hence finitely many digits decide, and
every processor rounds alike.

*Multiples of fractions* combine two estimates of one count: a fraction times their difference is
added to one of them. The fraction is first rounded to a multiple of 2^-40 (`part_of`). Then the
product is rounded to the nearest integer, halves up (`part_times`), in integer arithmetic only.

*Integers* in units of 2^-bits are rounded to the nearest multiple of a larger unit, halves up.

All rules commute with adding integers, so a release is a function of the measurements.
``proofs/reference.py`` has the first two rules for single numbers.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from counton.base.arrays import Integers

#: A number x rounds to floor(x + OFFSET), with OFFSET = 1/2 + (sqrt(2) - 1) / 2^20.
_OFFSET_BITS = 20
OFFSET = 0.5 + (math.sqrt(2) - 1) / 2**_OFFSET_BITS
#: Fractions are rounded to multiples of 2^-40 before numbers are multiplied by them.
PART_BITS = 40
_HALF_BITS = PART_BITS // 2


def boundary(places: int) -> int:
    """Return floor(2^places OFFSET), exactly, for an irrational OFFSET slightly above 1/2.

    A number x rounds to floor(x + OFFSET): no rational number lies on the boundary.

    >>> boundary(2), boundary(40) - 2**39
    (2, 434334)
    """
    root = math.isqrt(2 << 2 * (places + _OFFSET_BITS)) - (1 << (places + _OFFSET_BITS))
    return (1 << places >> 1) + (root >> 2 * _OFFSET_BITS)


def rounded_within(total: int, error: int, places: int) -> int | None:
    """Return the integer to which a number rounds; None if that is undecided.

    The number is total / 2^places, with an error of at most error / 2^places.

    >>> rounded_within(1000, 3, 6), rounded_within(1000, 30, 6)
    (16, None)
    """
    middle = total + boundary(places)
    low = (middle - error) >> places
    high = (middle + error + 1) >> places
    return low if low == high else None


def part_of(exact: Fraction) -> int:
    """Return a fraction between 0 and 1 in units of 2^-40, rounded."""
    return (2 * (exact.numerator << PART_BITS) + exact.denominator) // (2 * exact.denominator)


def part_times(numbers: Integers, part: int) -> Integers:
    """Return numbers times ``part`` / 2^40, rounded to the nearest integer, halves up.

    It stays within int64: each number is split into three digits to the base 2^20.

    >>> part_times(np.array([3, -3, 2**62]), 1 << 39).tolist() == [2, -1, 2**61]
    True
    """
    middle = (numbers >> _HALF_BITS) & ((1 << _HALF_BITS) - 1)
    product = (numbers & ((1 << _HALF_BITS) - 1)) * part
    product += 1 << PART_BITS - 1
    product >>= _HALF_BITS
    product += middle * part
    product >>= _HALF_BITS
    product += (numbers >> PART_BITS) * part
    return np.asarray(product)


def round_bits(values: Integers, bits: int) -> Integers:
    """Return integers divided by 2^bits, rounded to the nearest integer, halves up.

    >>> round_bits(np.array([1, 2, 5, 6, -2]), 2).tolist()
    [0, 1, 1, 2, 0]
    """
    return np.asarray((values + (1 << bits >> 1)) >> bits)
