"""The inverse of a rounded square root in float64: its error is within the proven bound."""

from fractions import Fraction

import numpy as np
import pytest

from counton.strategies.streams.inverse_root import inverse_root
from counton.strategies.streams.power_series import LEADING_BITS, PrefixQuotient
from counton.strategies.streams.square_root import RootSeries


@pytest.mark.parametrize("bits", [8, 12, 20])
@pytest.mark.parametrize("count", [1, 2, 17, 64, 65, 250])
def test_error_is_within_its_bound(count: int, bits: int) -> None:
    series = RootSeries(count, bits)
    inverse = inverse_root(series.numerators, bits)
    assert inverse is not None
    exact = series.row(count)
    errors = [Fraction(b) - e for b, e in zip(inverse.coefficients.tolist(), exact, strict=True)]
    assert sum(error**2 for error in errors) <= Fraction(inverse.error) ** 2
    assert inverse.error < 2.0**-46


@pytest.mark.parametrize(("count", "bits"), [(2**13, 12), (2**15 + 1, 14), (2**16, 18)])
def test_error_of_a_long_series_is_within_its_bound(count: int, bits: int) -> None:
    numerators = RootSeries(count, bits).numerators
    inverse = inverse_root(numerators, bits)
    assert inverse is not None
    quotient = PrefixQuotient(numerators, bits)
    leading = np.ldexp(inverse.coefficients, LEADING_BITS).astype(np.int64)  # without rounding
    finer = np.ldexp(inverse.coefficients, LEADING_BITS) - leading
    assert (np.abs(finer) < 1).all()
    errors = (quotient.digit(0) - leading - finer) * 2.0**-LEADING_BITS
    of_digits = quotient.error_units(0) * 2.0**-LEADING_BITS * count**0.5
    assert np.linalg.norm(errors) <= inverse.error + of_digits
    assert inverse.error < 2.0**-45


@pytest.mark.parametrize(
    "numerators",
    [np.full(40, 4096), np.array([4096, -2048, 1536]), np.array([4096, 0, 0, 4096])],
    ids=["running sum", "signs", "gap"],
)
def test_series_far_from_root_uses_exact_division(
    numerators: np.ndarray,
) -> None:
    assert inverse_root(numerators, 12) is None
