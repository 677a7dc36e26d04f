"""Bands: intervals of released numbers that hold for all steps and groups at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from counton.base.errors import InvalidInputError
from counton.continual.intervals import check_confidence_level
from counton.results.released_table import table_of_series

if TYPE_CHECKING:
    from counton.results.release_data import ReleaseData


def with_joint_intervals(numbers: ReleaseData) -> ReleaseData:
    """Return intervals that hold for all steps and groups at once, for a chart.

    For counts and sums they follow from the joint noise of all steps, if that makes them
    narrower. The noise of groups is independent, so each holds with probability ``level ** (1 /
    groups)``.

    Args:
        numbers: the released numbers.

    Raises:
        InvalidInputError: there are no intervals, or groups are undeclared.
    """
    from counton.continual.simultaneous_intervals import narrowing_factor

    if numbers.since is not None:
        raise InvalidInputError(
            "a band holds only for groups that were chosen beforehand, but here groups were "
            "found in the data because they are large; use the table, or list the groups"
        )
    if not numbers.has_cells:
        table = table_of_series(numbers)
        if "lower" not in table.columns:
            numbers.refuse_for_results("bands")
        return numbers.at(1 - (1 - numbers.level) / max(table.height, 1))
    group_level = float(numbers.level ** (1 / len(numbers.groups)))
    if numbers.metadata.is_recent:
        n_numbers = len(numbers.shown_steps) * numbers.n_series
        joint_level = min(1 - (1 - group_level) / max(n_numbers, 1), 1 - 1e-9)
        return replace(numbers, joint_level=check_confidence_level(joint_level))
    wide = numbers.at(min(1 - (1 - group_level) / len(numbers.shown_steps), 1 - 1e-9))
    shown = slice(numbers.first - 1, None)
    half = wide.series.released.half.copy()
    factor = narrowing_factor(
        numbers.design,
        half[shown],
        numbers.first,
        group_level,
        windows=numbers.series.totals is None,
    )
    half[shown] *= factor
    # whole numbers are inside or outside, never between
    if not numbers.design.strategy.facts.fraction_bits:
        unit = float(numbers.design.units.released)
        half[shown] = np.floor(half[shown] / unit * (1 + 1e-12)) * unit
    return replace(wide, level=numbers.level, joint_margins=half)
