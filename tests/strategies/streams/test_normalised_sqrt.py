"""NormalisedSqrt: the values it is known for, correct rounding, and what units move it by."""

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from counton.base.errors import InvalidInputError, SumOverflowError
from counton.continual.node_distribution import distribution_for
from counton.privacy import ZCDP, ContributionBound
from counton.strategies import Metric, NormalisedSqrt
from counton.strategies.participation import Schedule
from counton.strategies.streams import root_variances, square_root
from counton.testing.node_noise import HashedNoise
from counton.testing.pattern_checks import matrix_of

OFFSET = Fraction(1, 2) + Fraction(1, 2**31 - 1)


def exact_noise(strategy: NormalisedSqrt, z: NDArray[np.int64]) -> list[int]:
    """Floor of B z plus the offset, by rational arithmetic on the rows."""
    cell = Fraction(2**strategy.facts.fraction_bits, 2**strategy.facts.lattice_bits)
    return [
        math.floor(cell * sum(weight * int(z[i - 1]) for _, i, weight in strategy.row(t)) + OFFSET)
        for t in range(1, len(z) + 1)
    ]


@pytest.mark.parametrize(
    ("horizon", "mean", "largest"),
    [
        (1024, "2.991", "3.081"),
        (2**14, "3.865", "3.956"),
        pytest.param(2**16, "4.304", "4.395", marks=pytest.mark.slow),
    ],
)
def test_root_variances_at_rho_one_half(horizon: int, mean: str, largest: str) -> None:
    """From dense matrices, once, and with noise calibrated to the rounded C'."""
    strategy = NormalisedSqrt(horizon)
    distribution = distribution_for(
        strategy, ZCDP(Fraction(1, 2)), ContributionBound.add_remove()
    ).distribution
    expectations: dict[Metric, str] = {"mean": mean, "max": largest}
    for metric, expected in expectations.items():
        variance = (
            strategy.overall_variance(metric)
            * distribution.variance
            / 4.0**strategy.facts.lattice_bits
        )
        assert f"{math.sqrt(variance):.3f}" == expected


@pytest.mark.parametrize("horizon", [1, 2, 50, 1000])
def test_all_columns_have_norm_one(horizon: int) -> None:
    strategy = NormalisedSqrt(horizon)
    series = strategy.root.numerators / 2.0**strategy.root.bits
    squares = np.cumsum(series**2)[::-1] * (strategy.weights / 2.0**strategy.weight_bits) ** 2
    assert squares == pytest.approx(1, abs=2e-4)
    assert float(strategy.squared_sensitivity()) == pytest.approx(squares.max(), rel=1e-14)
    assert (np.diff(strategy.weights) >= 0).all()


