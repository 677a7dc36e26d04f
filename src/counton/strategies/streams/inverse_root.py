"""The series 1 / ((1 - x) c), for a series c near 1 / sqrt(1 - x), in float64 with a proven error.

A few Fourier transforms compute it. Exact division (`PrefixQuotient`) takes four times as long,
because its products are integers.

Series have n coefficients; products are cut after n. Let f = 1 / sqrt(1 - x), h = sqrt(1 - x) and
c = f + e, where e is small: c is f with rounded coefficients. Then f h = 1 and f (1 - x) = h. With
u = e h, 1 / ((1 - x) c) = f / (1 + u) = f - e / (1 + u) = f - e - e v, where v = 1 / (1 + u) - 1 is
small too. So only the small e v is computed by transforms, and has an error that is much smaller.

**Norms.** |x| is the 2-norm of a series, and X the largest magnitude of its Fourier transform of a
length L >= 2n. By Parseval, |x y| <= X |y|. Norms of computed transforms are increased by their
error.

**Transforms.** A product computed by transforms has an error of at most slack (X |y| + Y |x|) in
the 2-norm, slack being `relative_slack`. Higham, "Accuracy and Stability of Numerical Algorithms"
(2nd edition), Theorem 24.2, bounds the error of one transform by 7 log2(L) 2^-53 of its 2-norm.
The product of two transforms has an error of at most X or Y times these, and the last transform
adds 7 log2(L) 2^-53 X |y|. That is 14 log2(L) 2^-53 at most; slack has 32 instead of 14.

**The remainder.** For a v0, let r = v0 + u + u v0. Then v = v0 - r / (1 + u), so the error of v0 is
at most |r| / (1 - U). A step of Newton's method, v1 = v0 - r - r v0, has the error -r^2 / (1 + u),
at most R |r| / (1 - U).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from counton.strategies.streams.power_series import fft_length, relative_slack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counton.base.arrays import Floats, Integers

#: Coefficients of f that are computed from binomial coefficients.
_BINOMIAL_COEFFICIENTS = 64
#: Relative error of the coefficients of f.
_F_ERROR = 2.0**-50
#: Coefficients of h that are multiplied one by one, because they are larger than all others.
_FIRST_COEFFICIENTS = 16
#: Error of the series that is small compared with that of the transforms that use it.
_NEGLIGIBLE_ERROR = 2.0**-46
#: Rounds after which the error is as small as that of transforms; one or two are usual.
_MOST_ROUNDS = 6
#: Largest norm U for which the series is computed here.
_LARGEST_NORM = 0.25


class BoundedSeries(NamedTuple):
    """A power series in float64, with a bound on its error.

    Attributes:
        coefficients: the coefficients.
        error: bound on the 2-norm of the errors of all coefficients.
    """

    coefficients: Floats
    error: float


def inverse_root(numerators: Integers, bits: int) -> BoundedSeries | None:
    """Return 1 / ((1 - x) c) with a bound on its error; None if c is not near 1 / sqrt(1 - x).

    Args:
        numerators: coefficients of c in units of 2^-bits.
        bits: the fraction bits of c.

    >>> series = inverse_root(np.array([4096, 2048, 1536]), 12)
    >>> series.coefficients.tolist(), series.error < 1e-14
    ([1.0, 0.5, 0.375], True)
    """
    f = _root_coefficients(len(numerators))
    e = _Factor(numerators * 2.0**-bits - f)
    f_norm = _norm(f)
    error_of_f = f_norm * _F_ERROR
    error_of_e = error_of_f + 2.0**-52 * e.norm

    h = f / (1 - 2 * np.arange(len(f)))
    tail = h.copy()
    tail[:_FIRST_COEFFICIENTS] = 0.0
    product, error_of_u = e.times(_Factor(tail))
    for k, coefficient in enumerate(h[:_FIRST_COEFFICIENTS].tolist()):
        product[k:] += coefficient * e.series[: len(f) - k]
    # The 1-norm of h is below 2. So of each of these sums, 2 |e| is a bound.
    error_of_u += (
        2 * error_of_e + 2 * (2 * _F_ERROR + (_FIRST_COEFFICIENTS + 1) * 2.0**-53) * e.norm
    )
    u = _Factor(product)
    del h, tail, product  # most of the memory of a run is used here
    largest_u = u.largest + math.sqrt(len(f)) * error_of_u
    if largest_u > _LARGEST_NORM:
        return None
    inverse_norm = 1 / (1 - largest_u)

    # Its first coefficients are nearly right: what a cyclic product of this length adds to them is
    # of the third order in u.
    quotient = -u.transform
    quotient /= 1 + u.transform
    v = _Factor(_first(quotient, u.length, len(f)))
    del quotient
    for _ in range(_MOST_ROUNDS):
        product, error_of_remainder = u.times(v)
        error_of_remainder += (1 + v.largest) * error_of_u + 2.0**-51 * (u.norm + v.norm)
        r = _Factor(v.series + u.series + product)
        error_of_v = inverse_norm * (r.norm + error_of_remainder)
        if e.largest * r.norm <= _NEGLIGIBLE_ERROR:
            break
        product, error_of_product = r.times(v)
        largest_r = r.largest + math.sqrt(len(f)) * error_of_remainder
        error_of_rest = inverse_norm * largest_r * (r.norm + error_of_remainder)
        error_of_v = (
            error_of_rest
            + (1 + v.largest) * error_of_remainder
            + error_of_product
            + 2.0**-51 * (v.norm + r.norm)
        )
        v = _Factor(v.series - r.series - product)
        if e.largest * error_of_rest <= _NEGLIGIBLE_ERROR:
            break

    product, error = e.times(v)
    error += e.largest * error_of_v + error_of_f + (1 + v.largest) * error_of_e
    error += 2.0**-51 * (f_norm + e.norm + e.largest * v.norm)  # of the two differences
    return BoundedSeries(f - e.series - product, 1.01 * error)


def inverse_near_root(numerators: Integers, bits: int) -> Floats | None:
    """Return f - e, which is 1 / ((1 - x) c) but for the small product e v, without transforms.

    The sum of its squares differs by less than 1e-9 of itself for up to 2^24 coefficients.

    Args:
        numerators: coefficients of c in units of 2^-bits.
        bits: the fraction bits of c.

    Returns:
        The coefficients; None if c is not f with rounded coefficients.

    >>> inverse_near_root(np.array([4096, 2048, 1536]), 12).tolist()
    [1.0, 0.5, 0.375]
    """
    f = _root_coefficients(len(numerators))
    e = numerators * 2.0**-bits - f
    if np.abs(e).max() > 2.0**-bits:
        return None
    return np.asarray(f - e)


class _Factor:
    """A power series that is multiplied by others.

    Attributes:
        series: its n coefficients.
        length: length of its Fourier transform, at least 2n.
        norm: bound on its 2-norm.
    """

    def __init__(self, series: Floats) -> None:
        self.series = series
        self.length = fft_length(len(series))
        self.norm = _norm(series)

    @cached_property
    def transform(self) -> NDArray[np.complex128]:
        """The Fourier transform."""
        return np.fft.rfft(self.series, self.length)

    @cached_property
    def largest(self) -> float:
        """Bound on the magnitudes of the exact Fourier transform."""
        squares = np.square(self.transform.real) + np.square(self.transform.imag)
        error = relative_slack(self.length) * math.sqrt(self.length) * self.norm
        return (1 + 2.0**-20) * math.sqrt(squares.max()) + error

    def times(self, other: _Factor) -> tuple[Floats, float]:
        """Return the first n coefficients of a product, and a bound on the 2-norm of their errors.

        Args:
            other: a series of the same length.
        """
        error = self.largest * other.norm + other.largest * self.norm
        product = _first(self.transform * other.transform, self.length, len(self.series))
        return product, relative_slack(self.length) * error


def _first(transform: NDArray[np.complex128], length: int, count: int) -> Floats:
    """Return the first ``count`` coefficients of the series with this Fourier transform."""
    # A copy, because a slice would keep all of them in memory.
    return np.fft.irfft(transform, length)[:count].copy()


def _root_coefficients(count: int) -> Floats:
    """Return the first ``count`` coefficients of 1 / sqrt(1 - x), each within a relative 2^-50.

    Source: DLMF 5.11.13 with 5.11.17, the expansion of Gamma(k + 1/2) / Gamma(k + 1) in powers of
    (k + 1/4)^-2. From k = 64 on, all terms left out add up to less than 2^-57.

    >>> _root_coefficients(4).tolist()
    [1.0, 0.5, 0.375, 0.3125]
    """
    exact = [math.comb(2 * k, k) / 4**k for k in range(min(count, _BINOMIAL_COEFFICIENTS))]
    middle = np.arange(_BINOMIAL_COEFFICIENTS, max(count, _BINOMIAL_COEFFICIENTS)) + 0.25
    square = middle**-2
    series = 1 - square * (1 / 64 - square * (21 / 8192 - square * (671 / 524288)))
    return np.concatenate([exact, series / np.sqrt(math.pi * middle)])


def _norm(x: Floats) -> float:
    """Return the 2-norm of a series, and never less."""
    return (1 + 2.0**-20) * math.sqrt(np.square(x).sum())
