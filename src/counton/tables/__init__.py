"""Tables that add up: strategies for lines and grids of cells, and for public trees."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from counton.base.lazy import attach
from counton.strategies.strategy import exported_classes

if TYPE_CHECKING:
    from counton.strategies.lines.dense import Dense as Dense
    from counton.strategies.lines.hats import Hats as Hats
    from counton.strategies.lines.line_strategy import LineStrategy as LineStrategy
    from counton.tables.grid import Grid as Grid
    from counton.tables.haar import Haar as Haar
    from counton.tables.line_square_root import SquareRoot as SquareRoot
    from counton.tables.nodes import Nodes as Nodes
    from counton.tables.optimal import gaussian_bound as gaussian_bound
    from counton.tables.optimal import optimal_gaussian as optimal_gaussian
    from counton.tables.optimal import optimal_laplace as optimal_laplace
    from counton.tables.saved_lines import line_strategy_from_dict as line_strategy_from_dict
    from counton.tables.tree import Tree as Tree
    from counton.tables.tree_strategy import HierarchyDistribution as HierarchyDistribution
    from counton.tables.tree_strategy import TreeStrategy as TreeStrategy
    from counton.tables.workloads import AllRanges as AllRanges
    from counton.tables.workloads import Prefixes as Prefixes
    from counton.tables.workloads import Queries as Queries
    from counton.tables.workloads import Workload as Workload
    from counton.tables.workloads import workload as workload

__getattr__, __dir__, __all__ = attach(__name__, __file__)
__all__ += ["public_line_strategies"]


def public_line_strategies() -> tuple[type[LineStrategy], ...]:
    """Return the exported classes of strategies for lines of cells, sorted by name.

    >>> [cls.__name__ for cls in public_line_strategies()]
    ['Dense', 'Haar', 'Hats', 'Nodes', 'SquareRoot']
    """
    from counton.strategies.lines.line_strategy import LineStrategy

    return exported_classes(sys.modules[__name__], LineStrategy)  # type: ignore[type-abstract]
