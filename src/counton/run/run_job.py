"""One run of a job, in five steps: prepare, read, decide, commit, publish.

A run that is killed leaves the state as it was before one of its transactions: a step is released
with the rows that it counts, or not at all. The first run creates the stream and enters it into the
ledger before its first step: one killed in between leaves a stream at step 0. The next run with the
same input releases the same numbers, since they are a function of the key, the stream and its
inputs. Numbers are shown only after they are in the journal. A file of bad rows, and the table of
an earlier run, may be left behind; the next run replaces both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from time import monotonic
from typing import Any, Protocol, Self

from counton.base.errors import InvalidInputError
from counton.base.exact import quote
from counton.base.private import Private, open_private
from counton.io.input_paths import are_several
from counton.io.row_assignment import RowMapping
from counton.io.sources import Source
from counton.job.common_options import Job
from counton.noise import Key
from counton.results.display import DisplaySelection
from counton.results.release import Release
from counton.run.chosen_rows import RowChoice, choose_rows, no_chosen_rows
from counton.run.discovered_groups import GroupNamesOfRun
from counton.run.due_windows import EndedWindows, covered_windows, ended_windows
from counton.run.erasure import check_retain, retain
from counton.run.exactness import refuse_inexact
from counton.run.missing_rows import (
    MissingRows,
    refuse_holes,
    refuse_other_ids,
    refuse_other_rows,
    refuse_other_users,
    refuse_shrunk_windows,
)
from counton.run.opened_state import OpenedState
from counton.run.outputs import check_outputs, refuse_shared_files, write_outputs
from counton.run.parsing import parse_outputs, parse_run
from counton.run.planned_accuracy import refuse_less_accurate
from counton.run.planned_steps import (
    Measurement,
    NewRowsOfRun,
    OperatorCounts,
    PlannedSteps,
    RowsOfRun,
    SnapshotOfRun,
    Span,
    kept_totals,
)
from counton.run.read_journal import read_release
from counton.run.reading import (
    WindowSums,
    aggregate_rows,
    columns_of,
    refuse_no_row_within,
)
from counton.run.remembered_rows import RememberedRows
from counton.run.row_buffer import RowBuffer
from counton.run.row_numbers import RowNumbers
from counton.run.row_source import (
    check_rows,
    open_rows,
    open_rows_of_new_stream,
    query_moments,
    refuse_rows_as_domain,
)
from counton.run.stream_spec import StreamSpec, refuse_differences
from counton.run.terms import NewRows, OutputFiles, RunOptions, SingleTable, Snapshot
from counton.run.uncounted_files import (
    UncountedFiles,
    leave_out_counted_files,
    recognise_files,
    refuse_counted_meanwhile,
)
from counton.state import Store, Stream
from counton.state.commit_input import LateRowStats
from counton.state.database import CommitHook
from counton.state.ledger_rows import SpentUnit
from counton.state.stream import Amounts
from counton.windowing.groups import GroupNames
from counton.windowing.lazy_polars import polars as pl
from counton.windowing.windows import Windows

#: Seconds between two reports of the number of rows that were read.
_REPORT_SECONDS = 0.3


class Progress(Protocol):
    """A function that is told the current task, and the fraction of the run that is done."""

    def __call__(self, task: str, fraction: float, /) -> None:
        """Receive the task's name and the fraction, 0 to 1."""


def no_progress(_task: str, _fraction: float) -> None:
    """Ignore the progress of a run."""


@dataclass(frozen=True, repr=False)
class RowCounts:
    """Exact numbers of the rows of a run, for its operator alone.

    Attributes:
        rows: numbers of the rows that were read, and of those that were left out.
        input: what the rows tell besides, such as the number of late rows.
        empty_windows: number of released windows after the newest row.
    """

    rows: RowNumbers
    input: OperatorCounts
    empty_windows: int


