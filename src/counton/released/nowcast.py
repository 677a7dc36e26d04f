"""Nowcasts: forecasts of the final count of a window to which rows still come (a provisional
window).

A release is made after each window, called a night here. It contains the first version of the
window that just ended, and new versions of earlier provisional windows. The lag of a version is the
number of windows that have ended after its own. Released versions of earlier windows show how fast
rows arrive.

A chain ladder multiplies the newest version of a provisional window by the growth of earlier
windows from the same lag on. A second forecast is the mean of recent final windows, which helps if
few rows have arrived yet. The weight of each forecast, and the width of the interval, come from the
same forecasts on earlier nights, compared with windows that are final now. So an interval holds
without an assumed distribution of delays, as long as delays stay like those of the last weeks.

All inputs are released numbers, and the covariance of their noise is public, so a nowcast costs no
privacy.

Sources: the chain ladder with a variance proportional to the mean, Mack, "Distribution-free
calculation of the standard error of chain ladder reserve estimates", ASTIN Bulletin 23 (1993); the
weights are a credibility estimate, Buhlmann, "Experience rating and credibility", ASTIN Bulletin 4
(1967).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInput, field

#: Largest number of windows whose final count is compared with forecasts of earlier nights.
HISTORY = 56
#: Number of windows after which the weight of an earlier window has halved.
HALF_LIFE = 14
#: Smallest number of final windows with a forecast for each lag.
LEAST = 8
#: Numbers of last nights whose arrivals are compared with those of earlier nights, and the largest
#: difference in standard deviations.
_NIGHTS, _CHANGED = (3, 7), 4.0

#: A window's growth is unusual if its deviation exceeds the median deviation by this factor.
_FAR = 8.0
#: Smallest share of a window's rows that is taken to be missing, for the width of its interval.
_LITTLE = 0.01

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Nowcast:
    """Forecasts of the final counts of provisional windows: windows whose rows still arrive, so
    that their counts are released again.

    All arrays have shape ``(windows,)``.

    Attributes:
        windows: numbers of the provisional windows, from 1.
        lags: for each window, the number of later windows that had ended when its count was last
            released.
        estimates: forecasts of the final counts, without noise.
        std: standard deviations of the errors of the forecasts.
        degrees: degrees of freedom of each standard deviation.
        weights: weight, in each forecast, of the chain ladder (newest count times expected growth);
            the mean of recent windows has the rest.
        changed: True if arrivals in the last releases contradict earlier delays. Then intervals
            cannot be trusted.
        level: probability with which each interval holds the exact final count.
    """

    windows: NDArray[np.int64]
    lags: NDArray[np.int64]
    estimates: Floats
    std: Floats
    degrees: Floats
    weights: Floats
    changed: bool
    level: float = 0.95

    @cached_property
    def half(self) -> Floats:
        """Half-widths of the intervals of the forecasts: shape ``(windows,)``."""
        from scipy import stats

        return np.asarray(stats.t.ppf((1 + self.level) / 2, self.degrees) * self.std, np.float64)

    @property
    def lower(self) -> Floats:
        """Lower ends of the intervals of the forecast final counts, never below 0."""
        return np.maximum(self.estimates - self.half, 0.0)

    @property
    def upper(self) -> Floats:
        """Upper ends of the intervals of the forecast final counts."""
        return self.estimates + self.half


def forecast_final(
    versions: Floats,
    covariance: Floats,
    *,
    season: int = 1,
    level: float = 0.95,
    row: float = 1.0,
) -> Nowcast:
    """Forecast the final count of each provisional window, whose rows still arrive.

    Args:
        versions: released counts by window and lag (the number of windows that had ended after it),
            shape ``(windows, lags)``; NaN if a count is not released yet. Window w of W has
            versions of lags 0 to W - w.
        covariance: covariance of the noise of one window's counts at all lags, shape ``(lags,
            lags)``.
        season: number of windows after which delays and levels repeat: 7 for days of a week; 1 for
            no season.
        level: probability with which each interval holds.
        row: the smallest amount that one row adds: 1 for counts, the resolution for sums.

    Raises:
        InvalidInput: too few windows are final, or a released count is missing.

    >>> arrived = np.cumsum([60.0, 25.0, 15.0])
    >>> versions = np.array([arrived * (1 + 0.1 * (w % 3)) for w in range(30)])
    >>> versions[29, 1:] = versions[28, 2:] = np.nan
    >>> found = forecast_final(versions, np.eye(3))
    >>> found.windows.tolist(), found.lags.tolist(), found.estimates.round().tolist()
    ([29, 30], [1, 0], [110.0, 120.0])
    """
    triangle = _Triangle(versions, covariance, season, row)
    nights, last = len(versions), versions.shape[1] - 1
    first = nights - last + 1
    found = [triangle.forecast(window) for window in range(first, nights + 1)]
    estimates, std, degrees, weights = np.array(found).reshape(-1, 4).T
    windows = np.arange(first, nights + 1)
    changed = triangle.delays_changed()
    return Nowcast(windows, nights - windows, estimates, std, degrees, weights, changed, level)


def nights_needed(lags: int) -> int:
    """Return the number of windows that must be released before final counts can be forecast.

    The count of a window is final when ``lags`` further windows have ended.
    """
    return 2 * lags + LEAST


class _Triangle:
    """All released counts of all windows, for forecasts of the final counts.

    A window's count is released again as its rows arrive. Each released count, called a version, is
    identified by its window and by its lag: the number of windows that had ended after this window.
    """

    def __init__(self, versions: Floats, covariance: Floats, season: int, row: float) -> None:
        self.versions, self.covariance = versions / row, covariance / row**2
        self.season, self.row = season, row
        self.nights, self.last = len(versions), versions.shape[1] - 1
        needed = nights_needed(self.last)
        if self.nights < needed:
            raise InvalidInput(
                f"{field('nowcast')} learns from final windows how late rows come, and only "
                f"{self.nights:,} windows are released; it needs {needed:,}, because rows may be "
                f"{self.last:,} windows late: wait for more"
            )
        known = np.add.outer(np.arange(self.nights), np.arange(self.last + 1)) < self.nights
        if not np.array_equal(known, np.isfinite(versions)):
            raise InvalidInput(
                f"{field('nowcast')} needs all versions of each window, from the first to the "
                "newest, and this table has only some; read the whole release from its state"
            )

    @cached_property
    def ratios(self) -> dict[int, Floats]:
        """Estimated ratios of a window's final count to each of its earlier released counts.

        The key is the index of a release, from 0; only counts released up to then are used. The
        value has shape ``(lags, seasons)``; a lag is the number of windows that had ended after the
        window.
        """
        first = max(self.nights - HISTORY - 2 * self.last, self.last + LEAST - 1)
        found = {}
        for night in range(first, self.nights):
            growth = [self._growth(night, lag) for lag in range(self.last)]
            steps = np.array([*growth, np.ones(self.season)])
            found[night] = np.cumprod(steps[::-1], axis=0)[::-1]
        return found

    def _growth(self, night: int, lag: int) -> Floats:
        """Return the factor by which a window's count grows from one release to the next, for each
        position in the season: shape ``(seasons,)``.

        The factors are shrunk towards a common factor, as far as random differences between windows
        explain the differences between seasons.

        Args:
            night: index of a release, from 0. Only counts released up to then are used.
            lag: number of windows that had ended after the window at the first of the two releases.
        """
        stop = night - lag
        windows = np.arange(max(0, stop - HISTORY), stop)
        start, end = self.versions[windows, lag], self.versions[windows, lag + 1]
        weight = _weights(len(windows)) * _grew_as_usual(start, end)
        noise = math.sqrt(self.covariance[lag, lag] * float(weight @ weight))
        common = max(float(weight @ end) / max(float(weight @ start), 3 * noise, 1.0), 1.0)
        if self.season == 1 or len(windows) < 3 * self.season:
            return np.full(self.season, common)
        of, sizes = windows % self.season, np.maximum(start, 1.0)
        total = np.maximum(np.bincount(of, weight * start, self.season), 1.0)
        each = np.bincount(of, weight * end, self.season) / total
        free = len(windows) / max(len(windows) - self.season, 1)
        rest = (end - each[of] * start) ** 2 / sizes
        by_chance = free * float(weight @ rest) / float(weight.sum())
        by_chance = by_chance * np.bincount(of, weight**2 * sizes, self.season) / total**2
        share = total / total.sum()
        between = max(0.0, float(share @ ((each - common) ** 2 - by_chance)))
        shrunk = common + between / np.maximum(between + by_chance, 1e-12) * (each - common)
        return np.asarray(np.maximum(shrunk, 1.0))

    def _ladder(self, window: int, lag: int) -> tuple[float, float]:
        """Return the chain-ladder forecast of a window's final count, and the growth that it
        expects.

        The forecast is a released count of the window times its expected growth.

        Args:
            window: number of the window.
            lag: number of windows that had ended after this window when the count was released.
                Later counts are ignored.
        """
        ratio = float(self.ratios[window - 1 + lag][lag, (window - 1) % self.season])
        return ratio * float(self.versions[window - 1, lag]), ratio

    def _level(self, window: int, lag: int) -> float:
        """Return the mean count of up to three newest final windows at the same point of the
        season, such as the same weekday.

        If there are fewer than two, it is the mean of the newest final windows.

        Args:
            window: number of the window.
            lag: number of windows that had ended after this window. Windows count as final if they
                were final at that time.
        """
        final = np.arange(window - 1 + lag - self.last + 1)
        same = final[final % self.season == (window - 1) % self.season][-3:]
        chosen = same if len(same) > 1 else final[-LEAST:]
        return float(self.versions[chosen, self.last].mean())

    def forecast(self, window: int) -> tuple[float, float, float, float]:
        """Forecast the final count of a window, and return four numbers.

        They are the forecast, the standard deviation of its error, the degrees of freedom of this
        standard deviation, and a weight. The weight is that of the chain-ladder forecast (newest
        released count times expected growth); the mean of recent windows has the rest.
        """
        lag, final = self.nights - window, self.nights - self.last
        known = [w for w in range(final, 0, -1) if w - 1 + lag in self.ratios][:HISTORY]
        weight = _weights(len(known))[::-1]
        truth = self.versions[np.array(known) - 1, self.last]
        ladder, ratio = np.array([self._ladder(w, lag) for w in known]).T
        recent = np.array([self._level(w, lag) for w in known])
        # A window with few arrivals is less certain than others of its size.
        size = np.maximum(truth, 1.0) * np.maximum(ratio - 1, _LITTLE)
        apart, scaled = ladder - recent, weight / size
        share = float(scaled @ (apart * (truth - recent)))
        share = min(max(share / max(float(scaled @ apart**2), 1e-12), 0.0), 1.0)
        missed = truth - recent - share * apart
        most = _FAR * _median(np.abs(missed) / np.sqrt(size))
        missed = np.clip(missed, -most * np.sqrt(size), most * np.sqrt(size))
        # Noise variance of (final count) - factor * (count at this lag), whose noise is correlated.
        of, last, factor = self.covariance, self.last, share * ratio
        noise = of[last, last] + factor**2 * of[lag, lag] - 2 * factor * of[last, lag]
        own, own_ratio = self._ladder(window, lag)
        estimate = share * own + (1 - share) * self._level(window, lag)
        estimate = max(estimate, float(self.versions[window - 1, lag]))  # rows are never removed
        per_row = float(weight @ (missed**2 - noise)) / float(weight @ size)
        per_row = max(per_row, share**2)  # rows that arrive one by one
        noise_now = (share * own_ratio) ** 2 * of[lag, lag]
        open_rows = max(estimate, 1.0) * max(own_ratio - 1, _LITTLE)
        std = math.sqrt(per_row * open_rows + noise_now)
        degrees = max(float(weight.sum()) ** 2 / float(weight @ weight) - 2, 3.0)
        return self.row * estimate, self.row * std, degrees, share

    def delays_changed(self) -> bool:
        """Return True if rows came sooner or later in the last releases than in earlier ones, by
        more than random differences explain.
        """
        found = np.array([self._surprise(night) for night in sorted(self.ratios)[1:]])
        before = found[: -max(_NIGHTS)]
        if len(before) < LEAST:
            return False
        usual = max(_median(np.abs(before)) * 1.4826, 1e-9)
        return any(abs(found[-n:].sum()) > _CHANGED * usual * math.sqrt(n) for n in _NIGHTS)

    def _surprise(self, night: int) -> float:
        """Return how much more the counts of all provisional windows together grew at a release
        than was forecast.

        A window is provisional while its rows still arrive. The difference is in standard
        deviations of the forecast's error.

        Args:
            night: index of the release, from 0.
        """
        lags = np.arange(self.last)
        windows = night - 1 - lags
        ratios = self.ratios[night - 1]
        season = windows % self.season
        growth = ratios[lags, season] / ratios[lags + 1, season]
        start, end = self.versions[windows, lags], self.versions[windows, lags + 1]
        noise = np.diag(self.covariance)
        variance = np.maximum(growth * start, 1.0) * np.maximum(growth - 1, 0.01)
        variance = variance + noise[lags + 1] + growth**2 * noise[lags]
        return float((end - growth * start).sum() / math.sqrt(max(float(variance.sum()), 1.0)))


def _grew_as_usual(start: Floats, end: Floats) -> NDArray[np.bool_]:
    """Return for each window whether it grew about as much as most windows.

    A window is unusual if, for example, many of its rows came late in one file.

    Args:
        start, end: counts of each window in two successive releases.
    """
    sizes = np.sqrt(np.maximum(end, 1.0))
    grown = (end - _median(end / np.maximum(start, 1.0)) * start) / sizes
    away = np.abs(grown - _median(grown))
    return np.asarray(away <= _FAR * max(_median(away), 0.1))


def _median(values: Floats) -> float:
    """Return ``np.median`` of a few finite numbers, five times as fast.

    >>> _median(np.array([3.0, 1.0, 2.0, 7.0])), _median(np.array([3.0, 1.0, 2.0]))
    (2.5, 2.0)
    """
    ordered, half = np.sort(values), len(values) // 2
    return float(ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2)


@lru_cache(maxsize=8)
def _weights(count: int) -> Floats:
    """Return weights of consecutive windows that fall exponentially with age; the newest has weight
    1.
    """
    found = np.asarray(0.5 ** (np.arange(count)[::-1] / HALF_LIFE))
    found.flags.writeable = False
    return found
