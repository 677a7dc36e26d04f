"""Which noise and which weights measure the margins of a contingency table best."""

from __future__ import annotations

from counton.errors import InvalidInput
from counton.mechanisms.cells import NORMS, families
from counton.mechanisms.ranges.plan import RangesPlan, plan_ranges
from counton.privacy import Contribution, Guarantee
from counton.strategies.ranges import LATTICE_BITS
from counton.strategies.ranges.margins import margins_of, margins_strategy

#: Bits of the weights of all columns together; noise is drawn in these units and must fit.
_GRID_BITS = 24


def plan_margins(
    shape: tuple[int, ...], guarantee: Guarantee, equal: bool, contribution: Contribution | None
) -> RangesPlan:
    """The weights and the noise of least total error over all margins."""
    bits = min(LATTICE_BITS, _GRID_BITS // len(shape))
    margins = tuple(margins_of(cells) for cells in shape)
    plans, reasons = [], []
    for family in families(guarantee):
        axes = tuple(margins_strategy(cells, NORMS[family], bits, equal=equal) for cells in shape)
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
