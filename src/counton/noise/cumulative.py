"""Distributions on consecutive integers, known by certain brackets of their cumulative F.

All thresholds of the samplers are decided with integers that bracket exp(-a) * 2**bits, never with
floats. Decimal operators use a global 28-digit context in silence, so only methods of an explicit
context are called.
"""

from __future__ import annotations

import decimal
from abc import ABC, abstractmethod
from fractions import Fraction
from functools import lru_cache

GUARD_DIGITS = 12


@lru_cache(maxsize=64)
def _context(bits: int) -> decimal.Context:
    """A context whose relative rounding error is far below ``2**-bits``."""
    return decimal.Context(
        prec=bits * 30103 // 100_000 + 1 + GUARD_DIGITS + 30,
        rounding=decimal.ROUND_HALF_EVEN,
        Emin=decimal.MIN_EMIN,
        Emax=decimal.MAX_EMAX,
        traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
    )


def exp_bracket(exponent: Fraction, bits: int) -> tuple[int, int]:
    """Integers ``lo <= exp(-exponent) * 2**bits <= hi`` with ``hi - lo <= 2``, exponent >= 0.

    The rounded quotient and the rounded exponential err by less than ``10**-GUARD_DIGITS`` units of
    ``2**-bits`` together: the context carries ``GUARD_DIGITS + 30`` digits beyond ``bits`` and
    ``a * exp(-a) < 1``.

    >>> exp_bracket(Fraction(0), 8)
    (255, 257)
    >>> exp_bracket(Fraction(1, 2), 16)  # 39749.59...
    (39749, 39751)
    """
    context = _context(bits)
    quotient = context.divide(
        decimal.Decimal(exponent.numerator), decimal.Decimal(exponent.denominator)
    )
    value = context.exp(context.minus(quotient))
    scaled = context.multiply(value, decimal.Decimal(1 << bits))
    middle = int(scaled.to_integral_value(rounding=decimal.ROUND_HALF_EVEN, context=context))
    return max(middle - 1, 0), middle + 1


class CumulativeLaw(ABC):
    """A distribution on consecutive integers, known by brackets of its cumulative F."""

    #: Smallest and largest value; None where the support has no end.
    first: int | None
    last: int | None

    @abstractmethod
    def bracket(self, value: int, bits: int) -> tuple[int, int]:
        """Integers with ``lo <= F(value) * 2**bits <= hi``, close together."""

    def floor(self, value: int, bits: int) -> int:
        """The integer part of ``F(value) * 2**bits``, certain."""
        # F is below 1 before the last value: no need to see by how much, if scales are tiny
        most = (1 << bits) - (value != self.last)
        extra = 40
        while True:
            low, high = (min(end >> extra, most) for end in self.bracket(value, bits + extra))
            if low == high:
                return low
            extra *= 2


class SignedGeometric(CumulativeLaw):
    """Blocks of 2**block_bits consecutive values of a discrete Laplace law.

    P(value <= s) = q r^(-1-s) / (1+q) for s < 0 and 1 - r^(s+1) / (1+q) for s >= 0, where
    q = exp(-1/scale) and r = q^(2^block_bits). With ``block_bits = 0`` this is the law itself.
    """

    first = None
    last = None

    def __init__(self, scale: Fraction, block_bits: int) -> None:
        self._scale = scale
        self._block = 1 << block_bits

    def bracket(self, value: int, bits: int) -> tuple[int, int]:
        """See `CumulativeLaw.bracket`."""
        one = 1 << bits
        q_low, q_high = exp_bracket(1 / self._scale, bits)
        if value < 0:
            exponent = ((-1 - value) * self._block + 1) / self._scale
            low, high = exp_bracket(exponent, bits)
            return (low << bits) // (one + q_high), -((-high << bits) // (one + q_low))
        low, high = exp_bracket((value + 1) * self._block / self._scale, bits)
        return (
            one + ((-high << bits) // (one + q_low)),
            one - (low << bits) // (one + q_high),
        )


class TruncatedGeometric(CumulativeLaw):
    """One digit of a geometric law: P(value <= j) = (1 - p^(j+1)) / (1 - p^size) on 0..size-1.

    ``p = exp(-rate)``. The digits of a geometric variable in any base are independent, which makes
    large scales as cheap as small ones and needs no rejection.
    """

    first = 0

    def __init__(self, rate: Fraction, size: int) -> None:
        self.last = size - 1
        self._rate = rate
        self._size = size

    def bracket(self, value: int, bits: int) -> tuple[int, int]:
        """See `CumulativeLaw.bracket`."""
        if value >= self._size - 1:
            return 1 << bits, 1 << bits
        # 1 - p^size can be as small as 2^-40: carry its loss of precision as extra bits
        work = bits + 80
        one = 1 << work
        part_low, part_high = exp_bracket((value + 1) * self._rate, work)
        whole_low, whole_high = exp_bracket(self._size * self._rate, work)
        low = ((one - part_high) << bits) // (one - whole_low)
        high = -((-(one - part_low) << bits) // (one - whole_high))
        return low, high


class GaussianBlocks(CumulativeLaw):
    """Blocks of 2**block_bits values, weighed by the block's largest Gaussian weight.

    Block s covers ``s << block_bits`` and the values after it; its largest weight is that of the
    value nearest zero. With ``block_bits = 0`` this is the discrete Gaussian law itself.
    """

    first = None
    last = None

    def __init__(self, sigma_squared: Fraction, block_bits: int) -> None:
        self._rate = 1 / (2 * sigma_squared)
        self._block = 1 << block_bits
        self._sums: dict[int, tuple[int, list[int], int]] = {}

    def nearest(self, block: int) -> int:
        """The value of a block with the largest weight: the one nearest zero."""
        return block * self._block if block >= 0 else (block + 1) * self._block - 1

    def _cumulative(self, bits: int) -> tuple[int, list[int], int]:
        """First block, sums of weights up to each block (times 2**work), their error bound."""
        if bits not in self._sums:
            work = bits + 64
            half = 0
            while exp_bracket(self._rate * self.nearest(half) ** 2, work + 64)[1] > 4:
                half = max(2 * half, 1)
            lowest, highest = -half - 1, half
            sums, total = [], 0
            weights: dict[int, int] = {}
            for block in range(lowest, highest + 1):
                distance = abs(self.nearest(block))
                if distance not in weights:
                    weights[distance] = sum(exp_bracket(self._rate * distance**2, work)) // 2
                total += weights[distance]
                sums.append(total)
            # each weight errs by at most 2; what lies beyond the ends is below 2**-60 of one unit
            self._sums[bits] = (lowest, sums, 2 * len(sums) + 1)
        return self._sums[bits]

    def bracket(self, value: int, bits: int) -> tuple[int, int]:
        """See `CumulativeLaw.bracket`."""
        lowest, sums, error = self._cumulative(bits)
        position = value - lowest
        if position < 0:
            return 0, 1
        if position >= len(sums):
            return (1 << bits) - 1, 1 << bits
        part, whole = sums[position], sums[-1]
        low = (max(part - error, 0) << bits) // (whole + error)
        high = -((-(part + error) << bits) // (whole - error))
        return low, min(high, 1 << bits)
