"""Statistics of streams: a map from events to cells with a stated contribution, and a reading."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counton.lazy import attach
from counton.statistics.base import Drawing, Exact, Statistic
from counton.statistics.readings import Reading

if TYPE_CHECKING:
    from counton.statistics.average import Average as Average
    from counton.statistics.contingency import Contingency as Contingency
    from counton.statistics.count import Count as Count
    from counton.statistics.count import Sum as Sum
    from counton.statistics.cuts import Cuts as Cuts
    from counton.statistics.degrees import Degrees as Degrees
    from counton.statistics.distinct import Distinct as Distinct
    from counton.statistics.edges import Edges as Edges
    from counton.statistics.episodes import Episodes as Episodes
    from counton.statistics.forest import Forest as Forest
    from counton.statistics.grouped import Grouped as Grouped
    from counton.statistics.hierarchy import Hierarchy as Hierarchy
    from counton.statistics.moments import Line as Line
    from counton.statistics.moments import Moments as Moments
    from counton.statistics.quantiles import Quantiles as Quantiles
    from counton.statistics.ranges import Ranges as Ranges
    from counton.statistics.ranking import Ranking as Ranking
    from counton.statistics.ranking import rank_largest as rank_largest
    from counton.statistics.ranking import ranking_levels as ranking_levels
    from counton.statistics.reach import Reach as Reach
    from counton.statistics.report import Report as Report
    from counton.statistics.running import Running as Running
    from counton.statistics.stars import Stars as Stars
    from counton.statistics.substrings import Substrings as Substrings
    from counton.statistics.tallied import Part as Part
    from counton.statistics.tallied import TallyStatistic as TallyStatistic
    from counton.statistics.top_k import TopK as TopK
    from counton.statistics.triangles import Triangles as Triangles

__getattr__, __dir__, __all__ = attach(__name__, __file__)
__all__ += ["Drawing", "Exact", "Reading", "Statistic"]
