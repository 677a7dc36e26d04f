"""Pictures of what is released and of what is lost; but for `plot_bounds` of nothing private."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counton.lazy import loader

if TYPE_CHECKING:
    from counton.plots.answers import plot_answers as plot_answers
    from counton.plots.bounds import plot_bounds as plot_bounds
    from counton.plots.loss import plot_loss as plot_loss
    from counton.plots.plans import plot_plan as plot_plan
    from counton.plots.tables import plot_hierarchy as plot_hierarchy
    from counton.plots.tables import plot_ranges as plot_ranges
    from counton.plots.totals import Curves as Curves
    from counton.plots.totals import plot_totals as plot_totals

#: Where each public name lives. The imports above say the same to type checkers.
_HOME = {
    "Curves": "counton.plots.totals",
    "plot_answers": "counton.plots.answers",
    "plot_bounds": "counton.plots.bounds",
    "plot_hierarchy": "counton.plots.tables",
    "plot_loss": "counton.plots.loss",
    "plot_plan": "counton.plots.plans",
    "plot_ranges": "counton.plots.tables",
    "plot_totals": "counton.plots.totals",
}

__all__ = [
    "Curves",
    "plot_answers",
    "plot_bounds",
    "plot_hierarchy",
    "plot_loss",
    "plot_plan",
    "plot_ranges",
    "plot_totals",
]

__getattr__ = loader(__name__, _HOME)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
