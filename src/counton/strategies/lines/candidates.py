"""The strategies by their names, each built and summed up once."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from counton.strategies.base import LARGEST_DENSE
from counton.strategies.lines.base import LineStrategy
from counton.strategies.lines.descent import LARGEST_LAPLACE, optimal_laplace
from counton.strategies.lines.haar import Haar
from counton.strategies.lines.nodes import Nodes
from counton.strategies.lines.optimal import optimal_gaussian
from counton.strategies.lines.square_root import SquareRoot
from counton.strategies.lines.workload import Workload
from counton.strategies.norms import Norm
from counton.strategies.streams.square_root import LARGEST_HORIZON


def _optimal(asked: Workload, norm: Norm, bits: int) -> LineStrategy:
    return optimal_laplace(asked, bits) if norm == 1 else optimal_gaussian(asked, bits)


_BUILDERS: dict[str, Callable[[Workload, Norm, int], LineStrategy]] = {
    "identity": lambda asked, norm, bits: Nodes.independent(asked.cells),
    "cascade": lambda asked, norm, bits: Haar.cascade(asked.cells, bits),
    "haar": Haar.best,
    "binary": lambda asked, norm, bits: Nodes.binary(asked.cells),
    "hierarchy": Nodes.best,
    "square_root": lambda asked, norm, bits: SquareRoot(asked.cells),
    "optimal": _optimal,
}
#: Names of all strategies, as `release_ranges` takes them; besides "auto".
NAMES = tuple(_BUILDERS)


@lru_cache(maxsize=64)
def built(name: str, asked: Workload, norm: Norm, bits: int) -> LineStrategy:
    """The strategy of that name for a workload."""
    return _BUILDERS[name](asked, norm, bits)


@lru_cache(maxsize=256)
def total_variance(name: str, asked: Workload, norm: Norm, bits: int) -> float:
    """Its total variance over the workload, in units of one draw's."""
    return asked.total(built(name, asked, norm, bits))


def serves(name: str, asked: Workload, norm: Norm, axes: int) -> bool:
    """Whether "auto" tries this strategy."""
    if name == "optimal":
        return asked.cells <= (LARGEST_LAPLACE if norm == 1 else LARGEST_DENSE)
    if name == "square_root":
        return axes == 1 and 2 <= asked.cells <= LARGEST_HORIZON
    return True
