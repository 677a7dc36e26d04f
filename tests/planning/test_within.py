"""The least guarantee with which a last release is as accurate as wanted, and that it is."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from counton import ZCDP, ApproxDP, PureDP, RunningStatistic, plan
from counton.base.errors import InvalidInputError
from counton.noise.key import InsecureKeyWarning, InsecureSeededKey
from counton.planning.least_privacy import bounds_of, least_guarantee
from counton.statistics import (
    Average,
    Contingency,
    Count,
    Cuts,
    Degrees,
    Distinct,
    Edges,
    Episodes,
    Forest,
    Grouped,
    Hierarchy,
    Moments,
    Quantiles,
    Ranges,
    Report,
    Stars,
    Statistic,
    Substrings,
    Sum,
    TopK,
    Triangles,
)
from counton.statistics.statistic_plan import halfwidths_of_plan
from counton.tables import Tree

LENGTHS = Quantiles(lower=0, upper=60, cells=6)
STATISTICS: list[Statistic] = [
    Count(),
    Sum(0, 60, "0.5"),
    Average(0, 60, resolution=1),
    Average(-3, 60, resolution=1, number=5),
    Moments({"price": (0, 9), "sold": (0, 5)}),
    Quantiles(edges=[0, 10, 20, 40]),
    TopK(["a", "b", "c"], k=2),
    Distinct(changes=4),
    Substrings("ab", 2),
    Episodes("ab", 2),
    Edges(),
    Triangles(3),
    Stars(3, leaves=2),
    Degrees(3),
    Cuts(["a", "b", "c"]),
    Forest(9),
    Ranges(["a", "b", "c", "d"]),
    Contingency({"sex": ["f", "m"], "smokes": ["no", "yes"]}),
    Hierarchy(
        Tree.from_leaves({"state": ["x", "x", "y"], "county": ["1", "2", "3"]}, ["state", "county"])
    ),
    Grouped(Average(0, 60, resolution=1), ["a", "b"]),
]


def less(guarantee: Any) -> Any:
    """A thousandth less, which is at most as much as four digits leave."""
    part = Fraction(999, 1000)
    if isinstance(guarantee, ZCDP):
        return ZCDP(guarantee.rho * part)
    if isinstance(guarantee, ApproxDP):
        return ApproxDP(guarantee.epsilon * part, guarantee.delta)
    return PureDP(guarantee.epsilon * part)


@pytest.mark.parametrize(
    ("statistic", "least"),
    [(one, ("epsilon", "rho")[place % 2]) for place, one in enumerate(STATISTICS)],
    ids=str,
)
def test_a_statistic_is_as_accurate_as_wanted_and_no_more(statistic: Statistic, least: Any) -> None:
    asked: dict[str, Any] = {"of": statistic, "batched": not statistic.of_letters}
    found = plan(6, margin_of_error=300, solve_for=least, simple=True, **asked)
    assert found.reached is not None
    assert 0.9 < found.reached.factor <= 1
    again = plan(6, found.guarantee, simple=True, **asked)
    planned = halfwidths_of_plan(statistic, again)
    assert max(planned[name] for name in found.reached.targets) <= 300
    worse = plan(6, less(found.guarantee), simple=True, **asked)
    halfwidths = halfwidths_of_plan(statistic, worse)
    assert max(halfwidths[name] for name in found.reached.targets) > 300


@pytest.mark.parametrize(
    ("given", "planned"),
    [
        ({"margin_of_error": 20}, 20),
        ({"margin_of_error": "2%", "expected_rows": 1000}, 20),
        ({"margin_of_error": 20.5, "solve_for": "rho"}, 20.5),
        pytest.param(
            {"margin_of_error": "20", "delta": "1e-6", "series": "per-window"},
            20,
            marks=pytest.mark.slow,
        ),
        ({"margin_of_error": 20, "confidence_level": 0.5}, 20),
        ({"margin_of_error": 20, "series": "per-window"}, 20),
        ({"margin_of_error": {"": 20}, "simple": True, "metric": "max"}, 20),
    ],
    ids=str,
)
def test_a_stream_is_as_accurate_as_wanted(given: dict[str, Any], planned: float) -> None:
    found = plan(12, **given)
    level = given.get("confidence_level", 0.95)
    more = {n: given[n] for n in ("series", "simple", "metric") if n in given}

    def halfwidth(guarantee: Any) -> float:
        return plan(12, guarantee, **more).best.errors.halfwidth(12, level)

    assert halfwidth(found.guarantee) <= planned < halfwidth(less(found.guarantee))
    assert "margin of error at step" in found.describe()


def test_endless_plan_reaches_margin_of_error_at_expected_windows() -> None:
    found = plan(None, margin_of_error=30, solve_for="rho", expected_windows=500)
    assert found.best.errors.halfwidth(500) <= 30


def test_margin_of_mean_needs_expected_rows() -> None:
    waits: dict[str, Any] = {"of": Average(0, 60, resolution=1), "batched": True}
    found = plan(12, margin_of_error="mean=0.5, count=100", expected_rows=5000, **waits)
    assert found.reached is not None
    assert found.reached.planned["mean"] <= 0.5
    assert found.reached.planned["count"] <= 100
    twice = plan(12, margin_of_error="mean=0.5", expected_rows=10_000, **waits)
    epsilons: Any = [each.guarantee for each in (found, twice)]
    assert epsilons[0].epsilon / epsilons[1].epsilon == pytest.approx(2, rel=0.01)
    with pytest.raises(
        InvalidInputError, match=r"mean=0\.5 names 'mean'.*Names are sum, count.*need exp"
    ):
        plan(12, margin_of_error="mean=0.5", **waits)
    with pytest.raises(InvalidInputError, match=r"names 'median'.*Names are mean, sum, count$"):
        plan(12, margin_of_error="median=0.5", expected_rows=5000, **waits)


def test_planned_margin_of_mean_holds_for_evenly_spread_rows() -> None:
    """The interval of a release of such rows is as wide as the plan says."""
    waits = Average(0, 60, resolution=1)
    found = plan(3, margin_of_error="mean=2", expected_rows=4000, of=waits, batched=True)
    with pytest.warns(InsecureKeyWarning):
        key = InsecureSeededKey(1)
    counter = RunningStatistic.start(waits, 3, found.guarantee, key=key, name="waits", batched=True)
    for _ in range(3):
        hour = counter.release_batch(np.linspace(0, 60, 1333))
    low, high = hour.interval("mean")
    assert (high - low) / 2 == pytest.approx(2, rel=0.02)


@pytest.mark.parametrize("statistic", [LENGTHS, Grouped(LENGTHS, ["a", "b"])], ids=repr)
@pytest.mark.parametrize("series", ["cumulative", "per-window"])
def test_plan_of_quantiles_share_of_rows_bounds_rank(statistic: Statistic, series: Any) -> None:
    asked: dict[str, Any] = {"of": statistic, "batched": True, "series": series, "simple": True}
    found = plan(4, margin_of_error="2%", expected_rows=40_000, **asked)
    groups = 2 if isinstance(statistic, Grouped) else 1
    rows = 40_000 / groups / (4 if series == "per-window" else 1)
    below_an_edge = halfwidths_of_plan(statistic, found)[""]
    assert 0.99 * 2 < 100 * below_an_edge / rows <= 2


@pytest.mark.parametrize(
    ("statistic", "whose"),
    [
        (Sum(0, 60, 1), "sum"),
        (Average(0, 60, resolution=1, number=5), "average"),
        (Report({"visits": Count(), "ages": LENGTHS}), "'ages'"),
    ],
    ids=str,
)
def test_plan_share_of_rows_of_other_numbers_is_refused(statistic: Statistic, whose: str) -> None:
    words = f"margin_of_error is a percentage of the rows, but {whose} does not count rows"
    with pytest.raises(InvalidInputError, match=words):
        plan(4, margin_of_error="2%", expected_rows=40_000, of=statistic, batched=True)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"margin_of_error": 0}, "must be above 0"),
        ({"margin_of_error": "much"}, "margin_of_error is 'much'"),
        ({"margin_of_error": "2%"}, "give expected_rows, which must be public"),
        (
            {"margin_of_error": "mean=2%", "expected_rows": 9},
            "mean is not a number of rows: give it as a number",
        ),
        ({"margin_of_error": {}}, "margin_of_error is empty"),
        ({"margin_of_error": 20, "guarantee": PureDP(1)}, "leave one of them out"),
        ({"margin_of_error": 20, "solve_for": "delta"}, "must be 'epsilon' or 'rho'"),
        (
            {"margin_of_error": 20, "solve_for": "rho", "delta": 1e-6},
            "belongs to the least epsilon",
        ),
        ({"margin_of_error": 20, "confidence_level": 2}, "level is 2"),
        ({"margin_of_error": 20, "expected_rows": 0}, "expected_rows is 0"),
        ({"margin_of_error": "mean=20"}, "There is one number: leave the name out$"),
        (
            {"guarantee": PureDP(1), "confidence_level": 0.9},
            "confidence_level=0.9 is only for a plan",
        ),
        ({"guarantee": PureDP(1), "expected_rows": 10}, "expected_rows=10 is only for a plan"),
    ],
    ids=str,
)
def test_plan_refuses_invalid_margin_of_error(given: dict[str, Any], words: str) -> None:
    wrong: Any = plan
    with pytest.raises(InvalidInputError, match=words):
        wrong(6, **given)


def test_bounds_are_read_in_every_form() -> None:
    assert bounds_of(20) == bounds_of("20") == bounds_of({"": 20}) == {"": 20}
    assert bounds_of("1.5%", 2000) == {"": 30}
    assert bounds_of("count=2%,mean=1/2", 100) == {"count": 2, "mean": 0.5}


@pytest.mark.parametrize("within", [0.5, 0.9, 7, 30, 31.4, 5000])
def test_the_least_loss_is_the_least_of_four_digits(within: float) -> None:
    calls = 0

    def error(guarantee: Any) -> float:
        nonlocal calls
        calls += 1
        return math.ceil(1000 * 30 / math.pow(guarantee.epsilon, 0.7)) / 1000

    found: Any = least_guarantee(lambda guarantee: error(guarantee) / within)
    number = found.epsilon
    assert error(found) <= within
    step = Fraction(10) ** (math.floor(math.log10(number)) - 3)
    assert (number / step).denominator == 1
    assert error(PureDP(number - step)) > within
    assert calls < 45


def test_unreachable_margin_of_error_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="cannot be reached: even with epsilon = 1000"):
        least_guarantee(lambda guarantee: 1.5)
