"""Power series: float64 within its proven bound, integers exactly."""

import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

from counton.strategies.streams.power_series import (
    PrefixQuotient,
    balanced_digits,
    convolve,
    convolve_modulo,
    exact_dot,
    fft_length,
    reciprocal,
    relative_slack,
)
from counton.strategies.streams.square_root import SqrtToeplitz


def product(x: list[int], y: list[int]) -> list[int]:
    return [sum(x[i] * y[k - i] for i in range(k + 1)) for k in range(len(x))]


@pytest.mark.parametrize("length", [1, 2, 33, 200])
@pytest.mark.parametrize("bits", [3, 30, 62])
def test_convolution_modulo_2_to_64(length: int, bits: int) -> None:
    rng = np.random.default_rng(length + bits)
    x = rng.integers(-(2**21), 2**21, length)
    y = rng.integers(-(2**bits), 2**bits, length)
    exact = product(x.tolist(), y.tolist())
    got = convolve_modulo(x, y, length).tolist()
    assert [(g - e) % 2**64 for g, e in zip(got, exact, strict=True)] == [0] * length


def test_float_convolution_keeps_far_within_its_bound() -> None:
    rng = np.random.default_rng(0)
    for length in (2, 100, 3000):
        x, y = rng.integers(-(2**20), 2**20, (2, length))
        exact = convolve_modulo(x, y, length)  # no wrap: below 2^52
        error = np.abs(convolve(x * 1.0, y * 1.0, length) - exact).max()
        bound = relative_slack(fft_length(length)) * np.linalg.norm(x) * np.linalg.norm(y)
        assert error < bound / 20


def test_balanced_digits_and_exact_dot() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.integers(-(2**62), 2**62, (2, 500))
    digits = balanced_digits(x, 21, 3)
    assert all(np.abs(d).max() <= 2**20 for d in digits)
    assert (sum(d.astype(object) << 21 * i for i, d in enumerate(digits)) == x).all()
    assert exact_dot(x, y) == sum(a * b for a, b in zip(x.tolist(), y.tolist(), strict=True))


def test_reciprocal() -> None:
    x = np.random.default_rng(2).normal(size=77) * 0.1
    x[0] = 2.0
    one = convolve(x, reciprocal(x, 77), 77)
    np.testing.assert_allclose(one, np.eye(77)[0], atol=1e-14)


def test_digits_of_the_quotient_keep_their_proven_bound() -> None:
    strategy = SqrtToeplitz(120)
    exact = strategy.root.row(120)
    quotient = PrefixQuotient(strategy.root.numerators, strategy.facts.lattice_bits)
    value = [Fraction(0)] * 120
    for j in range(6):
        unit = Fraction(1, 2 ** quotient.places(j))
        value = [v + unit * d for v, d in zip(value, quotient.digit(j).tolist(), strict=True)]
        error = max(abs(v - e) / unit for v, e in zip(value, exact, strict=True))
        assert error <= quotient.error_units(j) <= 8
        assert error <= 1


def test_bounds_hold_at_a_long_horizon() -> None:
    """More digits must agree with fewer to within the bound claimed for fewer."""
    strategy = SqrtToeplitz(20_000)
    quotient = PrefixQuotient(strategy.root.numerators, strategy.facts.lattice_bits)
    rest = quotient.digit(1) + quotient.digit(2) / 2.0**30
    assert np.abs(rest).max() <= (quotient.error_units(0) + 1) * 2.0**30
    assert np.abs(rest).max() <= 0.51 * 2.0**30  # in fact, to half a unit


def test_threads_that_share_a_series_see_each_digit_once() -> None:
    strategy = SqrtToeplitz(64)
    expected = PrefixQuotient(strategy.root.numerators, strategy.facts.lattice_bits)
    for _ in range(10):
        shared = PrefixQuotient(strategy.root.numerators, strategy.facts.lattice_bits)
        barrier = threading.Barrier(4)

        def grow(
            _: int, shared: PrefixQuotient = shared, barrier: threading.Barrier = barrier
        ) -> list[int]:
            barrier.wait()
            return [int(entry) for entry in shared.digit(3)]

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(grow, range(4))) == [expected.digit(3).tolist()] * 4


def test_wrapped_residual_is_refused() -> None:
    quotient = PrefixQuotient(SqrtToeplitz(64).root.numerators, 18)
    quotient.digit(0)
    quotient._residual = quotient._residual + 2**33
    with pytest.raises(ArithmeticError, match="residual"):
        quotient.digit(1)
