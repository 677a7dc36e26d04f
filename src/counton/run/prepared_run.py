"""The first step of a run: plan its stream, or load it and compare the job with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from counton.base.private import Private
from counton.io.input_paths import are_several
from counton.io.sources import Source
from counton.job.common_options import Job
from counton.job.incompatible import NEEDS_OF_RETENTION, refuse_unmet_needs
from counton.privacy.contribution import canonical_unit
from counton.run.opened_state import OpenedState
from counton.run.outputs.run_outputs import check_outputs, refuse_shared_files
from counton.run.progress import Progress, no_progress
from counton.run.rows.row_source import (
    check_rows,
    open_rows,
    open_rows_of_new_stream,
    query_moments,
    refuse_rows_as_domain,
    refuse_unit_of_users,
    with_combined_columns,
)
from counton.run.spec.changed_options import refuse_differences
from counton.run.spec.parsing import parse_outputs, parse_run
from counton.run.spec.planned_accuracy import refuse_less_accurate
from counton.run.spec.stream_spec import StreamSpec
from counton.run.spec.terms import OutputFiles, RunOptions, SingleTable, Snapshot
from counton.run.windows.covered_windows import covered_windows
from counton.run.windows.due_windows import EndedWindows
from counton.state.ledger_rows import BUDGET, SpentUnit
from counton.state.stream_reader import JournalReader
from counton.windowing.windows import Windows


@dataclass(frozen=True)
class PreparedRun:
    """A run whose stream is planned or loaded; no row is read yet.

    Attributes:
        job: the job, filled with the options that its stream keeps.
        source: the rows, of which only the names of columns are known.
        has_unchecked_rows: whether `check_rows_of_stream` is due before rows are read. A run whose
            files have bytes that were counted before does without, and so without polars.
        states_groups: whether the job itself states groups.
        are_several_files: whether the job names a folder, a pattern or several files.
        now: the current time; with a query, the time at which it is asked.
        other_units: of a new stream, units in the ledger of the state whose losses are not added to
            that of the stream.
    """

    job: Job
    spec: StreamSpec
    options: RunOptions
    outputs: OutputFiles
    state: OpenedState
    source: Private[Source]
    are_several_files: bool
    now: datetime
    has_unchecked_rows: bool = False
    states_groups: bool = False
    other_units: tuple[str, ...] = ()

    @property
    def begins_stream(self) -> bool:
        """Whether the job begins its stream."""
        return self.state.saved is None

    @property
    def windows(self) -> Windows:
        """The windows of the stream."""
        return self.spec.terms.windowing.windows

    def covered_windows(self, ended: EndedWindows) -> range:
        """Return the windows of which the input holds all rows."""
        if isinstance(self.spec.terms.windowing, SingleTable):
            return range(1, 2)
        return covered_windows(self.windows, self.options, self.state.released, ended)

    def choosable_windows(self, ended: EndedWindows) -> range:
        """Return the windows of which rows may count, if those that count are chosen.

        New rows may be of any window. A snapshot says nothing of the windows that it does not
        cover, and cannot change those that are final.
        """
        if not self.spec.takes_whole_windows:
            return range(1, self.windows.steps + 1)
        covered = self.covered_windows(ended)
        first_revisable = self.state.released + 1 - self.windows.n_revisions
        return range(max(covered.start, first_revisable), covered.stop)


def prepare(
    job: Job,
    state: OpenedState,
    rows: object,
    now: datetime,
    progress: Progress = no_progress,
    *,
    units: Sequence[SpentUnit] = (),
    writes_files: bool = True,
    may_leave_unchecked: bool = False,
) -> PreparedRun:
    """Plan the stream of a job, or load it and compare the job with it. No row is read.

    All refusals that need no rows come here. Of the rows only the names of columns are read.

    Args:
        job: the job as it was stated; what it leaves out is taken from its stream.
        state: the opened state of the job.
        rows: a source of rows that a program passes; None: what the job names.
        now: the current time.
        progress: function that is told the current task.
        units: further protected units for which the ledger of the state will have entries.
        writes_files: False if the run writes no table and no chart, whatever its stream keeps.
        may_leave_unchecked: whether `read_rows` may check the names of columns, if it must read a
            snapshot of a stream that exists.

    Raises:
        InvalidInputError: an option or a column is wrong.
        StreamMismatchError: the job differs from its stream.
        BudgetExceededError: the privacy budget of the state has no room for the new stream.
    """
    progress("choosing a strategy", 0.05)
    states_groups = job.has_stated("groups")
    completed_job, spec, source = _plan_or_continue(job, state, rows, units)
    options = parse_run(completed_job, spec.terms)
    outputs = parse_outputs(completed_job) if writes_files else OutputFiles()
    retention = completed_job.value_of("retain")
    if retention is not None:
        from counton.run.erasure import check_retain

        check_retain(retention)
        refuse_unmet_needs(completed_job, NEEDS_OF_RETENTION)
    check_outputs(outputs, options, spec, completed_job.confidence_level)
    refuse_shared_files(completed_job, rows, options, outputs, state.noise_id)
    moments = query_moments(completed_job, spec, options, state.released, now)
    is_new_stream = state.saved is None
    is_snapshot_of_files = rows is None and isinstance(options.input, Snapshot)
    leaves_unchecked = may_leave_unchecked and not is_new_stream and is_snapshot_of_files
    if source is None:
        source = open_rows(completed_job, rows, moments.edges)
        if states_groups and not leaves_unchecked:
            refuse_rows_as_domain(completed_job, source, rows)
        if is_new_stream:
            refuse_unit_of_users(completed_job, source.parts[0].columns())
    source = with_combined_columns(source, spec, is_new_stream=is_new_stream)
    if not leaves_unchecked:
        check_rows(source, spec, is_new_stream=is_new_stream)
    return PreparedRun(
        job=completed_job,
        spec=spec,
        options=options,
        outputs=outputs,
        state=state,
        source=Private(source),
        are_several_files=rows is None and are_several(completed_job.events),
        now=now if moments.asked_at is None else moments.asked_at,
        has_unchecked_rows=leaves_unchecked,
        states_groups=states_groups,
        other_units=_other_units(spec, state, units) if state.saved is None else (),
    )


def check_rows_of_stream(prepared: PreparedRun, source: Source) -> None:
    """Refuse rows that `prepare` has left unchecked: they lack a column, or name the groups.

    Args:
        source: the rows.

    Raises:
        InvalidInputError: they do.
    """
    if prepared.states_groups:
        refuse_rows_as_domain(prepared.job, source, None)
    check_rows(source, prepared.spec, is_new_stream=False)


def _other_units(
    spec: StreamSpec, state: OpenedState, units: Sequence[SpentUnit]
) -> tuple[str, ...]:
    """Return units in the ledger of a state whose losses are not added to that of a new stream.

    None if a budget is about one unit: then the ledger adds up all losses.

    Args:
        spec: the specification of the stream.
        state: the state.
        units: further protected units for which the ledger will have entries.
    """
    spent_units = [*state.units, *units]
    if any(spent.name == BUDGET for spent in spent_units):
        return ()
    names = tuple(dict.fromkeys(spent.unit for spent in spent_units))
    own_name = canonical_unit(spec.unit_in_ledger, names)
    return tuple(name for name in names if name != own_name)


def _plan_or_continue(
    job: Job, state: OpenedState, rows: object, units: Sequence[SpentUnit]
) -> tuple[Job, StreamSpec, Source | None]:
    """Plan the stream of a job, or load it and compare the job with it.

    Args:
        rows: a source of rows that a program passes; None: what the job names.
        units: further protected units for which the ledger of the state will have entries.

    Returns:
        The job, complete; the specification of its stream; and the rows of a new stream. The rows
        are None if they are opened only once the specification is known.
    """
    if state.saved is not None:
        completed_job, spec = _continue_stream(job, state, state.saved)
        return completed_job, spec, None
    source = open_rows_of_new_stream(job, rows)
    return job, _plan_within_budget(job, state, units), source


def _plan_within_budget(job: Job, state: OpenedState, units: Sequence[SpentUnit]) -> StreamSpec:
    """Plan a new stream, and refuse it if the privacy budget of the state has no room for it."""
    from counton.run.spec.plan_spec import plan_spec  # loads all strategies

    spec = plan_spec(job, [*state.units, *units])
    state.refuse_beyond_budget(spec)
    return spec


def _continue_stream(job: Job, state: OpenedState, saved: JournalReader) -> tuple[Job, StreamSpec]:
    """Refuse a job that contradicts its stream, and complete it.

    Returns:
        The job with the options that the stream keeps, and the specification that it updates.
    """
    saved_spec = StreamSpec.of_stream(saved)
    state.refuse_closed(saved_spec)
    refuse_differences(saved_spec, job, state.name)
    completed_job = saved_spec.complete_job(job)
    refuse_less_accurate(saved_spec, completed_job, state.name)
    # The stream has its loss, so an accuracy from which a loss is computed has no effect.
    completed_job = completed_job.with_options(margin_of_error=None, solve_for=None)
    return completed_job, saved_spec.updated_by(completed_job)
