"""The catalogue of strategies for lines, by name; each is fitted to a workload."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from counton.base.arrays import one_thread
from counton.base.distributions import Sensitivity
from counton.strategies.lines.dense import Dense
from counton.strategies.lines.line_strategy import LineStrategy
from counton.strategies.strategy import LARGEST_DENSE, Norm
from counton.tables.haar import Haar
from counton.tables.line_square_root import SquareRoot
from counton.tables.nodes import Nodes
from counton.tables.optimal import LONGEST_LAPLACE_LINE, optimal_gaussian, optimal_laplace
from counton.tables.workloads import Prefixes, Workload

_BUILDERS: dict[str, Callable[[Workload, Norm, int], LineStrategy]] = {
    "identity": lambda workload, norm, bits: Nodes.independent(workload.cells),
    "cascade": lambda workload, norm, bits: Haar.cascade(workload.cells, bits),
    "wavelet": lambda workload, norm, bits: Haar.wavelet(workload.cells),
    "haar": Haar.best,
    "binary": lambda workload, norm, bits: Nodes.binary(workload.cells),
    "hierarchy": Nodes.best,
    "square_root": lambda workload, norm, bits: SquareRoot(workload.cells),
    "optimal": lambda workload, norm, bits: (
        optimal_laplace(workload, bits) if norm == 1 else optimal_gaussian(workload, bits)
    ),
}
#: Names of all strategies that `counton.plan_cells` takes, besides "auto".
NAMES = tuple(_BUILDERS)
#: Strategies compared for counts that are added up over time. Their weights are multiples of 2^-8
#: of the largest, so that large sums fit int64; a dense matrix is tried up to this many cells.
_STRATEGIES_OVER_TIME = ("identity", "haar", "hierarchy", "optimal")
_BITS_OVER_TIME = 8
_MOST_CELLS_OVER_TIME = 256
#: Largest number of cells whose running totals are best computed from independent cells, under
#: Laplace noise; beyond, a dense matrix is best.
_MOST_CELLS_FOR_IDENTITY = 8
#: Largest number of cells for which the square root is compared with other strategies.
_MOST_CELLS_FOR_ROOT = 2**22


@lru_cache(maxsize=64)
def build(name: str, workload: Workload, norm: Norm, bits: int) -> LineStrategy:
    """Return the strategy of this name, fitted to a workload and a norm of the sensitivity.

    Real weights are rounded to multiples of 2^-bits of the largest.
    """
    return _BUILDERS[name](workload, norm, bits)


@lru_cache(maxsize=256)
def total_variance(name: str, workload: Workload, norm: Norm, bits: int) -> float:
    """Return a workload's summed variance for `build`, in units of one draw's variance."""
    strategy = build(name, workload, norm, bits)
    if not isinstance(strategy, Dense):
        return workload.total(strategy)
    with one_thread():
        return workload.total(strategy)


@lru_cache(maxsize=64)
def line_over_time(
    workload: Workload,
    norm: Norm,
    name: str | None = None,
    neighbours: str = "add_remove",
    moved: Callable[[LineStrategy, Any], Sensitivity] = LineStrategy.sensitivities,
) -> LineStrategy:
    """Return the strategy of least error over a workload, for a line at each step of a stream.

    Weights are so small that the sums of a measurement over many steps fit int64.

    Args:
        norm: 1 for Laplace, 2 for Gaussian noise.
        name: None: the best of independent cells, differences of neighbours (Haar), a hierarchy
            and, up to 256 cells, a dense matrix.
        moved: the sensitivity of a strategy under the relation ``neighbours``.
    """
    name = name or _best_known(workload, norm, neighbours)
    names = [
        name
        for name in _STRATEGIES_OVER_TIME
        if name != "optimal" or workload.cells <= _MOST_CELLS_OVER_TIME
    ]

    def error(name: str) -> float:
        size = moved(build(name, workload, norm, _BITS_OVER_TIME), neighbours)
        squared = float(size.l1) ** 2 if norm == 1 else float(size.l2_squared)
        return total_variance(name, workload, norm, _BITS_OVER_TIME) * squared

    return build(name or min(names, key=error), workload, norm, _BITS_OVER_TIME)


def _best_known(workload: Workload, norm: Norm, neighbours: str) -> str | None:
    """Return the best name if `line_over_time` need not compare; a test confirms it. Else None."""
    running = isinstance(workload, Prefixes) and workload.cells <= _MOST_CELLS_OVER_TIME
    if not running or norm == 2 or neighbours == "replace":
        return None
    return "identity" if workload.cells <= _MOST_CELLS_FOR_IDENTITY else "optimal"


def serves(name: str, workload: Workload, norm: Norm, axes: int) -> bool:
    """Return whether "auto" tries this strategy for a workload of a table with ``axes`` axes."""
    if name == "optimal":
        return workload.cells <= (LONGEST_LAPLACE_LINE if norm == 1 else LARGEST_DENSE)
    if name == "square_root":
        return axes == 1 and 2 <= workload.cells <= _MOST_CELLS_FOR_ROOT
    return True
