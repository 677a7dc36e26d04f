"""Strategies for lines and grids of cells: what to measure so that intervals are accurate."""

from __future__ import annotations

import sys

from counton.strategies.base import exported
from counton.strategies.lines.base import LATTICE_BITS, LineStrategy
from counton.strategies.lines.catalogue import NAMES, line_strategy_from_dict
from counton.strategies.lines.dense import Dense
from counton.strategies.lines.grid import Grid, axis_bits
from counton.strategies.lines.haar import Haar
from counton.strategies.lines.nodes import Nodes
from counton.strategies.lines.optimal import (
    LARGEST_LAPLACE,
    gaussian_bound,
    optimal_gaussian,
    optimal_laplace,
)
from counton.strategies.lines.square_root import SquareRoot
from counton.strategies.lines.tree_law import TreeLaw
from counton.strategies.lines.workload import (
    AllRanges,
    Prefixes,
    Queries,
    RandomSubsets,
    TreeNodes,
    Workload,
    workload,
)

__all__ = [
    "LARGEST_LAPLACE",
    "LATTICE_BITS",
    "NAMES",
    "AllRanges",
    "Dense",
    "Grid",
    "Haar",
    "LineStrategy",
    "Nodes",
    "Prefixes",
    "Queries",
    "RandomSubsets",
    "SquareRoot",
    "TreeLaw",
    "TreeNodes",
    "Workload",
    "axis_bits",
    "gaussian_bound",
    "line_strategy_from_dict",
    "optimal_gaussian",
    "optimal_laplace",
    "public_line_strategies",
    "workload",
]


def public_line_strategies() -> tuple[type[LineStrategy], ...]:
    """Every strategy for lines that ``counton.strategies.lines`` exports, in order of name.

    >>> [cls.__name__ for cls in public_line_strategies()]
    ['Dense', 'Haar', 'Nodes', 'SquareRoot']
    """
    return exported(sys.modules[__name__], LineStrategy)  # type: ignore[type-abstract]
