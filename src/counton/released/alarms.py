"""Alarms: changes of level in a series of released numbers, with a stated rate of false alarms.

Each number is compared with its forecast from the earlier numbers. The differences (recursive
residuals) are scaled such that without a change they are independent and standard normal, whatever
the level, the noise and the guarantee. So one threshold has the same rate of false alarms in all
streams. Two control charts use these residuals. A cumulative sum finds lasting changes. A
comparison of the last windows with those before them finds changes of a known length. The noise
distribution and the numbers are public, so an alarm costs no privacy.

Sources: recursive residuals, Brown, Durbin and Evans, "Techniques for testing the constancy of
regression relationships over time", JRSS B 37 (1975); charts without known parameters, Hawkins,
"Self-starting cusum charts for location and scale", The Statistician 36 (1987); the integral
equation of the run length, Page, "Continuous inspection schemes", Biometrika 41 (1954).
"""
# Numbers are whitened with the covariance of the noise. Level, season and the variance of counts
# are estimated from the past alone, so a residual follows a Student distribution, which is mapped
# to the normal distribution.

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInput, field

Floats = NDArray[np.float64]

#: Number of windows before the first possible alarm, besides one for each estimated parameter.
BASELINE = 14
#: Number of points of the integral equation, and of simulated windows with which the threshold for
#: changes of a known length is found.
_NODES, _SIMULATED = 96, 2**21
#: Number of simulated series for a mean delay, and of windows before the change in which a
#: cumulative sum reaches its usual distribution.
_CHARTS, _SETTLED = 2_000, 50
#: Smallest and largest allowed rate of false alarms in one window.
_LEAST, _LARGEST = 1e-5, 0.05


@dataclass(frozen=True)
class Chart:
    """A control chart: a rule that decides from residuals (number minus forecast) which windows
    give an alarm.

    Attributes:
        rate: expected number of false alarms in one window, for increases and decreases together.
        over: length of the changes to find, in windows; None: changes that last.
        shift: size of the change for which a cumulative sum is optimal, in standard deviations of
            one residual.

    >>> weekly = Chart(rate=1 / 365, over=7)
    >>> round(weekly.threshold, 1)
    2.8
    """

    rate: float
    over: int | None = None
    shift: float = 1.0

    def __post_init__(self) -> None:
        if not _LEAST <= self.rate <= _LARGEST:
            raise InvalidInput(
                f"{field('rate')} is {self.rate:g} false alarms in one window; give a number from "
                f"{_LEAST:g} to {_LARGEST:g}, such as 1/365 for one false alarm a year if windows "
                "are days"
            )
        if self.over is not None and not 1 <= self.over <= 366:
            raise InvalidInput(f"{field('over')} is {self.over}; give 1 to 366 windows")
        if not 0.1 <= self.shift <= 5:
            raise InvalidInput(
                f"{field('shift')} is {self.shift:g}; it is the size of a change in standard "
                "deviations: give 0.1 to 5"
            )

    @property
    def threshold(self) -> float:
        """The limit of the control chart, in standard deviations. An alarm is given where the
        absolute value of the chart's statistic is larger.
        """
        if self.over is None:
            return _cusum_threshold(self.rate, self.shift / 2)
        return _contrast_threshold(self.rate, self.over)

    def statistic(self, residuals: Floats) -> tuple[Floats, NDArray[np.int64]]:
        """Return the control chart's signed statistic after each residual, and the indices of the
        alarms.

        The statistic starts again after each alarm.

        Args:
            residuals: standard normal numbers unless there is a change, shape ``(residuals,)``.
        """
        limit, values, alarms = self.threshold, np.zeros(len(residuals)), []
        up = down = 0.0
        begun, allowance = 0, self.shift / 2
        sums = np.concatenate([[0.0], np.cumsum(residuals)]).tolist()
        for place, residual in enumerate(np.asarray(residuals).tolist()):
            value = 0.0
            if self.over is None:
                up = max(0.0, up + residual - allowance)
                down = max(0.0, down - residual - allowance)
                value = up if up >= down else -down
            elif place + 1 - begun >= self.over:
                value = (sums[place + 1] - sums[place + 1 - self.over]) / math.sqrt(self.over)
            values[place] = value
            if abs(value) > limit:
                alarms.append(place)
                up = down = 0.0
                begun = place + 1
        return values, np.array(alarms, np.int64)

    def mean_first_alarm(self, residuals: Floats, before: int) -> float | None:
        """Return the mean number of residuals from a change to the first alarm, over simulated
        series.

        Args:
            residuals: shape ``(series, residuals)``; the change comes after ``before`` residuals.
            before: number of residuals before the change. Their alarms are ignored, but a
                cumulative sum starts again after an alarm there, as in a real chart.

        Returns:
            The mean; None if more than 1% of the series have no alarm.
        """
        limit, values = self.threshold, np.zeros_like(residuals)
        if self.over is None:
            up = down = np.zeros(len(residuals))
            for place in range(residuals.shape[1]):
                up = np.maximum(0.0, up + residuals[:, place] - self.shift / 2)
                down = np.maximum(0.0, down - residuals[:, place] - self.shift / 2)
                values[:, place] = np.maximum(up, down)
                if place < before:
                    going_on = values[:, place] <= limit
                    up, down = up * going_on, down * going_on
        else:
            sums = np.cumsum(np.pad(residuals, ((0, 0), (1, 0))), axis=1)
            recent = sums[:, self.over :] - sums[:, : -self.over]
            values[:, self.over - 1 :] = np.abs(recent) / math.sqrt(self.over)
        alarms = values[:, before:] > limit
        found = alarms.any(axis=1)
        if not found.mean() >= 0.99:
            return None
        return float(alarms[found].argmax(axis=1).mean() + 1)


