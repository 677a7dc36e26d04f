"""What a run adds to a stream: new windows, and late rows of files of new events.

Of each window the state keeps how many rows (and, for sums, what total) it has *seen* and how much
of that it has *counted*. In a file of new events each row is new: a late one is seen in a window
that was released without it, and is counted at the next release, once, so that one row still
changes one step by what one row may change. For a file of all events a released window is closed:
rows that come for it later do not count, and rows that vanish from it change nothing. How many
there are is told to the operator and decides nothing, since one row that vanishes and one that
comes look like none.

What windows hold that are not released yet is what the last file of all events said of them, and
what files of new events have brought since. Which rows count is so decided by the kind of each run
and by the window, which are public, never by what a cell holds: one row decides nothing for others.

Where windows are revised (`counton.base.windows.RevisedWindows`) a late row is counted at the next
release too, and there in its own window, of which that is another version. The next release, and
so the lag, is the same for all rows of a run. Rows of windows that are final are left out.
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
from counton.base.errors import field
from counton.base.exact import name_alone
from counton.base.exact_sums import refuse_overflow
from counton.base.private import Private, open_private
from counton.base.windows import Windows, microseconds
from counton.job.job import Job
from counton.numbers.design import largest_sum
from counton.privacy.value_grid import extremes
from counton.rows.bad_rows import change_error
from counton.rows.paths import moments_named
from counton.rows.sources import Source, UnreadableRow
from counton.rows.tally import Tally
from counton.run import clock
from counton.run.clock import ClockFacts
from counton.run.definition import Definition
from counton.statistics import TallyStatistic
from counton.statistics.by_group import inner_of
from counton.statistics.tally_statistic import most_readable, refuse_unreadable

if TYPE_CHECKING:
    from counton.base.distributions import NoiseDistribution
    from counton.state import Stream
    from counton.state.addition import Addition

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
        gone: that were counted and are there no more, and stay counted.
        shut: of a file of all events that came for windows released earlier, counted nowhere.
        corrected: that took the place of earlier rows with their ids, or took them back.
        often: that would have, and their rows had been corrected as often as they may be.
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
    gone: int = 0
    shut: int = 0
    corrected: int = 0
    often: int = 0


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
        counts: numbers of the rows, for the operator, without those that a stream decides about.
        until: microseconds up to which windows are released; None where no time is cut.
        ended: how many steps have ended by then.
    """

    counts: Private[Counts]
    until: int | None
    ended: int

    @abstractmethod
    def beside(self, stream: Stream | None) -> Changes:
        """What is new in them, beside what a stream has counted; None: a stream that is new.

        Raises:
            ReplayMismatch: rows that come in order have changed, or a file was counted before.
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
        source = source.sift(definition.reads, job.rows.policies().unread)
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
    if not definition.cut.goes_on:
        return None, 1
    if not definition.cut.timed or source is None:
        return None, tally.rows
    begin = microseconds(definition.windows.start)
    facts = source.name, tally.newest, tally.beyond > 0, released
    query = job.rows.query
    some = job.rows.append or (query is not None and "since" in moments_named(query))
    told = ClockFacts(*facts, all_of_them=not some)
    if source.live and (told.newest is None or told.newest < begin):
        return begin, 0
    return clock.windows_ended(
        job.times.until,
        definition.windows,
        told,
        yes=job.times.yes,
        quiet=job.times.quiet,
        watermark=job.times.watermark,
        now=now,
    )


def refuse_inexact_rows(
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
    whole, inner = float(sums.sum()), inner_of(statistic)
    if isinstance(inner, TallyStatistic):
        whole = inner.whole_of(sums)
    if isinstance(statistic, TallyStatistic) and before + whole > statistic.most_counted(0.0, 0.0):
        refuse_unreadable(statistic, definition.strategy, _law_of(definition), before + whole)
    most, also = bound - taken, ", with what is counted already," if taken else ""
    if isinstance(inner, TallyStatistic) and inner.largest_entry > 1:  # of what is measured
        measured = inner.largest_measured(sums)
        refuse_overflow(
            measured,
            most,
            lambda: (
                f"the counts add up to {sums.sum():,.0f}{also}; the bound is "
                f"{int(bound * (float(sums.sum()) / measured)):,} for what is measured of "
                f"{statistic!r}: count in larger units"
            ),
        )
    else:
        refuse_overflow(
            largest,
            most,
            lambda: (
                f"the values add up to {largest:,} times the resolution{also}; the bound is "
                f"{bound:,}: use a coarser {field('resolution')} or narrower bounds"
            ),
        )


class SumBounds(NamedTuple):
    """The largest sums that a stream holds: see `refuse_inexact_rows`.

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
        return cls(largest, most_readable(statistic, definition.strategy, _law_of(definition)))


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
        Where a release is of one window, by window; else of all under 0.
    """
    if definition.strategy.facts.workload == "totals":
        return {0: _part_of(definition, bounds, cells)}
    size = pl.col("total").cast(pl.Float64).abs().sum()
    inner = inner_of(definition.statistic)
    entry = inner.largest_entry if isinstance(inner, TallyStatistic) else 1
    each = max(entry / bounds.largest, 1 / bounds.read if bounds.read > 0 else math.inf)
    # No window comes to more than this; of many rows it is worked out.
    most = cells.group_by("step").agg(size).select("step", part=pl.col("total") * each)
    return {
        step: part
        if part < _LITTLE
        else _part_of(definition, bounds, cells.filter(pl.col("step") == step))
        for step, part in most.rows()
    }


def _part_of(definition: Definition, bounds: SumBounds, cells: pl.DataFrame) -> float:
    sizes = pl.col("total").cast(pl.Float64).abs().sum()
    found: list[float] = cells.group_by("group").agg(sizes)["total"].to_list()
    part = max(found, default=0.0) / bounds.largest
    if isinstance(inner := inner_of(definition.statistic), TallyStatistic):
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
_KEPT = ("seen_rows", "seen_total", "counted_rows", "counted_total", "whole")
_COLUMNS = (*_KEY, *_KEPT)
#: What the state keeps: by window, or some windows at a time with their numbers.
Observed = Mapping[int, NDArray[np.int64]] | Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]]


@name_alone
@dataclass(frozen=True)
class Intake:
    """What to release and what to keep. Exact data: secret.

    Attributes:
        cells: of windows that changed, and others that wait, in the order of ``step`` and
            ``group``: these, what was seen and counted of its ``rows`` and ``total``, and how many
            of its rows the last file of all events said, as long as none is counted.
        released: steps released before this run.
        target: steps released after it.
        groups: cells of one step.
        measures: columns that are kept: rows, and for sums the total.
        changed: windows that were seen to hold more than is kept.
        gone, shut: rows of released windows that are there no more, and that came later, where a
            file holds all events; one that changed is both.
        versions: how many versions a window has.
        closed: rows of windows that are final, counted nowhere.
    """

    cells: Mapping[str, NDArray[np.int64]]
    released: int
    target: int
    groups: int
    measures: tuple[str, ...]
    changed: tuple[int, ...]
    gone: int = 0
    shut: int = 0
    versions: int = 1
    closed: int = 0

    @property
    def late_rows(self) -> int:
        """Rows of released windows that have not been counted yet."""
        new = self.cells["seen_rows"] - self.cells["counted_rows"]
        return max(int(new[self.cells["step"] <= self.released].sum()), 0)

    def largest_sums(self, places: int, *, alone: bool = False) -> tuple[int, NDArray[np.float64]]:
        """Bounds on what this run and later ones add, in grid units: to any total, and to places.

        Args:
            places: of a group; of all groups together they have the second bounds.
            alone: to what one step releases by itself.
        """
        step, group, due = self._waiting()
        if self.versions > 1:  # of which each is released by itself, with all that it has seen
            step, due = self.cells["step"], self.cells["seen_total"]
            largest = np.abs(due).max(initial=0)
        else:
            sizes = np.abs(due.astype(np.float64))
            # Only at the first new step several windows of a group are released together.
            first = step == self.released + 1 if alone else np.ones(len(step), bool)
            together = np.bincount(group[first], sizes[first])
            largest = max(together.max(initial=0.0), sizes[~first].max(initial=0.0))
        return int(largest), _sums_of_places(group, due, places, step if alone else None)

    def _waiting(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Of each cell the step where it will be counted, its group, and what it still adds."""
        due = self.cells["seen_total"] - self.cells["counted_total"]
        return np.maximum(self.cells["step"], self.released + 1), self.cells["group"], due

    def inputs(self, steps: range) -> NDArray[np.int64]:
        """Totals of new steps in grid units, shape ``(len(steps) * versions, groups)``.

        Of windows that are revised each step has those of its own window first, and last of the one
        that becomes final.
        """
        dense = np.zeros((len(steps), self.versions, self.groups), dtype=np.int64)
        step, group, due = self._waiting()
        now = (step >= steps.start) & (step < steps.stop)
        lag = step - self.cells["step"] if self.versions > 1 else np.zeros_like(step)
        np.add.at(dense, (step[now] - steps.start, lag[now], group[now]), due[now])
        return dense.reshape(-1, self.groups)

    def observations(
        self, steps: range, *, first: bool, last: bool
    ) -> dict[int, NDArray[np.int64]]:
        """What to keep of changed windows once some steps are released; or none, nothing more.

        Each has shape ``(2, measures, groups)``: seen, counted.

        Args:
            first: they are the first new ones, with which come the released windows too, whose late
                rows these count.
            last: with them come windows after the target, which stay uncounted.
        """
        begin, end = 0 if first else steps.start, np.inf if last else steps.stop
        changed = [step for step in self.changed if begin <= step < end]
        return self._pack(changed, counted_until=steps.stop - 1 if steps else 0)

    def _pack(self, steps: Sequence[int], counted_until: int) -> dict[int, NDArray[np.int64]]:
        """The same of some windows, ascending, in the type of fewest bytes: they may be large."""
        if not steps:
            return {}
        first, last = np.searchsorted(self.cells["step"], (steps[0], steps[-1] + 1))
        cells = {name: column[first:last] for name, column in self.cells.items()}
        those = np.isin(cells["step"], steps)
        if not those.all():
            cells = {name: column[those] for name, column in cells.items()}
        sizes = [cells[f"{of}_{name}"] for of in ("seen", "counted") for name in self.measures]
        ends = [0, *chain(*map(extremes, (*sizes, -cells["whole"])))]
        kind = narrowest(min(ends), max(ends))
        packed = np.zeros((len(steps), 2, len(self.measures), self.groups), kind)
        rows, groups = np.searchsorted(steps, cells["step"]), cells["group"]
        counted_now = cells["step"] <= counted_until
        for index, measure in enumerate(self.measures):
            seen, before = cells[f"seen_{measure}"], cells[f"counted_{measure}"]
            packed[rows, 0, index, groups] = seen
            if measure == "rows":
                whole = cells["whole"]
                before = np.where(whole > 0, -whole, before)
            packed[rows, 1, index, groups] = np.where(counted_now, seen, before)
        return dict(zip(steps, packed, strict=True))


