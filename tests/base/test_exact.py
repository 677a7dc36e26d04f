"""Numbers mean their decimal text, print back exactly, and round towards more noise."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counton.base.errors import InvalidInputError
from counton.base.exact import exact, float_above, float_below, root_rounded_up, rounded_up, text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.1, Fraction(1, 10)), (1e-6, Fraction(1, 10**6)), ("0.1", Fraction(1, 10)),
        (" 2/3 ", Fraction(2, 3)), (Decimal("0.30"), Fraction(3, 10)),
        (Fraction(5, 7), Fraction(5, 7)), (3, Fraction(3)), (np.float64(0.1), Fraction(1, 10)),
        (np.float32(0.1), Fraction(1, 10)), (np.int64(7), Fraction(7)),
    ],
)  # fmt: skip
def test_exact_returns_fraction_of_text(value: object, expected: Fraction) -> None:
    assert exact(value, "x") == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        "nan",
        "1e999999999",
        "1e-301",
        10**301,
        pytest.param(10**5000, id="of 5001 digits"),
        Fraction(1, 10**301),
        pytest.param(Fraction(1, 10**5000), id="with 5001 digits below"),
        "1/" + "9" * 400,
        "1/0",
        "one",
        "",
        True,
        None,
        1j,
        Decimal("Infinity"),
        "9" * 2000,
    ],
)
def test_exact_refuses_infinite_number_with_name(value: object) -> None:
    with pytest.raises(InvalidInputError, match=r"epsilon is .* finite number"):
        exact(value, "epsilon")  # type: ignore[arg-type]


@given(st.fractions() | st.decimals(allow_nan=False, allow_infinity=False, places=9).map(Fraction))
def test_text_reads_back_exactly(value: Fraction) -> None:
    assert exact(text(value), "x") == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1e-9", "1e-9"), ("0.0000015", "1.5e-6"), ("0.015", "0.015"), ("-2.50", "-2.5"),
        ("1/7", "1/7"), ("1200", "1200"),
    ],
)  # fmt: skip
def test_text_is_short(value: str, expected: str) -> None:
    assert text(Fraction(value)) == expected


@given(st.floats(min_value=1e-200, max_value=1e200))
def test_rounding_up_never_gives_less_and_hardly_more(value: float) -> None:
    rounded = rounded_up(value)
    assert Fraction(value) <= rounded <= Fraction(value) * (1 + Fraction(1, 2**33))
    assert rounded.numerator.bit_length() <= 36 or rounded.denominator == 1


@given(st.fractions(min_value=Fraction(1, 10**12), max_value=10**12))
def test_roots_round_up_and_are_exact_where_rational(square: Fraction) -> None:
    root = root_rounded_up(square)
    assert square <= root**2 <= square * (1 + Fraction(1, 2**30))
    assert root_rounded_up(square**2) == square


@given(st.fractions(min_value=Fraction(1, 10**12), max_value=10**12))
def test_float_below_and_float_above_enclose_fraction(value: Fraction) -> None:
    assert Fraction(float_below(value)) <= value <= Fraction(float_above(value))
    assert float_above(value) <= math.nextafter(float_below(value), math.inf)


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        ("1,5", r"write it with a point, as in 1\.5"),
        ("much", r"as in 0\.5, 1e-6 or 1/3"),
        (True, "give an int, a float"),
    ],
)
def test_exact_refuses_value_with_advice(value: str | bool, remedy: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"epsilon is .*: .*{remedy}"):
        exact(value, "epsilon")
