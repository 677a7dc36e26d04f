"""Plans: which strategy, noise and guarantee answer a question with the least error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counton.lazy import attach

if TYPE_CHECKING:
    from counton.plans.expiration import FadingPlan as FadingPlan
    from counton.plans.largest_error import LargestError as LargestError
    from counton.plans.largest_error import expected_largest_error as expected_largest_error
    from counton.plans.planner import Plan as Plan
    from counton.plans.planner import StreamPlan as StreamPlan
    from counton.plans.planning import plan as plan
    from counton.plans.possible import factors_of_terms as factors_of_terms
    from counton.plans.possible import far_from_possible as far_from_possible
    from counton.plans.ranges import CellsDesign as CellsDesign
    from counton.plans.restarted import RestartedCounter as RestartedCounter
    from counton.plans.splits import Cost as Cost
    from counton.plans.splits import Split as Split
    from counton.plans.splits import last_halfwidth as last_halfwidth
    from counton.plans.splits import split as split

__getattr__, __dir__, __all__ = attach(__name__, __file__)
