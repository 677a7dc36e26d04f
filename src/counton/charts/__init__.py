"""Charts of released numbers and of privacy losses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counton.base.lazy import attach

if TYPE_CHECKING:
    from counton.charts.plan_charts import plot_choices as plot_choices
    from counton.charts.plan_charts import plot_loss as plot_loss
    from counton.charts.plan_charts import plot_plan as plot_plan
    from counton.charts.style import Caption as Caption
    from counton.charts.totals import Curves as Curves
    from counton.charts.totals import plot_totals as plot_totals

__getattr__, __dir__, __all__ = attach(__name__, __file__)
