"""Which tree to measure: branching by search, weights by descent on the exact error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from counton.arrays import Floats
from counton.strategies.lines.tree import TreeLaw
from counton.strategies.lines.workload import Workload
from counton.strategies.norms import Norm

_BRANCHING = (2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 32)
_FEW_BRANCHING = (2, 4, 16)
_LARGEST_FAMILY = 2**16
#: The two lowest radices of `good_trees`.
_WIDE = (10, 12, 14, 16)


def best_branching(workload: Workload, norm: Norm) -> tuple[tuple[int, ...], Floats]:
    """Radices, lowest level first, and real weights of each level, leaves first, root last.

    Uniform branching first, then the two lowest levels are varied.

    >>> from counton.strategies.lines.intervals import AllRanges
    >>> best_branching(AllRanges(1024), norm=1)[0]
    (10, 12, 9)
    """
    cells = workload.cells
    few = workload.costly and cells > _LARGEST_FAMILY
    branching = _FEW_BRANCHING if few else _BRANCHING
    found = [
        (error, radices, weights)
        for radices in _uniform(cells, branching)
        for error, weights in [_weigh(workload, radices, norm)]
    ]
    error, radices, weights = min(found, key=lambda entry: entry[0])
    for place in range(min(2, len(radices) - 1)):
        for radix in branching:
            changed = _completed(cells, (*radices[:place], radix, *radices[place + 1 : -1]))
            other, others = _weigh(workload, changed, norm)
            if other < error:
                error, radices, weights = other, changed, others
    return radices, weights


def good_trees(workload: Workload, norm: Norm) -> list[tuple[tuple[int, ...], Floats]]:
    """As `best_branching`, and the best for each of some wide branchings of the lowest level.

    >>> from counton.strategies.lines.intervals import AllRanges
    >>> [radices for radices, _ in good_trees(AllRanges(1024), norm=1)]
    [(10, 12, 9), (12, 10, 9), (14, 10, 8), (16, 10, 7)]
    """
    cells = workload.cells
    found = dict([best_branching(workload, norm)])
    for low in _WIDE:
        trees = sorted({_completed(cells, (low, radix, 64)) for radix in _WIDE})
        tried = {radices: _weigh(workload, radices, norm) for radices in trees}
        least = min(tried, key=lambda radices: tried[radices][0])
        found[least] = tried[least][1]
    return sorted(found.items(), key=lambda entry: entry[0])


def _completed(cells: int, radices: Sequence[int]) -> tuple[int, ...]:
    """Lower radices as far as they are needed, and a top that reaches all cells."""
    kept: list[int] = []
    left = cells
    for radix in radices:
        if left > radix:
            kept.append(radix)
            left = -(-left // radix)
    return (*kept, left) if left > 1 else tuple(kept)


def _uniform(cells: int, branching: Sequence[int]) -> list[tuple[int, ...]]:
    """Trees of one branching factor, and the line without a tree if it is short."""
    found = {_completed(cells, (radix,) * 64) for radix in branching}
    if cells <= _LARGEST_FAMILY:
        found.add(_completed(cells, ()))
    return sorted(found)


@lru_cache(maxsize=1024)
def _energy(workload: Workload, radices: tuple[int, ...]) -> Floats:
    """Error of each level of a complete tree per unit of b_i, leaves first, root last."""
    ones = (1.0,) * len(radices)
    return np.maximum(workload.levels(TreeLaw(workload.cells, radices, ones, ones, 1.0)), 0.0)


def _weigh(workload: Workload, radices: tuple[int, ...], norm: Norm) -> tuple[float, Floats]:
    """Least error of a tree with these radices (times squared sensitivity), and its weights."""
    from scipy.optimize import minimize

    energy = _energy(workload, radices)
    ratios = np.array(radices, dtype=np.float64)

    def error_and_slope(logs: Floats) -> tuple[float, Floats]:
        weights = np.exp(logs)
        precision = np.empty_like(weights)
        precision[0] = weights[0] ** 2
        for level, ratio in enumerate(ratios):
            precision[level + 1] = precision[level] / ratio + weights[level + 1] ** 2
        error = float((energy / precision).sum())
        slope, carried = np.zeros_like(weights), 0.0
        for level in range(len(weights) - 1, -1, -1):
            carried = -energy[level] / precision[level] ** 2 + (
                carried / ratios[level] if level < len(ratios) else 0.0
            )
            slope[level] = carried * 2 * weights[level] ** 2
        size = float((weights**norm).sum())
        value = math.log(error) + 2 / norm * math.log(size)
        return value, slope / error + 2 * weights**norm / size

    start = np.zeros(len(radices) + 1)
    found = minimize(
        error_and_slope, start, jac=True, method="L-BFGS-B", bounds=[(-30, 30)] * len(start)
    )
    weights = np.exp(found.x)
    weights[1:][weights[1:] < weights.max() * 1e-5] = 0.0
    return float(found.fun), weights
