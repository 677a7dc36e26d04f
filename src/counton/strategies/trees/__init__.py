"""Strategies for a public tree: measured sums of nodes that make every level accurate."""

from counton.strategies.trees.tree import Tree
from counton.strategies.trees.tree_strategy import HierarchyLaw, TreeStrategy

__all__ = [
    "HierarchyLaw",
    "Tree",
    "TreeStrategy",
]
