"""Refusal of rows whose sums could not be released exactly, before any of them is kept."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import field as option_name
from counton.base.exact import refuse_overflow
from counton.numbers.design import largest_sum
from counton.numbers.node_law import law_for
from counton.runs.stream_spec import StreamSpec
from counton.state.stream import Amounts
from counton.statistics.tally_statistic import refuse_unreadable


class AddedSums(NamedTuple):
    """Bounds on what the rows of a run add to exact sums. Secret.

    Attributes:
        largest: to any sum of a group.
        of_places: to each sum of a statistic, in all groups together.
    """

    largest: int
    of_places: NDArray[np.float64]


def refuse_inexact(spec: StreamSpec, added: AddedSums, before: Amounts) -> None:
    """Refuse rows with which a sum, now or at a later step, could be too large to be exact.

    Args:
        before: the sizes of the stream's sums so far.

    Raises:
        SumOverflow: a sum is larger.
    """
    of_group = spec.terms.group_statistic
    total = before.whole + of_group.total_of_sums(added.of_places)
    if total > spec.tally_statistic.most_counted(0.0, 0.0):
        law = law_for(spec.strategy, spec.terms.loss, spec.contribution, spec.shape).law
        refuse_unreadable(spec.tally_statistic, spec.strategy, law, total)
    most = largest_sum(spec.strategy) - before.largest
    if of_group.largest_entry > 1:
        size = of_group.largest_measured(added.of_places)
        remedy = "counts in larger units"
    else:
        size = added.largest
        remedy = f"a coarser {option_name('resolution')}"
    refuse_overflow(size, most, lambda: _too_large(size, most, remedy))


def _too_large(size: float, most: int, remedy: str) -> str:
    return (
        f"the values add up to {size:,.0f} measured units, and at most {most:,} are exact: give "
        f"{remedy}"
    )
