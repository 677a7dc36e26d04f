"""Strategies for lines and grids of cells: what to measure so that intervals are accurate."""

from __future__ import annotations

import sys

from counton.strategies.base import exported
from counton.strategies.lines.base import LineStrategy
from counton.strategies.lines.catalogue import line_strategy_from_dict
from counton.strategies.lines.dense import Dense
from counton.strategies.lines.grid import Grid
from counton.strategies.lines.haar import Haar
from counton.strategies.lines.hats import Hats
from counton.strategies.lines.nodes import Nodes
from counton.strategies.lines.optimal import gaussian_bound, optimal_gaussian, optimal_laplace
from counton.strategies.lines.square_root import SquareRoot
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
    "AllRanges",
    "Dense",
    "Grid",
    "Haar",
    "Hats",
    "LineStrategy",
    "Nodes",
    "Prefixes",
    "Queries",
    "RandomSubsets",
    "SquareRoot",
    "TreeNodes",
    "Workload",
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
    ['Dense', 'Haar', 'Hats', 'Nodes', 'SquareRoot']
    """
    return exported(sys.modules[__name__], LineStrategy)  # type: ignore[type-abstract]
