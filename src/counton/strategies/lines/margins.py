"""How the margins of a contingency table are measured: weights of cells and of their sum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from counton.arrays import Floats
from counton.strategies.lines.base import LATTICE_BITS
from counton.strategies.lines.nodes import Nodes
from counton.strategies.lines.tree import TreeLaw
from counton.strategies.lines.workload import Estimator, NamedWorkload
from counton.strategies.norms import Norm

#: The largest product of the axes' weights: counts up to 2^33 in all can be measured.
_LARGEST_WEIGHT = 2**28
#: Weights of which every one is tried before powers of two.
_SMALL = 64


class Margins(NamedWorkload):
    """Every cell along one axis, and their sum.

    >>> Margins(3).gram().astype(int).tolist()
    [[2, 1, 1], [1, 2, 1], [1, 1, 2]]
    """

    name = "margins"

    def _queries(self) -> int:
        return self.cells + 1

    def total(self, estimator: Estimator) -> float:
        """See `Workload.total`."""
        low = np.arange(self.cells)
        whole = estimator.variance(np.array([0]), np.array([self.cells]))
        return float(estimator.variance(low, low + 1).sum() + whole[0])

    def levels(self, joint_law: TreeLaw) -> Floats:
        """See `Workload.levels`."""
        ends = np.array([0]), np.array([self.cells])
        parts = zip(joint_law.cell_levels(), joint_law.interval_levels(*ends), strict=True)
        return np.array([cell + float(whole[0]) for cell, whole in parts])

    def gram(self) -> Floats:
        """See `Workload.gram`."""
        self.check_dense()
        return np.eye(self.cells) + 1


def margins_strategies(shape: Sequence[int], norm: Norm, *, equal: bool) -> tuple[Nodes, ...]:
    """Measure the cells along every axis and their sum, with small weights if there are many axes.

    The product of all axes' weights has to stay small, so that measurements are exact. Each axis
    takes a ratio of small integers; the axis whose error falls most for the room it takes is
    refined first.

    Args:
        shape: cells along each axis.
        norm: of the columns that noise is calibrated to.
        equal: weights that give every margin the same variance, instead of least total error.

    >>> [axis.weights for axis in margins_strategies([4], 2, equal=False)]
    [(4096, 2277)]
    >>> sorted({axis.weights for axis in margins_strategies([2] * 16, 2, equal=False)})
    [(3, 2), (5, 3)]
    """
    if equal:
        return tuple(_axis(cells, (1, 1)) for cells in shape)
    steps = [_refinements(cells, norm) for cells in shape]
    place = [0] * len(shape)
    while True:
        room = _LARGEST_WEIGHT // math.prod(
            max(refined[at][1]) for refined, at in zip(steps, place, strict=True)
        )
        gains = [
            (_gain(refined[at], refined[to]), -axis, to)
            for axis, (refined, at) in enumerate(zip(steps, place, strict=True))
            for to in range(at + 1, len(refined))
            if max(refined[to][1]) <= room * max(refined[at][1])
        ]
        if not gains:
            break
        _, axis, to = max(gains)
        place[-axis] = to
    return tuple(
        _axis(cells, refined[at][1]) for cells, refined, at in zip(shape, steps, place, strict=True)
    )


#: Error, and weights of a cell and of the sum.
_Weighed = tuple[float, tuple[int, int]]


def _gain(before: _Weighed, after: _Weighed) -> float:
    """How much smaller the error becomes, for the room it takes."""
    return math.log(before[0] / after[0]) / math.log(max(after[1]) / max(before[1]))


def _axis(cells: int, weights: tuple[int, int]) -> Nodes:
    if cells == 1:
        return Nodes(1, (), (1,), "margins")
    return Nodes(cells, (cells,), weights, "margins")


@lru_cache(maxsize=64)
def _refinements(cells: int, norm: Norm) -> list[_Weighed]:
    """Ever better weights of one axis, and ever larger."""
    if cells == 1:
        return [(1.0, (1, 1))]
    best = _least_laplace(cells) if norm == 1 else _least_gaussian(cells)
    found: list[_Weighed] = []
    for cell in (*range(1, _SMALL + 1), *(1 << bits for bits in range(7, LATTICE_BITS + 1))):
        below = math.floor(best * cell)  # 0 leaves the sum unmeasured, which can be best
        tried = min((_error(cells, norm, cell, near), (cell, near)) for near in (below, below + 1))
        if not found or tried[0] < found[-1][0] * (1 - 1e-9):
            found.append(tried)
    return found


def _error(cells: int, norm: Norm, cell: int, whole: int) -> float:
    """Total error of weights for a cell and for the sum: squared sensitivity times variance."""
    size = (cell + whole) ** 2 if norm == 1 else cell**2 + whole**2
    return size * ((cells - 1) / cell**2 + (1 + cells) / (cell**2 + cells * whole**2))


def _least_gaussian(cells: int) -> float:
    """Weight of the sum (cells have 1) of least error, norm 2.

    Least trace over X with unit diagonal: eigenvalues like the roots of the workload's.
    """
    return math.sqrt((math.sqrt(cells + 1) - 1) / cells)


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
