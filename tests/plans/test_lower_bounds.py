"""Mathias' bounds against the square-root factorisation and a norm computed directly."""

import math

import numpy as np
import pytest

from counton.errors import InvalidInput
from counton.plans import bounds, plan
from counton.plans.bounds import (
    factorisation_bounds,
    least_variance,
    mathias_sum,
    nuclear_norm,
)
from counton.privacy import ZCDP, ApproxDP, Contribution, Guarantee, PureDP
from counton.strategies import Metric
from counton.strategies.base import ReleaseForm
from counton.strategies.streams.square_root import square_root_sensitivity


@pytest.mark.parametrize("horizon", [1, 2, 3, 10, 1000, 2**16, 2**20])
def test_square_root_lies_within_0585_of_the_lower_bound(horizon: int) -> None:
    lower, upper = factorisation_bounds(horizon)
    value = square_root_sensitivity(horizon)
    assert lower <= value <= lower + 0.58502
    assert lower <= upper <= lower + 0.5


def test_the_gap_tends_to_its_limit() -> None:
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
    with pytest.raises(InvalidInput, match="horizon"):
        mathias_sum(0)


# --- bounds on variances -------------------------------------------------------------------------


@pytest.mark.parametrize("horizon", [1, 2, 3, 17, 100])
def test_singular_values_of_running_sums(horizon: int) -> None:
    singular = np.linalg.svd(np.tri(horizon), compute_uv=False)
    assert nuclear_norm(horizon) == pytest.approx(singular.sum(), rel=1e-12)
    both = np.linalg.svd(np.vstack([np.tri(horizon), np.eye(horizon)]), compute_uv=False)
    least = (both.sum() / horizon) ** 2 / 2
    assert least_variance(horizon, release="both") == pytest.approx(least, rel=1e-8)


def test_long_sums_are_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    for horizon in (5000, 5001):
        exact = mathias_sum(horizon)
        with monkeypatch.context() as patched:
            patched.setattr(bounds, "_MOST_TERMS", 1000)
            assert mathias_sum(horizon) == pytest.approx(exact, rel=1e-8)
    assert least_variance(10**9) == pytest.approx(7.29832**2, rel=1e-5)


@pytest.mark.parametrize(
    "guarantee", [PureDP(1), PureDP(8), ZCDP(0.5), ApproxDP(1, 1e-6)], ids=repr
)
@pytest.mark.parametrize("release", ["totals", "windows", "both"])
@pytest.mark.parametrize("metric", ["mean", "max"])
def test_no_plan_is_below_the_bound(
    guarantee: Guarantee, release: ReleaseForm, metric: Metric
) -> None:
    """With integers too, where noise is narrowest; for several cells, and clipped values."""
    for contribution in (
        Contribution.add_remove(),
        Contribution.replace(cells=2),
        Contribution.clipped(0, 50, 0.5),
    ):
        for horizon in (1, 2, 30, 300):
            ranked = plan(horizon, guarantee, metric, contribution, (3,), release=release)
            (least,) = ranked.lower_bounds.values()
            family = next(iter(ranked.lower_bounds))
            found = [choice.std(metric) for choice in ranked if choice.family == family]
            assert found or isinstance(guarantee, ApproxDP)
            assert all(least <= std * (1 + 1e-9) for std in found)


def test_the_bound_is_nearly_met() -> None:
    """By the best strategies for Gaussian noise, and by one draw a step."""
    ranked = plan(1024, ZCDP(0.5))
    assert ranked.lower_bounds["gaussian"] == pytest.approx(2.91, abs=5e-3)
    assert ranked.best.mean_std < 1.03 * ranked.lower_bounds["gaussian"]
    counts = plan(1024, PureDP(1), release="windows")
    assert counts.best.mean_std == pytest.approx(counts.lower_bounds["laplace"])


def test_units_that_count_several_times_have_no_bound() -> None:
    assert plan(30, PureDP(1), contribution=Contribution.add_remove(steps=2)).lower_bounds == {}