@dataclass(frozen=True)
class RunResult:
    """What a run did.

    Attributes:
        name: name of the stream.
        job: the job, filled with the options that its stream keeps.
        spec: the specification of the stream.
        options: how the run read its rows, and which windows it released.
        outputs: the files that it wrote.
        before, after: number of steps released before the run and after it.
        until: windows that ended by this time are released, in microseconds since 1970; of a
            single table, the time means nothing.
        release: all that the stream has released.
        spent: what the ledger has for the protected unit, by kind of neighbours, in sentences.
        counts: exact numbers of rows, for the operator.
        column_names: names of the columns of the rows of a new stream; else none.
        is_duplicate_input: whether all files were counted by earlier runs.
        chart_error: why the chart could not be drawn; None if it was drawn, or there is none.
    """

    name: str
    job: Job
    spec: StreamSpec
    options: RunOptions
    outputs: OutputFiles
    before: int
    after: int
    until: int
    release: Release
    spent: tuple[str, ...]
    counts: Private[RowCounts] = field(repr=False)
    column_names: tuple[str, ...] = ()
    is_duplicate_input: bool = False
    chart_error: str | None = None

    @property
    def is_single_table(self) -> bool:
        """Whether the stream is one table of rows without times."""
        return isinstance(self.spec.terms.windowing, SingleTable)

    def for_operator(self) -> RowCounts:
        """Return the exact numbers of rows. Only for people who may see the rows."""
        return open_private(self.counts)

    def read(self, level: float | None = None, shown: DisplaySelection | None = None) -> Release:
        """Return all that the stream has released, with intervals.

        Args:
            level: probability with which each interval holds; None: the level of the last job.
            shown: selection of the statistic's numbers to show; None: that of the last job. If one
                of them is stated, the journal is read again.

        Raises:
            InvalidInputError: the level is not above 0 or is above 1 - 1e-9, or the statistic ...
                such numbers.

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
        """Do nothing: the run has closed its state."""

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
        before_commit: function that is called before anything is written; an error that it raises
            ends the run.

    Raises:
        InvalidInputError: the job or a row cannot be taken; nothing was released.
        StreamMismatchError: the job differs from its stream.
        ConcurrentWriterError: another process writes the stream.

    >>> import polars as pl
    >>> from counton.job.statistics import CountJob
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
        prepared = prepare(job, state, rows, now, progress)
        if approve is not None:
            approve(prepared.spec)
        read = read_rows(prepared, progress)
        ended = decide(prepared, read)
        if before_commit is not None:
            before_commit(prepared, ended)
        committed = commit(prepared, read, ended, progress)
        release, chart_error = publish(prepared, committed.stream, progress)
        return RunResult(
            name=state.name,
            job=prepared.job,
            spec=committed.spec,
            options=prepared.options,
            outputs=prepared.outputs,
            before=state.released,
            after=committed.stream.step,
            until=ended.until,
            release=release,
            spent=tuple(committed.stream.totals_apart),
            counts=committed.counts,
            column_names=read.column_names,
            is_duplicate_input=read.files.is_duplicate,
            chart_error=chart_error,
        )


# ---------------------------------------------------------------------------------------- prepare
@dataclass(frozen=True)
class PreparedRun:
    """A run whose stream is planned or loaded; no row is read yet.

    Attributes:
        job: the job, filled with the options that its stream keeps.
        source: the rows, of which only the names of columns are known.
        are_several_files: whether the job names a folder, a pattern or several files.
        now: the current time; with a query, the time at which it is asked.
    """

    job: Job
    spec: StreamSpec
    options: RunOptions
    outputs: OutputFiles
    state: OpenedState
    source: Private[Source]
    are_several_files: bool
    now: datetime

    @property
    def begins_stream(self) -> bool:
        """Whether the job begins its stream."""
        return self.state.saved is None

    @property
    def windows(self) -> Windows:
        """The windows of the stream."""
        return self.spec.terms.windowing.windows

    @property
    def states_covers(self) -> bool:
        """Whether the job states which windows its input covers."""
        return isinstance(self.options.input, Snapshot) and self.options.input.lookback is not None

    def covered_windows(self, ended: EndedWindows) -> range:
        """Return the windows of which the input holds all rows."""
        if isinstance(self.spec.terms.windowing, SingleTable):
            return range(1, 2)
        return covered_windows(self.windows, self.options, self.state.released, ended)


def prepare(
    job: Job,
    state: OpenedState,
    rows: object,
    now: datetime,
    progress: Progress = no_progress,
    *,
    units: Sequence[SpentUnit] = (),
    writes_files: bool = True,
) -> PreparedRun:
    """Plan the stream of a job, or load it and compare the job with it. No row is read.

    All refusals that need no rows come here. Of the rows only the names of columns are read.

    Args:
        rows: a source of rows that a program passes; None: what the job names.
        now: the current time.
        progress: function that is told the current task.
        units: further protected units for which the ledger of the state will have entries.
        writes_files: False if the run writes no table and no chart, whatever its stream keeps.

    Raises:
        InvalidInputError: an option or a column is wrong.
        StreamMismatchError: the job differs from its stream.
        BudgetExceededError: the privacy budget of the state has no room for the new stream.
    """
    progress("choosing a strategy", 0.05)
    is_new_stream = state.saved is None
    states_domain = job.has_stated("groups")
    source: Source | None = None
    if state.saved is None:
        from counton.run.planning import plan_stream  # loads all strategies

        source = open_rows_of_new_stream(job, rows)
        spec = plan_stream(job, [*state.units, *units])
        state.refuse_beyond_budget(spec)
    else:
        kept = StreamSpec.of_stream(state.saved)
        state.refuse_closed(kept)
        refuse_differences(kept, job, state.name)
        job = kept.fill_job(job)
        refuse_less_accurate(kept, job, state.name)
        job = job.with_options(margin_of_error=None, solve_for=None)
        spec = kept.remember(job)
    options = parse_run(job, spec.terms)
    outputs = parse_outputs(job) if writes_files else OutputFiles()
    retention = job.value_of("retain")
    if retention is not None:
        check_retain(retention, spec)
    check_outputs(outputs, options, spec, job.confidence_level)
    refuse_shared_files(job, rows, options, outputs, state.noise_id)
    moments = query_moments(job, spec, options, state.released, now)
    if source is None:
        source = open_rows(job, rows, moments.edges)
        if states_domain:
            refuse_rows_as_domain(job, source, rows)
    return PreparedRun(
        job=job,
        spec=spec,
        options=options,
        outputs=outputs,
        state=state,
        source=Private(check_rows(source, spec, is_new_stream=is_new_stream)),
        are_several_files=rows is None and are_several(job.events),
        now=now if moments.asked_at is None else moments.asked_at,
    )


# ------------------------------------------------------------------------------------------- read
@dataclass(frozen=True, repr=False)
class ReadRows:
    """The rows of a run: where they came from, and their sums.

    Attributes:
        column_names: names of the columns of the rows of a new stream; else none.
    """

    files: UncountedFiles
    sums: Private[WindowSums]
    column_names: tuple[str, ...] = ()


def read_rows(prepared: PreparedRun, progress: Progress = no_progress) -> ReadRows:
    """Read the rows, and add them up: of all files of a snapshot, or of those that were not
    counted. Nothing is written but the file of bad rows.

    Raises:
        InvalidInputError: a column is missing, or a row is refused.
    """
    progress("reading rows", 0.25)
    state = prepared.state
    spec = prepared.spec
    columns = columns_of(spec).names
    source = prepared.source
    if isinstance(prepared.options.input, NewRows):
        source = leave_out_counted_files(
            source, columns, state.is_counted, are_several=prepared.are_several_files
        )

    def make_buffer(reading: RowMapping, groups: GroupNames | None) -> RowBuffer | None:
        return _make_buffer(prepared, reading, groups)

    sums = aggregate_rows(
        spec,
        prepared.options,
        source,
        prepared.now,
        state.names_of_groups if spec.discovers_groups else (),
        make_buffer,
        None if progress is no_progress else _row_watcher(progress),
    )
    has_rows = open_private(sums).numbers.read > 0
    files = recognise_files(
        source, columns, state.is_counted, prepared.options.input, has_rows=has_rows
    )
    names = () if state.saved is not None else tuple(open_private(source).columns())
    return ReadRows(files, sums, names)


def _row_watcher(progress: Progress) -> Callable[[int], None]:
    """Return a function that reports how many rows were read, and how fast."""
    start = monotonic()
    rows_read = 0
    reported = 0.0

    def watch(rows: int) -> None:
        nonlocal rows_read, reported
        rows_read += rows
        seconds = monotonic() - start
        if seconds > reported + _REPORT_SECONDS:
            reported = seconds
            millions = rows_read / seconds / 1e6
            progress(f"read {rows_read:,} rows, {millions:.1f} million a second", 0.25)

    return watch


def _make_buffer(
    prepared: PreparedRun, reading: RowMapping, groups: GroupNames | None
) -> RowBuffer | None:
    """Return the buffer of the rows, if those that count are chosen.

    It drops rows that can no longer count, unless rows are compared with counted ones.
    """
    spec = prepared.spec
    terms = spec.terms
    if not terms.chooses_rows:
        return None
    state = prepared.state
    buffer = RowBuffer(reading, state.secret(), groups)
    begins = state.saved is None and not spec.takes_whole_windows
    may_drop = terms.takes_new_rows or begins
    counts_in_groups = terms.privacy_unit.rule.each is not None and state.saved is not None
    if terms.id_column is None and may_drop and not counts_in_groups:
        all_windows = range(1, terms.windowing.windows.steps + 1)
        choice = RowChoice(terms, buffer.groups, state.released, all_windows, compares_rows=False)
        buffer.drop_by(choice.that_may_count)
    return buffer


# ----------------------------------------------------------------------------------------- decide
def decide(prepared: PreparedRun, read: ReadRows) -> EndedWindows:
    """Decide which windows have ended, and so are released.

    Raises:
        InvalidInputError: the rows suggest that a file is missing, or an option is wrong.
    """
    windows = prepared.windows
    options = prepared.options
    released = prepared.state.released
    times = open_private(read.sums).times
    find_ended = partial(
        ended_windows,
        windows,
        options,
        times,
        released,
        prepared.now,
        is_new_stream=prepared.begins_stream,
    )
    if options.allow_empty_windows:
        return find_ended(allows_missing_rows=True)
    # Whether a row lies in a window must not decide whether a first run with ``yes`` releases.
    has_windows = not isinstance(prepared.spec.terms.windowing, SingleTable)
    if prepared.begins_stream and has_windows and find_ended(allows_missing_rows=True).last:
        refuse_no_row_within(read.sums, windows)
    ended = find_ended(allows_missing_rows=False)
    if prepared.states_covers:
        due = range(released + 1, ended.last + 1)
        refuse_holes(
            options,
            windows,
            open_private(prepared.source).name,
            times.windows_with_rows,
            covered=prepared.covered_windows(ended) or due,
            due=due,
        )
    read.files.refuse_duplicate(ended.last - released)
    return ended


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
    read: ReadRows,
    ended: EndedWindows,
    progress: Progress = no_progress,
    *,
    also: CommitHook | None = None,
) -> Committed:
    """Turn the rows into the inputs of steps, and commit these to the journal.

    Rows that a new stream cannot take are refused before it is made.

    Args:
        also: function that writes more into a transaction of the run, even if no number changes;
            its error undoes everything. Only for new rows of an existing stream, which are
            committed in one transaction.

    Raises:
        ConcurrentWriterError: another process has written the stream.
        SumOverflowError: sums would not be exact.
    """
    state = prepared.state
    spec = prepared.spec
    stream = state.open_writer()
    if stream is not None:
        spec = spec.with_public_notes(stream)
        refuse_counted_meanwhile(
            read.files, stream.has_source, are_several=prepared.are_several_files
        )
    steps = plan_steps(prepared, read, ended, stream)
    new_facts: Mapping[str, Any] | None = None
    if stream is None:
        stream = state.create(spec)
    elif stream.details != spec.facts():
        new_facts = spec.facts()
    for fraction, addition in steps.transactions(new_facts, is_needed=also is not None):
        progress("releasing", 0.4 + 0.3 * fraction)
        stream.take(addition, also=also)
    span = steps.span
    retention = prepared.job.value_of("retain")
    if retention is not None and span.new_steps:
        retain(stream, spec, retention)
    sums = open_private(read.sums)
    empty_windows = 0
    if span.is_recurring:
        last_counted = max(span.released, steps.last_window_with_rows)
        empty_windows = min(
            sums.times.windows_since_newest(prepared.windows, span.target, span.released),
            max(0, span.target - last_counted),
        )
    numbers = sums.numbers
    if not steps.changes_anything:
        numbers = replace(numbers, unlisted_names=())  # an earlier run has named them
    counts = RowCounts(numbers, steps.counts, empty_windows)
    return Committed(stream, spec, Private(counts))


def plan_steps(
    prepared: PreparedRun, read: ReadRows, ended: EndedWindows, stream: Stream | None
) -> PlannedSteps:
    """Turn the rows into the inputs of steps; nothing is written.

    Args:
        stream: the stream, open for writing; None if the job begins it.

    Raises:
        SumOverflowError: sums would not be exact.
    """
    spec = prepared.spec
    released = prepared.state.released
    rows = _rows_of_run(prepared, read, ended, stream)
    groups = spec.terms.groups.number if rows.names is None else max(1, len(rows.names.all))
    measurement = Measurement.of(
        spec.accumulator_statistic,
        spec.terms.group_statistic,
        groups,
        is_of_each_group=spec.discovers_groups,
    )
    span = Span(prepared.windows, released, max(ended.last, released))
    kept = kept_totals(stream, rows.touched(), measurement)
    late_row_stats = LateRowStats() if stream is None else open_private(stream.late_row_stats)
    steps = PlannedSteps.of(rows, kept, span, measurement, late_row_stats)
    _refuse_missing_rows(prepared, steps.missing)
    _refuse_inexact(spec, steps, stream)
    return steps


def _rows_of_run(
    prepared: PreparedRun, read: ReadRows, ended: EndedWindows, stream: Stream | None
) -> RowsOfRun:
    """Return the rows of a run: new ones, chosen ones, or those of a snapshot."""
    sums = open_private(read.sums)
    if sums.buffer is not None:
        return _chosen_rows(prepared, read, sums.buffer, ended, stream)
    spec = prepared.spec
    released = prepared.state.released
    if isinstance(prepared.options.input, NewRows):
        has_nothing_new = read.files.is_duplicate or not sums.numbers.read
        frame = sums.frame.clear() if has_nothing_new else sums.frame
        first_open = prepared.windows.first_open(released)
        frame, names = _with_counted_names(spec, frame, sums, pl.col("step") >= first_open)
        # A file without rows may come again, with rows.
        return NewRowsOfRun(frame, () if has_nothing_new else read.files.digests, names)
    is_released = pl.col("step").is_between(released + 1, ended.last)
    frame, names = _with_counted_names(spec, sums.frame, sums, is_released)
    return SnapshotOfRun(frame, prepared.covered_windows(ended), names)


def _with_counted_names(
    spec: StreamSpec, frame: pl.DataFrame, sums: WindowSums, counts: pl.Expr
) -> tuple[pl.DataFrame, GroupNamesOfRun | None]:
    if sums.names is None:
        return frame, None
    places = spec.terms.group_statistic.n_accumulators
    return sums.names.of_counted_rows(frame, counts, column="cell", sums_of_group=places)


def _chosen_rows(
    prepared: PreparedRun,
    read: ReadRows,
    buffer: RowBuffer,
    ended: EndedWindows,
    stream: Stream | None,
) -> RowsOfRun:
    """Choose the rows that count: they are new, whatever the input but a single table."""
    sums = open_private(read.sums)
    spec = prepared.spec
    released = prepared.state.released
    windows = prepared.windows
    covered = range(1, windows.steps + 1)
    outside = 0
    if spec.takes_whole_windows:
        covered = prepared.covered_windows(ended)
        if prepared.job.lookback is not None:
            outside_rows = sums.frame.filter(pl.col("step") < covered.start)
            statistic = spec.terms.group_statistic
            outside = int(outside_rows["rows"].sum()) // len(statistic.entries(pl.col("total")))
        covered = range(max(covered.start, released + 1 - windows.lags), covered.stop)
    keeps_nothing = spec.takes_whole_windows and ended.last <= released
    if keeps_nothing or read.files.is_duplicate:
        return replace(no_chosen_rows(sums.names), outside_snapshot=outside)
    if isinstance(spec.terms.windowing, SingleTable):
        # All rows are given again, and the choice of those that count is that of the first run.
        choice = RowChoice(spec.terms, buffer.groups, 0, covered, compares_rows=False)
        remembered = RememberedRows.read(None, spec.terms, 0)
        rows = choose_rows(choice, buffer, remembered, sums.names, (), target=1)
        change = None if released else rows.remembered
        return SnapshotOfRun(rows.sums, range(1, 2), rows.names, change, rows.choice)
    choice = RowChoice(
        spec.terms,
        buffer.groups,
        released,
        covered,
        compares_rows=not spec.terms.takes_new_rows,
    )
    digests = read.files.digests if sums.numbers.read else ()
    remembered = RememberedRows.read(stream, spec.terms, released)
    rows = choose_rows(
        choice, buffer, remembered, sums.names, digests, target=max(ended.last, released)
    )
    return replace(rows, outside_snapshot=outside)


def _refuse_missing_rows(prepared: PreparedRun, missing: MissingRows) -> None:
    """Refuse rows from which those that were counted before are missing.

    Raises:
        InvalidInputError: an open window keeps less than half of its rows, or all rows that ...
            before are missing.
    """
    terms = prepared.spec.terms
    options = prepared.options
    source_name = open_private(prepared.source).name
    user_column = terms.privacy_unit.user_column
    if missing.are_all and (prepared.spec.takes_whole_windows or options.repeats_rows):
        if terms.id_column is not None:
            refuse_other_ids(source_name, terms.id_column)
        elif user_column is not None:
            refuse_other_users(options, source_name, user_column)
        elif not prepared.states_covers:
            refuse_other_rows(options, source_name)
    refuse_shrunk_windows(options, prepared.windows, source_name, missing.open_windows)


def _refuse_inexact(spec: StreamSpec, steps: PlannedSteps, stream: Stream | None) -> None:
    is_of_one_step = spec.strategy.facts.workload != "totals"
    before = Amounts(0, 0.0) if stream is None else open_private(stream.amounts)
    refuse_inexact(spec, steps.added_sums(one_step_alone=is_of_one_step), before)


# ---------------------------------------------------------------------------------------- publish
def publish(
    prepared: PreparedRun, stream: Stream, progress: Progress = no_progress
) -> tuple[Release, str | None]:
    """Read the release from the journal, and write the job's table and chart.

    Readers who use SQL see new steps in the state's database, if the stream is published there.

    Returns:
        The release, and why its chart could not be drawn.
    """
    progress("reading the journal", 0.7)
    if not prepared.begins_stream:
        publish_again(stream)
    release = read_release(stream, StreamSpec.of_stream(stream))
    return release, write_outputs(release, prepared.outputs, progress)


def publish_again(stream: Stream) -> None:
    """Publish the new steps of a stream that is published in its own state; else nothing."""
    from counton.state import sql_view

    stream.record_release()
    with stream.database.transaction(write=False) as connection:
        row = sql_view.find_row(connection, stream.name)
    if row is None:
        return
    from counton.run.exports import publish_new

    publish_new(stream, sql_view.PublishTarget(stream.database, None), None)
