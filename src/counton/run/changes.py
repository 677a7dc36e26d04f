"""What a run adds to a stream: new windows, late rows for released ones; refuses vanished rows.

Of each window the state keeps how many rows (and, for sums, what total) it has *seen* and how much
of that it has *counted*. A late row is seen in a window that was released without it; it is counted
at the next release, once, so that one row still changes one step by what one row may change.

What windows hold that are not released yet is what the last file of all events said of them, and
what files of new events have brought since. Which rows count is so decided by the kind of each run
and by the window, which are public, never by what a cell holds: one row decides nothing for others.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.base.arrays import narrowest
from counton.base.errors import ReplayMismatch, SumOverflow, field
from counton.base.exact import name_alone
from counton.base.private import Private, open_private
from counton.base.windows import Once, Windows, microseconds
from counton.numbers.design import largest_sum
from counton.privacy.value_grid import extremes
from counton.rows.bad_rows import change_error
from counton.rows.sources import Source, UnreadableRow
from counton.rows.tally import Tally
from counton.run import clock
from counton.run.clock import ClockFacts
from counton.run.definition import Definition
from counton.spec.job import Job
from counton.statistics import TallyStatistic

if TYPE_CHECKING:
    from counton.base.distributions import NoiseDistribution
    from counton.state import Stream
    from counton.state.stream_writer import Addition

X = TypeVar("X")


@name_alone
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


@dataclass(frozen=True)
class Changes:
    """What rows add to a stream, however they are counted: what a run commits.

    Attributes:
        counts: numbers of rows, for the operator.
        additions: what the stream is given in each transaction, and before it how much of the new
            steps comes before it. Its argument: also what changes nothing is a transaction.
        again: an earlier run has counted the rows, and they add nothing.
    """

    counts: Private[Counts]
    additions: Callable[[bool], Iterator[tuple[float, Private[Addition]]]]
    again: bool = False


class ReadRows(ABC):
    """The rows of a run, read, not yet beside what a stream has counted.

    Attributes:
        until: microseconds up to which windows are released; None where no time is cut.
        ended: how many steps have ended by then.
    """

    until: int | None
    ended: int

    @abstractmethod
    def beside(self, stream: Stream | None) -> Changes:
        """What is new in them, beside what a stream has counted; None: a stream that is new.

        Raises:
            ReplayMismatch: rows have disappeared, or a file was counted before.
            SumOverflow: sums would not be exact.
        """


#: Values released in one transaction.
_CHUNK = 2**20


def chunks(steps: range, cells: int) -> Iterator[range]:
    """Consecutive steps, as many at a time as are released in one transaction.

    >>> [len(some) for some in chunks(range(3, 8), 2**19)]
    [2, 2, 1]
    """
    size = max(1, _CHUNK // max(1, cells))
    for start in range(steps.start, steps.stop, size):
        yield range(start, min(start + size, steps.stop))


def read_whole(
    job: Job, definition: Definition, source: Source, read: Callable[[Source], X]
) -> tuple[X, Source]:
    """What is read of a source, and the source: without lines that are no rows, where they may be.

    Raises:
        InvalidInput: the source changed while it was read.
    """
    try:
        found = read(source)
    except UnreadableRow:
        source = source.sift(definition.reads, job.policies().unread)
        found = read(source)
    if (part := source.changed_part()) is not None:
        raise change_error(part)
    return found, source


def for_operator(private: Private[X]) -> X:
    """Exact numbers of rows, for whoever may see the events: not for what is published."""
    return open_private(private)


def ended_steps(
    job: Job,
    definition: Definition,
    source: Source | None,
    found: Private[Tally],
    released: int | None,
    now: datetime | None,
) -> tuple[int | None, int]:
    """Until when windows are released, and how many have ended: see `clock.windows_ended`.

    Where no time is cut all rows are one step, or each is.
    """
    tally = open_private(found)
    if definition.once:
        return None, 1
    if definition.each_row or source is None:
        return None, tally.rows
    begin = microseconds(definition.windows.start)
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


_KEY = ("step", "group")
#: What the state keeps: by window, or some windows at a time with their numbers.
Observed = Mapping[int, NDArray[np.int64]] | Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]]


@name_alone
@dataclass(frozen=True)
class Intake:
    """What to release and what to keep. Exact data: secret.

    Attributes:
        cells: of windows that changed, and others that wait: ``step``, ``group``, what was seen and
            counted of its ``rows`` and ``total``, and how many of its rows the last file of all
            events said, as long as none is counted.
        released: steps released before this run.
        target: steps released after it.
        groups: cells of one step.
        measures: columns that are kept: rows, and for sums the total.
        changed: windows that were seen to hold more than is kept.
        gone: rows that were seen in released windows, and are there no more.
    """

    cells: pl.DataFrame
    released: int
    target: int
    groups: int
    measures: tuple[str, ...]
    changed: tuple[int, ...]
    gone: int = 0

    @property
    def late_rows(self) -> int:
        """Rows of released windows that have not been counted yet."""
        late = self.cells.filter(pl.col("step") <= self.released)
        return int((late["seen_rows"] - late["counted_rows"]).sum())

    def largest_sum(self, *, alone: bool = False) -> int:
        """A bound on what this run and later ones can add to any total, in grid units.

        Args:
            alone: to what one step releases by itself.
        """
        keys = ["step", "group"] if alone else ["group"]
        waiting = self._waiting().group_by(keys).agg(pl.col("due").cast(pl.Float64).abs().sum())
        return int(waiting["due"].max() or 0)  # type: ignore[arg-type]

    def place_sums(self, places: int, *, alone: bool = False) -> NDArray[np.float64]:
        """A bound on what this run and later ones can add to each place of all groups together.

        Args:
            places: of a group.
            alone: to what one step releases by itself.
        """
        return place_sums(self._waiting(), "due", places, alone=alone)

    def _waiting(self) -> pl.DataFrame:
        """What each cell still has to contribute, at the step where it will be counted."""
        return self.cells.select(
            pl.max_horizontal("step", pl.lit(self.released + 1)).alias("step"),
            "group",
            (pl.col("seen_total") - pl.col("counted_total")).alias("due"),
        )

    def inputs(self, steps: range) -> NDArray[np.int64]:
        """Totals of new steps in grid units, shape ``(len(steps), groups)``."""
        dense = np.zeros((len(steps), self.groups), dtype=np.int64)
        due = self._waiting().filter(pl.col("step").is_between(steps.start, steps.stop - 1))
        place = (due["step"].to_numpy() - steps.start, due["group"].to_numpy())
        np.add.at(dense, place, due["due"].to_numpy())
        return dense

    def observations(self, steps: range) -> dict[int, NDArray[np.int64]]:
        """What to keep of changed windows once ``steps`` are released.

        Each has shape ``(2, measures, groups)``: seen, counted. With the first new step come the
        released windows too, whose late rows it counts.
        """
        first = 0 if steps.start == self.released + 1 else steps.start
        changed = [step for step in self.changed if first <= step < steps.stop]
        return self._pack(changed, counted_until=steps.stop - 1)

    def pending(self) -> dict[int, NDArray[np.int64]]:
        """What to keep of changed windows when nothing more is released."""
        return self._pack(self.changed, counted_until=0)

    def beyond(self) -> dict[int, NDArray[np.int64]]:
        """What to keep of changed windows after the target, which stay uncounted."""
        return self._pack([step for step in self.changed if step > self.target], counted_until=0)

    def _pack(self, steps: Sequence[int], counted_until: int) -> dict[int, NDArray[np.int64]]:
        """The same of some windows, in the type of fewest bytes: of many groups they are large."""
        if not steps:
            return {}
        cells = self.cells.filter(pl.col("step").is_in(list(steps)))
        place = {step: row for row, step in enumerate(steps)}
        sizes = [cells[f"{of}_{name}"] for of in ("seen", "counted") for name in self.measures]
        ends = [0, *chain(*(extremes(size.to_numpy()) for size in (*sizes, -cells["whole"])))]
        kind = narrowest(min(ends), max(ends))
        packed = np.zeros((len(steps), 2, len(self.measures), self.groups), kind)
        rows = np.array([place[step] for step in cells["step"].to_list()], dtype=np.intp)
        groups = cells["group"].to_numpy()
        counted_now = cells["step"].to_numpy() <= counted_until
        for index, measure in enumerate(self.measures):
            seen = cells[f"seen_{measure}"].to_numpy()
            packed[rows, 0, index, groups] = seen
            before = cells[f"counted_{measure}"].to_numpy()
            if measure == "rows":
                whole = cells["whole"].to_numpy()
                before = np.where(whole > 0, -whole, before)
            packed[rows, 1, index, groups] = np.where(counted_now, seen, before)
        return {step: packed[row] for step, row in place.items()}


def compare(
    kept: Observed,
    found: pl.DataFrame,
    *,
    released: int,
    target: int,
    groups: Sequence[str],
    windows: Windows,
    measures: tuple[str, ...],
    append: bool,
    bounds: tuple[int, int] = (1, 1),
    keep: bool = False,
) -> Intake:
    """Set what a file holds against what was seen before.

    Args:
        kept: what the state keeps, by window.
        found: the file's ``step``, ``group``, ``rows``, ``total``.
        released: steps released so far.
        target: windows that have ended.
        groups: names, for messages.
        windows: for messages.
        measures: ``("rows",)`` for counts, ``("rows", "total")`` for sums.
        append: the file holds new events only, not everything since the first window.
        bounds: the least and the most that one row can add to a total.
        keep: rows that have disappeared or changed stay counted as they were.

    Raises:
        ReplayMismatch: they have, and are not to stay so.
    """
    target, gone = max(target, released), 0
    before = unpack_observed(kept, measures)
    if before.is_empty():
        fresh = {name: pl.lit(0, pl.Int64) for name in _COLUMNS if name not in _KEY}
        cells = found.sort(_KEY).with_columns(**fresh)
    else:
        cells = before.join(found, on=_KEY, how="full", coalesce=True).sort(_KEY).fill_null(0)
    if append:
        cells = cells.with_columns(
            rows=pl.col("rows") + pl.col("seen_rows"), total=pl.col("total") + pl.col("seen_total")
        )
    elif not before.is_empty():  # this file says anew what all other windows hold
        if keep:
            fewer = pl.col("seen_rows") - pl.col("rows")
            gone = int(cells.filter(pl.col("step") <= released).select(fewer.clip(0)).sum().item())
            cells = _without_vanished(cells, released, bounds)
        else:
            _refuse_vanished(cells.filter(pl.col("step") <= released), groups, windows, bounds)
    said = pl.col("whole") if append else pl.when(pl.col("step") > target).then("rows").otherwise(0)
    cells = cells.with_columns(whole_before="whole", whole=said)
    moved = (
        (pl.col("rows") != pl.col("seen_rows"))
        | (pl.col("total") != pl.col("seen_total"))
        | (pl.col("whole") != pl.col("whole_before"))
        | ((pl.col("rows") != pl.col("counted_rows")) & (pl.col("step") <= target))
    )
    changed = cells.select(pl.col("step").filter(moved).unique().sort())["step"].to_list()
    waits = (pl.col("rows") != pl.col("counted_rows")) | (
        pl.col("total") != pl.col("counted_total")
    )
    cells = cells.filter(pl.col("step").is_in(changed) | waits)
    return Intake(
        cells=cells.with_columns(seen_rows="rows", seen_total="total").select(_COLUMNS),
        released=released,
        target=target,
        groups=len(groups),
        measures=measures,
        changed=tuple(changed),
        gone=gone,
    )


def _without_vanished(cells: pl.DataFrame, released: int, bounds: tuple[int, int]) -> pl.DataFrame:
    """Cells of which what has vanished stays counted: only what is new and what waits is due.

    One row more moves what is due by no more than one row can add, also where others vanish: what
    is new is cut to what as many rows can add as there are more.
    """
    low, high = bounds
    more = (pl.col("rows") - pl.col("seen_rows")).clip(0)
    due = pl.min_horizontal("rows", pl.col("seen_rows") - pl.col("counted_rows") + more)
    added = (pl.col("total") - pl.col("seen_total")).clip(more * low, more * high)
    waits = pl.col("seen_total") - pl.col("counted_total")
    counted_rows = pl.col("rows") - due
    counted_total = pl.col("total") - (waits + added).clip(due * low, due * high)
    those = pl.col("step") <= released
    return cells.with_columns(
        counted_rows=pl.when(those).then(counted_rows).otherwise("counted_rows"),
        counted_total=pl.when(those).then(counted_total).otherwise("counted_total"),
    )


def place_sums(
    cells: pl.DataFrame, column: str, places: int, *, alone: bool = False
) -> NDArray[np.float64]:
    """Sums of the sizes of a column by place, over all windows and groups.

    Args:
        cells: with a column ``group``, of groups and their places.
        column: which.
        places: of a group.
        alone: the largest of one step, by a column ``step``.

    >>> place_sums(pl.DataFrame({"group": [0, 3, 2], "total": [1, 5, -2]}), "total", 2).tolist()
    [3.0, 5.0]
    """
    sizes = pl.col(column).cast(pl.Float64).abs().sum()
    place = pl.col("group") % places
    found = cells.group_by(["step", place] if alone else [place]).agg(sizes)
    by_place = np.zeros(places)
    np.maximum.at(by_place, found["group"].to_numpy(), found[column].to_numpy())
    return by_place


#: Rows of windows seen before are taken for the same rows if this many of them agree, or those of
#: this many windows, and this share of all.
KNOWN_ROWS, KNOWN_WINDOWS, KNOWN_SHARE = 10, 3, 0.9


def known_windows(
    kept: Observed, found: pl.DataFrame, measures: tuple[str, ...], released: int
) -> int:
    """How many new rows look like rows seen before, by what their windows hold; 0: they do not.

    Nearly all rows of windows of which some had been seen are in windows whose totals, group by
    group, are those seen; or released windows would get half as much again as they had.
    """
    before = unpack_observed(kept, measures)
    again = found.join(before.select("step").unique(), on="step", how="semi")
    alike = (pl.col("rows") == pl.col("seen_rows")) & (pl.col("total") == pl.col("seen_total"))
    compared = before.join(again.select("step").unique(), on="step", how="semi").join(
        again, on=_KEY, how="full", coalesce=True
    )
    windows = (
        compared.fill_null(0)
        .group_by("step")
        .agg(pl.col("rows", "seen_rows").sum(), alike=alike.all())
    )
    same = windows.filter("alike")
    rows = int(same["rows"].sum())
    enough = rows >= KNOWN_ROWS or same.height >= KNOWN_WINDOWS
    if enough and rows >= KNOWN_SHARE * int(again["rows"].sum()):
        return rows
    late = windows.filter(pl.col("step") <= released)
    rows = int(late["rows"].sum())
    return rows if rows >= max(KNOWN_ROWS, int(late["seen_rows"].sum()) / 2) else 0


def seen_before(kept: Observed, measures: tuple[str, ...]) -> NDArray[np.int64]:
    """Windows that had a row: see `compare`."""
    return unpack_observed(kept, measures)["step"].unique().to_numpy()


def other_rows(how: str) -> ReplayMismatch:
    """The error for rows of a table that was released once, which are others than then."""
    return ReplayMismatch(
        f"the table {how}, and it was released once: the same noise on other rows would give the "
        f"difference away; give the rows that it was released from, or choose another "
        f"{field('name')}, which spends the guarantee again"
    )


_COLUMNS = (*_KEY, "seen_rows", "seen_total", "counted_rows", "counted_total", "whole")
_SCHEMA = dict.fromkeys(_COLUMNS, pl.Int64)


def unpack_observed(kept: Observed, measures: tuple[str, ...]) -> pl.DataFrame:
    """What the state keeps of windows, as columns of `Intake`: of rows, and their last measure."""
    if isinstance(kept, Mapping):
        kept = [(np.array([step], np.int64), totals[None]) for step, totals in kept.items()]
    last = len(measures) - 1  # for counts the total is the number of rows
    found = [pl.DataFrame(schema=_SCHEMA)]
    for steps, packed in kept:  # windows, seen or counted, measures, groups
        row, group = np.nonzero(packed.any(axis=(1, 2)))
        seen, counted = (packed[row, at, :, group].astype(np.int64) for at in (0, 1))
        whole = np.maximum(-counted[:, 0], 0)  # so `Intake` keeps them
        counted = np.where(whole[:, None] > 0, 0, counted)
        ends = (seen[:, 0], seen[:, last], counted[:, 0], counted[:, last])
        columns = (steps[row], group, *ends, whole)
        found.append(pl.DataFrame(dict(zip(_SCHEMA, columns, strict=True)), schema=_SCHEMA))
    return pl.concat(found)


def _refuse_vanished(
    cells: pl.DataFrame,
    groups: Sequence[str],
    windows: Windows,
    bounds: tuple[int, int],
) -> None:
    new, added = pl.col("rows") - pl.col("seen_rows"), pl.col("total") - pl.col("seen_total")
    fewer, altered = new < 0, (new == 0) & (added != 0)
    # More, or less, than new rows alone can have added.
    altered |= (new > 0) & ((added < new * bounds[0]) | (added > new * bounds[1]))
    wrong = cells.filter(fewer | altered)
    if not wrong.height:
        return
    step, group, rows, seen = (
        wrong.row(0)[0],
        wrong.row(0)[1],
        wrong["rows"][0],
        wrong["seen_rows"][0],
    )
    what = (
        f"holds {rows:,} rows where {seen:,} were seen before"
        if rows < seen
        else "holds other values than those seen before"
    )
    if isinstance(windows, Once):
        raise other_rows(f"{what} ({wrong.height:,} such cells)")
    raise ReplayMismatch(
        f"{windows.label_of(step)} of group {groups[group]!r} {what} ({wrong.height:,} such "
        f"cells): rows must not disappear or change once they are counted; restore them, or, if "
        f"they were erased or corrected, let them stay counted as they were "
        f"({field('counted', 'keep')}); use {field('append', True)} for a file that holds new "
        f"events only"
    )
