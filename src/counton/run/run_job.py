"""One run of a job, in five steps: prepare, read, decide, commit, write.

A run that is killed leaves the state as it was before one of its transactions: a step is released
with the rows that it counts, or not at all. The next run with the same input releases the same
numbers, since they are a function of the key, the stream and its inputs. Numbers are shown only
after they are in the journal. CONTRIBUTING.md ("How a run works") lists what else a killed run may
leave.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counton.base.errors import InvalidInputError
from counton.base.exact import quote
from counton.base.private import Private, reveal
from counton.job.common_options import Job
from counton.noise import Key
from counton.results.display import DisplaySelection
from counton.results.release import Release
from counton.run.counting.missing_rows import refuse_holes, refuse_missed_files
from counton.run.counting.operator_counts import OperatorCounts
from counton.run.counting.unchanged_rows import NoSteps, find_no_steps
from counton.run.opened_state import OpenedState
from counton.run.outputs.read_journal import read_release
from counton.run.outputs.run_outputs import write_outputs
from counton.run.prepared_run import PreparedRun, prepare
from counton.run.progress import Progress, no_progress
from counton.run.rows.read_rows import ReadRows, read_rows
from counton.run.rows.row_numbers import RowNumbers, WithoutRows
from counton.run.rows.uncounted_files import refuse_counted_meanwhile
from counton.run.rows.window_sums import find_without_rows, refuse_no_row_within
from counton.run.spec.stream_spec import StreamSpec
from counton.run.spec.terms import OutputFiles, RunOptions, SingleTable
from counton.run.windows.due_windows import EndedWindows, FutureRows, ReleaseClock, RowTimes
from counton.run.windows.held_back import HeldBackWindows, find_held_back
from counton.state import Store, Stream
from counton.state.database import CommitHook
from counton.state.stream_reader import JournalReader

if TYPE_CHECKING:
    from counton.run.counting.step_inputs import PlannedSteps
    from counton.windowing.lazy_polars import polars as pl


@dataclass(frozen=True, repr=False)
class RowCounts:
    """Exact numbers of the rows of a run, for its operator alone.

    Attributes:
        rows: numbers of the rows that were read, and of those that were left out.
        input: what the rows tell besides, such as the number of late rows.
        empty_windows: number of released windows after the newest row.
        without_rows: new windows, and groups, without rows (`find_without_rows`).
        held_back: windows of the newest rows that a first run does not release; None if none.
        future: rows of windows that have not begun yet; None if there are none.
    """

    rows: RowNumbers
    input: OperatorCounts
    empty_windows: int
    without_rows: WithoutRows = field(default_factory=WithoutRows)
    held_back: HeldBackWindows | None = None
    future: FutureRows | None = None


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """What a run did, or what it would do: all from which notes for the operator are made.

    Attributes:
        name: name of the stream.
        job: the job, filled with the options that its stream keeps.
        spec: the specification of the stream.
        options: how the run read its rows, and which windows it released.
        begins_stream: whether no earlier run created the stream.
        before, after: number of steps released before the run and after it.
        until: windows that ended by this time are released, in microseconds since 1970; of a
            single table, the time means nothing.
        counts: exact numbers of rows, for the operator.
        column_names: names of the columns of the rows of a new stream; else none.
        is_duplicate_input: whether all files were counted by earlier runs.
    """

    name: str
    job: Job
    spec: StreamSpec
    options: RunOptions
    begins_stream: bool
    before: int
    after: int
    until: int
    counts: Private[RowCounts] = field(repr=False)
    column_names: tuple[str, ...] = ()
    is_duplicate_input: bool = False

    @property
    def is_single_table(self) -> bool:
        """Whether the stream is one table of rows without times."""
        return isinstance(self.spec.terms.windowing, SingleTable)

    def confidential_counts(self) -> RowCounts:
        """Return the exact numbers of rows. Only for people who may see the rows."""
        return reveal(self.counts)


@dataclass(frozen=True, kw_only=True)
class RunResult(RunReport):
    """What a run did.

    Attributes:
        outputs: the files that it wrote.
        release: all that the stream has released.
        spent: lines on the total privacy loss of each kind of unit of the state, if it has several.
        other_units: of a new stream, units in the ledger of the state whose losses are not added to
            that of the stream.
        chart_error: why the chart could not be drawn; None if it was drawn, or there is none.
    """

    outputs: OutputFiles
    release: Release
    spent: tuple[str, ...]
    other_units: tuple[str, ...] = ()
    chart_error: str | None = None

    def read(self, level: float | None = None, shown: DisplaySelection | None = None) -> Release:
        """Return all that the stream has released, with intervals.

        Args:
            level: probability with which each interval holds; None: the level of the last job.
            shown: selection of the statistic's numbers to show; None: that of the last job. If one
                of them is stated, the journal is read again.

        Raises:
            InvalidInputError: the level is not above 0 or is above 1 - 1e-9, or the statistic has
                no such numbers.

        >>> from pathlib import Path
        >>> from counton.run import Job, run
        >>> _ = Path("visits.csv").write_text("time\\n2024-03-01T09:00\\n2024-03-02T10:15\\n")
        >>> job = Job(
        ...     "count", "visits.csv", "visits.db", time="time", every="1d", start="2024-03-01",
        ...     windows=365, until="latest-event", epsilon=1
        ... )
        >>> with run(job) as result:
        ...     result.read(level=0.9).table().select("window_index", "window_end").rows()[0]
        (1, datetime.datetime(2024, 3, 2, 0, 0, tzinfo=zoneinfo.ZoneInfo(key='UTC')))
        """
        if level is None and shown is None:
            return self.release
        assert self.job.state is not None, "a run has a state"
        with Store(self.job.state) as store:
            reader = store.reader(self.name, self.job.key)
            return read_release(reader, self.spec, display=shown, level=level)

    def close(self) -> None:
        """Do nothing, since the run has closed its state.

        A program may use a result in ``with``, as it uses a `Stream`.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def run(
    job: Job,
    progress: Progress = no_progress,
    *,
    now: datetime | None = None,
    rows: object = None,
    key: Key | None = None,
    approve: Callable[[StreamSpec], None] | None = None,
    before_commit: Callable[[PreparedRun, EndedWindows], None] | None = None,
) -> RunResult:
    """Release the windows of a job that have ended, and keep what later runs need.

    Args:
        job: the job.
        progress: function that is told the current task, and the fraction of the run that is done.
        now: the current time; None: that of this machine.
        rows: a data frame or another source of rows, in place of the files that the job names.
        key: the key itself, in place of where the job says it is.
        approve: function that is told the specification of the stream before rows are read; an
            error that it raises ends the run.
        before_commit: function that is called before anything is committed, although the file of
            bad rows may be written by then; an error that it raises ends the run.

    Raises:
        InvalidInputError: the job or a row cannot be taken; nothing was released.
        StreamMismatchError: the job differs from its stream.
        ConcurrentWriterError: another process writes the stream.

    >>> import polars as pl
    >>> from counton.job.statistics.count import CountJob
    >>> visits = pl.DataFrame({"at": ["2024-03-01T09:00", "2024-03-02T11:30"]})
    >>> job = CountJob(
    ...     state="visits.db", time="at", every="1d", start="2024-03-01", windows=365,
    ...     until="2024-03-03", epsilon=1,
    ... )
    >>> result = run(job, rows=visits)
    >>> result.before, result.after, result.release.table().height
    (0, 2, 2)
    """
    if not isinstance(job, Job):
        raise InvalidInputError(f"the job is {quote(job)}; give a Job(what, events, state)")
    now = datetime.now(UTC) if now is None else now
    if now.tzinfo is None:
        raise InvalidInputError("the current time has no zone; give one, as in datetime.now(UTC)")
    if key is not None:
        job = job.with_options(key=key)
    with OpenedState(job) as state:
        prepared = prepare(job, state, rows, now, progress, may_leave_unchecked=True)
        if approve is not None:
            approve(prepared.spec)
        rows_read = read_rows(prepared, progress)
        ended = decide(prepared, rows_read)
        if before_commit is not None:
            before_commit(prepared, ended)
        committed = commit(prepared, rows_read, ended, progress)
        written = write_results(prepared, committed.stream, progress)
        return RunResult(
            name=state.name,
            job=prepared.job,
            spec=committed.spec,
            options=prepared.options,
            begins_stream=prepared.begins_stream,
            outputs=prepared.outputs,
            before=state.released,
            after=committed.stream.step,
            until=ended.until,
            release=written.release,
            spent=tuple(committed.stream.totals_apart),
            counts=committed.counts,
            column_names=rows_read.column_names,
            other_units=prepared.other_units,
            is_duplicate_input=rows_read.files.is_duplicate,
            chart_error=written.chart_error,
        )


