"""How the margins of a contingency table are measured: weights of cells and of their sum."""

from __future__ import annotations

import math

import numpy as np

from counton.strategies.norms import Norm
from counton.strategies.ranges.nodes import Nodes
from counton.strategies.ranges.queries import Queries


def margins_of(cells: int) -> Queries:
    """Every cell along one axis, and their sum.

    >>> margins_of(2).matrix.astype(int).tolist()
    [[1, 0], [0, 1], [1, 1]]
    """
    return Queries(np.vstack([np.eye(cells), np.ones((1, cells))]))


def margins_strategy(cells: int, norm: Norm, bits: int, *, equal: bool) -> Nodes:
    """Measures the cells along one axis and their sum.

    Args:
        cells: along the axis.
        norm: of the columns that noise is calibrated to.
        bits: the weight of a cell is 2^bits.
        equal: weights that give every margin the same variance, instead of least total error.

    >>> [margins_strategy(4, 2, 10, equal=equal).weights for equal in (False, True)]
    [(1024, 569), (1, 1)]
    """
    if cells == 1:
        return Nodes(1, (), (1,), "margins")
    if equal:
        return Nodes(cells, (cells,), (1, 1), "margins")
    # Norm 2, least trace over X with unit diagonal: eigenvalues like the roots of the workload's.
    best = _least_laplace(cells) if norm == 1 else math.sqrt((math.sqrt(cells + 1) - 1) / cells)
    return Nodes(cells, (cells,), (1 << bits, max(round(best * 2.0**bits), 1)), "margins")


def _least_laplace(cells: int) -> float:
    """Weight b of the sum (cells have 1) of least error (1 + b)^2 trace, by golden section."""

    def error(b: float) -> float:
        return (1 + b) ** 2 * (cells - 1 + (1 + cells) / (1 + cells * b * b))

    low, high = 1e-9, 1.0
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(60):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if error(left) < error(right) else (left, high)
    return low
