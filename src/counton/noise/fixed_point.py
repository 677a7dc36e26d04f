"""Certified fixed-point exponentials: integers that bracket exp(-a) * 2**bits.

All thresholds of the samplers are decided with these, never with floats. Decimal operators use a
global 28-digit context in silence, so only methods of an explicit context are called.
"""

from __future__ import annotations

import decimal
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
