"""Strategies for a public tree: which sums of nodes to measure so that every level is accurate."""

from counton.strategies.trees.tree import Tree
from counton.strategies.trees.tree_strategy import HierarchyLaw, TreeStrategy

__all__ = [
    "HierarchyLaw",
    "Tree",
    "TreeStrategy",
]
