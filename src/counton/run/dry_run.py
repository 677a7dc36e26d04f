"""A rehearsal of a run: the job is checked and its rows are read, but nothing is written."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from counton.base.private import Private, reveal
from counton.job.common_options import Job
from counton.run.counting.plan_steps import plan_steps
from counton.run.opened_state import OpenedState
from counton.run.prepared_run import PreparedRun, prepare
from counton.run.progress import Progress, no_progress
from counton.run.rows.read_rows import read_rows
from counton.run.rows.row_numbers import RowNumbers, WithoutRows
from counton.run.rows.window_sums import find_without_rows
from counton.run.run_job import decide, held_back_windows
from counton.run.spec.stream_spec import StreamSpec
from counton.run.windows.held_back import HeldBackWindows


@dataclass(frozen=True)
class DryRun:
    """The steps that a run would release, and the numbers of rows that it would read.

    Attributes:
        spec: the specification of the stream.
        before: number of steps released so far; None: the stream would be new.
        after: number of released steps after the run.
        until: windows that ended by this time would be released, in microseconds since 1970; of a
            single table, the time means nothing.
        counts: exact numbers of rows as read, including rows that an earlier run has counted.
        beyond_limit: exact number of rows beyond their user's limit; 0 for an existing stream,
            whose counted rows only its writer reads.
        held_back: windows of the newest rows that a first run would not release, or None.
        column_names: names of the columns of the rows of a new stream; else none.
        without_rows: windows and groups without rows, as in `RowCounts`.
    """

    spec: StreamSpec
    before: int | None
    after: int
    until: int
    counts: Private[RowNumbers] = field(repr=False)
    beyond_limit: Private[int] = field(repr=False)
    held_back: Private[HeldBackWindows | None] = field(repr=False)
    column_names: tuple[str, ...] = ()
    without_rows: Private[WithoutRows] = field(
        default_factory=lambda: Private(WithoutRows()), repr=False
    )

    def confidential_without_rows(self) -> WithoutRows:
        """Return windows and groups without rows. Only for people who may see the rows."""
        return reveal(self.without_rows)

    def confidential_counts(self) -> RowNumbers:
        """Return the exact numbers of rows. Only for people who may see the rows."""
        return reveal(self.counts)

    def confidential_beyond_limit(self) -> int:
        """Return how many rows are beyond their user's limit. Only for people who may see rows."""
        return reveal(self.beyond_limit)

    def confidential_held_back(self) -> HeldBackWindows | None:
        """Return the windows that a first run would not release. Only for people who may see rows.

        They are those of the newest rows.
        """
        return reveal(self.held_back)


def dry_run(job: Job, progress: Progress = no_progress) -> DryRun:
    """Do a whole run except its commit: fill the job, check its outputs, and read its rows.

    Rows are not compared with the counted rows of an existing stream, because only its writer can
    do that. Unreadable rows are written to no file.

    Raises:
        InvalidInputError, StateError, BudgetExceededError, InputChangedError, SumOverflowError: see
            `counton.run.run_job.run`.

    >>> from counton.job.statistics.count import CountJob
    >>> events = Path("visits.csv")
    >>> _ = events.write_text("time\\n2024-03-01T09:00\\n2024-03-02T10:15\\n")
    >>> job = CountJob(
    ...     events=events, state="a-state-that-is-new.db", time="time", every="1d",
    ...     start="2024-03-01", windows=365, until="2024-03-03", epsilon=1
    ... )
    >>> rehearsal = dry_run(job)
    >>> rehearsal.before, rehearsal.after, Path("a-state-that-is-new.db").exists()
    (None, 2, False)
    """
    with TemporaryDirectory() as folder, OpenedState(job) as state:
        prepared = prepare(job, state, None, datetime.now(UTC), progress)
        state.refuse_unwritable()
        prepared = _without_quarantine_file(prepared, Path(folder))
        rows_read = read_rows(prepared, progress)
        ended = decide(prepared, rows_read)
        beyond_limit = 0
        if prepared.begins_stream:
            steps = plan_steps(prepared, rows_read, ended, None)
            beyond_limit = steps.counts.choice.beyond_bound
        return DryRun(
            spec=prepared.spec,
            before=None if prepared.begins_stream else state.released,
            after=max(ended.last, state.released),
            until=ended.until,
            counts=Private(reveal(rows_read.sums).numbers),
            beyond_limit=Private(beyond_limit),
            held_back=Private(held_back_windows(prepared, rows_read, ended)),
            column_names=rows_read.column_names,
            without_rows=Private(
                find_without_rows(
                    reveal(rows_read.sums),
                    prepared.spec,
                    prepared.options,
                    range(state.released + 1, ended.last + 1),
                    begins_stream=prepared.begins_stream,
                )
            ),
        )


def _without_quarantine_file(prepared: PreparedRun, folder: Path) -> PreparedRun:
    """Return a run that sets unreadable rows aside in a folder that is deleted afterwards."""
    policies = prepared.options.policies
    if policies.quarantine is None:
        return prepared
    policies = policies._replace(quarantine=folder / "rows.csv")
    return replace(prepared, options=replace(prepared.options, policies=policies))
