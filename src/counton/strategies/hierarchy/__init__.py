"""Strategies for a public tree: which sums of nodes to measure so that every level is accurate."""

from counton.strategies.hierarchy.building import TOTAL
from counton.strategies.hierarchy.estimating import estimates_of, node_sums
from counton.strategies.hierarchy.growing import GrowingCascade
from counton.strategies.hierarchy.joint_law import HierarchyLaw
from counton.strategies.hierarchy.measurement import Measurement, measurement_for
from counton.strategies.hierarchy.tree import Tree

__all__ = [
    "TOTAL",
    "GrowingCascade",
    "HierarchyLaw",
    "Measurement",
    "Tree",
    "estimates_of",
    "measurement_for",
    "node_sums",
]
