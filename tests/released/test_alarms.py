"""Alarms come at the stated rate where nothing changes, and soon where something does."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from counton.base.errors import InvalidInput
from counton.released.alarms import Chart, find_changes, mean_delay

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
    rng, windows, runs, alarms, possible = np.random.default_rng(9), 400, 50, 0, 0
    level = 400 * (1 + 0.3 * (season > 1) * np.sin(2 * np.pi * np.arange(windows) / 7))
    step = np.eye(windows) - np.eye(windows, k=-1)  # totals are released, windows are differences
    noise = 64 * (step @ step.T) if totals else np.full(windows, 64.0)
    for _ in range(runs):
        drawn = rng.normal(0, 8, windows)
        numbers = rng.poisson(level) + (step @ drawn if totals else drawn)
        (found,) = find_changes(numbers[:, None], noise, Chart(1 / 20, 5), season=season)
        alarms, possible = alarms + len(found.windows), possible + windows - found.first + 1
    # Some 950 alarms, which come alone: 3.2% about their mean.
    assert alarms / possible == pytest.approx(1 / 20, rel=0.07)


def test_a_mean_delay_is_that_of_charts_that_are_watched_each_night() -> None:
    """One chart after another: numbers are drawn, and each night's newest window is looked at."""
    rng, windows, before, chart = np.random.default_rng(1), 140, 100, Chart(1 / 365, 7)
    step = np.eye(windows) - np.eye(windows, k=-1)  # totals are released, windows are differences
    noise, delays = 64 * (step @ step.T), []
    for _ in range(60):
        numbers = rng.normal(500, 2, windows) + step @ rng.normal(0, 8, windows)
        numbers[before:] += 8
        for night in range(before + 1, windows + 1):
            known = noise[:night, :night]
            (found,) = find_changes(numbers[:night, None], known, chart, season=7)
            if night in found.windows:
                delays.append(night - before)
                break
    planned = mean_delay(8, noise, 4.0, chart, after=before, season=7)
    error = np.std(delays) / np.sqrt(len(delays))
    assert planned == pytest.approx(np.mean(delays), abs=4 * error)
    # A rule that takes one window's deviation says six times as much.
    apart = mean_delay(8, np.diag(noise), 4.0, chart, after=before, season=7)
    assert apart is None or apart > np.mean(delays) + 10 * error


def test_a_change_that_is_learnt_as_the_level_has_no_mean_delay() -> None:
    assert mean_delay(1.0, np.full(300, 64.0), 0.0, Chart(1 / 365), after=100) is None


def test_a_decrease_is_found_and_dated() -> None:
    rng = np.random.default_rng(5)
    numbers = rng.normal(1_000, 30, 120) - np.where(np.arange(120) < 100, 0, 120)
    (found,) = find_changes(numbers[:, None], np.full(120, 4.0), Chart(1 / 3650, 3))
    assert 101 <= found.windows[0] <= 104
    assert not found.rising[0]
    assert len(found.values) == 120 + 1 - found.first


def test_growth_is_no_change_where_it_is_expected() -> None:
    rng = np.random.default_rng(5)
    numbers = (rng.normal(1_000, 10, 300) + 2 * np.arange(300))[:, None]
    noise, chart = np.full(300, 1.0), Chart(1 / 3650)
    assert len(find_changes(numbers, noise, chart)[0].windows) > 3
    assert len(find_changes(numbers, noise, chart, trend=True)[0].windows) == 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: Chart(0.2), "give a number from 1e-05 to 0.05"),
        (lambda: Chart(0.01, 0), "give 1 to 366 windows"),
        (lambda: Chart(0.01, shift=9), "in standard deviations: give 0.1 to 5"),
        (lambda: mean_delay(0, np.ones(50), 1.0, Chart(0.01), after=20), "give a number above 0"),
        (
            lambda: mean_delay(1, np.ones(50), 1.0, Chart(0.01), after=9),
            "need 15 windows .* only 9 come",
        ),
        (
            lambda: find_changes(np.ones((10, 1)), np.ones(10), Chart(0.01)),
            "need 15 windows .* only 10 are",
        ),
    ],
)
def test_what_is_wrong_is_named(wrong: object, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        wrong()  # type: ignore[operator]


def test_groups_with_the_same_noise_share_its_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, step = np.random.default_rng(3), np.eye(60) - np.eye(60, k=-1)
    noise, chart = 30 * step @ step.T, Chart(1 / 100)
    numbers = rng.normal(100, 5, (60, 3))
    alone = [find_changes(numbers[:, [one]], noise, chart)[0] for one in range(3)]
    axes = iter([np.linalg.eigh(noise)])
    monkeypatch.setattr(np.linalg, "eigh", lambda _matrix: next(axes))  # once
    together = find_changes(numbers, noise, chart)
    for found, single in zip(together, alone, strict=True):
        assert (found.values == single.values).all()
        assert found.std == single.std
