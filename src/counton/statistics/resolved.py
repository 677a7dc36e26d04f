"""Checks that a stated contribution bound belongs to the statistic that is measured.

A statistic chooses its measured sums for the guarantee (`Statistic.resolve_parameters`). The bound
on how much one unit changes these sums follows from that choice. A bound from before the choice
would calibrate the noise to other sums.
"""

from __future__ import annotations

from counton.base.distributions import BoundedChange
from counton.base.errors import InvalidInputError
from counton.privacy import ContributionBound
from counton.statistics.statistic import Statistic


def refuse_wrong_contribution(
    statistic: Statistic, resolved: Statistic, contribution: ContributionBound
) -> None:
    """Refuse a contribution bound that is not one of the sums that will be measured.

    Args:
        statistic: the statistic that was stated beside the bound.
        resolved: the result of its ``resolve_parameters``.
        contribution: the stated bound for one protected unit.

    Raises:
        InvalidInputError: settling changes the statistic, or one row exceeds the bound.
    """
    if statistic != resolved:
        raise InvalidInputError(
            f"contribution is stated with {statistic!r}, whose measured sums are not chosen yet. "
            "Call statistic.resolve_parameters(guarantee, horizon) first, and compute the "
            "contribution from its result"
        )
    uncovered = describe_uncovered(resolved, contribution)
    if uncovered is not None:
        raise InvalidInputError(
            f"contribution is too small: {uncovered}. Compute it from the statistic"
        )


def describe_uncovered(statistic: Statistic, contribution: ContributionBound) -> str | None:
    """Describe how much more one row changes than a contribution bound allows.

    Args:
        statistic: a resolved statistic.
        contribution: the bound for one protected unit, to which noise is calibrated.

    Returns:
        A clause with both bounds, or None if the contribution covers one row.
    """
    row = statistic.contribution(batched=True).pattern
    if not isinstance(row, BoundedChange):
        return None
    unit = contribution.pattern
    bound = str(contribution)
    if isinstance(unit, BoundedChange):
        if unit.l1 >= row.l1 and unit.l2_squared >= row.l2_squared:
            return None
        bound = f"1-norm {unit.l1:,} and squared 2-norm {unit.l2_squared:,}"
    return (
        f"one row changes the measured sums by 1-norm {row.l1:,} and squared 2-norm "
        f"{row.l2_squared:,}, but the bound is {bound}"
    )