# ----------------------------------------------------------------------------------------- decide
def decide(prepared: PreparedRun, rows_read: ReadRows) -> EndedWindows:
    """Decide which windows have ended, and so are released.

    Raises:
        InvalidInputError: the rows suggest that a file is missing, or an option is wrong.
    """
    windows = prepared.windows
    options = prepared.options
    released = prepared.state.released
    times = reveal(rows_read.sums).times
    # A run that allows empty windows refuses none, so it does not read the state for this.
    no_windows = np.zeros(0, np.int64)
    waiting = no_windows if options.allow_empty_windows else _waiting_windows(prepared)
    clock = ReleaseClock(
        windows=windows,
        options=options,
        times=times,
        released=released,
        now=prepared.now,
        is_new_stream=prepared.begins_stream,
        last_waiting=int(waiting.max(initial=0)),
    )
    # This precedes all refusals of missing rows: else it would depend on the rows whether a run
    # that allows empty windows releases.
    if options.allow_empty_windows:
        return clock.ended_windows(allows_missing_rows=True)
    has_windows = not isinstance(prepared.spec.terms.windowing, SingleTable)
    if prepared.begins_stream and has_windows:
        # A wrong option leaves all windows empty. So its refusal precedes that of empty windows. A
        # run that releases no window is not refused.
        releases_any = clock.ended_windows(allows_missing_rows=True).last > 0
        if releases_any:
            refuse_no_row_within(rows_read.sums, windows)
    if options.input.has_only_new_rows and has_windows:
        # This precedes the refusal of empty windows after the newest row, which may advise to
        # release the windows before it.
        would_release = clock.ended_windows(allows_missing_rows=True).last
        _refuse_missed_files(prepared, times, waiting, would_release)
    ended = clock.ended_windows(allows_missing_rows=False)
    if options.input.lookback is not None:
        due = range(released + 1, ended.last + 1)
        refuse_holes(
            options,
            windows,
            times.windows_with_rows,
            covered=prepared.covered_windows(ended) or due,
            due=due,
            source_name=reveal(prepared.source).name,
        )
    rows_read.files.refuse_duplicate(ended.last - released)
    return ended


