"""How the margins of a contingency table are measured: weights of cells and of their sums."""

from __future__ import annotations

import math

import numpy as np

from counton.errors import InvalidInput
from counton.mechanisms.cells import families
from counton.mechanisms.ranges.plan import RangesPlan, plan_ranges
from counton.privacy import Contribution, Family, Guarantee
from counton.strategies.ranges import LATTICE_BITS, Nodes, Queries, RangeStrategy

#: Bits of the weights of all columns together; noise is drawn in these units and must fit.
_GRID_BITS = 24


def plan_margins(
    shape: tuple[int, ...], guarantee: Guarantee, equal: bool, contribution: Contribution | None
) -> RangesPlan:
    """The weights and the noise of least total error over all margins."""
    bits = min(LATTICE_BITS, _GRID_BITS // len(shape))
    margins = tuple(Queries(np.vstack([np.eye(m), np.ones((1, m))])) for m in shape)
    plans, reasons = [], []
    for family in families(guarantee):
        axes = tuple(_axis(asked, family, bits, equal) for asked in margins)
        try:
            plans.append(
                plan_ranges(
                    shape, guarantee, workload=margins, strategy=axes, contribution=contribution
                )
            )
        except InvalidInput as error:
            reasons.append(error)
    if not plans:
        raise reasons[0]
    return min(plans, key=lambda plan: plan.best.expected_error)


def _axis(asked: Queries, family: Family, bits: int, equal: bool) -> RangeStrategy:
    """Cells and their sum, with weights of least error or of equal variance."""
    cells = asked.cells
    if cells == 1:
        return Nodes(1, (), (1,), "margins")
    if equal:
        return Nodes(cells, (cells,), (1, 1), "margins")
    if family == "laplace":
        best = _least_laplace(cells)
    else:
        # Least trace over X with unit diagonal: eigenvalues in proportion to the workload's roots.
        best = math.sqrt((math.sqrt(cells + 1) - 1) / cells)
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