@dataclass(frozen=True)
class Alarms:
    """Alarms in one series of numbers.

    Attributes:
        windows: numbers of the windows with an alarm.
        rising: for each alarm, True if it is about an increase.
        first: number of the first window in which an alarm was possible.
        values: the chart's statistic in each window, from ``first`` on.
        threshold: an alarm is raised where the absolute value of the chart's statistic is above
            this number.
        std: standard deviation of one number from its expectation, from noise and counts together.
    """

    windows: NDArray[np.int64]
    rising: NDArray[np.bool_]
    first: int
    values: Floats
    threshold: float
    std: float


def least_windows(season: int, *, trend: bool = False) -> int:
    """Return the number of windows at the beginning of a series that can give no alarm.

    They are needed to estimate the level of the series.

    Args:
        season: number of windows after which the level repeats.
        trend: True if constant growth is estimated too.
    """
    return season + trend + BASELINE


def find_changes(
    numbers: Floats,
    noise: Floats,
    chart: Chart,
    *,
    start: int = 1,
    season: int = 1,
    trend: bool = False,
) -> list[Alarms]:
    """Find changes in the level of released numbers, in each of some series with the same noise.

    Args:
        numbers: numbers by window, shape ``(windows, series)``.
        noise: variance of the noise by window, shape ``(windows,)``, or its covariance, shape
            ``(windows, windows)``.
        chart: the rule that gives alarms.
        start: number of the first window.
        season: number of windows after which the level repeats, such as 7 for days of a week.
        trend: True if constant growth is not a change.

    Raises:
        InvalidInput: there are too few numbers.

    >>> rng = np.random.default_rng(5)
    >>> numbers = rng.normal(1000, 30, 120) + np.where(np.arange(120) < 100, 0, 90)
    >>> (found,) = find_changes(numbers[:, None], np.full(120, 4.0), Chart(rate=1 / 3650))
    >>> found.windows.tolist(), found.rising.tolist()
    ([103, 106, 110, 116], [True, True, True, True])
    """
    least = least_windows(season, trend=trend)
    if len(numbers) <= least:
        raise InvalidInput(
            f"alarms need {least:,} windows to learn the usual level from, and only "
            f"{len(numbers):,} are released; wait for more"
        )
    # Noise that is independent with equal variances is not transformed.
    spectrum = np.linalg.eigh(noise) if noise.ndim == 2 else None
    levels, found = _levels(len(numbers), season, trend=trend), []
    degrees = np.arange(least, len(numbers)) - levels.shape[1]
    for series in np.asarray(numbers, float).T:
        design, values = levels, series
        if spectrum is not None:  # errors become independent, with variance 1
            own, axes = spectrum
            around = series - levels @ np.linalg.lstsq(levels, series)[0]
            spread = _likeliest_spread(own, (axes.T @ around) ** 2, float(around.var()))
            design, values = _whiten(noise, spread, levels, series)
        missed, squares = np.array(list(_forecasts(design, values, least))).T
        std = math.sqrt((squares[-1] * degrees[-1] + missed[-1] ** 2) / (degrees[-1] + 1))
        if spectrum is not None:
            std *= math.sqrt(spread + float(np.diag(noise).mean()))  # of one number
        # Without a change residuals are independent standard normal numbers.
        statistics, alarms = chart.statistic(_normal_errors(missed, squares, degrees))
        first, rising = start + least, statistics[alarms] > 0
        found.append(Alarms(alarms + first, rising, first, statistics, chart.threshold, std))
    return found


