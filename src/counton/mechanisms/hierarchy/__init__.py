"""Private hierarchies: counts of all nodes of a tree, consistent, with chosen accuracy."""

from counton.mechanisms.hierarchy.building import TOTAL
from counton.mechanisms.hierarchy.law import HierarchyLaw
from counton.mechanisms.hierarchy.plan import HierarchyPlan, plan_hierarchy
from counton.mechanisms.hierarchy.release import HierarchyRelease, release_hierarchy
from counton.mechanisms.hierarchy.stream import HierarchyStream
from counton.mechanisms.hierarchy.tree import Tree

__all__ = [
    "TOTAL",
    "HierarchyLaw",
    "HierarchyPlan",
    "HierarchyRelease",
    "HierarchyStream",
    "Tree",
    "plan_hierarchy",
    "release_hierarchy",
]
