"""Strategies for a public tree: which sums of nodes to measure so that every level is accurate."""

from counton.strategies.trees.strategy import HierarchyLaw, TreeStrategy
from counton.strategies.trees.tree import Tree

__all__ = [
    "HierarchyLaw",
    "Tree",
    "TreeStrategy",
]
