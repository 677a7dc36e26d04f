"""A rehearsal of a run: the job is checked and its rows are read, but nothing is written."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from counton.base.private import Private, reveal
from counton.job.common_options import Job
from counton.run.opened_state import OpenedState
from counton.run.prepared_run import PreparedRun, prepare
from counton.run.progress import Progress, no_progress
from counton.run.quarantine_file import QuarantineFile
from counton.run.rows.read_rows import read_rows
from counton.run.run_job import RunReport, count_rows, decide, find_steps


@dataclass(frozen=True, kw_only=True)
class DryRun(RunReport):
    """The steps that a run would release, and the numbers of rows that it would tell its operator.

    Attributes:
        newly_quarantined: exact number of unreadable rows that are not in their file yet.
    """

    newly_quarantined: Private[int] = field(repr=False)

    def confidential_newly_quarantined(self) -> int:
        """Return how many unreadable rows are new. Only for people who may see the rows."""
        return reveal(self.newly_quarantined)


def dry_run(job: Job, progress: Progress = no_progress) -> DryRun:
    """Do a whole run except its commit: fill the job, check its outputs, and read its rows.

    Rows are compared with the counted rows of an existing stream, which another process may write
    meanwhile. Unreadable rows are written to no file.

    Raises:
        InvalidInputError, StateError, BudgetExceededError, InputChangedError, SumOverflowError: see
            `counton.run.run_job.run`.
        ConcurrentWriterError: another process has released in the stream meanwhile.

    >>> from counton.job.statistics.count import CountJob
    >>> events = Path("visits.csv")
    >>> _ = events.write_text("time\\n2024-03-01T09:00\\n2024-03-02T10:15\\n")
    >>> job = CountJob(
    ...     events=events, state="a-state-that-is-new.db", time="time", every="1d",
    ...     start="2024-03-01", windows=365, until="2024-03-03", epsilon=1
    ... )
    >>> rehearsal = dry_run(job)
    >>> rehearsal.before, rehearsal.after, Path("a-state-that-is-new.db").exists()
    (0, 2, False)
    """
    with TemporaryDirectory() as folder, OpenedState(job) as state:
        prepared = prepare(job, state, None, datetime.now(UTC), progress)
        state.refuse_unwritable()
        quarantine = QuarantineFile.before_run(prepared.options.policies.quarantine)
        prepared = _without_quarantine_file(prepared, Path(folder))
        rows_read = read_rows(prepared, progress)
        ended = decide(prepared, rows_read)
        steps = find_steps(prepared, rows_read, ended, state.saved)
        counts = count_rows(prepared, rows_read, ended, steps)
        newly_quarantined = reveal(counts).rows.quarantined
        if state.released:  # before the first release, no earlier run has named these rows
            n_new = quarantine.number_of_new_rows(prepared.options.policies.quarantine)
            newly_quarantined = min(newly_quarantined, n_new)
        return DryRun(
            name=state.name,
            job=prepared.job,
            spec=prepared.spec,
            options=prepared.options,
            before=state.released,
            after=max(ended.last, state.released),
            until=ended.until,
            counts=counts,
            column_names=rows_read.column_names,
            is_duplicate_input=rows_read.files.is_duplicate,
            begins_stream=prepared.begins_stream,
            newly_quarantined=Private(newly_quarantined),
        )


def _without_quarantine_file(prepared: PreparedRun, folder: Path) -> PreparedRun:
    """Return a run that sets unreadable rows aside in a folder that is deleted afterwards."""
    policies = prepared.options.policies
    if policies.quarantine is None:
        return prepared
    policies = policies._replace(quarantine=folder / "rows.csv")
    return replace(prepared, options=replace(prepared.options, policies=policies))
