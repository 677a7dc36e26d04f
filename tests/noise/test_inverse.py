"""Thresholds are certain, and no uniform number is read the wrong way, however close it comes."""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counton.base.errors import NoiseAddressError
from counton.noise.blocks import BlockAddress, BlockSource
from counton.noise.samplers import (
    GUARD_DIGITS,
    UNDECIDED,
    CumulativeDistribution,
    GaussianBlocks,
    InverseTable,
    SignedGeometric,
    TruncatedGeometric,
    _context,
    _Powers,
    exp_bracket,
)

#: Scale, rate or squared sigma; bits of a block, or size.
PARAMETERS: list[tuple[Any, Fraction, int]] = [
    (SignedGeometric, Fraction(6), 0),
    (SignedGeometric, Fraction(1, 9), 0),
    (SignedGeometric, Fraction(1000), 6),
    (TruncatedGeometric, Fraction(1, 10**6), 256),
    (TruncatedGeometric, Fraction(1, 2**40), 256),
    (TruncatedGeometric, Fraction(1, 3), 8),
    (GaussianBlocks, Fraction(10), 0),
    (GaussianBlocks, Fraction(1, 10), 0),
    (GaussianBlocks, Fraction(10**5), 3),
]
DISTRIBUTIONS: list[CumulativeDistribution] = [
    kind(width, number) for kind, width, number in PARAMETERS
]


def real(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


@pytest.fixture(autouse=True)
def digits() -> Iterator[None]:
    """Uniform numbers are spelled to 656 bits."""
    with mpmath.workdps(400):
        yield


_weights: dict[tuple[Fraction, int], tuple[list[mpmath.mpf], int]] = {}


def block_weights(sigma_squared: Fraction, size: int) -> tuple[list[mpmath.mpf], int]:
    """Cumulative block probabilities and the first block they begin with.

    Farther than 30 standard deviations lie 10^-195 of all draws, and `BITS` tell 10^-159 apart.
    """
    if (sigma_squared, size) not in _weights:
        reach = int(30 * float(sigma_squared) ** 0.5 / size) + 30
        right = _gaussians(sigma_squared, 0, size, reach)  # at s * size, for s = 0, 1, ..
        left = _gaussians(sigma_squared, 1, size, reach)  # at (s + 1) * size - 1, s = -1, ..
        weights = [*reversed(left), *right]
        total = mpmath.fsum(weights)
        sums = []
        running = mpmath.mpf(0)
        for weight in weights:
            running += weight
            sums.append(running / total)
        _weights[sigma_squared, size] = (sums, -reach)
    return _weights[sigma_squared, size]


def _gaussians(sigma_squared: Fraction, first: int, step: int, count: int) -> list[mpmath.mpf]:
    """exp(-n^2 / (2 sigma^2)) at n = first, first + step, ..: quotients fall by a fixed factor."""
    unit = -1 / (2 * real(sigma_squared))
    value = mpmath.exp(unit * first**2)
    quotient = mpmath.exp(unit * ((first + step) ** 2 - first**2))
    factor = mpmath.exp(unit * 2 * step**2)
    found = []
    for _ in range(count):
        found.append(value)
        value = value * quotient
        quotient = quotient * factor
    return found


def true_cumulative(distribution: CumulativeDistribution, value: int) -> mpmath.mpf:
    kind, width, number = PARAMETERS[DISTRIBUTIONS.index(distribution)]
    if kind is SignedGeometric:
        q = mpmath.exp(-1 / real(width))
        r = mpmath.exp(-(2**number) / real(width))
        if value < 0:
            return q * r ** (-1 - value) / (1 + q)
        return 1 - r ** (value + 1) / (1 + q)
    if kind is TruncatedGeometric:
        p = mpmath.exp(-real(width))
        return (1 - p ** (value + 1)) / (1 - p**number)
    sums, lowest = block_weights(width, 2**number)
    return sums[value - lowest]


def names(distribution: CumulativeDistribution) -> str:
    return type(distribution).__name__


@given(
    exponent=st.fractions(min_value=0, max_value=500, max_denominator=10**9),
    bits=st.integers(1, 300),
)
def test_exponential_brackets_hold_and_are_narrow(exponent: Fraction, bits: int) -> None:
    low, high = exp_bracket(exponent, bits)
    true = mpmath.exp(-real(exponent)) * mpmath.mpf(2) ** bits
    assert low <= true <= high
    assert high - low <= 2


@pytest.mark.parametrize("guard_bits", [0, 3, 64])
def test_powers_err_by_at_most_stated_error(guard_bits: int) -> None:
    """Found one from the other, against each by itself."""
    powers = _Powers(Fraction(1, 7), Fraction(1, 300), guard_bits)
    errors = []
    with mpmath.workprec(400):
        for n in range(3000):
            low, high = powers.bracket(n, 60)
            true = mpmath.exp(-(mpmath.mpf(1) / 7 + mpmath.mpf(n) / 300)) * 2**60
            assert low <= true <= high
            assert high - low <= 2 + (4 * n + 2 >> guard_bits)
            errors.append(abs(powers._powers_by_bits[60][1][n] - true * 2**guard_bits))
    assert max(errors) > 30  # they do err, and add up


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=names)
@pytest.mark.parametrize("bits", [8, 64, 208])
def test_cumulative_brackets_hold_and_are_narrow(
    distribution: CumulativeDistribution, bits: int
) -> None:
    values = range(8) if distribution.first == 0 else range(-12, 12)
    for value in values:
        low, high = distribution.bracket(value, bits)
        true = true_cumulative(distribution, value) * mpmath.mpf(2) ** bits
        assert low <= true <= high
        assert high - low <= 16


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=names)
def test_every_cell_which_sixteen_bits_decide_lies_between_two_thresholds(
    distribution: CumulativeDistribution,
) -> None:
    table = InverseTable(distribution)
    decided = table.cells[table.cells != UNDECIDED]
    assert len(decided) > 60_000
    for value in np.unique(decided).tolist():
        cells = np.flatnonzero(table.cells == value)
        one = mpmath.mpf(2) ** 16
        at_end = distribution.last is not None and value == distribution.last
        assert at_end or (int(cells[-1]) + 1) / one <= true_cumulative(distribution, value)
        if value != distribution.first:
            assert true_cumulative(distribution, value - 1) <= int(cells[0]) / one


