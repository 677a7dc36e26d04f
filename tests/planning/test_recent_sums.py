"""Plans of rolling sums, decayed sums and stacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from keys import chosen_key

from counton import (
    ZCDP,
    ApproxDP,
    Average,
    Counter,
    Decayed,
    Distinct,
    PureDP,
    Rolling,
    Stack,
    plan,
)
from counton.base.errors import InvalidInputError
from counton.base.series import PlannedSeries
from counton.continual.stream_errors import Errors
from counton.planning.lower_bounds import least_recent_variance
from counton.planning.recent_sums import reach_of
from counton.privacy import ContributionBound, Guarantee
from counton.strategies import Independent, NormalisedSqrt, SqrtToeplitz, matrices
from counton.strategies.joint_errors import recent_variances
from counton.strategies.workloads import RecentWorkload

GAUSSIAN, LAPLACE = ZCDP(0.5), PureDP(1)


@pytest.mark.parametrize(
    ("guarantee", "workload", "steps", "family", "best"),
    [
        (GAUSSIAN, Rolling(7), 365, "banded root", 1.7731),
        (GAUSSIAN, Rolling(28), 365, "banded root", 2.3088),
        (GAUSSIAN, Rolling(91), 365, "banded root", 2.6893),
        (GAUSSIAN, Rolling(365), 365, "least-squares", 2.639),
        (GAUSSIAN, Rolling(28), 3653, "banded root", 2.3369),
        (GAUSSIAN, Rolling(28), None, "banded root", 2.3399),
        (GAUSSIAN, Decayed(7), 365, "banded root", 1.4650),
        (LAPLACE, Rolling(7), 365, "one draw a step", 3.575),
        (LAPLACE, Rolling(28), 3653, "steps and hats", 6.164),
        (LAPLACE, Rolling(91), 3653, "steps and hats", 8.327),
        (LAPLACE, Rolling(182), 3653, "steps and hats", 9.860),
        (LAPLACE, Rolling(365), 365, "least-squares", 7.871),
    ],
    ids=str,
)
def test_best_strategy_and_its_error(
    guarantee: Guarantee, workload: RecentWorkload, steps: int | None, family: str, best: float
) -> None:
    result = plan(steps, guarantee, workload=workload)
    assert result.best.strategy_family == family
    assert result.best.errors.mean_std == pytest.approx(best, rel=0.002)


def _derived(steps: int, guarantee: Guarantee, width: int) -> float:
    """Return the least error of rolling sums that are computed from plans of other series."""
    stops = np.arange(1, steps + 1)
    starts = np.maximum(stops - width, 0)
    every_series: tuple[PlannedSeries, ...] = ("cumulative", "per-window", "both")
    errors = [
        design.errors.window_std(starts, stops)
        for series in every_series
        for design in plan(steps, guarantee, series=series)
    ]
    return min(float(np.sqrt((std**2).mean())) for std in errors)


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", [GAUSSIAN, LAPLACE, ApproxDP(1, 1e-6)], ids=str)
@pytest.mark.parametrize(("steps", "width"), [(40, 7), (40, 30), (200, 150), (200, 200), (300, 2)])
def test_rolling_plan_is_no_worse_than_derived_plans(
    guarantee: Guarantee, steps: int, width: int
) -> None:
    best = plan(steps, guarantee, workload=Rolling(width)).best
    assert best.errors.mean_std <= _derived(steps, guarantee, width) * (1 + 1e-9)


def test_stack_workload_improves_totals_and_windows_together() -> None:
    stack = plan(365, GAUSSIAN, workload=Stack({1: 1}, totals=1)).best.errors
    both = plan(365, GAUSSIAN, series="both").best.errors
    assert stack.mean_std == pytest.approx(2.199, rel=0.002)
    assert stack.mean_std < 0.98 * both.mean_std


def test_errors_by_name_are_those_of_windows() -> None:
    workload = Stack({1: 1, 7: 3}, totals=2)
    errors = plan(60, GAUSSIAN, workload=workload).best.errors
    steps = np.arange(1, 61)
    stds = errors.recent_stds(steps)
    assert [*stds] == ["last 1", "last 7", "total"]
    for name, width in (("last 1", 1), ("last 7", 7), ("total", 60)):
        starts = np.maximum(steps - width, 0)
        assert stds[name] == pytest.approx(errors.window_std(starts, steps))
        half = errors.recent_halfwidths(steps)[name]
        assert (half == errors.window_halfwidths(starts, steps)).all()
    weighted = (1 * stds["last 1"] ** 2 + 3 * stds["last 7"] ** 2 + 2 * stds["total"] ** 2) / 6
    assert errors.std(steps) == pytest.approx(np.sqrt(weighted))
    assert errors.mean_std == pytest.approx(float(np.sqrt(weighted.mean())))
    assert errors.max_std == pytest.approx(max(float(std.max()) for std in stds.values()))
    assert errors.largest_error() == np.inf


@pytest.mark.parametrize(
    "strategy",
    [SqrtToeplitz(30), NormalisedSqrt(30), Independent(30), Rolling(5).root(30)],
    ids=lambda strategy: type(strategy).__name__,
)
def test_errors_of_decayed_sums_equal_sums_over_nodes(strategy: Any) -> None:
    part = Decayed(3).parts[0]
    distribution = plan(30, GAUSSIAN, strategies=["normalised-sqrt"]).best.distribution
    variances = recent_variances(strategy, distribution, part, range(1, 31))
    reads, _ = matrices(strategy, exact=False)
    if strategy.facts.release == "totals":
        reads[1:] -= reads[:-1].copy()
    weights = np.tril(part.factor ** np.subtract.outer(np.arange(30.0), np.arange(30.0)))
    expected = ((weights @ reads) ** 2).sum(axis=1)
    unit = distribution.variance / 4.0**strategy.facts.lattice_bits
    assert variances / unit == pytest.approx(expected, rel=1e-7)


def test_decayed_halfwidth_exceeds_the_normal_quantile_slightly() -> None:
    result = plan(365, GAUSSIAN, workload=Decayed(7))
    std = result.best.errors.recent_stds([300])[""][0]
    half = result.halfwidth(300)
    assert 1.96 * std <= half <= 2.0 * std


def test_sentences_name_the_workload() -> None:
    rolling = plan(365, GAUSSIAN, workload=Rolling(28)).in_words()
    assert rolling.startswith(
        "rho = 0.5: the sum of the last 28 steps has a margin of error of 4.1"
    )
    stack = str(plan(60, GAUSSIAN, workload=Stack([1, 7])))
    assert "the sums of the last 1 and 7 steps have margins of error of" in stack
    assert "(last 7)" in stack
    endless = plan(None, GAUSSIAN, workload=Rolling(1), expected_windows=100).in_words()
    assert "the sum of the last step has a margin of error of" in endless
    assert "(there is no last step)" in endless
    decayed = plan(60, GAUSSIAN, workload=Decayed(1)).in_words()
    assert "the sum with a half-life of 1 step has a margin of error of" in decayed


def test_statistics_are_planned_with_rolling_sums() -> None:
    average = Average(0, 9, resolution=1)
    result = plan(100, GAUSSIAN, of=average, batched=True, workload=Rolling(7))
    assert set(result.halfwidths(100)) == {"sum", "count"}
    plain = plan(100, GAUSSIAN, of=average, batched=True)
    assert result.halfwidth(100, name="count") < plain.halfwidths(100, over=7)["count"]


def test_counter_of_a_plan_states_the_errors_of_its_releases() -> None:
    best = plan(60, GAUSSIAN, workload=Rolling(7)).best
    counter = Counter.from_design(best, chosen_key())
    for _ in range(20):
        release = counter.release(3)
    total = float(best.errors.window_std([0], [20])[0])
    assert release.std == pytest.approx(total)
    assert counter.window_std([13], [20])[0] == pytest.approx(best.errors.std(20))


def test_units_in_several_steps_are_planned() -> None:
    visits = ContributionBound.add_remove(steps=5, separation=7)
    best = plan(120, GAUSSIAN, contribution=visits, workload=Rolling(7)).best
    assert best.errors.mean_std < 5 * plan(120, GAUSSIAN, workload=Rolling(7)).best.errors.mean_std


def test_wide_noise_takes_coarser_weights() -> None:
    clipped = ContributionBound.values(0, 10**4, resolution=1)
    best = plan(
        100, ZCDP("1e-4"), contribution=clipped, workload=Rolling(7), strategies=["banded-root"]
    ).best
    assert best.strategy_family == "banded root"
    assert best.strategy.weight_bits == 8  # type: ignore[attr-defined]


def test_reach_is_the_widest_number() -> None:
    assert reach_of(Rolling(9)) == 9
    assert reach_of(Decayed(9)) == 9
    assert reach_of(Stack([2, 5])) == 5
    assert reach_of(Stack([2, 5], totals=1)) is None


@pytest.mark.parametrize(
    ("problem", "options"),
    [
        ("give Rolling", {"workload": 28}),
        ("leave series out", {"workload": Rolling(7), "series": "both"}),
        ("leave of out", {"workload": Decayed(7), "of": Distinct()}),
        ("leave totals out", {"horizon": None, "workload": Stack([1], totals=1)}),
    ],
)
def test_impossible_requests_are_refused(problem: str, options: dict[str, Any]) -> None:
    terms: Any = {"horizon": 30, "guarantee": GAUSSIAN} | options
    with pytest.raises(InvalidInputError, match=problem):
        plan(**terms)


def test_errors_of_releases_have_no_workload() -> None:
    errors: Errors = plan(30, GAUSSIAN).best.errors
    with pytest.raises(InvalidInputError, match="such as Rolling"):
        errors.recent_stds([1])


@pytest.mark.parametrize(
    ("workload", "steps", "bound"),
    [
        (Rolling(7), 365, 1.7699),
        (Rolling(28), 365, 2.2902),
        (Rolling(365), 365, 2.5832),
        (Decayed(7), 365, 1.4642),
        (Decayed(90), 365, 2.1570),
    ],
    ids=str,
)
def test_lower_bounds_are_nuclear_norms(workload: RecentWorkload, steps: int, bound: float) -> None:
    assert least_recent_variance(workload, steps) ** 0.5 == pytest.approx(bound, abs=6e-5)


def test_lower_bound_of_long_streams_adds_up_blocks() -> None:
    # The bounds of 3,653 steps are 1.7775 and 2.7974.
    for width, bound in ((7, 1.7775), (91, 2.7974)):
        least = least_recent_variance(Rolling(width), 3653) ** 0.5
        assert 0.97 * bound < least < bound + 1e-4


def test_plans_of_recent_sums_state_distance_from_bound() -> None:
    for workload in (Rolling(7), Decayed(7), Stack([1, 7, 28]), Stack([1, 7], totals=1)):
        result = plan(365, GAUSSIAN, workload=workload)
        gaussian, other = result.factors
        assert 1 <= gaussian.factor < 1.02
        assert gaussian.source == "nuclear norm of the sums (counton)"
        assert other.factor > gaussian.factor
        assert result.least_std()["gaussian"] == pytest.approx(gaussian.at_least)
    laplace = plan(365, LAPLACE, workload=Rolling(28)).factors
    assert laplace[0].factor > 1.5


@pytest.mark.parametrize("width", [2, 7, 28])
def test_endless_laplace_plan_has_less_noise_than_sums_from_totals(width: int) -> None:
    result = plan(None, LAPLACE, workload=Rolling(width), expected_windows=500)
    assert result.best.strategy_family == "steps and hats"
    stops = np.arange(1, 501)
    totals = plan(None, LAPLACE, expected_windows=500).best.errors
    stds = totals.window_std(np.maximum(stops - width, 0), stops)
    derived = float(np.sqrt((stds**2).mean()))
    assert result.best.errors.mean_std < derived / 2
    assert min(choice.errors.mean_std for choice in result) == result.best.errors.mean_std


def test_endless_laplace_plan_has_decayed_sums() -> None:
    result = plan(None, LAPLACE, workload=Decayed(28), expected_windows=500)
    assert result.best.strategy_family == "steps and hats"
    assert result.best.errors.mean_std < 4.9
