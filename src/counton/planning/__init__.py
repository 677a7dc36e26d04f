"""Plans: the strategy, noise and guarantee that give the least error for stated requirements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counton.base.lazy import attach

if TYPE_CHECKING:
    from counton.planning.expiration_plans import FadingPlan as FadingPlan
    from counton.planning.lower_bounds import factors_of_design as factors_of_design
    from counton.planning.lower_bounds import far_from_possible as far_from_possible
    from counton.planning.plans import Plan as Plan
    from counton.planning.plans import StreamPlan as StreamPlan
    from counton.planning.ranges_plan import CellsDesign as CellsDesign

__getattr__, __dir__, __all__ = attach(__name__, __file__)
