"""Strategies for a public tree: noisy sums of nodes, measured so that every level is accurate."""

from counton.strategies.trees.tree import Tree
from counton.strategies.trees.tree_strategy import HierarchyLaw, TreeStrategy

__all__ = [
    "HierarchyLaw",
    "Tree",
    "TreeStrategy",
]