def mean_delay(
    size: float,
    noise: Floats,
    spread: float,
    chart: Chart,
    *,
    after: int,
    season: int = 1,
    trend: bool = False,
) -> float | None:
    """Return the mean number of windows from a lasting change to its alarm, found by simulation.

    Args:
        size: size of the change in each window, in data units, above 0.
        noise: variances or covariance of the noise, as for `find_changes`, for windows before and
            after the change.
        spread: variance of the true counts around their level, without noise.
        chart: the rule that gives alarms.
        after: number of windows before the change.

    Returns:
        Windows, the one with the alarm included; None if more than 1% of the simulated charts give
        no alarm in the windows after the change.

    Raises:
        InvalidInput: ``size`` is not above 0, or too few windows precede the change.

    >>> step = np.eye(300) - np.eye(300, k=-1)  # windows as differences of totals
    >>> chart = Chart(rate=1 / 365)
    >>> for noise in (np.full(300, 128.0), 64 * step @ step.T):
    ...     print(round(mean_delay(16, noise, 4.0, chart, after=200)))
    6
    3
    """
    # The change is sent through the same filter as the numbers: it is whitened with the covariance
    # of the noise, and the estimates of level, season and trend adapt to it while it lasts. What
    # remains is the mean of each residual, with which the chart is simulated. If noise is
    # correlated, the variance of the counts is estimated too, and the change increases it.
    if not size > 0:
        raise InvalidInput(
            f"{field('change', size)} is not the size of a change; give a number above 0"
        )
    if after < (least := least_windows(season, trend=trend)):
        raise InvalidInput(
            f"alarms need {least:,} windows to learn the usual level from, and only {after:,} come "
            "before the change: choose a later time for it"
        )
    changed = np.where(np.arange(len(noise)) < after, 0.0, size)
    design = _levels(len(noise), season, trend=trend)
    if noise.ndim == 1:
        return _simulated_delay(design, changed / np.sqrt(noise + spread), chart, after)

    def delay_with(learnt: float) -> float | None:
        levels, moved = _whiten(noise, learnt, design, changed)
        return _simulated_delay(levels, moved, chart, after)

    least_spread = 1e-9 * float(noise[0, 0])
    first = delay_with(max(spread, least_spread))
    known = len(noise) if first is None else min(len(noise), after + math.ceil(first))
    learnt = _learnt_spread(design[:known], changed[:known], noise[:known, :known], spread)
    return delay_with(max(learnt, least_spread))


def _simulated_delay(design: Floats, changed: Floats, chart: Chart, after: int) -> float | None:
    """Simulate control charts, and return the mean number of windows from a change to its alarm.

    Args:
        design: regressors of the level, shape ``(windows, parameters)``.
        changed: the change in each window. Like ``design`` it is transformed so that errors are
            independent with variance 1.
        chart: the rule that gives alarms.
        after: number of windows before the change.
    """
    # Before the change residuals have mean 0, so only those after it matter.
    means = np.array([missed for missed, _ in _forecasts(design, changed, after)])
    before, degrees = chart.over or _SETTLED, after - design.shape[1] + np.arange(len(means))
    rng = np.random.default_rng(after)
    missed = means + rng.standard_normal((_CHARTS, len(means)))
    squares = rng.chisquare(degrees[0], (_CHARTS, 1)) + np.cumsum(missed**2, axis=1) - missed**2
    residuals = _normal_errors(missed, squares / degrees, degrees)
    earlier = rng.standard_normal((_CHARTS, before))
    return chart.mean_first_alarm(np.concatenate([earlier, residuals], axis=1), before)


def _learnt_spread(design: Floats, changed: Floats, noise: Floats, spread: float) -> float:
    """Return the variance of counts around their level that `find_changes` would estimate from
    windows before and after a lasting change.

    It is larger than the true variance, because the change looks like random deviations from the
    level.

    Args:
        design: regressors of the level, shape ``(windows, parameters)``.
        changed: size of the change in each window.
        noise: covariance of the noise.
        spread: true variance of counts around their level.
    """
    missed = changed - design @ np.linalg.lstsq(design, changed)[0]
    own, axes = np.linalg.eigh(noise)
    squares = own + spread + (axes.T @ missed) ** 2
    return _likeliest_spread(own, squares, float(squares.mean()))


