"""Strategies for a public tree: which sums of nodes to measure so that every level is accurate."""

from counton.strategies.trees.building import TOTAL
from counton.strategies.trees.estimating import estimates_of, node_sums
from counton.strategies.trees.joint_law import HierarchyLaw
from counton.strategies.trees.measurement import TreeStrategy, tree_strategy_for
from counton.strategies.trees.tree import Tree

__all__ = [
    "TOTAL",
    "HierarchyLaw",
    "Tree",
    "TreeStrategy",
    "estimates_of",
    "node_sums",
    "tree_strategy_for",
]
