"""Mathias' bounds against the square-root factorisation and a norm computed directly."""

import math
from fractions import Fraction

import numpy as np
import pytest

from counton import Counter, Key, plan
from counton.base.distributions import DiscreteGaussian, DiscreteLaplace
from counton.base.errors import InvalidInputError
from counton.base.series import PlannedSeries
from counton.planning import lower_bounds as bounds
from counton.planning.lower_bounds import (
    factorisation_bounds,
    least_noise_variance,
    least_variance,
    mathias_sum,
    nuclear_norm,
)
from counton.privacy import ZCDP, ApproxDP, ContributionBound, Guarantee, PureDP
from counton.strategies import Metric
from counton.strategies.streams.square_root import square_root_sensitivity


@pytest.mark.parametrize("horizon", [1, 2, 3, 10, 1000, 2**16, 2**20])
def test_square_root_lies_within_0585_of_the_lower_bound(horizon: int) -> None:
    lower, upper = factorisation_bounds(horizon)
    value = square_root_sensitivity(horizon)
    assert lower <= value <= lower + 0.58502
    assert lower <= upper <= lower + 0.5


def test_gap_of_square_root_tends_to_its_limit() -> None:
    lower, _ = factorisation_bounds(2**20)
    assert square_root_sensitivity(2**20) - lower == pytest.approx(0.5850, abs=1e-4)


def test_blocks_of_the_sum_agree_with_one_sum() -> None:
    horizon = 2**21 + 12_345
    j = np.arange(1, horizon + 1)
    direct = math.fsum(1 / np.sin((2 * j - 1) * np.pi / (2 * horizon))) / horizon
    assert mathias_sum(horizon) == pytest.approx(direct, rel=1e-10)


def test_no_factorisation_of_two_steps_beats_the_bound() -> None:
    """A = B C for T = 2 is B = A M^-1, C = M: search the lower-triangular M."""
    best = math.inf
    for a in np.linspace(0.05, 3, 120):
        for b in np.linspace(-3, 3, 121):
            inverse = np.array([[1, 0], [-b / a, 1 / a]])
            reads = np.array([[1, 0], [1, 1]]) @ inverse
            column = math.sqrt(max(1 + b * b, a * a))
            row = math.sqrt(max((reads**2).sum(axis=1)))
            best = min(best, column * row)
    lower, upper = factorisation_bounds(2)
    assert lower <= best <= upper + 0.01


def test_horizon_is_checked() -> None:
    with pytest.raises(InvalidInputError, match="horizon"):
        mathias_sum(0)


# --- bounds on variances -------------------------------------------------------------------------


@pytest.mark.parametrize("horizon", [1, 2, 3, 17, 100])
def test_singular_values_of_running_sums(horizon: int) -> None:
    singular = np.linalg.svd(np.tri(horizon), compute_uv=False)
    assert nuclear_norm(horizon) == pytest.approx(singular.sum(), rel=1e-12)
    both = np.linalg.svd(np.vstack([np.tri(horizon), np.eye(horizon)]), compute_uv=False)
    least = (both.sum() / horizon) ** 2 / 2
    assert least_variance(horizon, release="both") == pytest.approx(least, rel=1e-8)


def test_sums_of_long_horizons_equal_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    for horizon in (5000, 5001):
        exact = mathias_sum(horizon)
        with monkeypatch.context() as patched:
            patched.setattr(bounds, "_MOST_TERMS", 1000)
            assert mathias_sum(horizon) == pytest.approx(exact, rel=1e-8)
    assert least_variance(10**9) == pytest.approx(7.29832**2, rel=1e-5)


@pytest.mark.parametrize(
    "guarantee", [PureDP(1), PureDP(8), ZCDP(0.5), ApproxDP(1, 1e-6)], ids=repr
)
@pytest.mark.parametrize(
    ("series", "metric"), [("cumulative", "mean"), ("per-window", "max"), ("both", "mean")]
)
def test_no_plan_is_below_the_bound(
    guarantee: Guarantee, series: PlannedSeries, metric: Metric
) -> None:
    """With integers too, where noise is narrowest; for several cells, and clipped values."""
    for contribution in (
        ContributionBound.add_remove(),
        ContributionBound.replace(cells=2),
        ContributionBound.values(0, 50, 0.5),
    ):
        for horizon in (1, 2, 30, 300):
            ranked = plan(horizon, guarantee, metric, contribution, (3,), series=series)
            (least,) = ranked.least_std().values()
            family = next(iter(ranked.least_std()))
            found = [choice.errors.by(metric) for choice in ranked if choice.noise_kind == family]
            assert found or isinstance(guarantee, ApproxDP)
            assert all(least <= std * (1 + 1e-9) for std in found)


