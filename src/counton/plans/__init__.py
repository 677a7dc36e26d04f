"""Plans: which strategy, noise and guarantee answer a question with the least error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counton.lazy import loader

if TYPE_CHECKING:
    from counton.plans.expiration import ExpirationChoice as ExpirationChoice
    from counton.plans.expiration import ExpirationPlan as ExpirationPlan
    from counton.plans.expiration import least_largest_error as least_largest_error
    from counton.plans.largest_error import LargestError as LargestError
    from counton.plans.largest_error import expected_largest_error as expected_largest_error
    from counton.plans.planner import Choice as Choice
    from counton.plans.planner import Plan as Plan
    from counton.plans.planner import crossing_delta as crossing_delta
    from counton.plans.planning import plan as plan
    from counton.plans.possible import factors_of_terms as factors_of_terms
    from counton.plans.possible import far_from_possible as far_from_possible
    from counton.plans.ranges import RangesChoice as RangesChoice
    from counton.plans.ranges import RangesPlan as RangesPlan
    from counton.plans.restarted import RestartedCounter as RestartedCounter
    from counton.plans.splits import Cost as Cost
    from counton.plans.splits import Split as Split
    from counton.plans.splits import last_halfwidth as last_halfwidth
    from counton.plans.splits import split as split

#: Where each public name lives. The imports above say the same to type checkers.
_HOME = {
    "Choice": "counton.plans.planner",
    "Cost": "counton.plans.splits",
    "ExpirationChoice": "counton.plans.expiration",
    "ExpirationPlan": "counton.plans.expiration",
    "LargestError": "counton.plans.largest_error",
    "Plan": "counton.plans.planner",
    "RangesChoice": "counton.plans.ranges",
    "RangesPlan": "counton.plans.ranges",
    "RestartedCounter": "counton.plans.restarted",
    "Split": "counton.plans.splits",
    "crossing_delta": "counton.plans.planner",
    "expected_largest_error": "counton.plans.largest_error",
    "factors_of_terms": "counton.plans.possible",
    "far_from_possible": "counton.plans.possible",
    "last_halfwidth": "counton.plans.splits",
    "least_largest_error": "counton.plans.expiration",
    "plan": "counton.plans.planning",
    "split": "counton.plans.splits",
}

__all__ = [
    "Choice",
    "Cost",
    "ExpirationChoice",
    "ExpirationPlan",
    "LargestError",
    "Plan",
    "RangesChoice",
    "RangesPlan",
    "RestartedCounter",
    "Split",
    "crossing_delta",
    "expected_largest_error",
    "factors_of_terms",
    "far_from_possible",
    "last_halfwidth",
    "least_largest_error",
    "plan",
    "split",
]

__getattr__ = loader(__name__, _HOME)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
