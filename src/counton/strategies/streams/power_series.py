"""Multiplication and division of power series, exactly or with proven bounds.

Fast Fourier transforms compute products in float64. For exact results, coefficients are split into
digits so short that the error of each product stays below 1/2: rounding gives the right integer.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counton.base.arrays import Floats, Integers

#: Error of a convolution by FFT per doubling of its length, in units of 2^-53 * |x|_2 * |y|_2.
#: Percival, "Rapid multiplication modulo the sum and difference of highly composite numbers"
#: (Math. Comp. 72, 2003), Theorem 5.1, proves 13 for twiddle factors good to half a unit; the rest
#: is reserve for other radices and less accurate twiddles.
SLACK = 32

#: Bits that each further digit adds to a fixed-point series; float64 convolutions of length 2^23
#: still determine such a digit to within a fraction of its last place.
DIGIT_BITS = 30

#: Fraction bits of the first digit: coefficients up to 1 fit int64.
LEADING_BITS = 62

#: Products of two digits of 20 bits and a sign whose sum fits int64.
_SUMMED_EXACTLY = 2**22

#: Lock for computing digits: streams in several threads may share one strategy, and hence one
#: series.
_GROWING = threading.Lock()
#: Message of an internal check that no input reaches.
_INEXACT = (
    "a residual of the power series is too large for exact integers: this is a defect of counton, "
    "please report it"
)


def fft_length(count: int) -> int:
    """Return a power of two at which a cyclic convolution leaves ``count`` coefficients right."""
    return 1 << (2 * count - 1).bit_length()


def relative_slack(length: int) -> float:
    """Return a bound on the error of an FFT convolution, relative to the product of 2-norms."""
    return SLACK * max(1, length.bit_length()) * 2.0**-53


def convolve(x: Floats, y: Floats, count: int) -> Floats:
    """Return the first ``count`` coefficients of the product of two power series, in float64.

    Each has an error of at most ``relative_slack(fft_length(count))`` times both 2-norms.
    """
    length = fft_length(count)
    spectrum = np.fft.rfft(x[:count], length) * np.fft.rfft(y[:count], length)
    return np.fft.irfft(spectrum, length)[:count]


def reciprocal(x: Floats, count: int) -> Floats:
    """Return the first ``count`` coefficients of 1/x by Newton's method; x[0] is not 0.

    >>> reciprocal(np.array([1.0, -1.0]), 4).round(9).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    inverse = np.array([1.0 / x[0]])
    while len(inverse) < count:
        terms = min(2 * len(inverse), count)
        correction = -convolve(x, np.pad(inverse, (0, terms - len(inverse))), terms)
        correction[0] += 2.0
        inverse = convolve(correction, np.pad(inverse, (0, terms - len(inverse))), terms)
    return inverse


def balanced_digits(x: Integers, bits: int, number: int) -> list[Integers]:
    """Split integers of at most 2^62 in magnitude into ``number`` digits, times 2^(bits j).

    All digits but the last are at least -2^(bits-1) and below 2^(bits-1).
    """
    digits = []
    half = 1 << (bits - 1)
    for _ in range(number - 1):
        digit = ((x + half) & (2 * half - 1)) - half
        digits.append(digit)
        x = (x - digit) >> bits
    return [*digits, x]


def exact_dot(x: Integers, y: Integers) -> int:
    """Return the exact inner product of two series, whose entries are at most 2^62 in magnitude.

    >>> exact_dot(np.array([2**60, 1]), np.array([2**40, -3]))
    1267650600228229401496703205373
    """
    if len(x) > _SUMMED_EXACTLY:
        halves = (slice(_SUMMED_EXACTLY), slice(_SUMMED_EXACTLY, None))
        return sum(exact_dot(x[half], y[half]) for half in halves)
    xs = balanced_digits(x, 21, 3)
    ys = balanced_digits(y, 21, 3)
    return sum(
        int(np.dot(a, b)) << 21 * (i + j) for i, a in enumerate(xs) for j, b in enumerate(ys)
    )


