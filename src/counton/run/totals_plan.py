"""Planned errors of totals beside revised windows, and how far they are from the least possible."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counton.base.distributions import Sensitivity
from counton.base.lengths import days_in
from counton.numbers import Design
from counton.numbers.node_law import law_for
from counton.planning.least_totals import MOST_CELLS, least_totals
from counton.privacy import ZCDP
from counton.run.new_stream import with_totals
from counton.run.revised_plan import terms_without_totals, windows_of
from counton.strategies import AsOf, WindowsAndTotals, WindowVersions
from counton.strategies.streams.windows_and_totals import LeastSquaresAsOf

if TYPE_CHECKING:
    from counton.run.definition import Definition

#: Most windows for which totals are compared with the least possible.
_MOST_WINDOWS = 64


class PlannedTotals(NamedTuple):
    """Planned standard deviations of revised windows (released again when late rows come), and of
    the totals released with them.

    They are in data units, and hold after the last release, which is made at the end of the last
    window.

    Attributes:
        share: fraction of the privacy budget that totals have.
        windows: number of windows.
        final: deviation of the number of one final window.
        week, year: deviation of the sum of all final windows of a week, and of a year; None if the
            stream is shorter, or if a single window is as long.
        total: deviation of the sum of all windows.
        alone: the deviations ``final``, ``week``, ``year`` and ``total`` if windows have the whole
            budget, and no totals are released.
        over_least: upper bound on the loss against other strategies. 0.1 says that the totals' root
            mean square deviation is at most 10% above that of any strategy whose windows are all as
            accurate. None if no good bound is known: for other guarantees than ``rho``, for streams
            that take corrections, and where people are protected.
        nights: number of windows for which ``over_least`` was computed: at most 64, also if the
            stream is longer.
    """

    share: Fraction
    windows: int
    final: float
    week: float | None
    year: float | None
    total: float
    alone: tuple[float, float | None, float | None, float]
    over_least: float | None
    nights: int

    def to_dict(self) -> dict[str, Any]:
        """Return the planned standard deviations of windows and totals as JSON values."""
        return {**self._asdict(), "share": float(self.share), "alone": list(self.alone)}


def planned_totals(definition: Definition, terms: Design) -> PlannedTotals | None:
    """Return the planned errors of windows and totals after the last window; None if the stream
    releases no totals.

    >>> from counton.job.job import Job
    >>> from counton.run.new_stream import define, design_of
    >>> job = Job("count", "visits.csv", "visits.db", time="at", every="1d", start="2024-03-01",
    ...           steps=64, revise="7d", rho=0.5, also_totals=0.1)
    >>> definition = define(job)
    >>> found = planned_totals(definition, design_of(definition, ()))
    >>> round(found.final, 2), round(found.week, 2), round(found.total, 2)
    (1.66, 3.82, 6.19)
    >>> round(found.alone[0], 2), round(found.alone[1], 2), round(found.alone[3], 2)
    (1.62, 4.27, 12.81)
    >>> found.nights, round(found.over_least, 3)
    (64, 0.089)
    """
    both = terms.strategy
    if not isinstance(both, WindowsAndTotals):
        return None
    last, lags = both.horizon, both.windows.lags
    kept = terms_without_totals(definition, terms, terms.guarantee, lags, definition.corrections)
    together = replace(terms, strategy=LeastSquaresAsOf(both, last, terms.law))
    windows = windows_of(kept)
    alone = WindowVersions(last, windows.inner, windows.corrections)
    apart = replace(kept, strategy=AsOf(alone, last))
    days = [round(length / days_in(definition.cut.every)) for length in (7, 365)]

    def stds(of: Design) -> tuple[float, float | None, float | None, float]:
        def std(windows: int, until: int) -> float:
            return float(of.errors.window_std(until - windows, until))

        final = max(last - lags, 1)
        week, year = (std(many, final) if 1 < many <= final else None for many in days)
        return std(1, final), week, year, std(last, last)

    found = stds(together), stds(apart)
    return PlannedTotals(both.share, last, *found[0], found[1], *_over_least(terms, both))


def _over_least(terms: Design, both: WindowsAndTotals) -> tuple[float | None, int]:
    """Return an upper bound on the loss in accuracy of the totals, and the number of windows of the
    stream for which it was computed. The loss is against any other strategy whose windows are as
    accurate: a bound of 0.1 says that the totals' root mean square deviation is at most 10% above
    that strategy's. None: no bound is known.
    """
    guarantee, unit = terms.guarantee, terms.contribution
    lags = np.arange(both.windows.lags + 1)
    windows = min(both.horizon, _MOST_WINDOWS)
    while np.maximum(windows - lags, 0).sum() > MOST_CELLS:
        windows -= 1
    single = unit.acts_once and not both.windows.corrections
    if not isinstance(guarantee, ZCDP) or not single or lags[-1] >= windows < both.horizon:
        return None, windows
    if windows < both.horizon:
        kept = WindowVersions(windows, both.windows.inner)
        both = with_totals(kept, both.share, guarantee, unit, terms.shape)
    # Variances are in units of that of a single measurement of all a unit can change.
    law = law_for(both, guarantee, unit, terms.shape).law
    one = unit.sensitivities(Sensitivity(1, 1, ((1, 1),)), cells=math.prod(terms.shape))
    unit_of_node = float(law.variance * 2 * guarantee.rho / one.l2_squared)
    node = unit_of_node / 4.0**both.windows.facts.lattice_bits
    versions, totals = np.ones((windows, len(lags))), 0.0
    for night in range(1, windows + 1):
        read = LeastSquaresAsOf(both, night, law)
        ends = np.arange(max(night - len(lags), 0) + 1, night + 1)
        versions[ends - 1, night - ends] = node * read.variance(ends, ends - 1)
        totals += node * float(read.variance(night, 0)) / windows
    least = least_totals(versions, totals, float(both.share))
    return (math.sqrt(totals / least) - 1 if least else None), windows
