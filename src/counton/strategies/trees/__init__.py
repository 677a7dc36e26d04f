"""Strategies for a public tree: which sums of nodes to measure so that every level is accurate."""

from counton.strategies.trees.joint_law import HierarchyLaw
from counton.strategies.trees.measurement import TreeStrategy
from counton.strategies.trees.tree import Tree

__all__ = [
    "HierarchyLaw",
    "Tree",
    "TreeStrategy",
]
