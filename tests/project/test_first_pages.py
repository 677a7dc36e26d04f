"""Numbers in the text of getting started and the concepts are those of the example and of plans."""

import datetime as dt
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton import ContributionBound, plan
from counton.run import Job
from counton.run.plan_job import planned_job

ROOT = Path(__file__).parents[2]


def page(name: str) -> str:
    """Return the text of a page without line breaks."""
    return " ".join((ROOT / "docs" / f"{name}.md").read_text("utf-8").split())


@pytest.fixture(scope="module")
def visits() -> pl.DataFrame:
    return pl.read_csv(ROOT / "examples" / "visits.csv", try_parse_dates=True)


def test_tutorial_describes_the_file(visits: pl.DataFrame) -> None:
    rows = f"{visits.height:,} rows of {visits['visitor'].n_unique()} visitors"
    first = visits["time"].min()
    last = visits["time"].max()
    assert isinstance(first, dt.datetime)
    assert isinstance(last, dt.datetime)
    assert f"{rows}, from {first.day} to {last:%-d %B %Y}" in page("getting-started/first-series")


def test_tutorial_states_the_exact_numbers(visits: pl.DataFrame) -> None:
    is_published = pl.col("time").is_between(dt.datetime(2024, 3, 4), dt.datetime(2024, 3, 25))
    weeks = visits.filter(is_published)
    by_week = weeks.group_by(pl.col("time").dt.truncate("1w")).agg(pl.col("visitor").n_unique())
    *others, last = by_week.sort("time")["visitor"]
    exact = f"The exact numbers are {', '.join(map(str, others))} and {last}."
    assert exact in page("getting-started/first-series")


def test_ten_minutes_states_rows_beyond_the_limit(visits: pl.DataFrame) -> None:
    counted = visits.group_by(pl.col("time").dt.date(), "visitor").len().height
    beyond = visits.height - counted
    text = page("getting-started/ten-minutes")
    assert f"rows beyond their user's limit, not counted: {beyond:,}" in text
    assert f"Here {beyond:,} rows are beyond the limit" in text


def test_concepts_state_margins_of_plans() -> None:
    one = plan(52, epsilon=1, series="per-window")
    std = one.best.errors.max_std
    noise = f"the standard deviation is {std:.2f} and the margin {one.halfwidth(52):.0f}"
    assert noise in page("concepts/accuracy")
    weeks, days = (plan(windows, epsilon=1).halfwidth(windows) for windows in (52, 365))
    totals = (
        f"For 52 weekly totals and ε = 1, the largest margin of error is {math.ceil(weeks)}, "
        f"for 365 daily totals {math.ceil(days)}."
    )
    assert totals in page("concepts/how-it-works")


def test_tutorial_states_margin_of_less_epsilon() -> None:
    margin = plan(52, epsilon="0.5", series="per-window").halfwidth(52)
    stated = f"Take ε = 0.5. This costs less, but the margin of error becomes ±{margin:.0f}."
    assert stated in page("getting-started/first-series")


def test_page_states_margin_of_a_month_without_rho(visits: pl.DataFrame) -> None:
    """The job `months.toml` of the page protects 31 days of a visitor."""
    text = page("guides/protect-users")
    assert f"so many of the {visits.height:,} rows of `examples/visits.csv` count:" in text
    month = ContributionBound.events(31)
    of_month = plan(365, epsilon=1, series="per-window", contribution=month).halfwidth(365)
    of_day = plan(365, epsilon=1, series="per-window").halfwidth(365)
    stated = (
        f"With `epsilon = 1` instead of `rho = 0.5`, the margin of error is ±{of_month:.0f}, "
        f"which is {of_month / of_day:.0f} times that of a single day."
    )
    assert stated in text


def test_privacy_units_state_gaussian_noise_of_a_month() -> None:
    month = ContributionBound.events(20)
    noise = plan(365, rho="0.5", series="per-window", contribution=month).best.errors.max_std
    once = 20**0.5
    stated = (
        f"the standard deviation is {noise:.0f}. With at most one event per day it is {once:.1f}."
    )
    assert stated in page("concepts/privacy-units")


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [
        ({"rho": "0.5"}, "in each window ... ±{margin:.0f}..."),
        (
            {"epsilon": 1},
            "With `epsilon = 1` in place of `rho`, the margin of error is ±{margin:.0f}.",
        ),
    ],
)
def test_page_states_margins_of_whole_persons(loss: dict[str, Any], sentence: str) -> None:
    panel: dict[str, Any] = {
        "time": "month", "every": "1mo", "start": "2024-01-01", "windows": 12,
        "series": "per-window", "user": "person", "max_contributions": 12,
        "max_contributions_per_window": 1,
    }  # fmt: skip
    (number,) = planned_job(Job("count", "panel.csv", "panel.db", **panel, **loss)).numbers
    (margin,) = {*number.halfwidths}
    assert sentence.format(margin=margin) in page("guides/protect-users")


def test_page_states_cost_of_endless_streams() -> None:
    for loss, windows, least, most in (
        ({"rho": "0.5"}, 365, 3, 12),
        ({"rho": "0.5"}, 2**18 + 1, 19, 25),
        ({"epsilon": 1}, 365, 30, 40),
    ):
        known = plan(windows, compare=False, **loss).best.errors.mean_std
        unknown = plan(None, expected_windows=windows, compare=False, **loss).best.errors.mean_std
        assert least <= 100 * (unknown / known - 1) <= most
    cost = (
        "standard deviation 3–12% (Gaussian; beyond 262,144 windows 19–25%) "
        "or 30–40% (Laplace) larger"
    )
    assert cost in page("concepts/choosing-epsilon")


def test_page_states_cost_of_a_week() -> None:
    daily: dict[str, Any] = {
        "time": "time", "every": "1d", "start": "2024-03-04", "windows": 520, "epsilon": 1,
        "series": "per-window", "user": "visitor", "max_contributions": 1,
        "contribution_period": "1d",
    }  # fmt: skip
    week = {
        "max_contributions": 7, "max_contributions_per_window": 1, "contribution_period": "1w",
    }  # fmt: skip
    margins = [
        planned_job(Job("count", "visits.csv", "visits.db", **daily | options)).numbers[0]
        for options in ({}, week, {"every": "1w", "contribution_period": "1w"})
    ]
    of_day, of_week, weekly = (max(number.halfwidths) for number in margins)
    text = page("guides/protect-users")
    assert f"the margin of error is then ±{of_week:.0f} instead of ±{of_day:.0f}." in text
    assert f'(`every = "1w"` and a `start` on a Monday) keep ±{weekly:.0f} with' in text
