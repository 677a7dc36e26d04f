"""Nowcasts hold for the exact final number, whatever the delays, and say where delays changed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from counton.base.errors import InvalidInput
from counton.released.nowcast import Nowcast, forecast_final

Floats = NDArray[np.float64]
Shares = Callable[[int, np.random.Generator], Floats]

#: Shares of rows by lag in days: hospitalisations with COVID-19 in Germany, events of April to June
#: 2021, reported within 14 days (public reporting triangle of the German nowcast hub).
HOSPITAL = np.array(
    [
        *(0.2994, 0.2065, 0.0902, 0.0587, 0.0482, 0.0432, 0.0409, 0.0399),
        *(0.0309, 0.0292, 0.0242, 0.0236, 0.0224, 0.0236, 0.0191),
    ]
)
#: A logarithmic mean of 2 days with standard deviation .5, as in public examples of nowcasts.
LOGNORMAL = np.diff(stats.lognorm.cdf(np.arange(22), s=0.5, scale=np.exp(2)))
WEEK = np.array([0.55, 0.18, 0.1, 0.07, 0.04, 0.03, 0.02, 0.01])


def _stable(window: int, rng: np.random.Generator) -> Floats:
    return WEEK


def _weekly(window: int, rng: np.random.Generator) -> Floats:
    shares = WEEK.copy()
    if window % 7 in (5, 6):
        shares[:3] = WEEK[0] * 0.3, WEEK[1] + WEEK[0] * 0.3, WEEK[2] + WEEK[0] * 0.4
    return rng.dirichlet(shares * 200)


def _drifting(window: int, rng: np.random.Generator) -> Floats:
    first = 0.55 - 0.001 * window
    return rng.dirichlet(np.array([first, *((1 - first) * WEEK[1:] / WEEK[1:].sum())]) * 200)


def _hospital(window: int, rng: np.random.Generator) -> Floats:
    return rng.dirichlet(HOSPITAL / HOSPITAL.sum() * 200)


def _lognormal(window: int, rng: np.random.Generator) -> Floats:
    return np.asarray(LOGNORMAL / LOGNORMAL.sum())


def _arrivals(rng: np.random.Generator, windows: int, rows: float, shares: Shares) -> Floats:
    """Draw exact numbers of rows by window and lag, added up over lags."""
    found = []
    for window in range(windows):
        mean = rows * (1 + 0.3 * np.sin(2 * np.pi * window / 7))
        total = rng.negative_binomial(20, 20 / (20 + mean))
        found.append(np.cumsum(rng.multinomial(total, shares(window, rng))))
    return np.array(found, float)


def _known(numbers: Floats, night: int) -> Floats:
    """Return the versions that are released when ``night`` windows have ended."""
    known = numbers[:night].copy()
    for window in range(max(0, night - numbers.shape[1]), night):
        known[window, night - window :] = np.nan
    return known


def _noise(lags: int, std: float) -> Floats:
    return np.full((lags, lags), 0.4 * std**2) + np.eye(lags) * 0.6 * std**2


def _score(found: Nowcast, truth: Floats) -> float:
    """Return the mean interval score at 95%: width, and 40 times what lies outside."""
    below = np.maximum(found.estimates - found.half - truth, 0)
    above = np.maximum(truth - found.upper, 0)
    return float((2 * found.half + 40 * (below + above)).mean())


@pytest.mark.slow
@pytest.mark.parametrize(
    "shares", [_stable, _weekly, _drifting, _hospital, _lognormal], ids=lambda one: one.__name__
)
def test_intervals_hold_and_noise_costs_little(shares: Shares) -> None:
    rng = np.random.default_rng(11)
    lags = len(shares(0, rng))
    noise = _noise(lags, 1.8)
    held, private, exact = list[bool](), list[float](), list[float]()
    for _ in range(2):
        numbers = _arrivals(rng, 100 + lags, 1_000, shares)
        released = numbers + rng.multivariate_normal(np.zeros(lags), noise, len(numbers))
        for night in range(60 + lags, 101 + lags, 4):
            found = forecast_final(_known(released, night), noise, season=7)
            same = forecast_final(_known(numbers, night), 0 * noise, season=7)
            truth = numbers[found.windows - 1, -1]
            held += ((found.lower <= truth) & (truth <= found.upper)).tolist()
            private.append(_score(found, truth))
            exact.append(_score(same, truth))
    assert np.mean(held) >= 0.93
    assert np.mean(private) <= 1.1 * np.mean(exact)


def test_intervals_of_half_the_width_do_not_hold() -> None:
    rng = np.random.default_rng(2)
    noise, numbers = _noise(8, 1.8), _arrivals(rng, 100, 1_000, _weekly)
    released = numbers + rng.multivariate_normal(np.zeros(8), noise, len(numbers))
    held = []
    for night in range(60, 101, 2):
        found = forecast_final(_known(released, night), noise, season=7)
        held += (abs(found.estimates - numbers[found.windows - 1, -1]) <= found.half / 2).tolist()
    assert np.mean(held) < 0.85


def test_days_of_the_week_are_learnt() -> None:
    rng = np.random.default_rng(4)
    numbers = _arrivals(rng, 90, 10_000, _weekly)
    half = [forecast_final(_known(numbers, 90), np.eye(8), season=s).half.mean() for s in (7, 1)]
    assert half[0] < 0.75 * half[1]


def test_changed_delays_are_said() -> None:
    def slower(window: int, rng: np.random.Generator) -> Floats:
        first = 0.55 if window < 80 else 0.3
        return np.array([first, *((1 - first) * WEEK[1:] / WEEK[1:].sum())])

    numbers = _arrivals(np.random.default_rng(6), 90, 1_000, slower)
    said = [
        forecast_final(_known(numbers, night), np.eye(8), season=7).changed
        for night in (78, 80, 86)
    ]
    assert said == [False, False, True]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (np.ones((20, 8)), "it needs 22, because rows may be 7 windows late"),
        (np.ones((30, 8)), "needs all versions of each window"),
    ],
)
def test_what_is_missing_is_named(wrong: Floats, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        forecast_final(wrong, np.eye(8))


def test_no_lag_means_nothing_to_foretell() -> None:
    assert forecast_final(np.ones((20, 1)), np.eye(1)).windows.tolist() == []
