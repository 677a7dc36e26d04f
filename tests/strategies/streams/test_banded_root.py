"""Banded roots: the errors of rolling sums, and sensitivities by brute force."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from keys import chosen_key
from some_cases import long

from counton import ZCDP, Counter, PureDP
from counton.base.distributions import DiscreteGaussian
from counton.base.errors import InvalidInputError
from counton.strategies import (
    BandedRoot,
    EndlessBandedRoot,
    Independent,
    StreamStrategy,
    matrices,
    sensitivities,
    strategy_from_dict,
)
from counton.strategies.participation import written_out
from counton.strategies.streams.banded_root import series_of
from counton.strategies.workloads import Decayed, RecentWorkload, Rolling, Stack
from counton.testing import HashedNoise, check_strategy

SHORT: tuple[RecentWorkload, ...] = (
    Rolling(1),
    Rolling(3),
    Decayed(2),
    Stack([1, 4]),
    Stack([2, 4]),
    Stack({1: 1, 3: 2.5}, totals=0.5),
)


def _std(strategy: BandedRoot | EndlessBandedRoot, width: int, steps: int) -> float:
    """Return the root mean variance of rolling sums for rho = 1/2."""
    stops = np.arange(1, steps + 1)
    variances = strategy.variance(stops, since=np.maximum(stops - width, 0))
    return float(np.sqrt(variances.mean() * float(strategy.squared_sensitivity())))


@pytest.mark.parametrize("workload", SHORT, ids=repr)
def test_roots_of_workloads_pass_check_strategy(workload: RecentWorkload) -> None:
    for horizon in (1, 2, 9):
        for precision in (0, 1):
            check_strategy(workload.root(horizon, precision))
    if not isinstance(workload, Stack) or not workload.totals:
        check_strategy(workload.root(None), 9)


@pytest.mark.parametrize(
    ("width", "steps", "best"),
    [(2, 365, 1.2726), (7, 365, 1.7731), (28, 365, 2.3088), (91, 365, 2.6893), (182, 365, 2.8063),
     (7, 3653, 1.7778), (28, 3653, 2.3369), (91, 3653, 2.8051), (365, 3653, 3.3187)],
)  # fmt: skip
def test_known_horizon_reaches_the_best_known_error(width: int, steps: int, best: float) -> None:
    assert _std(Rolling(width).root(steps), width, steps) == pytest.approx(best, rel=0.002)


@pytest.mark.parametrize(
    ("width", "bound"),
    [(2, 1.2732), (7, 1.7783), (28, 2.3399), (91, 2.8175), (182, 3.0983), (365, 3.3800)],
)
def test_endless_banded_root_is_within_a_fifth_percent_of_bound(width: int, bound: float) -> None:
    std = _std(Rolling(width).root(None), width, 10**6)
    assert bound <= std <= 1.002 * bound


@pytest.mark.parametrize(
    ("half_life", "at_365", "at_a_million"), [(2, 1.1797, 1.1803), (28, 1.8481, 1.8621)]
)
def test_decayed_sums_reach_the_best_known_error(
    half_life: int, at_365: float, at_a_million: float
) -> None:
    workload = Decayed(half_life)
    for horizon, steps, best in ((365, 365, at_365), (None, 10**6, at_a_million)):
        root = workload.root(horizon)
        variances = root._decayed_variance(workload.factor, np.arange(1, steps + 1))
        std = np.sqrt(variances.mean() * float(root.squared_sensitivity()))
        assert std == pytest.approx(best, rel=0.002)


def test_several_widths_lose_a_sixth_and_not_a_factor() -> None:
    # Separate streams for three numbers would lose a factor of 1.73.
    limits = {1: 1.0, 7: 1.7783, 28: 2.3399}
    shares = {width: limit**-2 for width, limit in limits.items()}
    root = Stack(shares).root(None)
    ratios = [_std(root, width, 10**5) / limit for width, limit in limits.items()]
    assert float(np.sqrt(np.mean(np.square(ratios)))) < 1.24
    assert all(ratio < 1.5 for ratio in ratios)


@pytest.mark.parametrize("workload", SHORT, ids=repr)
def test_no_set_of_steps_and_signs_moves_more_than_stated(workload: RecentWorkload) -> None:
    root = workload.root(8)
    assert isinstance(root, BandedRoot)
    matrix = written_out(root)
    for steps, apart in ((1, 1), (2, 1), (3, 1), (2, 3), (3, 2)):
        moved = sensitivities(root, steps=steps, separation=apart)
        chosen_sets = [
            chosen
            for size in range(1, steps + 1)
            for chosen in combinations(range(8), size)
            if all(b - a >= apart for a, b in pairwise(chosen))
        ]
        for chosen in chosen_sets:
            for signs in product((1, -1), repeat=len(chosen)):
                change = matrix[:, list(chosen)] @ np.array(signs)
                assert np.abs(change).sum() <= moved.l1
                assert (change**2).sum() <= moved.l2_squared


def test_long_horizon_sensitivity_bounds_all_pairs_of_columns() -> None:
    root = Rolling(3).root(300, lengths=4)
    assert isinstance(root, BandedRoot)
    assert len(root.band) == 12
    matrix = written_out(root).astype(np.float64)
    products = np.abs(matrix.T @ matrix)
    for lag in (1, 2, 5, 11, 12):
        pairs = [int(products[i, j]) for i in range(300) for j in range(i + lag, 300)]
        assert max(pairs) <= root._products[min(lag, 12)]
    worst = max(
        products[np.ix_(chosen, chosen)].sum() for chosen in combinations(range(0, 300, 40), 3)
    )
    assert worst <= sensitivities(root, steps=3, separation=40).l2_squared


@pytest.mark.parametrize("weight_bits", [0, 8])
def test_columns_with_opposite_signs_do_not_cancel_in_several_steps(weight_bits: int) -> None:
    # On this horizon not all sets of steps are tried.
    root = BandedRoot(200, (16, -12, -1), 4, weight_bits)
    matrix = written_out(root)
    for lag in (1, 2):
        columns = matrix[:, ::lag][:, :4]
        apart = matrix[:, [0, lag]].T @ matrix[:, [0, lag]]
        assert apart[0, 1] < 0
        assert root._products[lag] >= -apart[0, 1]
        change = columns @ np.array([1, -1, 1, -1])
        moved = sensitivities(root, steps=4, separation=lag)
        assert (change**2).sum() <= moved.l2_squared < 16 * sensitivities(root).l2_squared


def test_factorisation_is_exact_with_fractions() -> None:
    for root in (Rolling(3).root(7, 1), Stack({1: 1, 2: 1}).root(7, 1)):
        reads, enters = matrices(root)
        assert (reads @ enters == np.tri(7, dtype=object)).all()


@pytest.mark.parametrize("steps", [60, long(150)])
@pytest.mark.parametrize("workload", [Rolling(4), Stack([1, 4])], ids=repr)
def test_long_formulas_equal_sums_over_nodes(workload: RecentWorkload, steps: int) -> None:
    late = steps * 2 // 3
    ends = [
        (0, 1), (0, 3), (0, steps), (late, late + 4), (steps - 10, steps), (steps - 4, steps),
        (3, steps * 3 // 5), (steps - 1, steps),
    ]  # fmt: skip
    for root in (workload.root(steps, lengths=3), workload.root(None, lengths=3)):
        reads, _ = matrices(root, steps, exact=False)
        starts, stops = (np.array(column) for column in zip(*ends, strict=True))
        padded = np.vstack([np.zeros(reads.shape[1]), reads])
        expected = ((padded[stops] - padded[starts]) ** 2).sum(axis=1)
        assert root.variance(stops, since=starts) == pytest.approx(expected, rel=1e-9)
        every = np.arange(1, steps + 1)
        expected = ((padded[every] - padded[np.maximum(every - 4, 0)]) ** 2).sum(axis=1)
        variances = root.variance(every, since=np.maximum(every - 4, 0))
        assert variances == pytest.approx(expected, rel=1e-9)
        decayed = np.zeros(reads.shape[1])
        expected_of_decayed = []
        for step in every:
            decayed = 0.8 * decayed + padded[step] - padded[step - 1]
            expected_of_decayed.append(float((decayed**2).sum()))
        variances = root._decayed_variance(0.8, every)
        assert variances == pytest.approx(expected_of_decayed, rel=1e-9)


def test_plain_columns_have_the_errors_of_an_endless_stream() -> None:
    series = series_of(Rolling(3).coefficients(12), 10)
    bounded = BandedRoot(40, series, 10)
    endless = EndlessBandedRoot(series, 10)
    steps = range(1, 41)
    assert bounded.variance(steps) == pytest.approx(endless.variance(steps))
    assert bounded.overall_variance("mean") == pytest.approx(endless.mean_variance(40))
    assert bounded.overall_variance("max") == pytest.approx(endless.largest_variance(40))
    field = HashedNoise(spread=2**9)
    assert (bounded.noise(field, steps) == endless.noise(field, steps)).all()


@pytest.mark.parametrize("strategy", [Rolling(3).root(64), Rolling(3).root(None)], ids=repr)
@pytest.mark.parametrize("shape", [(), (3,)])
def test_windows_continue_each_other(strategy: StreamStrategy, shape: tuple[int, ...]) -> None:
    field = HashedNoise(shape, spread=2**20)
    whole = strategy.noise(field, range(1, 65))
    reader = strategy._reader(field)
    for window in ((1, 2), (2, 3), (3, 20), (20, 20), (25, 30), (29, 31), (5, 9), (9, 65)):
        assert (reader.noise(range(*window)) == whole[window[0] - 1 : window[1] - 1]).all()


def test_measured_noise_has_the_stated_error() -> None:
    root = Rolling(7).root(120)
    draws = 4000
    counter = Counter(
        root, ZCDP(0.5), key=chosen_key(), name="rolling", shape=(draws,)
    )  # the noise of cells is independent
    counts = np.random.default_rng(1).integers(0, 50, (120, draws))
    released = counter.release_many(counts).values
    sums = released.copy()
    sums[7:] = sums[7:] - released[:-7]
    exact = counts.cumsum(axis=0)
    exact[7:] -= exact[:-7].copy()
    stops = np.arange(1, 121)
    stated = counter.window_std(np.maximum(stops - 7, 0), stops)
    measured = (sums - exact).std(axis=1)
    # 6 standard errors of an estimated standard deviation.
    assert np.abs(measured / stated - 1).max() < 6 / np.sqrt(2 * draws)


def test_strategies_are_rebuilt_from_their_descriptions() -> None:
    for root in (Rolling(7).root(50), Rolling(7).root(None)):
        description = root.to_dict()
        assert strategy_from_dict(description) == root
        with pytest.raises(InvalidInputError, match="digest"):
            strategy_from_dict({**description, "series_sha256": "0" * 64})


@pytest.mark.parametrize(
    ("series", "bits", "problem"),
    [
        ([], 10, "give 1 to"),
        ([1024, 1.5], 10, "give 1 to"),
        ([[1024]], 10, "give 1 to"),
        ([1000], 10, "must begin with"),
        ([1024, 5000], 10, "must begin with"),
        ([8], 3, "series_bits"),
    ],
)
def test_impossible_series_are_refused(series: list[int], bits: int, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        BandedRoot(9, series, bits)
    with pytest.raises(InvalidInputError, match=problem):
        EndlessBandedRoot(series, bits)


def test_series_whose_inverse_grows_is_refused_without_a_last_step() -> None:
    growing = [16, -20]  # 1 / (1 - 1.25 x)
    with pytest.raises(InvalidInputError, match="not known to decay"):
        EndlessBandedRoot(growing, 4)
    steady = [16, -16]  # 1 / (1 - x)
    with pytest.raises(InvalidInputError, match="not known to decay"):
        EndlessBandedRoot(steady, 4)
    unstable = BandedRoot(2000, growing, 4)
    with pytest.raises(InvalidInputError, match="not exact in 64 bits"):
        unstable._check_distribution(DiscreteGaussian(Fraction(1)))
    assert EndlessBandedRoot([16, -12], 4).variance([3]).round(2).tolist() == [9.41]


def test_noise_too_wide_for_exact_sums_is_refused() -> None:
    for root in (Rolling(7).root(365), Rolling(7).root(None)):
        with pytest.raises(InvalidInputError, match="not exact in 64 bits"):
            root._check_distribution(DiscreteGaussian(Fraction(2**80)))
    coarse = Rolling(7).root(365, 1)
    wide = DiscreteGaussian(Fraction(4 ** (coarse.facts.lattice_bits + 18)))
    coarse._check_distribution(wide)


def test_horizons_and_weights_out_of_range_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="horizon"):
        BandedRoot(0, [16], 4)
    with pytest.raises(InvalidInputError, match="weight_bits"):
        BandedRoot(20_000, [16], 4, 8)
    with pytest.raises(InvalidInputError, match="has totals"):
        Stack([1, 7], totals=1).root(None)
    with pytest.raises(InvalidInputError, match="smaller width"):
        Rolling(10_000).root(None)


@pytest.mark.parametrize("wrong", [0, 2.5, True, 2**21, "28d"])
def test_impossible_workloads_are_refused(wrong: object) -> None:
    with pytest.raises(InvalidInputError, match="width"):
        Rolling(wrong)  # type: ignore[arg-type]
    if wrong != 2.5:
        with pytest.raises(InvalidInputError, match="half_life"):
            Decayed(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="width"):
        Stack([wrong])  # type: ignore[list-item]


def test_impossible_shares_are_refused() -> None:
    for share in (0, -1, float("nan"), float("inf"), "1"):
        with pytest.raises(InvalidInputError, match="share"):
            Stack({1: share})
    with pytest.raises(InvalidInputError, match="share"):
        Stack([1], totals=-1.0)
    with pytest.raises(InvalidInputError, match="no width"):
        Stack([])


def test_width_one_is_independent_noise() -> None:
    root = Rolling(1).root(30)
    steps = np.arange(1, 31)
    alone = root.variance(steps, since=steps - 1) * float(root.squared_sensitivity())
    assert alone == pytest.approx(Independent(30).variance(steps))


def test_laplace_noise_uses_the_sum_of_magnitudes() -> None:
    root = Rolling(2).root(None)
    magnitudes = float(np.abs(root.band.numerators).sum()) / 2.0**root.band.bits
    assert float(root.l1_sensitivity()) == magnitudes
    counter = Counter(root, PureDP(1), key=chosen_key(), name="laplace")
    assert counter.design.distribution.family == "laplace"
