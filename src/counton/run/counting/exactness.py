"""Refusal of rows whose sums could not be released exactly, before any of them is kept."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import param
from counton.base.exact import refuse_overflow
from counton.continual.design import largest_sum
from counton.continual.node_distribution import distribution_for
from counton.run.spec.stream_spec import StreamSpec
from counton.state.stream_reader import Amounts
from counton.statistics.accumulator_statistic import most_readable, refuse_unreadable
from counton.statistics.by_group import inner_of
from counton.windowing.lazy_polars import polars as pl

if TYPE_CHECKING:
    from counton.base.distributions import NoiseDistribution

#: Fraction of a window's largest sum below which an upper bound of its share is enough.
_LARGEST_ROUGH_SHARE = 2.0**-20


class AddedSums(NamedTuple):
    """Bounds on what the rows of a run add to exact sums. Secret.

    Attributes:
        largest: to any sum of a group.
        by_accumulator: to each sum of a statistic, in all groups together.
    """

    largest: int
    by_accumulator: NDArray[np.float64]


def refuse_inexact_totals(spec: StreamSpec, added: AddedSums, before: Amounts) -> None:
    """Refuse rows with which a sum, now or at a later step, could be too large to be exact.

    Args:
        before: the sizes of the stream's sums so far.

    Raises:
        SumOverflowError: a sum is larger.
    """
    group_statistic = spec.terms.group_statistic
    total = before.whole + group_statistic.total_of_sums(added.by_accumulator)
    if total > spec.accumulator_statistic.most_counted(0.0, 0.0):
        refuse_unreadable(spec.accumulator_statistic, spec.strategy, _distribution_of(spec), total)
    most = largest_sum(spec.strategy) - before.largest
    if group_statistic.largest_entry > 1:
        size = group_statistic.largest_measured(added.by_accumulator)
        remedy = "counts in larger units"
    else:
        size = added.largest
        remedy = f"a coarser {param('resolution')} or narrower bounds"
        if group_statistic.counts_units:  # numbers of events have no resolution
            remedy = "counts in larger units, or correct rows with too large a count"
    refuse_overflow(size, most, lambda: _too_large(size, most, remedy))


def _too_large(size: float, most: int, remedy: str) -> str:
    return (
        f"the values add up to {size:,.0f} measured units, and at most {most:,} are exact: give "
        f"{remedy}"
    )


def _distribution_of(spec: StreamSpec) -> NoiseDistribution:
    return distribution_for(
        spec.strategy, spec.terms.loss, spec.contribution, spec.shape
    ).distribution


# ---------------------------------------------------------------------------- rows that are to come
class SumBounds(NamedTuple):
    """The largest sums that a stream can compute and release without rounding.

    Attributes:
        largest: bound on each sum of a group, in multiples of the resolution.
        readable: bound on the sum of all sums of a statistic, beyond which a release would not be
            exact in float64.
    """

    largest: int
    readable: float

    @classmethod
    def of(cls, spec: StreamSpec) -> SumBounds:
        """Return the largest exact sums of a stream."""
        readable = most_readable(spec.accumulator_statistic, spec.strategy, _distribution_of(spec))
        return cls(largest_sum(spec.strategy), readable)


def accumulator_sizes(sums: pl.DataFrame, n_accumulators: int) -> NDArray[np.float64]:
    """Return the sizes of sums, added up over all windows and groups for each accumulator.

    Args:
        sums: sums of rows: ``cell``, which is the index of the group times ``n_accumulators``, plus
            the index of the accumulator; and ``total``.
        n_accumulators: number of sums of a group.

    >>> accumulator_sizes(pl.DataFrame({"cell": [0, 3, 2], "total": [1, 5, -2]}), 2).tolist()
    [3.0, 5.0]
    """
    sizes = np.abs(sums["total"].to_numpy().astype(np.float64))
    index = sums["cell"].to_numpy() % n_accumulators
    return np.asarray(np.bincount(index, sizes, n_accumulators), np.float64)


def shares_of_bounds(spec: StreamSpec, bounds: SumBounds, sums: pl.DataFrame) -> dict[int, float]:
    """Return how much some rows use up of the largest sums that a stream can release exactly.

    The result is the sum of the rows divided by the largest exact sum, rounded up. Rows whose
    shares add up to 1 or less can always be counted, in one run or in several.

    Args:
        sums: sums of rows: ``window``, ``cell`` and ``total``.

    Returns:
        Shares by window, if each release is of one window; else one for the stream, under key 0.
    """
    if spec.strategy.facts.release == "totals":
        return {0: _share_of(spec, bounds, sums)}
    size = pl.col("total").cast(pl.Float64).abs().sum()
    entry = inner_of(spec.accumulator_statistic).largest_entry
    largest_share = max(entry / bounds.largest, _part_of(1.0, bounds.readable))
    # No window has a larger share than this; of large ones the exact share is computed.
    bound = pl.col("total") * largest_share
    bounds_by_window = sums.group_by("window").agg(size).select("window", share=bound)
    shares: dict[int, float] = {}
    for step, share in bounds_by_window.rows():
        is_small = share < _LARGEST_ROUGH_SHARE
        window_sums = sums.filter(pl.col("window") == step)
        shares[step] = share if is_small else _share_of(spec, bounds, window_sums)
    return shares


def _share_of(spec: StreamSpec, bounds: SumBounds, sums: pl.DataFrame) -> float:
    group_statistic = inner_of(spec.accumulator_statistic)
    sizes = pl.col("total").cast(pl.Float64).abs().sum()
    sizes_of_cells: list[float] = sums.group_by("cell").agg(sizes)["total"].to_list()
    sizes_of_accumulators = accumulator_sizes(sums, spec.terms.group_statistic.n_accumulators)
    return max(
        max(sizes_of_cells, default=0.0) / bounds.largest,
        group_statistic.largest_measured(sizes_of_accumulators) / bounds.largest,
        _part_of(group_statistic.total_of_sums(sizes_of_accumulators), bounds.readable),
    )


def _part_of(size: float, most: float) -> float:
    return size / most if most > 0 else math.inf
