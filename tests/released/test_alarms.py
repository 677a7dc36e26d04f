"""Alarms come at the stated rate where nothing changes, and soon where something does."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from counton.base.errors import InvalidInput
from counton.released.alarms import Chart, find_changes

Floats = NDArray[np.float64]


def _alarms_per_window(chart: Chart, seed: int, windows: int = 300_000) -> float:
    """Return the rate of alarms of independent standard normal residuals."""
    residuals = np.random.default_rng(seed).standard_normal(windows)
    return len(chart.statistic(residuals)[1]) / windows


@pytest.mark.parametrize("over", [None, 1, 7, 30])
def test_thresholds_keep_the_rate(over: int | None) -> None:
    # Some 5,800 alarms: their number is 1.3% about its mean.
    assert _alarms_per_window(Chart(1 / 52, over), 1) == pytest.approx(1 / 52, rel=0.05)


def test_a_lower_threshold_breaks_the_rate() -> None:
    residuals = np.random.default_rng(1).standard_normal(300_000)
    chart = Chart(1 / 52)
    looser = Chart(1.15 / 52)
    assert looser.threshold < chart.threshold
    assert len(looser.statistic(residuals)[1]) > 1.05 * 300_000 / 52


@pytest.mark.slow
@pytest.mark.parametrize(
    ("season", "totals"), [(1, False), (7, False), (1, True)], ids=["windows", "week", "totals"]
)
def test_residuals_of_released_numbers_keep_the_rate(season: int, totals: bool) -> None:
    rng, windows, runs, alarms, possible = np.random.default_rng(9), 400, 100, 0, 0
    level = 400 * (1 + 0.3 * (season > 1) * np.sin(2 * np.pi * np.arange(windows) / 7))
    step = np.eye(windows) - np.eye(windows, k=-1)  # totals are released, windows are differences
    noise = 64 * (step @ step.T) if totals else np.full(windows, 64.0)
    for _ in range(runs):
        drawn = rng.normal(0, 8, windows)
        numbers = rng.poisson(level) + (step @ drawn if totals else drawn)
        found = find_changes(numbers, noise, Chart(1 / 20, 5), season=season)
        alarms, possible = alarms + len(found.windows), possible + windows - found.first + 1
    # Some 1,900 alarms, which come alone: 2.3% about their mean.
    assert alarms / possible == pytest.approx(1 / 20, rel=0.07)


@pytest.mark.parametrize("over", [None, 7])
def test_the_delay_is_the_plan_s(over: int | None) -> None:
    rng, chart, delays = np.random.default_rng(3), Chart(1 / 365, over), []
    for _ in range(2_000):
        residuals = rng.standard_normal(80) + 1.5
        if over is not None:  # a full contrast from before the change
            residuals = np.concatenate([rng.standard_normal(over) * 0.0, residuals])
        delays.append(int(chart.statistic(residuals)[1][0]) + 1 - (over or 0))
    assert np.mean(delays) == pytest.approx(chart.delay(1.5), rel=0.08)


def test_a_decrease_is_found_and_dated() -> None:
    rng = np.random.default_rng(5)
    numbers = rng.normal(1_000, 30, 120) - np.where(np.arange(120) < 100, 0, 120)
    found = find_changes(numbers, np.full(120, 4.0), Chart(1 / 3650, 3))
    assert 101 <= found.windows[0] <= 104
    assert not found.rising[0]
    assert len(found.values) == 120 + 1 - found.first


def test_growth_is_no_change_where_it_is_expected() -> None:
    rng = np.random.default_rng(5)
    numbers = rng.normal(1_000, 10, 300) + 2 * np.arange(300)
    noise, chart = np.full(300, 1.0), Chart(1 / 3650)
    assert len(find_changes(numbers, noise, chart).windows) > 3
    assert len(find_changes(numbers, noise, chart, trend=True).windows) == 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: Chart(0.2), "give 1e-05 to 0.05"),
        (lambda: Chart(0.01, 0), "give 1 to 366 windows"),
        (lambda: Chart(0.01, shift=9), "give 0.1 to 5 deviations"),
        (lambda: Chart(0.01).delay(0), "above 0"),
        (lambda: find_changes(np.ones(10), np.ones(10), Chart(0.01)), "from 15 windows, and 10"),
    ],
)
def test_what_is_wrong_is_named(wrong: object, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        wrong()  # type: ignore[operator]
