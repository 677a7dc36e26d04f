"""Strategies for a public tree, such as states and counties: measurements of nodes by which the
sums on every level have a wanted accuracy.
"""

from counton.strategies.trees.tree import Tree
from counton.strategies.trees.tree_strategy import HierarchyLaw, TreeStrategy

__all__ = [
    "HierarchyLaw",
    "Tree",
    "TreeStrategy",
]