def convolve_modulo(x: Integers, y: Integers, count: int) -> Integers:
    """Return the first ``count`` coefficients of a product, exactly modulo 2^64.

    Coefficients are at most 2^62 in magnitude. Both series are split into digits so short that
    every float64 convolution is certain to round to the right integer.
    """
    length = fft_length(count)
    widths = [int(np.abs(v[:count]).max(initial=0)).bit_length() + 1 for v in (x, y)]
    bits = 1
    # The sum of the digit convolutions of one place has an error below 1/4 in float64.
    while -(-64 // (bits + 1)) * relative_slack(length) * count * 4.0**bits < 0.25:
        bits += 1
    digits_of_x, digits_of_y = (-(-width // bits) for width in widths)
    spectra = [np.fft.rfft(d, length) for d in balanced_digits(x[:count], bits, digits_of_x)]
    total = np.zeros(count, dtype=np.int64)
    pending: list[NDArray[np.complex128]] = []
    digits = balanced_digits(y[:count], bits, digits_of_y)
    for power in range(len(digits) + digits_of_x - 1):
        if power * bits >= 64:
            break
        if power < len(digits):
            spectrum = np.fft.rfft(digits[power], length)
            products = [s * spectrum for s in spectra]
            pending = [a + b for a, b in zip(pending, products, strict=False)] + products[
                len(pending) :
            ]
        coefficients = np.rint(np.fft.irfft(pending.pop(0), length)[:count]).astype(np.int64)
        total += coefficients << (power * bits)
    return total


def exact_convolution(x: Integers, z: Integers) -> list[int]:
    """Return the first len(z) coefficients of a product, exactly.

    Coefficients are at most 2^62 in magnitude.

    >>> exact_convolution(np.array([2**61, -1]), np.array([2**50, 3]))
    [2596148429267413814265248164610048, 6916403127734239232]
    """
    count = len(z)
    result = [0] * len(z)
    for power, digit in enumerate(balanced_digits(z, 21, 3)):
        if not digit.any():
            continue
        modulo = convolve_modulo(x[:count], digit, count)
        near = convolve(x[:count].astype(np.float64), digit.astype(np.float64), count)
        # Both agree to within 2^62, so the multiple of 2^64 between them is certain.
        wraps = np.rint((near - modulo) * 2.0**-64)
        exact = ((int(w) << 64) + int(m) for w, m in zip(wraps, modulo, strict=True))
        result = [r + (e << 21 * power) for r, e in zip(result, exact, strict=True)]
    return result


class PrefixQuotient:
    """The power series b = 1 / ((1 - x) c), computed digit by digit to any precision.

    It is the running sum of 1 / c. The series c = numerators / 2^bits has c[0] = 1. A coefficient
    is the sum of ``digit(j) * 2^-places(j)`` over j = 0, 1, ...: after digit j its error is at most
    ``error_units(j) * 2^-places(j)``.
    """

    def __init__(self, numerators: Integers, bits: int) -> None:
        self._numerators = numerators
        self._bits = bits
        self._series = numerators / 2.0**bits
        count = len(numerators)
        self.approximate: Floats = reciprocal(np.diff(self._series, prepend=0.0), count)
        self._digits: list[Integers] = []
        self._error_units: list[int] = []
        self._residual: Integers = np.zeros(0, dtype=np.int64)
        self._inverse_norm = 0.0

    @staticmethod
    def places(j: int) -> int:
        """Return the fraction bits of digit j."""
        return LEADING_BITS + DIGIT_BITS * j

    def digit(self, j: int) -> Integers:
        """Return digit j of every coefficient of b, computed at the first call."""
        if len(self._digits) <= j:
            with _GROWING:
                while len(self._digits) <= j:
                    self._add_digit()
        return self._digits[j]

    def error_units(self, j: int) -> int:
        """Return a bound on the error of each coefficient after digit j, in its units."""
        self.digit(j)
        return self._error_units[j]

    def _add_digit(self) -> None:
        """Compute the next digit of every coefficient, with a bound on the error after it."""
        # an approximation of 1 / c, since b is its running sum
        inverse = np.diff(self.approximate, prepend=0.0)
        if not self._digits:
            self._inverse_norm = self._bound_inverse(inverse)
            digit = np.rint(self.approximate * 2.0**LEADING_BITS).astype(np.int64)
            goal = 2.0 ** (LEADING_BITS + self._bits)
            wrapped = (1 << (LEADING_BITS + self._bits)) % 2**64  # 2^62, 2^63 or 0
            start = np.full(len(digit), wrapped, dtype=np.uint64).astype(np.int64)
            residual = self._subtract(start, np.full(len(digit), goal), digit)
            correction = self._quotient(residual, inverse)
            digit += correction
            residual = self._subtract(residual, residual.astype(np.float64), correction)
        else:
            if float(np.abs(self._residual).max()) >= 2.0 ** (63 - DIGIT_BITS):
                raise ArithmeticError(_INEXACT)
            remainder = self._residual << DIGIT_BITS
            digit = self._quotient(remainder, inverse)
            residual = self._subtract(remainder, remainder.astype(np.float64), digit)
        largest = float(np.abs(residual).max(initial=0))
        self._error_units.append(math.ceil(1.01 * self._inverse_norm * largest / 2.0**self._bits))
        self._residual = residual
        self._digits.append(digit)

    def _quotient(self, residual: Integers, inverse: Floats) -> Integers:
        """Return ``residual`` / (2^bits c), computed in float64 and rounded to integers."""
        quotient = convolve(residual / 2.0**self._bits, inverse, len(residual))
        return np.rint(quotient).astype(np.int64)

    def _subtract(self, modulo: Integers, real: Floats, digit: Integers) -> Integers:
        """Return a power series minus ``numerators`` times one digit of b, as exact int64.

        Args:
            modulo, real: its coefficients modulo 2^64, and in float64.

        Raises:
            ArithmeticError: the result in float64 is far from the exact one, a defect of counton.
        """
        count = len(digit)
        exact = modulo - convolve_modulo(self._numerators, digit, count)
        numerators = self._numerators.astype(np.float64)
        real_digit = digit.astype(np.float64)
        approximate: Floats = real - convolve(numerators, real_digit, count)
        norms = float(np.linalg.norm(numerators) * np.linalg.norm(real_digit))
        error = 1.01 * relative_slack(fft_length(count)) * norms + 2.0**-52 * float(
            np.abs(real).max()
        )
        # The residue and the true number differ by less than 2^62, and by a multiple of 2^64: they
        # are equal.
        if float(np.abs(exact - approximate).max()) + error >= 2.0**62:
            raise ArithmeticError(_INEXACT)
        return exact

    def _bound_inverse(self, inverse: Floats) -> float:
        """Return an upper bound on the 1-norm of 1/c, from its approximation ``inverse``.

        Raises:
            ArithmeticError: the approximation is too far from 1/c for a bound.
        """
        count = len(inverse)
        residual = convolve(self._series, inverse, count)
        residual[0] -= 1.0
        norms = float(np.linalg.norm(self._series) * np.linalg.norm(inverse))
        error = float(np.abs(residual).sum()) + count * relative_slack(fft_length(count)) * norms
        if error >= 0.01:
            raise ArithmeticError(
                f"the inverse of a series of {count:,} coefficients cannot be bounded: its "
                f"residual is {error:.2g}, and at most 0.01 is allowed. Plan fewer steps"
            )
        return 1.001 * float(np.abs(inverse).sum()) / (1.0 - error)
