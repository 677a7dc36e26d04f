"""Alarms on a release: which numbers are watched, their noise, and the rate of false alarms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.base.errors import InvalidInput, field
from counton.base.exact import some_of
from counton.base.lengths import LENGTH, days_in
from counton.numbers import Design
from counton.released.alarms import Alarms, Chart, find_changes, least_windows, mean_delay
from counton.released.description import Description
from counton.released.periods import groups_named, season_of
from counton.released.release import Release
from counton.released.released_numbers import ReleasedNumbers
from counton.released.revisions import final_windows
from counton.released.series import local_times
from counton.strategies import AsOf, WindowsAndTotals, WindowVersions
from counton.strategies.streams.windows_and_totals import LeastSquaresAsOf

#: Largest number of compared windows; earlier windows are left out.
_MOST = 1_500
#: Numbers of windows before and after a change with which its mean delay is computed.
_BEFORE, _AFTER = 200, 200
_DAYS_OF_YEAR = 365.25


@dataclass(frozen=True)
class WatchReport:
    """Alarms in the groups of a release.

    Attributes:
        released: the release.
        chart: the rule that gives alarms, the same for each group.
        alarms: the alarms of each group, by name.
        false_alarms: expected false alarms in a year, of all groups together.
        of_change: for each group, by name: the size of a lasting change in one window, and the mean
            number of windows up to its alarm, which is None if there may be no alarm. Empty if no
            change was requested.
    """

    released: Release
    chart: Chart
    alarms: dict[str, Alarms]
    false_alarms: float
    of_change: dict[str, tuple[float, float | None]]

    @property
    def last(self) -> int:
        """Number of the newest watched window. Provisional windows, to which rows still come, are
        not watched.
        """
        return last_watched(self.released.numbers)

    @property
    def newest(self) -> bool:
        """True if the newest watched window has an alarm."""
        return any(self.last in found.windows for found in self.alarms.values())

    def table(self) -> pl.DataFrame:
        """Return a table with a row for each alarm, in order of time.

        Columns: window_start, window_end, group (if there are groups), change, value, threshold (an
        alarm is raised beyond it).
        """
        windows = self.released.numbers.definition.windows
        rows = [
            (step, group, "increase" if up else "decrease", value, found.threshold)
            for group, found in self.alarms.items()
            for step, up, value in zip(
                found.windows.tolist(),
                found.rising.tolist(),
                found.values[found.windows - found.first].tolist(),
                strict=True,
            )
        ]
        kinds = {"step": pl.Int64, "group": pl.String, "change": pl.String}
        kinds |= {"value": pl.Float64, "threshold": pl.Float64}
        table = pl.DataFrame(rows, kinds, orient="row").sort("step", maintain_order=True)
        steps, ends = table["step"].to_numpy(), windows.ends(range(self.released.steps.stop))
        times = {"window_start": ends[steps - 1], "window_end": ends[steps]}
        when = pl.DataFrame({name: local_times(windows, us) for name, us in times.items()})
        found = when.hstack(table.drop("step"))
        return found if self.released.numbers.definition.domain is not None else found.drop("group")

    def describe(self) -> str:
        """Describe the watched series, the rate of false alarms, and the mean delay of an alarm."""
        windows, chart = self.released.numbers.definition.windows, self.chart
        for_what = "changes that last"
        if chart.over is not None:
            for_what = f"changes over {windows.count(chart.over)}"
        first = min(found.first for found in self.alarms.values())
        where = "" if len(self.alarms) == 1 else f" in {len(self.alarms):,} groups together"
        said = [
            f"Watched for {for_what}, {windows.span(range(first, self.last + 1))}, with "
            f"{self.false_alarms:g} false alarm{'s' * (self.false_alarms != 1)} expected in a year"
            f"{where} where nothing changes. Earlier windows show what is usual."
        ]
        if any(len(found.windows) for found in self.alarms.values()):
            said.append(
                "The value says how much speaks for a change, in standard deviations of one "
                "window; an alarm is a value above the threshold."
            )
        if self.last < self.released.steps[-1]:
            said.append(
                "Provisional windows are not watched, because rows of theirs still come in."
            )
        for group, (size, delay) in self.of_change.items():
            of_group = "" if len(self.alarms) == 1 else f" of {group}"
            change = f"A lasting change of {size:g} in each window{of_group}"
            said.append(delay_in_words(change, delay, windows.lags))
        return " ".join(said)


def watch(
    released: Release,
    groups: str | Sequence[str] | None = None,
    *,
    false_alarms: float = 1.0,
    over: str | None = None,
    change: float | None = None,
    trend: bool = False,
) -> WatchReport:
    """Find changes of level in released counts or sums of windows. This costs no privacy.

    If windows are released again for late rows, only final windows are watched.

    Args:
        released: the release.
        groups: names of the watched groups; None: all.
        false_alarms: expected number of false alarms in a year without changes, of all groups
            together.
        over: length of the changes to find, such as "1d" or "30d"; None: changes that last.
        change: size of a lasting change in one window whose mean delay should be computed; None:
            none.
        trend: True if constant growth is not a change.

    Raises:
        InvalidInput: the release has no counts or sums of windows, or too few of them.

    >>> from counton import PureDP, release
    >>> import polars as pl
    >>> days = [f"2024-{day // 28 + 1:02}-{day % 28 + 1:02}" for day in range(84)]
    >>> rows = [day for n, day in enumerate(days) for _ in range(40 if n < 70 else 90)]
    >>> visits = pl.DataFrame({"day": rows})
    >>> run = release(
    ...     "count", visits, time="day", every="1d", start="2024-01-01", steps=365,
    ...     until="2024-03-20", guarantee=PureDP(1), state="visits.db", release="windows",
    ... )
    >>> watch(run, false_alarms=0.1).newest in (True, False)
    True
    """
    held = released.numbers
    definition, name, known = held.definition, held.design.name, held.groups
    chart, named = rule_of(definition, name, known, groups, false_alarms=false_alarms, over=over)
    last, first = last_watched(held), held.steps.start
    if last < first:
        raise InvalidInput(
            f"alarms look at final windows, and no window of {name!r} is final yet; wait until one "
            "is"
        )
    stops = np.arange(max(first, last + 1 - _MOST), last + 1)
    if (series := held.windows) is None:
        numbers = np.asarray(held.between(stops - 1, stops).estimates, float)
    else:
        numbers = np.asarray(series.estimates, float)[stops - first]
    noise = _noise_of_windows(held.design, stops)  # of one group
    season = season_of(definition.windows.every)
    place = {group: number for number, group in enumerate(known)}
    some = numbers[:, [place[group] for group in named]]
    alarms = find_changes(some, noise, chart, start=int(stops[0]), season=season, trend=trend)
    found = dict(zip(named, alarms, strict=True))
    delays = {}
    if change is not None:
        own = float((noise if noise.ndim == 1 else np.diag(noise)).mean())
        spreads = [max(alarms.std**2 - own, 0.0) for alarms in found.values()]
        each = alarm_delays(held.design, last, change, spreads, chart, season=season, trend=trend)
        delays = {group: (change, delay) for group, delay in zip(found, each, strict=True)}
    return WatchReport(released, chart, found, false_alarms, delays)


def alarm_delays(
    design: Design,
    known: int,
    change: float,
    spreads: Sequence[float],
    chart: Chart,
    *,
    season: int,
    trend: bool = False,
) -> list[float | None]:
    """Return the mean number of windows from a change to its alarm, for each given variance of
    counts; None: there may be no alarm.

    If windows are released again for late rows, the noise is that of final windows. The delay then
    counts windows up to the one whose final count gives the alarm; this count is released some
    windows later. If totals are released besides windows, the noise is that of estimates from both.

    Args:
        design: design (strategy, guarantee and noise) of a stream with counts or sums of windows.
        known: number of windows before the change. It is reduced if the stream would end too soon
            after the change, and increased if too few windows are before it to estimate the level.
        change: size of the change in each window, in data units.
        spreads: variances of the true numbers around their level, without noise; there is one
            result for each.
        chart, season, trend: see `find_changes`.
    """
    least = least_windows(season, trend=trend)
    horizon = windows_with_alarms(design)
    last = max(known, least) + _AFTER
    last = last if horizon is None else min(last, horizon)
    if last <= least:
        return [None] * len(spreads)
    before = max(least, min(known, last - min(_AFTER, last - least)))
    first = max(1, before - _BEFORE + 1)
    noise = _noise_of_windows(design_of_final_windows(design, last), np.arange(first, last + 1))
    after = before - first + 1
    return [
        mean_delay(change, noise, spread, chart, after=after, season=season, trend=trend)
        for spread in spreads
    ]


def windows_with_alarms(design: Design) -> int | None:
    """Return how many windows of a stream can ever have an alarm; None if the stream has no end.

    If windows are released again for late rows, the last windows of the stream never become final.
    """
    strategy: Any = design.strategy
    if not isinstance(strategy, AsOf | WindowsAndTotals | WindowVersions):
        return design.strategy.horizon
    return int(strategy.windows.horizon - strategy.windows.lags)


def design_of_final_windows(design: Design, until: int) -> Design:
    """Return the design (strategy, guarantee and noise) of the final numbers of the first ``until``
    windows, which alarms compare.

    If windows are released again for late rows, the number of a window is that of its last release.
    If totals are released besides windows, the number is instead a least-squares estimate from
    windows and totals, made once the last of the ``until`` windows is final.
    """
    strategy: Any = design.strategy
    if isinstance(strategy, LeastSquaresAsOf | WindowsAndTotals):
        both = strategy.both if isinstance(strategy, LeastSquaresAsOf) else strategy
        read = LeastSquaresAsOf(both, until + both.windows.lags, design.law)
        return replace(design, strategy=read)
    if isinstance(strategy, AsOf | WindowVersions):
        return replace(design, strategy=strategy.windows)
    return design


def delay_in_words(change: str, delay: float | None, lags: int = 0) -> str:
    """Return a sentence on the mean delay of the alarm for a change.

    Args:
        change: words for the change, as the subject of the sentence.
        delay: mean number of windows, including the one with the alarm; None: there may be no
            alarm.
        lags: number of windows after which a window is final.

    >>> print(delay_in_words("A change of 40", 2.5, 14))
    A change of 40 brings an alarm after 2.5 final windows on the average. A window is final 14
    windows after its end, so the alarm comes after 16.5 windows.
    """
    if delay is None:
        return f"{change} may bring no alarm, since the level is learnt from later windows too."
    if not lags:
        return f"{change} brings an alarm after {delay:.1f} windows on the average."
    later = "a window" if lags == 1 else f"{lags:,} windows"
    return (
        f"{change} brings an alarm after {delay:.1f} final windows on the average. A window is "
        f"final {later} after its end, so the alarm comes after {delay + lags:.1f} windows."
    )


def last_watched(released: ReleasedNumbers) -> int:
    """Return the number of the newest window that can have an alarm; 0 if there is none."""
    return final_windows(released.design, released.steps.stop - 1)


def windows_to_learn(released: ReleasedNumbers, *, trend: bool = False) -> int:
    """Return the number of windows at the beginning of a release that can give no alarm.

    They are needed to estimate the level and, with ``trend``, its growth.
    """
    return least_windows(season_of(released.definition.windows.every), trend=trend)


def rule_of(
    definition: Description,
    name: str,
    known: Sequence[str],
    groups: str | Sequence[str] | None = None,
    *,
    false_alarms: float,
    over: str | None,
) -> tuple[Chart, list[str]]:
    """Return the rule that gives alarms for a stream, and the names of the watched groups.

    No released number is needed, so a stream can be refused before it releases any.

    Args:
        definition: description of the stream.
        name: name of the stream.
        known: names of the stream's groups.
        groups, false_alarms, over: see `watch`.

    Raises:
        InvalidInput: the stream cannot have alarms, a group is unknown, or a value is out of range.
    """
    if (why := why_without_alarms(definition, repr(name))) is not None:
        raise InvalidInput(why)
    watched = list(known) if groups is None else groups_named(groups, known)
    there = set(known)
    if unknown := [group for group in watched if group not in there]:
        raise InvalidInput(
            f"{field('groups', unknown[0])} is not a group of {name!r}; choose from "
            f"{some_of(known)}"
        )
    return chart_for(false_alarms, over, definition.windows.every, len(watched)), watched


def chart_for(false_alarms: float, over: str | None, every: str, groups: int) -> Chart:
    """Return the rule that gives alarms for each of several groups.

    Args:
        false_alarms: expected number of false alarms in a year without changes, of all groups
            together.
        over: length of the changes to find; None: changes that last.
        every: length of a window.
        groups: number of groups.

    Raises:
        InvalidInput: ``over`` is not a length of time, or a value is out of range.
    """
    if over is not None and not LENGTH.fullmatch(over):
        raise InvalidInput(
            f"{field('over', over)} is not a length of time; it is the length of the changes to "
            "look for: give a whole number above 0 and a unit, as in 7d"
        )
    length = days_in(every)
    return Chart(
        rate=false_alarms * length / _DAYS_OF_YEAR / max(groups, 1),
        over=None if over is None else max(1, round(days_in(over) / length)),
    )


def why_without_alarms(definition: Description, called: str) -> str | None:
    """Return the reason why a stream cannot have alarms; None if it can.

    Args:
        definition: description of the stream.
        called: the stream's name as messages show it.
    """
    if definition.tiers:
        return (
            f"alarms look at groups whose noise is of one size, and {called} has groups with an "
            "epsilon or rho of their own; use the table"
        )
    if not definition.cells.named_beforehand:
        return (
            "alarms have their rate for groups chosen beforehand, and undeclared groups are shown "
            "because they are large; use the table, or declare the groups"
        )
    if not (definition.shows_cells and definition.cut.timed):
        return (
            f"alarms are only for counts and sums by window, but {called} releases "
            f"{definition.kind}; watch a count or a sum"
        )
    return None


def _noise_of_windows(design: Design, steps: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the covariance of the noise of windows, shape ``(len(steps), len(steps))``; only
    variances, shape ``(len(steps),)``, if their noise is independent.

    The covariance of two windows follows from the variances of sums over ranges of windows.
    """
    facts = design.strategy.facts
    if facts.workload == "windows" and not facts.least_squares:
        return np.asarray(design.errors.window_std(steps - 1, steps) ** 2)
    edges = np.concatenate([[steps[0] - 1], steps])
    first, second = np.meshgrid(edges, edges, indexing="ij")
    low, high = np.minimum(first, second).ravel(), np.maximum(first, second).ravel()
    apart = (design.errors.window_std(low, high) ** 2).reshape(first.shape)
    return np.asarray((apart[:-1, 1:] + apart[1:, :-1] - apart[:-1, :-1] - apart[1:, 1:]) / 2)
