"""Pictures of what is released and of what is lost; but for `plot_bounds` of nothing private."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counton.lazy import attach

if TYPE_CHECKING:
    from counton.plots.answers import plot_answers as plot_answers
    from counton.plots.bounds import plot_bounds as plot_bounds
    from counton.plots.loss import plot_loss as plot_loss
    from counton.plots.plans import plot_plan as plot_plan
    from counton.plots.tables import plot_hierarchy as plot_hierarchy
    from counton.plots.tables import plot_ranges as plot_ranges
    from counton.plots.totals import Curves as Curves
    from counton.plots.totals import plot_totals as plot_totals

__getattr__, __dir__, __all__ = attach(__name__, __file__)
