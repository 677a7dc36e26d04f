"""From rows to exact changes: what a run found, what of it counts, and what a stream is given.

Whoever reads rows or runs a job hands these values on closed. They are opened here, and what leaves
is closed again: what a stream adds to its sums, and for the operator numbers of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.base.errors import SumOverflow, field
from counton.base.private import Private, open_private
from counton.base.windows import microseconds
from counton.numbers.design import largest_sum
from counton.rows.row_reading import times_counted
from counton.rows.sources import Source
from counton.rows.tally import Tally
from counton.run import clock
from counton.run.additions import Intake, Observed, compare, other_rows, place_sums
from counton.run.clock import ClockFacts
from counton.run.definition import Definition
from counton.run.redelivery import NO_FILES, FilesLeftOut
from counton.spec.job import Job
from counton.state import Stream
from counton.state.stream_writer import Addition
from counton.statistics import TallyStatistic

X = TypeVar("X")

if TYPE_CHECKING:
    from counton.base.distributions import Law
    from counton.run.contribution_bounds import ChosenRows
    from counton.run.label_discovery import FoundLabels
    from counton.state.seen import Change

#: Cells released in one transaction.
_CHUNK = 2**20


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


class CountedRows(NamedTuple):
    """What of a run's rows counts, closed.

    Attributes:
        labels: where groups are found; None where they are declared.
        found: sums of all rows.
        chosen: where users are bounded or rows have ids, those that count.
        empty: there is no row at all: then its file is not marked as counted.
        over: how many were left out, where all rows were chosen again.
    """

    labels: Private[FoundLabels] | None
    found: Private[Tally]
    chosen: Private[ChosenRows] | None
    empty: bool = False
    over: Private[int] | None = None


def clock_facts(found: Private[Tally], source: Source, released: int | None) -> ClockFacts:
    """By what the clock of a run may go: the newest time, if the job says so."""
    tally = open_private(found)
    return ClockFacts(source.name, tally.newest, tally.beyond > 0, released)


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
    begin = microseconds(definition.windows.start)
    told = clock_facts(found, source, released)
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


def only_counted(
    rows: CountedRows, *, again: bool = False, whole: Private[ChosenRows] | None = None
) -> CountedRows:
    """Cells for those labels alone that are counted: a unit's other rows bring no group.

    Args:
        rows: of a run.
        again: they were counted by an earlier run, and add nothing.
        whole: those of all rows that count, chosen as if none had been counted before.
    """
    found = open_private(rows.found)
    empty = not found.rows
    if whole is not None:
        found = replace(found, cells=open_private(whole).cells)
        rows = rows._replace(over=Private(open_private(whole).over))
    if again:
        found = replace(found, cells=found.cells.head(0))
    if rows.labels is None:
        return rows._replace(found=Private(found), empty=empty)
    chosen = None if rows.chosen is None else open_private(rows.chosen)
    cells = found.cells if chosen is None else chosen.cells
    labels, places = open_private(rows.labels).keep_counted(cells)

    def with_places(frame: pl.DataFrame) -> pl.DataFrame:
        cells = pl.Series("group", places[frame["group"].to_numpy()], dtype=pl.Int64)
        return frame.with_columns(cells)

    if chosen is None:
        found = replace(found, cells=with_places(found.cells))
        return rows._replace(labels=Private(labels), found=Private(found), empty=empty)
    users = [
        part._replace(facts=(part.facts[0], places[part.facts[1]], *part.facts[2:]))
        for part in chosen.users
    ]
    chosen = replace(chosen, cells=with_places(chosen.cells), users=users)
    return CountedRows(Private(labels), Private(found), Private(chosen), empty, rows.over)


def compare_changes(
    stream: Stream | None,
    definition: Definition,
    rows: CountedRows,
    *,
    ended: int,
    append: bool,
    keep: bool = False,
) -> Private[Intake]:
    """What rows add to a stream at its step; chosen ones are new.

    Args:
        stream: None for one that has counted nothing yet.
        definition: of it.
        rows: that count.
        ended: windows that have.
        append: the rows are new ones, and not all since the first window.
        keep: rows that have disappeared or changed since they were counted stay counted.

    Raises:
        ReplayMismatch: they have, and are not to stay so.
        SumOverflow: sums would not be exact.
    """
    tallied = open_private(rows.found).cells
    cells = tallied if rows.chosen is None else open_private(rows.chosen).cells
    before, new = 0 if stream is None else stream.step, append or rows.chosen is not None
    kept: Observed = {}
    if stream is not None:
        # New rows are set against what was seen of their own windows, and of those that wait.
        touched = Private(cells["step"].unique().sort().to_numpy()) if new else None
        kept = open_private(stream.observed_blocks(touched))
    adds, names = definition.adds, _places(definition)
    if rows.labels is not None:  # messages name no group that is not shown
        names = ("(not named)",) * max(1, len(open_private(rows.labels).all))
    intake = compare(
        kept,
        cells,
        released=before,
        target=ended,
        groups=names,
        windows=definition.windows,
        measures=definition.measures,
        append=new,
        bounds=(1, 1) if adds is None else adds.row_bounds(),  # of one row, in grid units
        keep=keep and not definition.once,
    )
    if stream is not None and definition.once and before and intake.late_rows:
        raise other_rows(f"has {intake.late_rows:,} rows more than it had")
    taken = (0, 0.0) if stream is None else open_private(stream.amounts)
    alone = definition.strategy.workload != "totals"
    sums = intake.place_sums(definition.places, alone=alone)
    refuse_overflow(definition, intake.largest_sum(alone=alone), sums, *taken)
    return Private(intake)


def _places(definition: Definition) -> Sequence[str]:
    """Names of what rows are added up in, for messages."""
    if definition.places == 1:
        return definition.cells
    return [group for group in definition.cells for _ in range(definition.places)]


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


def _law_of(definition: Definition) -> Law:
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


class Step(NamedTuple):
    """One transaction of a run: how much of the run's new steps come before it, and what it adds.

    Attributes:
        done: a share.
        addition: closed.
    """

    done: float
    addition: Private[Addition]


def additions(
    definition: Definition,
    private: Private[Intake],
    *,
    sources: Private[tuple[str, ...]],
    append: bool,
    chosen: bool,
    labels: Private[FoundLabels] | None,
    remembered: Private[Change] | None,
    empty: bool,
) -> Iterator[Step]:
    """What a stream is given, transaction by transaction: exact sums of windows that have ended.

    Args:
        definition: of the stream.
        private: what the rows add.
        sources: marks of their files.
        append: they are new ones, and not all since the first window.
        chosen: they are those of users, or with ids, that count.
        labels: of groups that are found.
        remembered: what becomes of the marks of users, ids and files.
        empty: also what changes nothing is a transaction.
    """
    intake, marks = open_private(private), open_private(sources)
    found = None if labels is None else open_private(labels)
    new_labels = None if found is None else (len(found.known), found.new)
    change = None if remembered is None else open_private(remembered)
    if intake.target == intake.released:
        if marks or empty or (append and intake.changed):
            pending = Addition(None, intake.pending(), marks, change, new_labels)
            yield Step(0.0, Private(pending))
        return
    # New events come in one transaction, because their file can be given only once; chosen rows
    # too, because what is remembered of them is written once.
    new = intake.target - intake.released
    steps = range(intake.released + 1, intake.target + 1)
    whole = append or chosen
    for some in [steps] if whole else _chunks(steps, intake.groups):
        observed = intake.observations(some)
        if some.stop > intake.target:
            observed |= intake.beyond()
        sums = definition.measure(intake.inputs(some))
        inputs = definition.contribution.exact_from_grid(sums)
        # The file is known from the first transaction on: part of it is counted then.
        first = some.start == steps.start
        addition = Addition(
            *(inputs, observed, marks if first else (), change if first else None),
            new_labels if first else None,
        )
        yield Step((some.start - steps.start) / new, Private(addition))


def _chunks(steps: range, groups: int) -> Iterator[range]:
    size = max(1, _CHUNK // max(1, groups))
    for start in range(steps.start, steps.stop, size):
        yield range(start, min(start + size, steps.stop))


def counts(
    definition: Definition,
    rows: CountedRows,
    intake: Private[Intake],
    kept: Private[FilesLeftOut] = NO_FILES,
    *,
    append: bool,
    dropped: int,
) -> Private[Counts]:
    """Numbers of rows for the operator.

    Args:
        definition: of the stream.
        rows: of a run.
        intake: what they add.
        kept: files that look counted, and add nothing.
        append: they are new ones, and not all since the first window.
        dropped: that waited in the stream that this one continues.
    """
    added, each = open_private(intake), times_counted(definition.adds)
    chosen = None if rows.chosen is None else open_private(rows.chosen)
    over = 0 if rows.over is None else open_private(rows.over)
    again = append and chosen is not None  # of a file of all events nearly all rows are known
    return Private(
        replace(
            counts_of(open_private(rows.found)),
            late=added.late_rows // each,
            gone=added.gone // each,
            kept=open_private(kept).rows,
            beyond_most=over if chosen is None else chosen.over,
            known=chosen.known if again and chosen is not None else 0,
            closed=chosen.closed if again and chosen is not None else 0,
            dropped=dropped,
        )
    )


def counts_of(tally: Tally) -> Counts:
    """Numbers of rows, without those that a stream decides about."""
    return Counts(
        *(tally.rows, tally.before, tally.beyond, tally.unknown),
        *(tally.skipped, tally.quarantined),
    )
