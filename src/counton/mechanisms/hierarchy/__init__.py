"""Private hierarchies: counts of all nodes of a tree, consistent, with chosen accuracy."""

from counton.mechanisms.hierarchy.plan import HierarchyPlan, plan_hierarchy
from counton.mechanisms.hierarchy.release import HierarchyRelease, release_hierarchy
from counton.mechanisms.hierarchy.stream import HierarchyStream

__all__ = [
    "HierarchyPlan",
    "HierarchyRelease",
    "HierarchyStream",
    "plan_hierarchy",
    "release_hierarchy",
]
