"""Error, plans, intervals, lower bounds and charts: what follows from strategy and law."""

from counton.analysis.crossing import crossing_delta
from counton.analysis.intervals import halfwidths, interval_halfwidth
from counton.analysis.lower_bounds import factorisation_bounds, mathias_sum
from counton.analysis.planner import Choice, Plan, plan

__all__ = [
    "Choice",
    "Plan",
    "crossing_delta",
    "factorisation_bounds",
    "halfwidths",
    "interval_halfwidth",
    "mathias_sum",
    "plan",
]
