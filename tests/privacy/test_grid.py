"""Data units to grid integers and back; what would not be exact is refused with its position."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counton.base.errors import InvalidInputError, SumOverflowError
from counton.privacy import ContributionBound

PRICES = ContributionBound.values(-5, 100, "0.01")


def test_values_are_clipped_and_rounded_to_the_nearest_grid_point() -> None:
    cells = PRICES.to_grid([0.014, 0.016, -99, 1e300, -0.0, 99.999])
    assert cells.dtype == np.int64
    assert cells.tolist() == [1, 2, -500, 10000, 0, 10000]
    assert PRICES.to_grid(np.zeros((2, 0))).shape == (2, 0)
    assert PRICES.to_grid([Decimal("0.02"), Fraction(1, 100), 7]).tolist() == [2, 1, 700]


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["0.1", "1/3", "2"]))
def test_grid_values_never_leave_the_bounds(value: float, resolution: str) -> None:
    step = Fraction(resolution)
    contribution = ContributionBound.values(-30 * step, 70 * step, step)
    cell = int(contribution.to_grid(value))
    assert -30 <= cell <= 70
    nearest = min(max(Fraction(value) / step, Fraction(-30)), Fraction(70))
    assert abs(cell - nearest) <= Fraction(1, 2) + Fraction(1, 10**12)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_to_grid_refuses_infinite_values_with_position(bad: float) -> None:
    with pytest.raises(InvalidInputError, match=rf"value {bad} at position 2: .*finite"):
        PRICES.to_grid([1.0, 2.0, bad, bad])
    with pytest.raises(InvalidInputError, match=rf"value {bad} at position \(1, 0\)"):
        PRICES.to_grid(np.array([[1.0, 2.0], [bad, 0.0]]))
    with pytest.raises(InvalidInputError, match=r"total .*finite"):
        PRICES.grid_total(bad)


@pytest.mark.parametrize("bad", [["a"], [None], [True], [np.ones(1), [True]], [1j], [[1], [2, 3]]])
def test_conversion_to_grid_refuses_other_types(bad: Any) -> None:
    for convert in (PRICES.to_grid, PRICES.grid_total, ContributionBound.add_remove().grid_total):
        with pytest.raises(InvalidInputError):
            convert(bad)


def test_counts_of_single_units_are_checked_not_cut() -> None:
    contribution = ContributionBound.add_remove(per_cell=3)
    assert contribution.to_grid([0, 3, -3]).tolist() == [0, 3, -3]
    with pytest.raises(InvalidInputError, match="value 4 at position 1: one unit may add at most"):
        contribution.to_grid([3, 4])
    with pytest.raises(InvalidInputError, match="value -4 at position 0: one unit may add at most"):
        contribution.to_grid([-4, 3])
    with pytest.raises(InvalidInputError, match="counts are integers"):
        contribution.to_grid([1.0])


def test_totals_of_counts_are_integers_only() -> None:
    counts = ContributionBound.add_remove()
    assert counts.grid_total(np.array([3, -1], dtype=np.int32)).tolist() == [3, -1]
    assert counts.grid_total(np.uint8(7)) == 7
    assert counts.grid_total([Fraction(4), Decimal(5)]).tolist() == [4, 5]
    assert counts.grid_total([]).dtype == np.int64
    with pytest.raises(InvalidInputError, match=r"total 2\.0 .*ContributionBound.values"):
        counts.grid_total([2.0])
    with pytest.raises(InvalidInputError, match=r"0\.5 is not a multiple"):
        counts.grid_total(Fraction(1, 2))


def test_float_totals_are_exact_within_a_hundredth_of_a_cell() -> None:
    total = 0.0
    for _ in range(1000):  # not sum(), which since Python 3.12 corrects for rounding
        total += 0.01
    assert total != 10
    assert PRICES.grid_total(total) == 1000
    with pytest.raises(
        InvalidInputError, match=r"total 0\.0102 at position 1: .* 0\.01, up to .*: round each"
    ):
        PRICES.grid_total([0.01, 0.0102])
    with pytest.raises(InvalidInputError, match=r"2\^46"):
        PRICES.grid_total(2.0**45)


def test_exact_totals_must_lie_on_the_grid() -> None:
    assert PRICES.grid_total(Decimal("12.34")) == 1234
    assert PRICES.grid_total(3) == 300
    assert PRICES.grid_total([Fraction(1, 4), Decimal("0.1"), 0.07]).tolist() == [25, 10, 7]
    with pytest.raises(
        InvalidInputError, match=r"0\.0101 is not a multiple of the resolution 0\.01"
    ):
        PRICES.grid_total(Decimal("0.0101"))


@pytest.mark.parametrize("huge", [2**62 + 1, -(2**62) - 1, 2**70, np.uint64(2**63)])
def test_totals_beyond_exact_sums_are_refused(huge: Any) -> None:
    with pytest.raises(SumOverflowError, match=r"2\^62"):
        ContributionBound.add_remove().grid_total(huge)
    with pytest.raises(SumOverflowError):
        PRICES.grid_total(Decimal(int(huge)))


@given(
    st.integers(-(2**62), 2**62),
    st.sampled_from(["1", "0.1", "1/3", "3", "0.000001", "1048576", "12345678901234567/1000"]),
)
def test_from_grid_is_the_nearest_float(cells: int, resolution: str) -> None:
    step = Fraction(resolution)
    contribution = ContributionBound.values(0, step, step)
    value = contribution.from_grid(np.array([cells]))[0]
    if step == 1:
        assert value == cells
        assert value.dtype == np.int64
    else:
        assert value == float(cells * step)


def test_from_grid_returns_counts_as_integers() -> None:
    back = ContributionBound.replace().from_grid(np.array([3, 4]))
    assert back.dtype == np.int64


@pytest.mark.parametrize("contribution", [PRICES, ContributionBound.add_remove()], ids=str)
def test_masked_entries_are_missing_not_numbers(contribution: ContributionBound) -> None:
    hidden = np.ma.array([1, 2, 3], mask=[False, True, False])
    for convert in (contribution.grid_total, contribution.to_grid):
        with pytest.raises(InvalidInputError, match="masked"):
            convert(hidden)
    assert contribution.grid_total(np.ma.array([0, 0])).tolist() == [0, 0]


@pytest.mark.parametrize("number", ["1E+999999999", "-1E+2000", "1E-999999999", "3E-1001"])
def test_decimals_too_long_to_write_out_are_refused_at_once(number: str) -> None:
    for contribution in (PRICES, ContributionBound.add_remove()):
        with pytest.raises(InvalidInputError, match="1000 digits"):
            contribution.grid_total([Decimal(number)])
    assert PRICES.grid_total([Decimal("0E-5000"), Decimal("1E+2")]).tolist() == [0, 10_000]