def _refuse_missed_files(
    prepared: PreparedRun, times: RowTimes, waiting: NDArray[np.int64], would_release: int
) -> None:
    """Refuse to release windows before the newest row of which no file of new rows has a row.

    Args:
        prepared: the run.
        times: what the times of its rows say.
        waiting: windows with rows of earlier files that no window has counted yet.
        would_release: the last window that the run would release.
    """
    windows_with_rows = np.union1d(times.windows_with_rows, waiting)
    last_with_rows = int(windows_with_rows.max(initial=0))
    has_users = prepared.spec.terms.privacy_unit.user_column is not None
    refuse_missed_files(
        prepared.options,
        prepared.windows,
        windows_with_rows,
        due=range(prepared.state.released + 1, min(would_release, last_with_rows) + 1),
        forgets_rows_of_users=has_users and not prepared.begins_stream,
    )


def _waiting_windows(prepared: PreparedRun) -> NDArray[np.int64]:
    """Return windows with rows that earlier files held and that no window has counted yet.

    There are none if the input repeats these rows, or replaces them: then it is looked at itself.
    """
    saved = prepared.state.saved
    options = prepared.options
    waiting = [np.zeros(0, np.int64)]
    if saved is None or not options.input.has_only_new_rows:
        return waiting[0]
    no_others = Private(waiting[0])
    for windows, totals in reveal(saved.observed_blocks(no_others)):  # window, seen or counted
        has_rows = totals[:, 0].any(axis=(1, 2))
        waiting.append(windows[has_rows & (windows > prepared.state.released)])
    return np.concatenate(waiting)


