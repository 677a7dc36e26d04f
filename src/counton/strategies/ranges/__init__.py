"""Strategies for lines and grids of cells: what to measure so that intervals are accurate."""

from counton.strategies.ranges.base import LATTICE_BITS, RangeStrategy
from counton.strategies.ranges.candidates import NAMES
from counton.strategies.ranges.dense import Dense
from counton.strategies.ranges.descent import LARGEST_LAPLACE, optimal_laplace
from counton.strategies.ranges.grid import Grid, axis_bits
from counton.strategies.ranges.haar import Haar
from counton.strategies.ranges.intervals import AllRanges, Prefixes, TreeNodes
from counton.strategies.ranges.nodes import Nodes
from counton.strategies.ranges.optimal import gaussian_bound, optimal_gaussian
from counton.strategies.ranges.queries import Queries, RandomSubsets, workload
from counton.strategies.ranges.registry import public_range_strategies
from counton.strategies.ranges.square_root import SquareRoot
from counton.strategies.ranges.tree import TreeLaw
from counton.strategies.ranges.workload import Workload

__all__ = [
    "LARGEST_LAPLACE",
    "LATTICE_BITS",
    "NAMES",
    "AllRanges",
    "Dense",
    "Grid",
    "Haar",
    "Nodes",
    "Prefixes",
    "Queries",
    "RandomSubsets",
    "RangeStrategy",
    "SquareRoot",
    "TreeLaw",
    "TreeNodes",
    "Workload",
    "axis_bits",
    "gaussian_bound",
    "optimal_gaussian",
    "optimal_laplace",
    "public_range_strategies",
    "workload",
]