class ForcedBits(BlockSource):
    """A source whose refinement lanes spell a chosen binary expansion."""

    def __init__(self, uniform: int, bits: int) -> None:
        self._uniform = uniform
        self._bits = bits

    def sixteen(self) -> np.ndarray[Any, np.dtype[np.uint64]]:
        return np.array([self._uniform >> (self._bits - 16)], np.uint64)

    def refine(self, address: Any, rows: Any, columns: Any, lane: int) -> Any:
        shift = self._bits - 16 - 128 * lane
        word = (self._uniform >> shift) & (2**128 - 1) if shift >= 0 else 0
        return np.array([[word >> 64, word & (2**64 - 1)]], np.uint64)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=names)
@pytest.mark.parametrize("extra", [-1, 0, 1], ids=["below", "at", "above"])
@pytest.mark.slow
def test_inverse_resolves_uniform_numbers_next_to_thresholds(
    distribution: CumulativeDistribution, extra: int
) -> None:
    bits = 16 + 128 * 5
    zero = np.zeros(1, np.uint64)
    table = InverseTable(distribution)
    for value in (0, 1, 3) if distribution.first == 0 else (-2, -1, 0, 2):
        threshold = int(mpmath.floor(true_cumulative(distribution, value) * mpmath.mpf(2) ** bits))
        source = ForcedBits(threshold + extra, bits)
        # U * 2^bits lies in [threshold + extra, threshold + extra + 1); zeros follow
        expected = value if extra <= 0 else value + 1
        drawn = table.resolve(source, BlockAddress(0, 0), zero, zero, source.sixteen())
        assert drawn.tolist() == [expected]