# ----------------------------------------------------------------------------------------- commit
@dataclass(frozen=True, repr=False)
class Committed:
    """A stream, open for writing, that has released a run's steps.

    Attributes:
        spec: its specification, with the notes that it has now.
        counts: exact numbers of rows, for the operator.
    """

    stream: Stream
    spec: StreamSpec
    counts: Private[RowCounts]

    def close(self) -> None:
        """Close the stream."""
        self.stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def commit(
    prepared: PreparedRun,
    rows_read: ReadRows,
    ended: EndedWindows,
    progress: Progress = no_progress,
    *,
    commit_hook: CommitHook | None = None,
) -> Committed:
    """Turn the rows into the inputs of steps, and commit these to the journal.

    Rows that a new stream cannot take are refused before it is made.

    Args:
        prepared: the run as `prepare` returned it.
        rows_read: the rows of the run, summed.
        ended: the windows that the run has released when it is done.
        commit_hook: function that writes more into a transaction of the run, even if no number
            changes; its error undoes everything. Only for new rows of an existing stream, which are
            committed in one transaction.

    Raises:
        ConcurrentWriterError: another process has written the stream, or has closed it.
        SumOverflowError: sums would not be exact.
    """
    state = prepared.state
    stream = state.open_writer()
    spec = prepared.spec
    if stream is not None:
        # Notes may have been written since the stream was read.
        spec = spec.with_public_notes(stream)
        refuse_counted_meanwhile(
            rows_read.files, stream.has_source, are_several=prepared.are_several_files
        )
    steps = find_steps(prepared, rows_read, ended, stream, may_be_none=commit_hook is None)
    new_public_facts: Mapping[str, object] | None = None
    if stream is None:
        stream = state.create(spec)
    elif stream.public_facts != spec.public_facts():
        new_public_facts = spec.public_facts()
    for fraction, addition in steps.transactions(
        new_public_facts, is_needed=commit_hook is not None, read_sums=rows_read.sums_to_keep
    ):
        progress("releasing", 0.4 + 0.3 * fraction)
        stream.commit(addition, commit_hook=commit_hook)
    retention = prepared.job.value_of("retain")
    if retention is not None and steps.span.new_steps:
        from counton.run.erasure import retain

        retain(stream, spec, retention)
    return Committed(stream, spec, count_rows(prepared, rows_read, ended, steps))


def find_steps(
    prepared: PreparedRun,
    rows_read: ReadRows,
    ended: EndedWindows,
    stream: JournalReader | None,
    *,
    may_be_none: bool = True,
) -> PlannedSteps | NoSteps:
    """Compare the rows with those that the stream has counted; nothing is written.

    Args:
        stream: the stream, with its key; None if the job begins it.
        may_be_none: whether a run that changes nothing may skip `plan_steps`.

    Raises:
        InvalidInputError: counted rows are missing.
        SumOverflowError: sums would not be exact.
    """
    if stream is not None and may_be_none:
        no_steps = find_no_steps(prepared, rows_read, ended, stream)
        if no_steps is not None:
            return no_steps
    from counton.run.counting.plan_steps import plan_steps  # imports polars

    return plan_steps(prepared, rows_read, ended, stream)


