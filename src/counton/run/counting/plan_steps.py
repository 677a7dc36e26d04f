"""From the rows of a run to the inputs of steps; nothing is written."""

from __future__ import annotations

from counton.base.private import reveal
from counton.run.counting.exactness import refuse_inexact_totals
from counton.run.counting.kept_totals import kept_totals
from counton.run.counting.measurement import Measurement, Span
from counton.run.counting.missing_rows import (
    MissingRows,
    refuse_other_ids,
    refuse_other_rows,
    refuse_other_users,
    refuse_shrunk_windows,
)
from counton.run.counting.rows_of_run import rows_of_run
from counton.run.counting.step_inputs import PlannedSteps
from counton.run.prepared_run import PreparedRun
from counton.run.rows.read_rows import ReadRows
from counton.run.spec.stream_spec import StreamSpec
from counton.run.windows.due_windows import EndedWindows
from counton.state.commit_input import LateRowStats
from counton.state.stream_reader import Amounts, JournalReader


def plan_steps(
    prepared: PreparedRun, rows_read: ReadRows, ended: EndedWindows, stream: JournalReader | None
) -> PlannedSteps:
    """Turn the rows into the inputs of steps; nothing is written.

    Args:
        stream: the stream, with its key; None if the job begins it. A run that commits the steps
            has opened it for writing.

    Raises:
        SumOverflowError: sums would not be exact.
    """
    spec = prepared.spec
    released = prepared.state.released
    rows = rows_of_run(prepared, rows_read, ended, stream)
    groups = spec.terms.groups.number if rows.names is None else max(1, len(rows.names.all))
    measurement = Measurement.for_statistic(
        spec.accumulator_statistic,
        spec.terms.group_statistic,
        groups,
        is_of_each_group=spec.discovers_groups,
    )
    span = Span(prepared.windows, released, max(ended.last, released))
    totals_before = kept_totals(stream, rows.touched(), measurement)
    late_rows_before = LateRowStats() if stream is None else reveal(stream.late_row_stats)
    steps = PlannedSteps.compare(rows, totals_before, span, measurement, late_rows_before)
    _refuse_missing_rows(prepared, steps.missing)
    _refuse_inexact_steps(spec, steps, stream)
    return steps


def _refuse_missing_rows(prepared: PreparedRun, missing: MissingRows) -> None:
    """Refuse rows from which those that were counted before are missing.

    Raises:
        InvalidInputError: an open window keeps less than half of its rows, or all rows that were
            counted before are missing.
    """
    terms = prepared.spec.terms
    options = prepared.options
    source_name = reveal(prepared.source).name
    user_column = terms.privacy_unit.user_column
    if missing.are_all and (prepared.spec.takes_whole_windows or options.input.repeats_rows):
        if terms.recognition.id_column is not None:
            refuse_other_ids(source_name, terms.recognition.id_column)
        elif user_column is not None:
            refuse_other_users(options, source_name, user_column)
        elif options.input.lookback is None:
            refuse_other_rows(options, source_name, prepared.windows.every)
    refuse_shrunk_windows(options, prepared.windows, source_name, missing.open_windows)


def _refuse_inexact_steps(
    spec: StreamSpec, steps: PlannedSteps, stream: JournalReader | None
) -> None:
    """Refuse steps after which the totals of the stream might not be exact.

    Raises:
        SumOverflowError: a total is too large.
    """
    is_of_one_step = spec.strategy.facts.release != "totals"
    before = Amounts(0, 0.0) if stream is None else reveal(stream.amounts)
    refuse_inexact_totals(spec, steps.added_sums(one_step_alone=is_of_one_step), before)
