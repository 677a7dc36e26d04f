"""A rehearsal of a run: the job is checked and its rows are read, but nothing is written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from dataclasses import field as attribute
from pathlib import Path
from tempfile import TemporaryDirectory

from counton.base.errors import OldCopy
from counton.base.private import Private
from counton.job.job import Job
from counton.run.changes import Counts, for_operator
from counton.run.definition import Definition
from counton.run.outputs import Progress, silent
from counton.run.runs import read_rows
from counton.run.settlement import resolve


@dataclass(frozen=True)
class DryRun:
    """The steps that a run would release, and the numbers of rows that it would read.

    Attributes:
        definition: definition of the stream: its columns, windows, groups and guarantee.
        before: number of steps released so far; None: the stream would be new.
        after: number of released steps after the run.
        until: time in microseconds since 1970; windows that ended by then would be released.
        counts: exact numbers of rows as read, including rows that an earlier run has counted.
    """

    definition: Definition
    before: int | None
    after: int
    until: int | None
    counts: Private[Counts] = attribute(repr=False)

    def for_operator(self) -> Counts:
        """Return the exact numbers of rows read. Only for people who may see the events."""
        return for_operator(self.counts)


def dry_run(job: Job, progress: Progress = silent) -> DryRun:
    """Do a whole run except its commit: complete the job from the state, check its outputs, read
    its rows.

    Rows are not compared with the counted rows of an existing stream, because only its writer can
    do that. Unreadable rows are written to no file.

    Raises:
        InvalidInput, StateError, BudgetExceeded, ReplayMismatch, SumOverflow: see `run`.

    >>> events = Path("visits.csv")
    >>> _ = events.write_text("time\\n2024-03-01T09:00\\n2024-03-02T10:15\\n")
    >>> job = Job(
    ...     "count", events, "a-state-that-is-new.db", time="time", every="1d", start="2024-03-01",
    ...     steps=365, until="2024-03-03", epsilon=1
    ... )
    >>> found = dry_run(job)
    >>> found.before, found.after, Path("a-state-that-is-new.db").exists()
    (None, 2, False)
    """
    with TemporaryDirectory() as nowhere, resolve(job, progress=progress) as settled:
        if settled.saved is not None:
            if (doubt := settled.saved.doubt()) is not None:
                raise OldCopy(doubt)
            settled.saved.secret()  # this asks for the key
        if settled.job.format.policies().quarantine is not None:  # stated or remembered
            aside = f"quarantine:{Path(nowhere) / 'rows.csv'}"
            settled = replace(settled, job=settled.job.having(bad_rows=aside))
        rows = read_rows(settled, progress)
        if settled.saved is None:
            rows.beside(None)
        before = None if settled.saved is None else settled.saved.step
        after = max(rows.ended, before or 0)
        return DryRun(settled.definition, before, after, rows.until, rows.counts)
