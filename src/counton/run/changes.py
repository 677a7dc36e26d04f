"""What rows in any order and rows in their order share: their numbers, when windows end, bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.base.errors import SumOverflow, field
from counton.base.private import Private, open_private
from counton.base.windows import microseconds
from counton.numbers.design import largest_sum
from counton.rows.sources import Source
from counton.rows.tally import Tally
from counton.run import clock
from counton.run.additions import place_sums
from counton.run.clock import ClockFacts
from counton.run.definition import Definition
from counton.spec.job import Job
from counton.statistics import TallyStatistic

X = TypeVar("X")

if TYPE_CHECKING:
    from counton.base.distributions import NoiseDistribution


@dataclass(frozen=True)
class Counts:
    """Numbers of rows. Exact: only for the operator.

    Attributes:
        rows: all that were read.
        before, beyond: before the first window and after the last, counted nowhere.
        unknown: of undeclared groups, counted nowhere.
        skipped: that lack something, counted nowhere.
        quarantined: that cannot be read, set aside.
        late: that arrived for windows released earlier.
        beyond_most: left out because their user had as many as may count.
        known: new rows that were counted before.
        closed: new rows that came too late to be counted at all.
        dropped: that waited in the stream that this one continues.
        kept: of files that look counted, and add nothing.
        gone: that were counted and are there no more, and stay counted.
    """

    rows: int
    before: int
    beyond: int
    unknown: int
    skipped: int
    quarantined: int
    late: int = 0
    beyond_most: int = 0
    known: int = 0
    closed: int = 0
    dropped: int = 0
    kept: int = 0
    gone: int = 0

    def __repr__(self) -> str:
        return "Counts(secret)"


def for_operator(private: Private[X]) -> X:
    """Exact numbers of rows, for whoever may see the events: not for what is published."""
    return open_private(private)


def ended_windows(
    job: Job,
    definition: Definition,
    source: Source,
    found: Private[Tally],
    released: int | None,
    now: datetime | None,
) -> tuple[int | None, int]:
    """Until when windows are released, and how many have ended: see `clock.windows_ended`."""
    if definition.once:
        return None, 1
    begin, tally = microseconds(definition.windows.start), open_private(found)
    told = ClockFacts(source.name, tally.newest, tally.beyond > 0, released)
    if source.live and (told.newest is None or told.newest < begin):
        return begin, 0
    return clock.windows_ended(
        job.until,
        definition.windows,
        told,
        confirmed=job.confirmed,
        watermark=job.watermark,
        now=now,
    )


def refuse_overflow(
    definition: Definition,
    largest: int,
    sums: NDArray[np.float64],
    taken: int = 0,
    before: float = 0.0,
) -> None:
    """Refuse values whose sums would not be exact, at whichever step they are released.

    What a run keeps of windows that go on is released later, and could not be taken back then.

    Args:
        definition: of the stream.
        largest: a bound on what is added to any total, in grid units.
        sums: bounds on what is added to each place of all groups together.
        taken: the largest running total that there is.
        before: how much all places of a statistic have together.

    Raises:
        SumOverflow: naming the sum, the bound and the remedy.
    """
    bound, statistic = largest_sum(definition.strategy), definition.statistic
    whole, inner = float(sums.sum()), statistic.inner
    if isinstance(inner, TallyStatistic):
        whole = inner.whole_of(sums)
    if isinstance(statistic, TallyStatistic) and before + whole > statistic.most_counted(0.0, 0.0):
        statistic.refuse_unreadable(definition.strategy, _law_of(definition), before + whole)
    most, also = bound - taken, ", with what is counted already," if taken else ""
    if isinstance(inner, TallyStatistic) and inner.largest_entry > 1:  # of what is measured
        measured = inner.largest_measured(sums)
        if measured > most:
            raise SumOverflow(
                f"the counts add up to {sums.sum():,.0f}{also}; the bound is "
                f"{int(bound * (float(sums.sum()) / measured)):,} for what is measured of "
                f"{statistic!r}: count in larger units"
            )
    elif largest > most:
        raise SumOverflow(
            f"the values add up to {largest:,} times the resolution{also}; the bound is "
            f"{bound:,}: use a coarser {field('resolution')} or narrower bounds"
        )


class SumBounds(NamedTuple):
    """The largest sums that a stream holds: see `refuse_overflow`.

    Attributes:
        largest: any sum, in grid units.
        read: all places of a statistic together, so that each release of them can be read.
    """

    largest: int
    read: float

    @classmethod
    def of(cls, definition: Definition) -> SumBounds:
        """Those of a stream."""
        largest, statistic = largest_sum(definition.strategy), definition.statistic
        if not isinstance(statistic, TallyStatistic):
            return cls(largest, math.inf)
        return cls(largest, statistic.most_readable(definition.strategy, _law_of(definition)))


def _law_of(definition: Definition) -> NoiseDistribution:
    from counton.numbers.node_law import law_for

    terms = (definition.guarantee, definition.contribution, definition.shape)
    return law_for(definition.strategy, *terms).law


def parts_of_bounds(
    definition: Definition, bounds: SumBounds, cells: pl.DataFrame
) -> dict[int, float]:
    """Which part of what a stream's sums can hold some rows come to, at most.

    Rows whose parts come to 1 or less together can be counted, in whichever runs they are.

    Args:
        definition: of the stream.
        bounds: of it.
        cells: sums of rows by step and group: columns ``step``, ``group`` and ``total``.

    Returns:
        Where a release is of one window, by window, without those that come to next to nothing;
        else of all under 0.
    """
    if definition.strategy.workload == "totals":
        return {0: _part_of(definition, bounds, cells)}
    size = pl.col("total").cast(pl.Float64).abs().sum()
    inner = definition.statistic.inner
    entry = inner.largest_entry if isinstance(inner, TallyStatistic) else 1
    large = (
        cells.group_by("step").agg(size).filter(pl.col("total") * entry > bounds.largest * _LITTLE)
    )
    return {
        step: _part_of(definition, bounds, cells.filter(pl.col("step") == step))
        for step in large["step"]
    }


def _part_of(definition: Definition, bounds: SumBounds, cells: pl.DataFrame) -> float:
    sizes = pl.col("total").cast(pl.Float64).abs().sum()
    found: list[float] = cells.group_by("group").agg(sizes)["total"].to_list()
    part = max(found, default=0.0) / bounds.largest
    if isinstance(inner := definition.statistic.inner, TallyStatistic):
        sums = place_sums(cells, "total", definition.places)
        part = max(part, inner.largest_measured(sums) / bounds.largest)
        part = max(part, inner.whole_of(sums) / bounds.read if bounds.read > 0 else math.inf)
    return part


#: The part of what a window can hold that is next to nothing.
_LITTLE = 2.0**-20


def counts_of(tally: Tally) -> Counts:
    """Numbers of rows, without those that a stream decides about."""
    return Counts(
        *(tally.rows, tally.before, tally.beyond, tally.unknown),
        *(tally.skipped, tally.quarantined),
    )