@pytest.mark.parametrize("certain", [True, False], ids=["floats", "digits"])
@pytest.mark.parametrize("spread", [3, 2**20, 2**45])
def test_noise_is_rounded_correctly(
    certain: bool, spread: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same where floats decide and where, with worthless ones, integers have to."""
    if not certain:
        monkeypatch.setattr(square_root.RootSeries, "_slack", staticmethod(lambda length: 1.0))
    for horizon in (1, 2, 23):
        strategy = NormalisedSqrt(horizon)
        table = HashedNoise((2,), spread)
        z = np.array([table.at(0, i) for i in range(1, horizon + 1)])
        noise = strategy.noise(table, range(1, horizon + 1))
        for coordinate in range(2):
            assert noise[:, coordinate].tolist() == exact_noise(strategy, z[:, coordinate])


@pytest.mark.parametrize("spread", [3, 2**20, 2**30])
def test_close_sums_round_as_exact_ones(spread: int) -> None:
    """They decide nearly all roundings that transforms leave open, without exact division."""
    strategy = NormalisedSqrt(23)
    z = HashedNoise((), spread).run(0, range(1, 24))
    close = strategy.root.close_sums(z)
    assert close is not None
    b = strategy.root.row(23)
    for step in range(1, 24):
        exact = sum(b[step - 1 - i] * int(z[i]) for i in range(step))
        in_parts = Fraction(int(close.whole[step - 1]), 2**close.bits) + Fraction(
            close.rest[step - 1]
        )
        assert abs(in_parts - exact) <= close.error < 1e-14 * np.linalg.norm(z)
    rounded = [strategy._rounded_close(close, step) for step in range(1, 24)]
    assert rounded == exact_noise(strategy, z)


def test_close_sums_leave_a_tie_open() -> None:
    strategy = NormalisedSqrt(23)
    z = HashedNoise((), 2**30).run(0, range(1, 24))
    close = strategy.root.close_sums(z)
    assert close is not None
    assert strategy._rounded_close(close._replace(error=2.0**20), 23) is None


def test_close_sums_and_digits_agree_on_a_long_stream() -> None:
    strategy = NormalisedSqrt(3000)
    z = HashedNoise((), 2**30).run(0, range(1, 3001))
    close = strategy.root.close_sums(z)
    assert close is not None
    for step in (1, 2, 1777, 3000):
        assert strategy._rounded_close(close, step) == strategy._decide(z[:step])


def test_digits_and_floats_agree_on_a_long_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = NormalisedSqrt(3000)
    table = HashedNoise((), 2**30)
    noise = strategy.noise(table, range(1, 3001))
    monkeypatch.setattr(square_root.RootSeries, "_slack", staticmethod(lambda length: 1.0))
    assert strategy.noise(table, range(1, 4)).tolist() == noise[:3].tolist()
    z = table.run(0, range(1, 3001))
    for step in (4, 1777, 3000):
        assert strategy._decide(z[:step]) == noise[step - 1]


def test_variances_of_long_streams() -> None:
    """Linear in time, against the sum over all rows."""
    exact = NormalisedSqrt(4000)
    found = root_variances.variances_of_long_rows(exact.shares, np.ones(4000))
    assert found == pytest.approx(exact.variance(range(1, 4001)), rel=1e-4)
    assert found.mean() == pytest.approx(exact.overall_variance("mean"), rel=5e-5)


@pytest.mark.parametrize("horizon", [2**13 + 1, 20_000, 2**17 + 5])
def test_block_variances_are_those_of_running_sums(horizon: int) -> None:
    shares = NormalisedSqrt(horizon).shares
    expected = root_variances.variances_of_long_rows(shares, np.ones(horizon))
    assert root_variances.block_variances(shares) == pytest.approx(expected, rel=1e-8)


def test_overall_variances_of_long_horizon_are_those_of_releases() -> None:
    horizon = 2**17 + 1
    strategy = NormalisedSqrt(horizon)
    variances = strategy.variance(range(1, horizon + 1))
    assert strategy.overall_variance("mean") == pytest.approx(variances.mean(), rel=1e-8)
    assert strategy.overall_variance("max") == pytest.approx(variances.max(), rel=1e-8)


def test_estimates_of_long_horizon_are_close_and_leave_strategy_unchanged() -> None:
    horizon = 2**17 + 1
    strategy = NormalisedSqrt(horizon)
    estimates = strategy.for_estimates().variance([1, 5000, horizon])
    exact = NormalisedSqrt(horizon).variance([1, 5000, horizon])
    assert estimates == pytest.approx(exact, rel=1e-8)
    assert strategy.variance([1, 5000, horizon]).tolist() == exact.tolist()
    assert strategy.for_estimates() == strategy


@pytest.mark.parametrize("power", [1e-4, 0.3, 0.99, 1 - 1e-9])
def test_discounted_sums_are_those_of_the_recurrence(power: float) -> None:
    """Over more numbers than are computed at a time."""
    numbers = np.random.default_rng(1).random(40_000)
    expected = []
    total = 0.0
    for number in numbers.tolist():
        total = number + power * total
        expected.append(total)
    assert root_variances.discounted_sums(numbers, power) == pytest.approx(expected, rel=1e-12)


def test_window_variances_by_distance_and_by_window() -> None:
    strategy = NormalisedSqrt(300)
    starts = np.array([1, 5, 40])
    stops = np.array([300, 6, 64])
    by_window = strategy._by_window(starts, stops)
    assert strategy._by_distance(starts, stops) == pytest.approx(by_window, rel=1e-10)


@pytest.mark.parametrize("apart", [1, 3])
def test_overlaps_are_the_largest_products(apart: int) -> None:
    strategy = NormalisedSqrt(60)
    enters = matrix_of(strategy).astype(object)
    products = enters.T @ enters
    found = strategy._overlaps(Schedule(20, apart, False))
    exact = [
        max(np.diagonal(products, lag).max() for lag in range(j * apart, 60)) for j in range(1, 20)
    ]
    assert found[:16] == exact[:16]
    assert all(exact[j] <= found[j] <= exact[j - 1] for j in range(16, 19))


def test_c_is_the_same_everywhere() -> None:
    """Noise is addressed by the parameters, so C' must never change."""
    sums = {(8760, 16): 0, (1000, 16): 0, (1000, 8): 0}
    for horizon, bits in sums:
        strategy = NormalisedSqrt(horizon, bits)
        sums[horizon, bits] = int(strategy.weights.sum() + strategy.root.numerators.sum())
    assert sums == {(8760, 16): 303786114, (1000, 16): 38527285, (1000, 8): 296075}


def test_normalised_sqrt_refuses_invalid_arguments() -> None:
    with pytest.raises(InvalidInputError, match="2\\^20"):
        NormalisedSqrt(2**20 + 1)
    with pytest.raises(InvalidInputError, match="weight_bits"):
        NormalisedSqrt(10, 17)
    with pytest.raises(SumOverflowError, match="of a square root"):
        NormalisedSqrt(10).noise(HashedNoise((), 2**60), range(1, 5))


@pytest.mark.parametrize("steps", [1, 2**16, 2**16 + 1, 100_000])
def test_variances_of_first_releases_have_the_bits_of_all(steps: int) -> None:
    horizon = 300_000
    of_all = NormalisedSqrt(horizon)._variances
    some = np.array([1, steps // 2 + 1, steps])
    strategy = NormalisedSqrt(horizon)
    assert strategy.variance(some).tobytes() == of_all[some - 1].tobytes()
    assert "_variances" not in strategy.__dict__
