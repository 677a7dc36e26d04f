"""Strategies for lines and grids of cells, by which counts of intervals of cells are accurate."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from counton.base.lazy import attach
from counton.strategies.strategy import exported_classes

if TYPE_CHECKING:
    from counton.strategies.lines.dense import Dense as Dense
    from counton.strategies.lines.grid import Grid as Grid
    from counton.strategies.lines.haar import Haar as Haar
    from counton.strategies.lines.hats import Hats as Hats
    from counton.strategies.lines.line_square_root import SquareRoot as SquareRoot
    from counton.strategies.lines.line_strategy import LineStrategy as LineStrategy
    from counton.strategies.lines.line_strategy import (
        line_strategy_from_dict as line_strategy_from_dict,
    )
    from counton.strategies.lines.nodes import Nodes as Nodes
    from counton.strategies.lines.optimal import gaussian_bound as gaussian_bound
    from counton.strategies.lines.optimal import optimal_gaussian as optimal_gaussian
    from counton.strategies.lines.optimal import optimal_laplace as optimal_laplace
    from counton.strategies.lines.workloads import AllRanges as AllRanges
    from counton.strategies.lines.workloads import Prefixes as Prefixes
    from counton.strategies.lines.workloads import Queries as Queries
    from counton.strategies.lines.workloads import RandomSubsets as RandomSubsets
    from counton.strategies.lines.workloads import TreeNodes as TreeNodes
    from counton.strategies.lines.workloads import Workload as Workload
    from counton.strategies.lines.workloads import workload as workload
    from counton.strategies.published.dyadic import Dyadic as Dyadic

__getattr__, __dir__, __all__ = attach(__name__, __file__)
__all__ += ["public_line_strategies"]


def public_line_strategies() -> tuple[type[LineStrategy], ...]:
    """Return the classes of all strategies for lines of cells (counts in a fixed order) that
    ``counton.strategies.lines`` exports, sorted by name.

    >>> [cls.__name__ for cls in public_line_strategies()]
    ['Dense', 'Dyadic', 'Haar', 'Hats', 'Nodes', 'SquareRoot']
    """
    from counton.strategies.lines.line_strategy import LineStrategy

    return exported_classes(sys.modules[__name__], LineStrategy)  # type: ignore[type-abstract]