def test_the_far_tails_are_reached() -> None:
    distribution = DISTRIBUTIONS[0]
    table = InverseTable(distribution)
    zero = np.zeros(1, np.uint64)
    bits = 16 + 128 * 3
    for uniform in (1, 2**bits - 2):
        source = ForcedBits(uniform, bits)
        drawn = int(table.resolve(source, BlockAddress(0, 0), zero, zero, source.sixteen())[0])
        exact = mpmath.mpf(uniform) / mpmath.mpf(2) ** bits
        assert exact < true_cumulative(distribution, drawn)
        assert exact >= true_cumulative(distribution, drawn - 1)
        assert abs(drawn) > 1200


def test_a_source_that_never_decides_is_reported() -> None:
    class Stuck(ForcedBits):
        def refine(self, address: Any, rows: Any, columns: Any, lane: int) -> Any:
            assert lane <= 255
            return super().refine(address, rows, columns, lane)

    class Half(TruncatedGeometric):
        """F(0) is exactly one half, so that U = 0.1000... never leaves the bracket."""

        def bracket(self, value: int, bits: int) -> tuple[int, int]:
            return (2 ** (bits - 1), 2 ** (bits - 1) + 1) if value == 0 else (2**bits, 2**bits)

    distribution = Half(Fraction(1), 2)
    zero = np.zeros(1, np.uint64)
    source = Stuck(2 ** (16 + 128 * 300 - 1), 16 + 128 * 300)
    with pytest.raises(NoiseAddressError, match="32,000 bits do not decide"):
        InverseTable(distribution).resolve(source, BlockAddress(0, 0), zero, zero, source.sixteen())


@pytest.mark.parametrize("scale", [Fraction(1, 10**6), Fraction(1, 10**400)], ids=["-6", "-400"])
def test_distributions_narrower_than_floats_draw_zero(scale: Fraction) -> None:
    """1 - F(0) is far below 2^-100000: no threshold may wait for its digits."""
    for distribution in (SignedGeometric(scale, 0), GaussianBlocks(scale, 0)):
        assert distribution.floor(0, 64) == 2**64 - 1
        assert distribution.floor(-1, 64) == 0
        assert set(InverseTable(distribution).cells.tolist()) <= {0, UNDECIDED}


def test_thresholds_reach_one_at_the_last_value_only() -> None:
    distribution = TruncatedGeometric(Fraction(60), 2)
    assert distribution.floor(0, 64) == 2**64 - 1
    assert distribution.floor(1, 64) == 2**64


@pytest.mark.parametrize("bits", [16, 1000, 8000])
def test_exponentials_are_bracketed_with_many_bits(bits: int) -> None:
    with mpmath.workprec(bits + 64):
        scaled = mpmath.exp(-mpmath.mpf(2) / 3) * mpmath.mpf(2) ** bits
        low, high = exp_bracket(Fraction(2, 3), bits)
        assert low <= scaled <= high


def test_exponentials_have_more_digits_than_draws_need() -> None:
    for bits in (16, 32_656, 10**6, 10**9):
        assert _context(bits).prec >= bits * math.log10(2) + 30 + GUARD_DIGITS


@pytest.mark.parametrize("sigma_squared", ["1/7", "3", "1000/3", str(2**66 + 1)])
@pytest.mark.parametrize("work", [128, 400])
def test_block_weights_err_by_less_than_allowed(sigma_squared: str, work: int) -> None:
    """Found one from the other, against each by itself."""
    spread = Fraction(sigma_squared)
    bits = 0
    while spread / 4 ** (bits + 1) >= 64**2:
        bits += 1
    blocks = GaussianBlocks(spread, bits)
    for offset in (0, 1):
        for place, weight in enumerate(blocks._weights(offset, 300, work)):
            exponent = Fraction((offset + (place << bits)) ** 2) / (2 * spread)
            assert abs(2 * weight - sum(exp_bracket(exponent, work))) <= 4
