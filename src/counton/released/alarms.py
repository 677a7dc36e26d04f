"""Alarms: changes of level in a series of released numbers, with a stated rate of false alarms.

Each number is compared with its forecast from the earlier ones. The differences are made
independent and standard normal: the covariance of the noise is divided out, level and season are
estimated from the past alone, and the variance of the counts is estimated from the past too
(recursive residuals and their Student law). So a threshold does not depend on the level, the noise
or the budget, and its rate of false alarms is a property of independent standard normal numbers.

Two charts use these residuals: a cumulative sum for lasting changes, and a contrast of the last
windows with those before for changes of a known length. Noise law and numbers are public: an alarm
costs no privacy.

Sources: recursive residuals, Brown, Durbin and Evans, "Techniques for testing the constancy of
regression relationships over time", JRSS B 37 (1975); charts without known parameters, Hawkins,
"Self-starting cusum charts for location and scale", The Statistician 36 (1987); the integral
equation of the run length, Page, "Continuous inspection schemes", Biometrika 41 (1954).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInput, field

Floats = NDArray[np.float64]

#: Windows before the first possible alarm, besides one for each estimated parameter.
BASELINE = 14
#: Points of the integral equation, and simulated windows of a contrast.
_NODES, _SIMULATED = 96, 2**21
#: Least and largest rate of false alarms in one window.
_LEAST, _LARGEST = 1e-5, 0.05


@dataclass(frozen=True)
class Chart:
    """A rule that turns residuals into alarms.

    Attributes:
        rate: expected false alarms in one window, for increases and decreases together.
        over: length of the changes to find, in windows; None: lasting changes.
        shift: size of the change for which a cumulative sum is best, in standard deviations of one
            residual.

    >>> weekly = Chart(rate=1 / 365, over=7)
    >>> round(weekly.threshold, 1)
    2.8
    >>> round(Chart(rate=1 / 365).delay(1.0), 1)
    9.9
    """

    rate: float
    over: int | None = None
    shift: float = 1.0

    def __post_init__(self) -> None:
        if not _LEAST <= self.rate <= _LARGEST:
            raise InvalidInput(
                f"{field('rate')} is {self.rate:g} false alarms in one window; give {_LEAST:g} to "
                f"{_LARGEST:g}, as 1/365 for one a year of days"
            )
        if self.over is not None and not 1 <= self.over <= 366:
            raise InvalidInput(f"{field('over')} is {self.over}; give 1 to 366 windows")
        if not 0.1 <= self.shift <= 5:
            raise InvalidInput(f"{field('shift')} is {self.shift:g}; give 0.1 to 5 deviations")

    @property
    def threshold(self) -> float:
        """Value beyond which the chart gives an alarm, in standard deviations."""
        if self.over is None:
            return _cusum_threshold(self.rate, self.shift / 2)
        return _contrast_threshold(self.rate, self.over)

    def delay(self, shift: float) -> float:
        """Return the mean number of windows from a lasting change to its alarm.

        Args:
            shift: size of the change in standard deviations of one residual, above 0.
        """
        if not shift > 0:
            raise InvalidInput(f"{field('shift')} is {shift}; give a number above 0")
        if self.over is None:
            return _run_length(self.threshold, self.shift / 2 - shift)
        return _contrast_delay(self.threshold, self.over, shift)

    def statistic(self, residuals: Floats) -> tuple[Floats, NDArray[np.int64]]:
        """Return the chart's value after each residual, signed, and the alarms' places from 0.

        The chart begins anew after each alarm.
        """
        limit, values, alarms = self.threshold, np.zeros(len(residuals)), []
        up = down = 0.0
        begun = 0
        sums = np.concatenate([[0.0], np.cumsum(residuals)])
        for place, residual in enumerate(residuals):
            if self.over is None:
                up = max(0.0, up + residual - self.shift / 2)
                down = max(0.0, down - residual - self.shift / 2)
                values[place] = up if up >= down else -down
            elif place + 1 - begun >= self.over:
                recent = sums[place + 1] - sums[place + 1 - self.over]
                values[place] = recent / math.sqrt(self.over)
            if abs(values[place]) > limit:
                alarms.append(place)
                up = down = 0.0
                begun = place + 1
        return values, np.array(alarms, np.int64)


@dataclass(frozen=True)
class Alarms:
    """Alarms in one series.

    Attributes:
        windows: numbers of the windows with an alarm.
        rising: True for an alarm of an increase.
        first: number of the first window in which an alarm was possible.
        values: the chart's values, from that window on.
        threshold: absolute value beyond which it gives an alarm.
        std: standard deviation of one number about its expectation, from noise and counts together.
    """

    windows: NDArray[np.int64]
    rising: NDArray[np.bool_]
    first: int
    values: Floats
    threshold: float
    std: float


def least_windows(season: int, *, trend: bool = False) -> int:
    """Return the number of windows from which the level is learnt before an alarm is possible."""
    return season + trend + BASELINE


def find_changes(
    numbers: Floats,
    noise: Floats,
    chart: Chart,
    *,
    start: int = 1,
    season: int = 1,
    trend: bool = False,
) -> Alarms:
    """Find changes in the level of released numbers.

    Args:
        numbers: numbers by window, shape ``(windows,)``.
        noise: variance of the noise by window, shape ``(windows,)``, or its covariance, shape
            ``(windows, windows)``.
        chart: the rule.
        start: number of the first window.
        season: windows after which the level repeats, such as 7 for days of a week.
        trend: True if constant growth is not a change.

    Raises:
        InvalidInput: too few numbers.

    >>> rng = np.random.default_rng(5)
    >>> numbers = rng.normal(1000, 30, 120) + np.where(np.arange(120) < 100, 0, 90)
    >>> found = find_changes(numbers, np.full(120, 4.0), Chart(rate=1 / 3650))
    >>> found.windows.tolist(), found.rising.tolist()
    ([103, 106, 110, 116], [True, True, True, True])
    """
    least = least_windows(season, trend=trend)
    if len(numbers) <= least:
        raise InvalidInput(
            f"alarms learn the level from {least:,} windows, and {len(numbers):,} are released; "
            f"wait for more"
        )
    residuals, std = _residuals(np.asarray(numbers, float), noise, season, trend, least)
    values, alarms = chart.statistic(residuals)
    return Alarms(
        windows=alarms + start + least,
        rising=values[alarms] > 0,
        first=start + least,
        values=values,
        threshold=chart.threshold,
        std=std,
    )


def _residuals(
    numbers: Floats, noise: Floats, season: int, trend: bool, least: int
) -> tuple[Floats, float]:
    """Return residuals that are independent standard normal without a change, and their std."""
    from scipy import linalg, special

    count = len(numbers)
    columns = [(np.arange(count) % season == one).astype(float) for one in range(season)]
    columns += [np.arange(count) / count] if trend else []
    design, values = np.column_stack(columns), numbers
    own = noise if noise.ndim == 1 else np.diag(noise)
    if noise.ndim == 2:
        spread = _spread_of_counts(numbers - design @ np.linalg.lstsq(design, numbers)[0], noise)
        root = np.linalg.cholesky(noise + np.diag(np.full(count, spread)))
        design = linalg.solve_triangular(root, design, lower=True)
        values = linalg.solve_triangular(root, values, lower=True)
    parameters = design.shape[1]
    gram = np.linalg.inv(design[:least].T @ design[:least])
    fitted = gram @ design[:least].T @ values[:least]
    squares = float(((values[:least] - design[:least] @ fitted) ** 2).sum())
    found = np.zeros(count - least)
    for place in range(least, count):
        row = design[place]
        reach = gram @ row
        scale = 1 + float(row @ reach)
        missed = float(values[place] - row @ fitted)
        degrees = place - parameters
        student = missed / math.sqrt(max(scale * squares / degrees, 1e-300))
        found[place - least] = special.ndtri(special.stdtr(degrees, student))
        gram -= np.outer(reach, reach) / scale
        fitted = fitted + reach * (missed / scale)
        squares += missed**2 / scale
    unit = math.sqrt(squares / (count - parameters))
    if noise.ndim == 2:
        unit *= math.sqrt(spread + float(own.mean()))
    return np.clip(found, -8.0, 8.0), unit


def _spread_of_counts(missed: Floats, noise: Floats) -> float:
    """Return the variance of counts that is most likely beside noise of a covariance.

    Args:
        missed: numbers minus their level.
        noise: covariance of the noise.
    """
    from scipy import optimize

    own, axes = np.linalg.eigh(noise)
    squares = (axes.T @ missed) ** 2
    largest = max(float(missed.var()), 1e-9)

    def unlikely(spread: float) -> float:
        of = np.maximum(own, 0.0) + spread + 1e-9 * largest
        return float((np.log(of) + squares / of).sum())

    return float(optimize.minimize_scalar(unlikely, bounds=(0.0, 2 * largest), method="bounded").x)


def _run_length(limit: float, reference: float) -> float:
    """Return the mean run length of a one-sided cumulative sum of standard normal numbers.

    The sum begins at 0, loses ``reference`` in each window, and ends beyond ``limit``.
    """
    from scipy import special

    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    nodes, weights = (nodes + 1) * limit / 2, weights * limit / 2
    places = np.concatenate([[0.0], nodes])
    to_zero = special.ndtr(reference - places)
    density = np.exp(-((nodes - places[:, None] + reference) ** 2) / 2) / math.sqrt(2 * math.pi)
    moves = np.column_stack([to_zero, density * weights])
    return float(np.linalg.solve(np.eye(len(places)) - moves, np.ones(len(places)))[0])


@lru_cache(maxsize=64)
def _cusum_threshold(rate: float, reference: float) -> float:
    low, high = 0.1, 40.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        if 2 / _run_length(middle, reference) > rate:  # increases and decreases
            low = middle
        else:
            high = middle
    return round(high, 3)


@lru_cache(maxsize=8)
def _simulated_contrast(over: int) -> Floats:
    """Return contrasts of many windows without a change."""
    rng = np.random.default_rng(over)
    sums = np.concatenate([[0.0], np.cumsum(rng.standard_normal(_SIMULATED))])
    return np.asarray((sums[over:] - sums[:-over]) / math.sqrt(over))


@lru_cache(maxsize=64)
def _contrast_threshold(rate: float, over: int) -> float:
    values = np.abs(_simulated_contrast(over))
    low, high = 0.5, 8.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        beyond, alarms, free = np.flatnonzero(values > middle), 0, 0
        place = 0
        while place < len(beyond):
            alarms += 1
            free = int(beyond[place]) + over  # the chart begins anew
            place = int(np.searchsorted(beyond, free))
        if alarms > rate * _SIMULATED:
            low = middle
        else:
            high = middle
    return round(high, 3)


def _contrast_delay(limit: float, over: int, shift: float) -> float:
    """Return the mean delay of a contrast after a lasting change, by simulation."""
    rng = np.random.default_rng(over)
    length = 4 * over + math.ceil(40 * max(1.0, limit / shift) ** 2)
    length, runs = min(length, 4_000), 1_000
    numbers = rng.standard_normal((runs, over + length))
    numbers[:, over:] += shift
    sums = np.cumsum(np.concatenate([np.zeros((runs, 1)), numbers], axis=1), axis=1)
    values = sums[:, over + 1 :] - sums[:, 1 : length + 1]
    beyond = np.abs(values) / math.sqrt(over) > limit
    return float(np.where(beyond.any(axis=1), beyond.argmax(axis=1) + 1, length).mean())
