"""Which noise and which weights measure the margins of a contingency table best."""

from __future__ import annotations

from counton.laws import Family
from counton.mechanisms.families import NORMS, best_of_families
from counton.mechanisms.ranges.plan import RangesPlan, plan_ranges
from counton.privacy import Contribution, Guarantee
from counton.strategies.lines.margins import Margins, margins_strategies


def plan_margins(
    shape: tuple[int, ...],
    *,
    guarantee: Guarantee,
    contribution: Contribution | None,
    equal: bool,
) -> RangesPlan:
    """The weights and the noise of least total error over all margins."""
    margins = tuple(Margins(cells) for cells in shape)

    def attempt(family: Family) -> RangesPlan:
        axes = margins_strategies(shape, NORMS[family], equal=equal)
        return plan_ranges(
            shape,
            guarantee=guarantee,
            contribution=contribution,
            strategy=axes,
            workload=margins,
        )

    return best_of_families(guarantee, attempt, cost=lambda plan: plan.best.expected_error)