def _levels(count: int, season: int, *, trend: bool) -> Floats:
    """Return the regressors of the level of a series, shape ``(count, parameters)``.

    They are an indicator of each position in the season and, with ``trend``, the time.
    """
    columns = [(np.arange(count) % season == one).astype(float) for one in range(season)]
    columns += [np.arange(count) / count] if trend else []
    return np.column_stack(columns)


def _whiten(noise: Floats, spread: float, *given: Floats) -> list[Floats]:
    """Transform regressors and values so that their errors are independent with variance 1.

    Args:
        noise: covariance of the noise.
        spread: variance of each true count around its expectation.
        given: the arrays to transform; their first axis is the window.
    """
    from scipy import linalg

    root = np.linalg.cholesky(noise + np.diag(np.full(len(noise), spread)))
    return [linalg.solve_triangular(root, each, lower=True) for each in given]


def _forecasts(design: Floats, values: Floats, least: int) -> Iterator[tuple[float, float]]:
    """Fit values to regressors (``design``, shape ``(windows, parameters)``) by least squares,
    window by window. Yield the error of each one-step forecast, and the mean square of the earlier
    errors.

    The first forecast is for the value with index ``least``. Errors are scaled to the variance of a
    single value.
    """
    parameters = design.shape[1]
    gram = np.linalg.inv(design[:least].T @ design[:least])
    fitted = gram @ design[:least].T @ values[:least]
    squares = float(((values[:least] - design[:least] @ fitted) ** 2).sum())
    for place in range(least, len(values)):
        row = design[place]
        reach = gram @ row
        scale = 1 + float(row @ reach)
        missed = float(values[place] - row @ fitted)
        yield missed / math.sqrt(scale), squares / (place - parameters)
        gram -= np.outer(reach, reach) / scale
        fitted = fitted + reach * (missed / scale)
        squares += missed**2 / scale


def _normal_errors(missed: Floats, squares: Floats, degrees: NDArray[np.int64]) -> Floats:
    """Convert forecast errors, which follow Student distributions, to standard normal numbers.

    Args:
        missed: forecast errors.
        squares: mean squares of the earlier errors.
        degrees: degrees of freedom of ``squares``.
    """
    from scipy import special

    student = missed / np.sqrt(np.maximum(squares, 1e-300))
    return np.asarray(np.clip(special.ndtri(special.stdtr(degrees, student)), -8.0, 8.0))


def _likeliest_spread(own: Floats, squares: Floats, largest: float) -> float:
    """Estimate the variance of true counts from squared deviations that also contain noise, by
    maximum likelihood.

    Args:
        own: eigenvalues of the covariance of the noise.
        squares: squared deviations of the numbers from their level, along the eigenvectors of that
            covariance.
        largest: variance of the numbers around their level. The search ends at twice this value.
    """
    from scipy import optimize

    largest = max(largest, 1e-9)

    def unlikely(spread: float) -> float:
        of = np.maximum(own, 0.0) + spread + 1e-9 * largest
        return float((np.log(of) + squares / of).sum())

    return float(optimize.minimize_scalar(unlikely, bounds=(0.0, 2 * largest), method="bounded").x)


def _run_length(limit: float, reference: float) -> float:
    """Return the mean run length of a one-sided cumulative sum of standard normal numbers.

    The sum begins at 0, is reduced by ``reference`` in each window, never falls below 0, and ends
    above ``limit``.
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
        often = 2 / _run_length(middle, reference) > rate  # increases and decreases
        low, high = (middle, high) if often else (low, middle)
    return round(high, 3)


@lru_cache(maxsize=8)
def _simulated_contrast(over: int) -> Floats:
    """Simulate the statistic of a control chart without any change, to find its threshold.

    The statistic is the sum of the residuals of the last ``over`` windows, scaled to variance 1.
    """
    rng = np.random.default_rng(over)
    sums = np.concatenate([[0.0], np.cumsum(rng.standard_normal(_SIMULATED))])
    return np.asarray((sums[over:] - sums[:-over]) / math.sqrt(over))


@lru_cache(maxsize=64)
def _contrast_threshold(rate: float, over: int) -> float:
    values = np.abs(_simulated_contrast(over))
    low, high, most = 0.5, 8.0, rate * _SIMULATED
    while high - low > 1e-4:
        middle = (low + high) / 2
        beyond, alarms, place = np.flatnonzero(values > middle), 0, 0
        while place < len(beyond) and alarms <= most:
            alarms += 1
            free = int(beyond[place]) + over  # the chart begins anew
            place = int(beyond.searchsorted(free))
        low, high = (middle, high) if alarms > most else (low, middle)
    return round(high, 3)
