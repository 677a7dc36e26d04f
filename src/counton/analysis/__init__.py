"""Error, plans, intervals, lower bounds and charts: what follows from strategy and law."""

from counton.analysis.crossing import crossing_delta
from counton.analysis.expiration import ExpirationPlan, plan_expiration
from counton.analysis.expiration_plot import plot_loss
from counton.analysis.hierarchy_plot import plot_hierarchy, plot_ranges
from counton.analysis.largest_error import least_largest_error
from counton.analysis.lower_bounds import factorisation_bounds, mathias_sum
from counton.analysis.planner import Choice, Plan, plan
from counton.analysis.plots import Curves, plot_totals
from counton.analysis.refilling import RefillingBudget
from counton.mechanisms.intervals import halfwidths, interval_halfwidth

__all__ = [
    "Choice",
    "Curves",
    "ExpirationPlan",
    "Plan",
    "RefillingBudget",
    "crossing_delta",
    "factorisation_bounds",
    "halfwidths",
    "interval_halfwidth",
    "least_largest_error",
    "mathias_sum",
    "plan",
    "plan_expiration",
    "plot_hierarchy",
    "plot_loss",
    "plot_ranges",
    "plot_totals",
]
