"""Strategy, law and key bound to data: running totals, and tables that are released at one go.

Names are loaded when they are first used: who counts needs no tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from counton.lazy import loader

if TYPE_CHECKING:
    from counton.mechanisms.contingency import ContingencyRelease as ContingencyRelease
    from counton.mechanisms.contrasts import Answer as Answer
    from counton.mechanisms.counter import Counter as Counter
    from counton.mechanisms.hierarchy import HierarchyChoice as HierarchyChoice
    from counton.mechanisms.hierarchy import HierarchyPlan as HierarchyPlan
    from counton.mechanisms.hierarchy import HierarchyRelease as HierarchyRelease
    from counton.mechanisms.hierarchy import plan_hierarchy as plan_hierarchy
    from counton.mechanisms.intervals import halfwidths as halfwidths
    from counton.mechanisms.intervals import interval_halfwidth as interval_halfwidth
    from counton.mechanisms.intervals import window_halfwidths as window_halfwidths
    from counton.mechanisms.ranges import RangesChoice as RangesChoice
    from counton.mechanisms.ranges import RangesPlan as RangesPlan
    from counton.mechanisms.ranges import RangesRelease as RangesRelease
    from counton.mechanisms.ranges import plan_ranges as plan_ranges
    from counton.mechanisms.releases import Release as Release
    from counton.mechanisms.releases import Releases as Releases
    from counton.mechanisms.releases import Window as Window
    from counton.mechanisms.terms import StreamTerms as StreamTerms
    from counton.mechanisms.terms import TableTerms as TableTerms
    from counton.mechanisms.terms import Terms as Terms

#: Where each public name lives. The imports above say the same to type checkers.
_HOME = {
    "Answer": "counton.mechanisms.contrasts",
    "ContingencyRelease": "counton.mechanisms.contingency",
    "Counter": "counton.mechanisms.counter",
    "HierarchyChoice": "counton.mechanisms.hierarchy",
    "HierarchyPlan": "counton.mechanisms.hierarchy",
    "HierarchyRelease": "counton.mechanisms.hierarchy",
    "RangesChoice": "counton.mechanisms.ranges",
    "RangesPlan": "counton.mechanisms.ranges",
    "RangesRelease": "counton.mechanisms.ranges",
    "Release": "counton.mechanisms.releases",
    "Releases": "counton.mechanisms.releases",
    "StreamTerms": "counton.mechanisms.terms",
    "TableTerms": "counton.mechanisms.terms",
    "Terms": "counton.mechanisms.terms",
    "Window": "counton.mechanisms.releases",
    "halfwidths": "counton.mechanisms.intervals",
    "interval_halfwidth": "counton.mechanisms.intervals",
    "plan_hierarchy": "counton.mechanisms.hierarchy",
    "plan_ranges": "counton.mechanisms.ranges",
    "window_halfwidths": "counton.mechanisms.intervals",
}

__all__ = [
    "Answer",
    "ContingencyRelease",
    "Counter",
    "HierarchyChoice",
    "HierarchyPlan",
    "HierarchyRelease",
    "RangesChoice",
    "RangesPlan",
    "RangesRelease",
    "Release",
    "Releases",
    "StreamTerms",
    "TableTerms",
    "Terms",
    "Window",
    "halfwidths",
    "interval_halfwidth",
    "plan_hierarchy",
    "plan_ranges",
    "window_halfwidths",
]

__getattr__ = loader(__name__, _HOME)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