def compare(
    kept: Observed,
    found: pl.DataFrame,
    *,
    released: int,
    target: int,
    groups: int,
    measures: tuple[str, ...],
    append: bool,
    cut: Windows | None = None,
) -> Intake:
    """Set what a file holds against what was seen before.

    Args:
        kept: what the state keeps, by window.
        found: the file's ``step``, ``group``, ``rows``, ``total``.
        released: steps released so far.
        target: windows that have ended.
        groups: how many there are.
        measures: ``("rows",)`` for counts, ``("rows", "total")`` for sums.
        append: the file holds new events only, not everything since the first window.
        cut: how rows become steps; None: as windows that are released once.
    """
    target, gone, shut = max(target, released), 0, 0
    too_late, versions = 0, 1
    if cut is not None and cut.lags:
        final = pl.col("step") < cut.first_open(released)
        too_late, versions = int(found.filter(final)["rows"].sum()), cut.lags + 1
        found = found.filter(~final)
    before = unpack_observed(kept, measures)
    known = not before.is_empty()
    if known:
        found = before.join(found, on=_KEY, how="full", coalesce=True).fill_null(0)
    found, nothing = found.sort(_KEY), np.zeros(found.height, np.int64)
    cells = {name: found[name].to_numpy() for name in (*_KEY, "rows", "total")}
    for name in _KEPT:
        cells[name] = found[name].to_numpy() if known else nothing
    step = cells["step"]
    if append:
        cells["rows"] = cells["rows"] + cells["seen_rows"]
        cells["total"] = cells["total"] + cells["seen_total"]
    elif released:  # this file says anew what windows hold that are not released
        closed = step <= released
        gone, shut = _come_and_gone(cells, closed)
        for name in ("rows", "total"):
            cells[name] = np.where(closed, cells[f"seen_{name}"], cells[name])
    rows, total, before_whole = cells["rows"], cells["total"], cells["whole"]
    if not append:
        cells["whole"] = np.where(step > target, rows, 0)
    moved = (rows != cells["seen_rows"]) | (total != cells["seen_total"])
    moved |= cells["whole"] != before_whole
    # A correction may change what rows say, and not how many there are.
    waits = (rows != cells["counted_rows"]) | (total != cells["counted_total"])
    changed = step[moved | (waits & (step <= target))]
    changed = changed[np.diff(changed, prepend=0) != 0]  # cells are sorted by step
    stays = np.isin(step, changed) | waits
    cells |= {"seen_rows": rows, "seen_total": total}
    return Intake(
        cells={name: cells[name] if stays.all() else cells[name][stays] for name in _COLUMNS},
        released=released,
        target=target,
        groups=groups,
        measures=measures,
        changed=tuple(changed.tolist()),
        gone=gone,
        shut=shut,
        versions=versions,
        closed=too_late,
    )


def _come_and_gone(
    cells: Mapping[str, NDArray[np.int64]], closed: NDArray[np.bool_]
) -> tuple[int, int]:
    """How many rows of closed cells are there no more, and how many came: both at least."""
    more = (cells["rows"] - cells["seen_rows"])[closed]
    changed = (more == 0) & (cells["total"] != cells["seen_total"])[closed]
    return int((-more).clip(0).sum() + changed.sum()), int(more.clip(0).sum() + changed.sum())


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
    step = cells["step"].to_numpy() if alone else None
    return _sums_of_places(cells["group"].to_numpy(), cells[column].to_numpy(), places, step)


def _sums_of_places(
    group: NDArray[np.int64],
    added: NDArray[np.int64],
    places: int,
    step: NDArray[np.int64] | None,
) -> NDArray[np.float64]:
    """The same of columns; the largest sums of one step where steps are given."""
    place, sizes = group % places, np.abs(added.astype(np.float64))
    if step is None:
        return np.asarray(np.bincount(place, sizes, places), np.float64)
    each, cell = np.unique(step * places + place, return_inverse=True)
    largest = np.zeros(places)
    np.maximum.at(largest, each % places, np.bincount(cell, sizes))
    return largest


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