def count_rows(
    prepared: PreparedRun,
    rows_read: ReadRows,
    ended: EndedWindows,
    steps: PlannedSteps | NoSteps,
) -> Private[RowCounts]:
    """Return the exact numbers of the rows of a run, or of its dry run. Operator only.

    Args:
        prepared: the run.
        rows_read: its rows.
        ended: the windows that it releases.
        steps: what the rows add to the stream.
    """
    sums = reveal(rows_read.sums)
    numbers = sums.numbers
    if not steps.changes_anything:
        numbers = replace(numbers, unlisted_names=())  # an earlier run has named them
    counts = RowCounts(
        rows=numbers,
        input=steps.counts,
        empty_windows=_number_of_empty_windows(prepared, sums.times, steps),
        without_rows=find_without_rows(
            sums,
            prepared.spec,
            prepared.options,
            steps.span.new_steps,
            begins_stream=prepared.begins_stream,
            windows_with_rows=_windows_with_rows(prepared, sums.times, steps),
            earlier_cells=_earlier_cells(prepared, steps),
        ),
        held_back=_held_back_windows(prepared, rows_read, ended),
        future=sums.times.future,
    )
    return Private(counts)


def _held_back_windows(
    prepared: PreparedRun, rows_read: ReadRows, ended: EndedWindows
) -> HeldBackWindows | None:
    """Return the windows of the newest rows that a first run does not release. Operator only.

    Args:
        prepared: the run.
        rows_read: its rows.
        ended: the windows that it releases.
    """
    if prepared.state.released:
        return None
    return find_held_back(
        prepared.windows,
        prepared.options,
        newest=reveal(rows_read.sums).times.newest_within,
        ended=ended,
        now=prepared.now,
    )


def _windows_with_rows(
    prepared: PreparedRun, times: RowTimes, steps: PlannedSteps | NoSteps
) -> ArrayLike:
    """Return the windows that have a row; rows of earlier files that wait are looked at, too."""
    if isinstance(steps, NoSteps) or not prepared.options.input.has_only_new_rows:
        return times.windows_with_rows
    return np.union1d(times.windows_with_rows, steps.windows_with_rows)


def _earlier_cells(prepared: PreparedRun, steps: PlannedSteps | NoSteps) -> pl.DataFrame | None:
    """Return windows and cells with a row of any file, if files have new rows alone; else None."""
    if isinstance(steps, NoSteps) or not prepared.options.input.has_only_new_rows:
        return None
    return steps.cells_with_rows


def _number_of_empty_windows(
    prepared: PreparedRun, times: RowTimes, steps: PlannedSteps | NoSteps
) -> int:
    """Return the number of released windows after the newest row; 0 of a single table."""
    span = steps.span
    if isinstance(steps, NoSteps) or not span.is_recurring:
        return 0
    last_counted = max(span.released, steps.last_window_with_rows)
    return min(
        times.windows_since_newest(prepared.windows, span.target, span.released),
        max(0, span.target - last_counted),
    )


# ------------------------------------------------------------------------------------------ write
class WrittenResults(NamedTuple):
    """What a run has written for readers.

    Attributes:
        release: all that the stream has released.
        chart_error: why the chart could not be drawn; None if it was drawn, or there is none.
    """

    release: Release
    chart_error: str | None


def write_results(
    prepared: PreparedRun, stream: Stream, progress: Progress = no_progress
) -> WrittenResults:
    """Read the release from the journal, and write the job's table and chart.

    Readers who use SQL see new steps in the state's database, if the stream is published there.

    Args:
        prepared: the run, with its outputs.
        stream: the stream, after its windows were committed.
        progress: function that gets each task, and the fraction of the run that is done.
    """
    progress("reading the journal", 0.7)
    if not prepared.begins_stream:
        publish_new_steps(stream)
    release = read_release(stream, StreamSpec.of_stream(stream))
    return WrittenResults(release, write_outputs(release, prepared.outputs, progress))


def publish_new_steps(stream: Stream) -> None:
    """Publish the new steps of a stream that is published in its own state; else nothing."""
    from counton.state import sql_view

    stream.record_release()
    with stream.database.transaction(write=False) as connection:
        row = sql_view.find_row(connection, stream.name)
    if row is None:
        return
    from counton.run.outputs.exports import publish_new

    publish_new(stream, sql_view.PublishTarget(stream.database, None), None)
