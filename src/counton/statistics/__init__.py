"""Statistics of streams: counts, sums, means, quantiles, rankings, tables, words and graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counton.base.lazy import attach
from counton.statistics.results import StatisticResult as StatisticResult
from counton.statistics.statistic import Exact as Exact
from counton.statistics.statistic import Statistic as Statistic

if TYPE_CHECKING:
    from counton.statistics.accumulator_statistic import (
        AccumulatorStatistic as AccumulatorStatistic,
    )
    from counton.statistics.accumulator_statistic import Part as Part
    from counton.statistics.average import Average as Average
    from counton.statistics.by_group import Grouped as Grouped
    from counton.statistics.contingency import Contingency as Contingency
    from counton.statistics.count import Count as Count
    from counton.statistics.count import Sum as Sum
    from counton.statistics.distinct import Distinct as Distinct
    from counton.statistics.graphs.cuts import Cuts as Cuts
    from counton.statistics.graphs.degrees import Degrees as Degrees
    from counton.statistics.graphs.edges import Edges as Edges
    from counton.statistics.graphs.forest import Forest as Forest
    from counton.statistics.graphs.stars import Stars as Stars
    from counton.statistics.graphs.triangles import Triangles as Triangles
    from counton.statistics.hierarchy import Hierarchy as Hierarchy
    from counton.statistics.line_ranges import Ranges as Ranges
    from counton.statistics.live_statistic import RunningStatistic as RunningStatistic
    from counton.statistics.moments import Moments as Moments
    from counton.statistics.quantiles import Quantiles as Quantiles
    from counton.statistics.ranking import Ranking as Ranking
    from counton.statistics.ranking import rank_largest as rank_largest
    from counton.statistics.ranking import ranking_levels as ranking_levels
    from counton.statistics.reach import Reach as Reach
    from counton.statistics.report import Report as Report
    from counton.statistics.sequences.episodes import Episodes as Episodes
    from counton.statistics.sequences.substrings import Substrings as Substrings
    from counton.statistics.statistic_plan import unit_sensitivities as unit_sensitivities
    from counton.statistics.statistic_plan import unit_sensitivity as unit_sensitivity
    from counton.statistics.top_k import TopK as TopK

__getattr__, __dir__, __all__ = attach(__name__, __file__)
__all__ += ["Exact", "Statistic", "StatisticResult"]