def test_the_bound_is_nearly_met() -> None:
    """By the best strategies for Gaussian noise, and by one draw a step."""
    ranked = plan(1024, ZCDP(0.5))
    assert ranked.least_std()["gaussian"] == pytest.approx(2.91, abs=5e-3)
    assert ranked.best.errors.mean_std < 1.03 * ranked.least_std()["gaussian"]
    counts = plan(1024, PureDP(1), series="per-window")
    assert counts.best.errors.mean_std == pytest.approx(counts.least_std()["laplace"])


def test_units_that_count_several_times_have_no_bound() -> None:
    assert plan(30, PureDP(1), contribution=ContributionBound.add_remove(steps=2)).least_std() == {}


# --- noise of any law, and any mechanism ---------------------------------------------------------


def test_pure_noise_of_least_variance_is_laplace() -> None:
    for epsilon in (0.5, 1.0, 2.0):
        distribution = DiscreteLaplace(1 / Fraction(epsilon))
        assert distribution.variance == pytest.approx(least_noise_variance(PureDP(epsilon)))
    wide = DiscreteGaussian(Fraction(10**6))
    assert least_noise_variance(ZCDP(Fraction(1, 2 * 10**6))) == pytest.approx(wide.variance)
    assert least_noise_variance(ZCDP(0.5)) < DiscreteGaussian(Fraction(1)).variance
    assert least_noise_variance(PureDP(2000)) == 0 == least_noise_variance(ZCDP(1000))


def test_plan_states_factor_to_lower_bound() -> None:
    assert plan(500, ApproxDP(1, 1e-6)).factors == ()
    for guarantee in (PureDP(1), ZCDP(0.5)):
        for metric in ("mean", "max"):
            ranked = plan(500, guarantee, metric)
            factors = {factor.holds_for.split(" with ")[0]: factor for factor in ranked.factors}
            least = factors["any mechanism"]
            assert least.at_least is not None
            assert least.factor == pytest.approx(
                ranked.best.errors.by(ranked.metric) / least.at_least
            )
            assert least.factor >= 1
            assert "Theorem 3; with its constant (counton)" in least.distance
            if ranked.best.noise_kind in ranked.least_std():
                assert 1 <= factors["matrix mechanisms"].factor <= least.factor * (1 + 1e-9)
            else:
                assert set(factors) == {"any mechanism"}
    often = plan(500, ZCDP(0.5), contribution=ContributionBound.add_remove(steps=5)).factors
    assert [factor.holds_for for factor in often] == ["any mechanism"]
    (moved,) = plan(50, PureDP(1), contribution=ContributionBound.replace(), shape=(3,)).factors[1:]
    assert moved.at_least == pytest.approx(plan(50, PureDP(1)).factors[1].at_least)
    assert plan(50, PureDP(1000)).factors == ()


@pytest.mark.parametrize("horizon", [1, 2, 7, 500, 1024, 10**6])
def test_bound_names_source_of_larger_bound(horizon: int) -> None:
    """The table said Mathias where the nuclear norm is what is shown."""
    ranked = plan(horizon, ZCDP(0.5), "max", simple=True)
    bound = ranked.factors[0]
    unit = ranked.least_std("max")["gaussian"] / least_variance(horizon, "max") ** 0.5
    nuclear = nuclear_norm(horizon) / horizon * unit
    mathias = factorisation_bounds(horizon)[0] * unit
    assert bound.at_least == pytest.approx(max(nuclear, mathias), rel=1e-6)
    assert ("Mathias" in bound.source) == (mathias > nuclear)


def test_the_largest_error_is_one_that_holds() -> None:
    """In 60 streams, all errors stay below it more often than with probability 2/3."""
    ranked = plan(64, PureDP(1))
    for choice in ranked.choices[:3]:
        bound = choice.errors.largest_error(2 / 3)
        counter = [
            Counter(choice.strategy, PureDP(1), key=Key.generate(), name="zeros") for _ in range(60)
        ]
        errors = [np.abs(one.release_many(np.zeros(64, int)).values).max() for one in counter]
        assert bound / 2 < np.median(errors) < bound
        assert np.mean(np.array(errors) <= bound) >= 2 / 3
    assert ranked.best.errors.largest_error(1 - 1e-8) == math.inf
    with pytest.raises(InvalidInputError, match="probability"):
        ranked.best.errors.largest_error(1.0)


def test_bound_is_below_error_on_coarser_lattice() -> None:
    """One step under (epsilon, delta): the bound is nearly reached, and never passed."""
    metrics: tuple[Metric, ...] = ("mean", "max")
    for metric in metrics:
        ranked = plan(1, ApproxDP(0.01, 0.4), metric)
        ((family, least),) = ranked.least_std().items()
        achieved = min(one.errors.by(metric) for one in ranked if one.noise_kind == family)
        assert 0.9999 * achieved < least <= achieved
