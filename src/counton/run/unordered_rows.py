"""Rows that are added up, in any order: late ones, new ones, and those of users who are bounded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from dataclasses import field as attribute
from datetime import datetime
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, cast

from counton.base.private import Private, open_private
from counton.rows.bad_rows import change_error
from counton.rows.remote_rows import Spread
from counton.rows.row_reading import RowReading, Unknown
from counton.rows.sources import Source, UnreadableRow
from counton.rows.tally import tally
from counton.rows.timestamps import ClockChange
from counton.run.additions import Intake
from counton.run.changes import (
    CountedRows,
    Counts,
    additions,
    compare_changes,
    counts,
    ended_windows,
    only_counted,
)
from counton.run.definition import Definition
from counton.run.looks import FileMemory
from counton.run.progress import Progress, silent
from counton.run.redelivery import (
    NO_FILES,
    FilesLeftOut,
    KnownBy,
    is_counted,
    known_by,
    new_marks,
    without_counted,
)
from counton.run.settlement import SettledJob
from counton.spec.job import Job
from counton.state import Stream
from counton.state.database import Within
from counton.state.seen import Change, Secret

if TYPE_CHECKING:
    from counton.run.contribution_bounds import Bounding


@dataclass(frozen=True)
class TalliedRows:
    """Rows that are read and added up, not yet beside what a stream has counted.

    Attributes:
        settled: the job, and what its stream remembers.
        rows: sums of them all.
        bounding: the choice of rows, where users are bounded or rows have ids.
        files: by what the state knows each of them again.
        until: microseconds up to which windows are released; None of a table released once.
        ended: how many windows have ended by then.
        looked_at: whether files are told by their looks too.
        kept: files that look counted, and add nothing.
    """

    settled: SettledJob
    rows: CountedRows
    bounding: Bounding | None
    files: Private[KnownBy]
    until: int | None
    ended: int
    looked_at: bool
    kept: Private[FilesLeftOut] = attribute(default_factory=lambda: NO_FILES)

    def beside(self, stream: Stream | None) -> TalliedChanges:
        """What is new in the rows, beside what a stream has counted.

        Args:
            stream: None for one that there is not yet.

        Raises:
            ReplayMismatch: rows have disappeared, or a file was counted before.
            SumOverflow: sums would not be exact.
        """
        job, definition, rows = self.settled.job, self.settled.definition, self.rows
        if stream is not None and rows.labels is not None:
            from counton.run import label_discovery as discovery

            discovery.refuse_others(stream, rows.labels)
        # Another process may have released since the state was read.
        before = 0 if stream is None else stream.step
        has = _nothing if stream is None else stream.has_source
        once = job.append and definition.columns.id is None
        again = once and is_counted(self.files, has, before, self.ended)
        memory, keep = self._memory(stream), job.counted == "keep"
        asks = once and not again and job.counted != "new"
        if memory is not None and stream is not None and asks:
            others = memory.look_over(has, ended=self.ended, keep=keep)
            if others is not None and others[0].parts:
                return self._of(*others).beside(stream)
            again = others is not None
        bounding, whole = None if again else self.bounding, None
        if definition.once and before and bounding is not None:
            # All rows are given again, and those that count are chosen as they were then.
            whole, bounding = bounding.choose(None, 0), None
        chosen = None if bounding is None else bounding.choose(stream, before)
        rows = only_counted(rows._replace(chosen=chosen), again=again, whole=whole)
        intake = compare_changes(
            stream, definition, rows, ended=self.ended, append=job.append, keep=keep
        )
        # Whether anything in a file counts must not decide whether it may come again.
        sources: Private[tuple[str, ...]] = Private(())
        if not rows.empty and not again:
            sources = new_marks(self.files, has, self.kept, once=once)
        remembered = None
        if memory is not None and not rows.empty and not again:
            change = memory.change()
            remembered = None if change is None else Private(change)
        if bounding is not None and rows.chosen is not None:
            remembered = bounding.change(rows.chosen, max(self.ended, before), remembered)
        return TalliedChanges(self.settled, rows, intake, sources, remembered, again, self.kept)

    def _memory(self, stream: Stream | None) -> FileMemory | None:
        """The files that were counted; None where files are not told by their looks."""
        if not self.looked_at:
            return None
        secret = self.bounding.secret if self.bounding is not None else _secret(self.settled)
        settled, found = self.settled, self.rows.found
        return FileMemory(stream, secret or Secret.fresh(), self.files, found, settled.definition)

    def _of(self, source: Source, kept: Private[FilesLeftOut]) -> TalliedRows:
        """The rows of some of the files, read again; the others add nothing."""
        rows, files, bounding, _ = _count(self.settled, source, silent, looks=True)
        return replace(self, rows=rows, files=files, bounding=bounding, kept=kept)


@dataclass(frozen=True)
class TalliedChanges:
    """What rows add to a stream.

    Attributes:
        settled: the job, and what its stream remembers.
        rows: that count.
        intake: what they add.
        sources: new marks of their files.
        remembered: what becomes of the marks of users and ids.
        again: they have been counted by an earlier run, and add nothing.
        kept: files that look counted, and add nothing.
    """

    settled: SettledJob
    rows: CountedRows
    intake: Private[Intake]
    sources: Private[tuple[str, ...]]
    remembered: Private[Change] | None
    again: bool
    kept: Private[FilesLeftOut]

    @property
    def counts(self) -> Private[Counts]:
        """Numbers of rows, for the operator."""
        job, dropped = self.settled.job, self.settled.dropped
        return counts(
            *(self.settled.definition, self.rows, self.intake, self.kept),
            append=job.append,
            dropped=dropped,
        )

    def release(self, stream: Stream, progress: Progress, also: Within | None) -> None:
        """Give a stream what the rows add, transaction by transaction."""
        for done, addition in additions(
            self.settled.definition,
            self.intake,
            sources=self.sources,
            append=self.settled.job.append,
            chosen=self.rows.chosen is not None,
            labels=self.rows.labels,
            remembered=self.remembered,
            empty=also is not None,
        ):
            progress("releasing", 0.4 + 0.3 * done)
            stream.take(addition, also=also)


def tallied_rows(settled: SettledJob, progress: Progress, now: datetime | None) -> TalliedRows:
    """Read the rows and add them up.

    Raises:
        InvalidInput: a column is missing, or a row that is refused.
    """
    job, definition = settled.job, settled.definition
    assert settled.source is not None
    source = open_private(settled.source)
    if settled.store_entry is not None and job.append and not source.comes_once:
        store, _ = settled.store_entry
        known_sources = partial(store.counted_sources, job.name, job.key)
        source = without_counted(source, definition, known_sources)
    # What later files are compared with: a file of all events is looked at on the first night.
    looks = (job.append or settled.saved is None) and not (
        definition.once or definition.columns.id is not None or source.comes_once
    )
    rows, files, bounding, source = _count(settled, source, progress, looks=looks)
    until, ended = ended_windows(job, definition, source, rows.found, settled.steps_released, now)
    return TalliedRows(settled, rows, bounding, files, until, ended, looks)


def _count(
    settled: SettledJob, source: Source, progress: Progress, *, looks: bool
) -> tuple[CountedRows, Private[KnownBy], Bounding | None, Source]:
    """Sums of the rows of a source, how its files are known again, and the choice of rows."""
    try:
        rows, bounding = _read(settled, source, progress, looks=looks)
    except UnreadableRow:
        source = source.sift(settled.definition.columns.names, settled.job.policies().unread)
        rows, bounding = _read(settled, source, progress, looks=looks)
    files = known_by(source, settled.job, settled.definition, rows.found)
    if (part := source.changed_part()) is not None:
        raise change_error(part)
    return rows, files, bounding, source


def _read(
    settled: SettledJob, source: Source, progress: Progress, *, looks: bool
) -> tuple[CountedRows, Bounding | None]:
    """Sums of all rows, and the choice of those that count."""
    job, definition = settled.job, settled.definition
    reading = reading_of(job, definition)
    source = source.delegate(reading)
    labels, by = None, definition
    if definition.discovery is not None:
        from counton.run import label_discovery as discovery

        known = (
            Private(()) if settled.store_entry is None else settled.store_entry[0].labels(job.name)
        )
        labels = discovery.labels_in(source, reading, known)
        by = discovery.counted_by(definition, labels)
    judged = job.counted == "new" or not isinstance(source, Spread)
    bounding = _bounding(settled, by, judged=judged)
    held = None if bounding is None else bounding.held
    watch = None if progress is silent else _RowMeter(progress)
    found = tally(source, reading, by.domain, bound=held, watch=watch, looks=looks)
    return CountedRows(labels, found, None), bounding


def _bounding(settled: SettledJob, definition: Definition, *, judged: bool) -> Bounding | None:
    """The choice of rows, where users are bounded or rows have ids."""
    if definition.people is None and definition.columns.id is None:
        return None
    from counton.run.contribution_bounds import Bounding

    job = settled.job
    return Bounding(
        *(definition, _secret(settled), job.append, judged, settled.steps_released or 0),
        keep=job.counted == "keep",
    )


def _secret(settled: SettledJob) -> Secret | None:
    """The secret of a stream's digests; None where it has none yet."""
    if settled.store_entry is None:
        return None
    return settled.store_entry[0].secret(settled.job.name, settled.job.key)


def _nothing(_digest: str) -> bool:
    """What a stream has counted that there is not yet."""
    return False


def reading_of(job: Job, definition: Definition) -> RowReading:
    """How the rows of a job are read.

    Args:
        job: with what is remembered of earlier ones.
        definition: of its stream.
    """
    unknown = "discover" if definition.discovery is not None else job.unknown
    return RowReading(
        definition.columns,
        definition.windows,
        cast(Unknown, unknown),
        definition.adds,
        cast(ClockChange, job.clock_change),
        job.time_format,
        declared=definition.groups,
        other=definition.other,
        since=definition.since,
        policies=job.policies(),
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
