"""One run of a job in three parts: `resolve` completes the job, `read_rows` reads its rows,
`commit` releases.

A job is completed with the options that its stream keeps (`counton.run.settlement`). Its rows are
added up (`counton.run.unordered_rows`). The
stream releases the sums and journals them.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as attribute
from datetime import datetime
from typing import TYPE_CHECKING, Any

from counton.base.errors import (
    CountonError,
    StateError,
    StreamConflict,
    WrongKey,
)
from counton.base.private import Private
from counton.job.job import Job
from counton.run.changes import Counts, for_operator
from counton.run.clock import repeats_all_rows
from counton.run.definition import Definition
from counton.run.journal_values import read_released
from counton.run.outputs import Outputs, Progress, silent
from counton.run.settlement import OpenedJob, SettledJob, resolve
from counton.run.unordered_rows import AddedRows
from counton.run.unordered_rows import read_rows as read_rows
from counton.state import Store, Stream
from counton.state.database import Closing, CommitHook

if TYPE_CHECKING:
    from counton.released.read_options import View
    from counton.released.release import Release


@dataclass(frozen=True)
class Outcome(Closing):
    """The result of a run. It holds the stream open: close it, or use it in a ``with`` block.

    Attributes:
        job: the job, completed with the options that its stream keeps.
        outputs: the output files of the job.
        definition: the definition of the stream: its columns, windows, groups and guarantee.
        stream: the stream, from whose journal (the table of releases) results are read.
        before, after: steps released before and after the run.
        until: time in microseconds since 1970; windows that ended by then are released.
        counts: exact numbers of rows, which `for_operator` returns.
        again: True if an earlier run has counted these new events, so that this run did nothing.
    """

    job: Job
    outputs: Outputs
    definition: Definition
    stream: Stream
    before: int
    after: int
    until: int | None
    counts: Private[Counts] = attribute(repr=False)
    again: bool = False

    def for_operator(self) -> Counts:
        """Return the exact numbers of rows read. Only for people who may see the events."""
        return for_operator(self.counts)

    @property
    def differing_rows(self) -> str | None:
        """A sentence for the operator, if this run released nothing and its rows are not those that
        released numbers count: then the numbers shown are of other rows. None otherwise.

        Rows that differ, but add up to the same sums, are not noticed.
        """
        counts = self.for_operator()
        differs = counts.differing or counts.gone or counts.late
        if self.after > self.before or not (differs and repeats_all_rows(self.job)):
            return None
        remedy = "to release these rows, begin a new stream with another name"
        if self.definition.cut.lags:
            remedy = "the next release counts what its rows say of windows that are still open"
        return (
            f"these rows are not those that stream {self.stream.name!r} has counted, and the "
            f"numbers shown, which were released before, are not of them; {remedy}"
        )

    def read(self, level: float | None = None, shown: View | None = None) -> Release:
        """Read all releases so far from the journal (the stream's table of releases), with
        intervals.

        Args:
            level: probability with which each interval holds; None: the level of the stream's last
                job.
            shown: selection of the statistic's numbers to show; None: the selection of the last
                job.

        Raises:
            InvalidInput: the level is not above 0 or is above 1 - 1e-9, or the statistic has no
                such numbers.

        >>> from pathlib import Path
        >>> from counton.run import Job, run
        >>> events, state = Path("visits.csv"), Path("visits.db")
        >>> _ = events.write_text("time\\n2024-03-01T09:00\\n2024-03-02T10:15\\n")
        >>> request = Job(
        ...     "count", events, state, time="time", every="1d", start="2024-03-01", steps=365,
        ...     until="newest",
        ...     epsilon=1
        ... )
        >>> with run(request) as outcome:
        ...     outcome.read(level=0.9).table().select("step", "window_end").rows()[0]
        (1, datetime.datetime(2024, 3, 2, 0, 0, tzinfo=zoneinfo.ZoneInfo(key='UTC')))
        """
        from counton.released.release import Release

        return Release(read_released(self.stream, self.definition, level, shown))

    def close(self) -> None:
        """Close the stream that the run has left open, with its database."""
        self.stream.close()


def run(
    request: Job | OpenedJob,
    progress: Progress = silent,
    *,
    also: CommitHook | None = None,
    now: datetime | None = None,
) -> Outcome:
    """Read the events, check them, release the windows that have ended, and store what later runs
    need.

    All checks of the request and the events come before anything is written. To act between the
    stages of a run, call `resolve`, `read_rows` and `commit` one after the other.

    Args:
        request: the job; a job whose state is open already (`OpenedJob`) uses that state.
        progress: called with the name of the current task, and the fraction (0 to 1) of the run
            that is done.
        also, now: see `commit` and `read_rows`.

    Raises:
        InvalidInput: a value of the request or the data is out of range.
        StateError: the state cannot be used, or its stream was made with other options.
        ReplayMismatch: a file of new events was counted before.

    >>> from pathlib import Path
    >>> events, state = Path("visits.csv"), Path("visits.db")
    >>> _ = events.write_text("time\\n2024-03-01T09:00\\n2024-03-01T11:30\\n2024-03-03T10:15\\n")
    >>> request = Job(
    ...     "count", events, state, time="time", every="1d", start="2024-03-01", steps=365,
    ...     until="newest",
    ...     epsilon=1
    ... )
    >>> with run(request) as outcome:
    ...     outcome.before, outcome.after, outcome.read().table().height
    (0, 2, 2)
    >>> with run(Job("count", events, state, until="2024-03-04")) as outcome:
    ...     outcome.before, outcome.after, outcome.for_operator().late
    (2, 3, 0)
    """
    settled = resolve(request, progress=progress)
    try:
        return commit(settled, read_rows(settled, progress, now), progress, also)
    except BaseException:
        settled.close()
        raise


def commit(
    settled: SettledJob,
    rows: AddedRows,
    progress: Progress = silent,
    also: CommitHook | None = None,
) -> Outcome:
    """Release the windows that have ended, and count their rows. The outcome then owns the job's
    state (database), and closes it.

    Args:
        progress: called with the name of the current task, and the fraction (0 to 1) of the run
            that is done.
        also: function that writes more into the transaction; its exception undoes everything. It is
            called once, even if no number changes. Use it only in a run that adds unordered new
            events to an existing stream.

    Raises:
        StateError, ReplayMismatch, SumOverflow: see `run`.

    >>> import polars as pl
    >>> rows = pl.DataFrame({"at": ["2024-03-01T09:00", "2024-03-02T11:30"]})
    >>> job = Job(
    ...     "count", rows, "visits.db", time="at", every="1d", start="2024-03-01",
    ...     steps=365, until="2024-03-03", epsilon=1
    ... )
    >>> with resolve(job) as settled, commit(settled, read_rows(settled)) as outcome:
    ...     outcome.before, outcome.after
    (0, 2)
    """
    # Rows that a new stream cannot take are refused before it is created.
    new, definition = rows.beside(None) if settled.saved is None else None, settled.definition
    stream = open_stream(settled)
    try:
        before, retained = stream.step, settled.job.people.retain
        changes = rows.beside(stream) if new is None else new
        # Numbers may have been marked while the rows were read.
        if new is None and (marks := stream.details.get("marks", [])) != [
            [*one] for one in definition.marks
        ]:
            definition = definition.having(marks=marks)
        if new is None and stream.details != definition.details:  # nothing is refused below
            stream.amend(definition.details)
        for done, addition in changes.additions(also is not None):
            progress("releasing", 0.4 + 0.3 * done)
            stream.take(addition, also=also)
        if retained is not None and stream.step > before:
            from counton.run.erasure import retain

            retain(stream, definition, retained)
        if new is None:  # readers who use SQL see new steps in the state's database, if any
            from counton.state import published

            with stream.database.transaction(write=False) as connection:
                known = published.find_row(connection, stream.name)
            if known is not None:
                from counton.run.exports import publish_new

                publish_new(stream, published.Place(stream.database, None), None)
    except BaseException:
        stream.close()
        raise
    steps, counts, given = (before, stream.step), changes.counts, (settled.job, settled.outputs)
    return Outcome(*given, definition, stream, *steps, rows.until, counts, changes.again)


def open_stream(settled: SettledJob) -> Stream:
    """Open a job's stream as its writer, or create it."""
    store, keeping, definition = settled.store, settled.job.keeping, settled.definition
    kept: dict[str, Any] = {"key": keeping.key, "witness": keeping.witness}
    if settled.saved is not None:
        assert store is not None
        return Stream.open(store, keeping.name, **kept)
    of_cells = definition.statistic.additive
    counters = definition.cells.counters(definition.guarantee)
    try:
        return Stream.create(
            keeping.state if store is None else store,
            keeping.name,
            definition.strategy,
            definition.guarantee,
            contribution=definition.contribution,
            shape=definition.shape if of_cells or counters is not None else (),
            details=definition.details,
            counters=counters,
            statistic=None if of_cells else definition.statistic,
            **kept,
        )
    except (StateError, WrongKey) as error:
        try:
            with Store(keeping.state) as found:
                there = found.find(keeping.name) is not None
        except (CountonError, OSError):
            raise error from None
        if not there:
            raise
        raise StreamConflict(
            f"another process has just created stream {keeping.name!r} of this state, so nothing "
            "was released here: run the same command again, and it goes on with that stream"
        ) from error
