"""Planned errors of revised windows, which are released again until a delay is over, for several
delays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from counton.base.lengths import days_in
from counton.numbers import Design
from counton.numbers.design import design_for
from counton.statistics.discovery import sums_draws
from counton.strategies import AsOf, WindowVersions
from counton.strategies.streams.window_versions import MOST_VERSIONS

if TYPE_CHECKING:
    from counton.base.arrays import Floats
    from counton.privacy import Guarantee
    from counton.run.definition import Definition
    from counton.strategies import Metric

#: Names of versions of a window, for statements of wanted half-widths. A version is the window's
#: number as one release gives it; later versions include more late rows.
FIRST, FINAL = "first", "final"


class PlannedDelay(NamedTuple):
    """Planned noise of windows that are released again when late rows come, if a window is final
    after a given delay. All deviations are standard deviations in data units.

    Attributes:
        lags: the delay, as a number of further windows until a window is final.
        by_lag: deviation of each version of a window; the first version is released at the window's
            end.
        first: deviation of the first version.
        mean: typical deviation over all versions.
        final: deviation of the last version.
        week, year: deviation of the sum of all final windows in a week, and in a year; None if a
            window is longer.
    """

    lags: int
    by_lag: tuple[float, ...]
    first: float
    mean: float
    final: float
    week: float | None
    year: float | None


def windows_of(terms: Design) -> WindowVersions:
    """Return the strategy by which a design releases each window in several versions."""
    assert isinstance(terms.strategy, WindowVersions)
    return terms.strategy


def newest_at(terms: Design, lags: int) -> Design:
    """Return a design (strategy, guarantee and noise) for planning the errors of a window's
    versions.

    A window is released at its end, and again after each of the next ``lags`` windows. The design
    has, for each window, the version that is the newest at step ``lags + 1``. At this step window 1
    is released in its last version and window ``lags + 1`` in its first, so each version occurs.
    """
    strategy = windows_of(terms)
    if strategy.horizon <= lags:
        strategy = WindowVersions(lags + 1, strategy.inner)
    return replace(terms, strategy=AsOf(strategy, lags + 1))


def halfwidths_of_versions(
    terms: Design, versions: Sequence[int], level: float
) -> tuple[float, ...]:
    """Return half-widths of a cell in some versions of a window, given by their numbers from 1 on.

    Version 1 is released at the window's end, and each further version one window later.
    """
    strategy = windows_of(terms)
    at = newest_at(terms, strategy.lags)
    steps = strategy.lags + 2 - np.asarray(versions, np.int64)
    return tuple(at.errors.window_halfwidths(steps - 1, steps, level).tolist())


def named_versions(terms: Design, level: float) -> Mapping[str, tuple[float, ...]]:
    """Return half-widths of a window's number as it is first released (`FIRST`), and as it is once
    it is final (`FINAL`).

    Args:
        terms: design of the stream (strategy, guarantee and noise).
        level: probability with which each interval holds.
    """
    first, final = halfwidths_of_versions(terms, (1, windows_of(terms).lags + 1), level)
    return {FIRST: (first,), FINAL: (final,)}


def planned_delays(definition: Definition, terms: Design) -> tuple[PlannedDelay, ...]:
    """Return the planned errors of revised windows (released again when late rows come) for three
    delays. The delay is the time until a window is final.

    The delays are: half the job's delay; the job's delay; and twice the job's delay or the longest
    possible delay. Only counts and sums have such plans; for others the result is empty.

    >>> from counton.job.job import Job
    >>> from counton.run.new_stream import define, design_of
    >>> job = Job("count", "visits.csv", "visits.db", time="at", every="1d", start="2024-03-01",
    ...           revise="2d", rho=0.5)
    >>> definition = define(job)
    >>> for one in planned_delays(definition, design_of(definition, ())):
    ...     print(one.lags, round(one.first, 2), round(one.final, 2))
    1 1.0 1.0
    2 1.14 1.31
    4 1.26 1.57
    """
    if not definition.statistic.card.additive:
        return ()
    guarantee = terms.counters or terms.guarantee
    lags = definition.cut.lags
    found = []
    twice = min(2 * lags, MOST_VERSIONS - 1)
    for each in sorted({max(lags // 2, 1), lags, twice}):
        of = terms if each == lags else least_terms(definition, terms, guarantee, each)
        at = newest_at(of, each)
        std: Floats = np.asarray(at.errors.std(range(1, each + 2)), np.float64)[::-1]  # by lag
        final, length = float(std[-1]), days_in(definition.cut.every)
        week, year = (
            None if length > days else final * math.sqrt(round(days / length)) for days in (7, 365)
        )
        typical = float(np.sqrt((std**2).mean()))
        by_lag = tuple(std.tolist())
        found.append(PlannedDelay(each, by_lag, by_lag[0], typical, final, week, year))
    return tuple(found)


def least_terms(definition: Definition, terms: Design, guarantee: Guarantee, lags: int) -> Design:
    """Return the design (strategy, guarantee and noise) of least error for revised windows
    (released again when late rows come).

    ``lags`` is the number of further windows until a window is final.
    """
    from counton.planning.planner import plan_stream

    metric = cast("Metric", definition.metric)
    ranked = plan_stream(
        lags + 1,
        guarantee,
        metric=metric,
        contribution=terms.contribution,
        shape=terms.shape,
        compare=terms.counters is not None,
        simple=terms.counters is not None,
    )
    best = ranked.best
    if terms.counters is not None:
        best = next(one for one in ranked.choices if sums_draws(one.strategy))
    windows = WindowVersions(lags + 1, best.strategy)
    return design_for(windows, guarantee, terms.contribution, terms.shape)
