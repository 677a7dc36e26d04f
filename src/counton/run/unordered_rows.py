"""Rows that are added up, in any order: late ones, new ones, those of users, those of found groups.

Labels of rows where nobody declared the groups are secret until a group is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, partial
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.errors import StreamConflict
from counton.base.exact import name_alone
from counton.base.groups import GroupNames
from counton.base.private import Private, open_private
from counton.job.job import Job
from counton.rows.remote_rows import Spread
from counton.rows.sources import Source
from counton.rows.tally import Tally, tally
from counton.rows.timestamps import ClockChange
from counton.rows.window_marks import RowReading, Unknown, collect, mark_rows, times_counted
from counton.run.changes import (
    Changes,
    Counts,
    Intake,
    Observed,
    ReadRows,
    chunks,
    compare,
    counts_of,
    ended_steps,
    read_whole,
    refuse_inexact_rows,
)
from counton.run.definition import Definition
from counton.run.progress import Progress, silent
from counton.run.redelivery import (
    Counted,
    KnownBy,
    is_counted,
    known_by,
    new_files,
    new_marks,
    refuse_all_events,
    refuse_several,
)
from counton.run.settlement import SettledJob
from counton.state import Stream
from counton.state.addition import Addition
from counton.state.seen import Change

if TYPE_CHECKING:
    from counton.run.contribution_bounds import ChosenRows, ContributionBounder


def labels_in(
    source: Source, reading: RowReading, known: Private[tuple[str, ...]]
) -> Private[FoundLabels]:
    """Labels of rows within the windows, known ones and others by first window and name."""
    before = open_private(known)
    if isinstance(source, Spread):
        found = open_private(source.labels(reading))
    else:
        rows = mark_rows(source, reading).filter(
            pl.col("step").is_between(1, reading.windows.steps), pl.col("group").is_not_null()
        )
        found = collect(source, rows.group_by("group").agg(pl.col("step").min()))
    there = set(before)
    new = [row for row in found.select("step", "group").rows() if row[1] not in there]
    return Private(FoundLabels(before, tuple(name for _, name in sorted(new))))


def counted_by(definition: Definition, labels: Private[FoundLabels]) -> Definition:
    """By which cells the rows of a run are added up; what a stream keeps names none of them."""
    return replace(definition, domain=GroupNames(open_private(labels).all))


def refuse_others(stream: Stream, labels: Private[FoundLabels]) -> None:
    """Refuse to go on where the state has other labels than those a run began with."""
    if open_private(stream.labels()) != open_private(labels).known:
        raise StreamConflict(
            f"another process has counted in stream {stream.name!r} meanwhile; nothing was "
            f"released: run again"
        )


@name_alone
class FoundLabels(NamedTuple):
    """Labels of the rows of a run. Secret.

    Attributes:
        known: those that the state has, in the order of their cells.
        new: others; of users, also of rows that do not count.
    """

    known: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        """Both."""
        return (*self.known, *self.new)

    def keep_counted(self, cells: pl.DataFrame) -> tuple[FoundLabels, NDArray[np.int64]]:
        """Only those that are counted, and which cell each of all then has."""
        first = len(self.known)
        used = np.unique(cells["group"].to_numpy())
        used = used[used >= first]
        places = np.concatenate([np.arange(first), np.full(len(self.new), -1)]).astype(np.int64)
        places[used] = first + np.arange(len(used))
        return FoundLabels(self.known, tuple(self.new[place - first] for place in used)), places


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


@dataclass(frozen=True)
class TalliedRows(ReadRows):
    """Rows that are read and added up, not yet beside what a stream has counted.

    Attributes:
        settled: the job, and what its stream remembers.
        rows: sums of them all.
        bounding: the choice of rows, where users are bounded or rows have ids.
        files: by what the state knows each of them again.
        counts: of the rows as they were read.
        until: microseconds up to which windows are released; None of a table released once.
        ended: how many windows have ended by then.
    """

    settled: SettledJob
    rows: CountedRows
    bounding: ContributionBounder | None
    files: Private[KnownBy]
    counts: Private[Counts]
    until: int | None
    ended: int

    @override
    def beside(self, stream: Stream | None) -> Changes:
        job, definition, rows = self.settled.job, self.settled.definition, self.rows
        if stream is not None and rows.labels is not None:
            refuse_others(stream, rows.labels)
        # Another process may have released since the state was read.
        before = 0 if stream is None else stream.step
        has: Counted = (lambda _: False) if stream is None else cache(stream.has_source)
        once = job.rows.append and definition.columns.id is None
        windows = self.ended - before
        again = once and is_counted(self.files, has, windows, yes=job.times.yes)
        bounding, whole = None if again else self.bounding, None
        if not definition.cut.goes_on and before and bounding is not None:
            # All rows are given again, and those that count are chosen as they were then.
            whole, bounding = bounding.choose(None, 0), None
        chosen = None if bounding is None else bounding.choose(stream, before)
        rows = only_counted(rows._replace(chosen=chosen), again=again, whole=whole)
        intake = compare_changes(stream, definition, rows, ended=self.ended, append=job.rows.append)
        # Whether anything in a file counts must not decide whether it may come again.
        sources: Private[tuple[str, ...]] = Private(())
        if not rows.empty and not again:
            sources = new_marks(self.files, has, once=once)
        remembered = None
        if bounding is not None and rows.chosen is not None:
            remembered = bounding.change(rows.chosen, max(self.ended, before))
        given = partial(_additions, self.settled, rows, intake, sources, remembered)
        return Changes(self._counts(rows, intake), given, again)

    def _counts(self, rows: CountedRows, intake: Private[Intake]) -> Private[Counts]:
        """Numbers of rows, for the operator."""
        settled, added = self.settled, open_private(intake)
        each = times_counted(settled.definition.adds)
        chosen = None if rows.chosen is None else open_private(rows.chosen)
        over = 0 if rows.over is None else open_private(rows.over)
        # Of a file of all events nearly all rows are known.
        new = chosen if settled.job.rows.append else None
        gone = added.gone // each if chosen is None else chosen.gone
        return Private(
            replace(
                counts_of(open_private(rows.found)),
                late=added.late_rows // each,
                gone=gone,
                shut=added.shut // each,
                beyond_most=over if chosen is None else chosen.over,
                known=0 if new is None else new.known,
                closed=added.closed // each if new is None else new.closed,
                dropped=0 if settled.dropped is None else open_private(settled.dropped),
            )
        )


def _additions(
    settled: SettledJob,
    rows: CountedRows,
    intake: Private[Intake],
    sources: Private[tuple[str, ...]],
    remembered: Private[Change] | None,
    empty: bool,
) -> Iterator[tuple[float, Private[Addition]]]:
    """What a stream is given in each transaction: exact sums of windows that have ended.

    Args:
        empty: also what changes nothing is a transaction.
    """
    definition, append = settled.definition, settled.job.rows.append
    added, marks = open_private(intake), open_private(sources)
    found = None if rows.labels is None else open_private(rows.labels)
    new_labels = None if found is None else (len(found.known), found.new)
    change = None if remembered is None else open_private(remembered)
    if added.target == added.released:
        if marks or empty or added.changed:
            yield 0.0, Private(Addition(None, added.pending(), marks, change, new_labels))
        return
    new = range(added.released + 1, added.target + 1)
    # New events come in one transaction, because their file can be given only once; chosen rows
    # too, because what is remembered of them is written once.
    at_once = append or rows.chosen is not None
    for steps in [new] if at_once else chunks(new, added.groups):
        observed = added.observations(steps)
        if steps.stop == new.stop:
            observed |= added.beyond()
        sums = definition.measure(added.inputs(steps))
        inputs = definition.contribution.exact_from_grid(sums)
        # The file is known from the first transaction on: part of it is counted then.
        once = (marks, change, new_labels) if steps.start == new.start else ((), None, None)
        done = (steps.start - new.start) / len(new)
        yield done, Private(Addition(inputs, observed, *once))


def only_counted(
    rows: CountedRows, *, again: bool = False, whole: Private[ChosenRows] | None = None
) -> CountedRows:
    """Cells for those labels alone that are counted: a unit's other rows bring no group."""
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
) -> Private[Intake]:
    """What rows add to a stream at its step; chosen ones are new.

    Args:
        stream: None for one that has counted nothing yet.
        append: the rows are new ones, and not all since the first window.

    Raises:
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
    groups = len(definition.cell_names) * definition.places
    if rows.labels is not None:
        groups = max(1, len(open_private(rows.labels).all))
    intake = compare(
        kept,
        cells,
        released=before,
        target=ended,
        groups=groups,
        measures=definition.measures,
        append=new,
        cut=definition.cut,
    )
    taken = (0, 0.0) if stream is None else open_private(stream.amounts)
    alone = definition.strategy.facts.workload != "totals"
    sums = intake.place_sums(definition.places, alone=alone)
    refuse_inexact_rows(definition, intake.largest_sum(alone=alone), sums, *taken)
    return Private(intake)


def tallied_rows(settled: SettledJob, progress: Progress, now: datetime | None) -> TalliedRows:
    """Read the rows and add them up."""
    job, definition = settled.job, settled.definition
    assert settled.source is not None
    source = open_private(settled.source)
    saved = settled.saved
    if definition.columns.id is None:
        if definition.cut.lags:
            refuse_all_events(source, append=job.rows.append)
        if definition.cut.goes_on:
            refuse_several(source, append=job.rows.append)
        counted = saved.has_source if saved is not None and job.rows.append else lambda _: False
        source = new_files(source, definition, counted)
    rows, files, bounding, source = _count(settled, source, progress)
    until, ended = ended_steps(job, definition, source, rows.found, settled.steps_released, now)
    counts = Private(counts_of(open_private(rows.found)))
    return TalliedRows(settled, rows, bounding, files, counts, until, ended)


def _count(
    settled: SettledJob, source: Source, progress: Progress
) -> tuple[CountedRows, Private[KnownBy], ContributionBounder | None, Source]:
    """Sums of the rows of a source, how its files are known again, and the choice of rows."""
    job, definition = settled.job, settled.definition

    def read(
        source: Source,
    ) -> tuple[CountedRows, Private[KnownBy], ContributionBounder | None]:
        rows, bounding = _read(settled, source, progress)
        # Bytes are hashed here too: a file is known by those that were counted.
        return rows, known_by(source, definition), bounding

    found, source = read_whole(job, definition, source, read)
    return *found, source


def _read(
    settled: SettledJob, source: Source, progress: Progress
) -> tuple[CountedRows, ContributionBounder | None]:
    """Sums of all rows, and the choice of those that count."""
    job, definition = settled.job, settled.definition
    reading = reading_of(job, definition)
    source = source.delegate(reading)
    labels, by = None, definition
    if not definition.cells.named_beforehand:
        known = Private(()) if settled.saved is None else settled.saved.labels()
        labels = labels_in(source, reading, known)
        by = counted_by(definition, labels)
    bounding = None
    if definition.counting.users or definition.columns.id is not None:
        from counton.run.contribution_bounds import ContributionBounder

        bounding = ContributionBounder(
            by,
            None if settled.saved is None else settled.saved.secret(),
            job.rows.append,
            settled.steps_released or 0,
        )
    held = None if bounding is None else bounding.held
    watch = None if progress is silent else _RowMeter(progress)
    found = tally(source, reading, by.domain, bound=held, watch=watch)
    return CountedRows(labels, found, None), bounding


def reading_of(job: Job, definition: Definition) -> RowReading:
    """How the rows of a job are read."""
    unknown = definition.cells.policy or job.groups.unknown
    return RowReading(
        definition.columns,
        definition.windows,
        cast(Unknown, unknown),
        definition.adds,
        cast(ClockChange, job.rows.clock_change),
        job.rows.time_format,
        declared=definition.groups,
        other=definition.other,
        since=definition.since,
        policies=job.rows.policies(),
    )


class _RowMeter:
    """Says how many rows have been read, and how fast, a few times a second."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._start, self._said, self._rows = progress, monotonic(), 0.0, 0

    def __call__(self, rows: int) -> None:
        self._rows += rows
        seconds = monotonic() - self._start
        if seconds > self._said + 0.3:
            self._said = seconds
            rate = self._rows / seconds / 1e6
            self._progress(f"read {self._rows:,} rows, {rate:.1f} million a second", 0.25)
