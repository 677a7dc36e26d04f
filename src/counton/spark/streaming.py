"""A streaming Spark frame as the source of a run: each micro-batch is a run over new events.

Spark runs a batch again if it was killed before it had recorded it as done. Query and number
identify a batch: one that was counted adds nothing when it comes again, and is refused if it has
other rows then.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from traceback import format_exception
from typing import TYPE_CHECKING, Final

from counton.base.errors import (
    BudgetExceededError,
    ChartWarning,
    ConcurrentWriterError,
    InputChangedError,
    InvalidInputError,
    MissingDependencyError,
    NoiseKeyError,
    StateError,
    StateRolledBackError,
    StreamMismatchError,
    param,
)
from counton.io.sources import join_columns
from counton.job.common_options import Job
from counton.job.incompatible import refuse_of_streaming
from counton.job.saved_job import stream_name
from counton.job.values import LATEST_ROW, QUARANTINE
from counton.results.release import Release
from counton.run.opened_state import OpenedState
from counton.run.prepared_run import prepare
from counton.run.rows.read_rows import read_rows
from counton.run.rows.window_sums import columns_of
from counton.run.run_job import commit, decide, write_results
from counton.run.spec.stream_spec import StreamSpec
from counton.spark.source import MicroBatch, SparkSource, is_remote
from counton.state.keys import state_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

#: Most consecutive empty batches before a query must be confirmed: the state records none of them.
_MOST_EMPTY_BATCHES: Final = 1000
#: Errors about states, keys and budgets, which reveal nothing about rows or their number.
_ERRORS_WITHOUT_ROWS = (
    StateError,
    NoiseKeyError,
    ConcurrentWriterError,
    BudgetExceededError,
    MissingDependencyError,
)
_QUERY_ID = "sql.streaming.queryId"


def start(
    job: Job,
    frame: DataFrame,
    checkpoint: str | os.PathLike[str] | None,
    trigger: Mapping[str, object] | None,
    check: Callable[[StreamSpec], None],
) -> StreamingQuery:
    """Start or continue a streaming query.

    Args:
        job: the job that counts the rows.
        frame: a streaming frame.
        checkpoint: the folder where Spark records how far it has read, only for this job.
        trigger: keyword arguments of Spark's ``trigger``, such as {"availableNow": True}; None:
            Spark's default.
        check: function that raises an error if it refuses the specification of the stream.

    Raises:
        InvalidInputError: there is no checkpoint, or the job cannot count a streaming frame.
    """
    if checkpoint is None:
        raise InvalidInputError(
            "a streaming frame needs a checkpoint, the folder where Spark records how far it has "
            "read; give checkpoint, a folder only for this job"
        )
    writer = frame.writeStream.foreachBatch(Batches.of(job, frame, check).take)
    writer = writer.option("checkpointLocation", os.fspath(checkpoint))
    return (writer.trigger(**trigger) if trigger else writer).start()


@dataclass
class Batches:
    """Counts each micro-batch of rows, given its number.

    ``empty`` is the number of batches at the query's beginning that had no rows.
    """

    job: Job
    check: Callable[[StreamSpec], None]
    empty: int = 0

    @classmethod
    def of(cls, job: Job, frame: DataFrame, check: Callable[[StreamSpec], None]) -> Batches:
        """Build the function after all checks that need no rows.

        Args:
            job: the job that counts the rows.
            frame: a streaming frame, of which only the columns are read.
            check: function that raises an error if it refuses the specification of the stream.

        Raises:
            InvalidInputError, StateError: see `counton.run.run`.
        """
        refuse_of_streaming(job)
        if is_remote(frame):
            raise InvalidInputError(
                "a streaming frame of Spark Connect would be counted on the server, which would "
                "then need the state and the key; run the query on its driver, or count tables"
            )
        job = job.with_options(until=LATEST_ROW, append=True)
        # The job is checked before its query starts; nothing is read or stored.
        with OpenedState(job) as state:
            source = SparkSource(frame)
            spec = prepare(job, state, source, datetime.now(UTC)).spec
            check(spec)
            columns = columns_of(spec)
            join_columns(source, columns.group).parts[0].scan(columns.names)
        return cls(job, check)

    def take(self, rows: DataFrame, number: int) -> None:
        """Count a batch and return nothing, as ``foreachBatch`` needs.

        Args:
            rows: the rows of the batch.
            number: the number that Spark gives the batch.
        """
        self(rows, number)

    def __call__(self, rows: DataFrame, number: int) -> Release | None:
        """Count a batch, release the windows that have ended, and write the outputs.

        Spark logs the error of a query and shows it on its web page. So an error that may quote a
        row is written to a file that only its owner can read, and the raised error names the file.

        The result has all releases so far; None if there are none, or the batch has no rows.

        Raises:
            StateError: see `counton.run.run`.
            InvalidInputError, InputChangedError: the batch cannot be counted; the file says why.
        """
        try:
            if rows.isEmpty():
                self.empty += number == self.empty
                return None
            query = rows.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
            if query is None:
                raise InvalidInputError(
                    f"batch {number:,} is not part of a streaming query: call this function from "
                    "foreachBatch, with the frame and the number that Spark gives"
                )
            return self._count(SparkSource(rows, MicroBatch(query, number)), query, number)
        except _ERRORS_WITHOUT_ROWS:
            raise
        except Exception as error:
            kind = InputChangedError if isinstance(error, InputChangedError) else InvalidInputError
            raise kind(self._kept_apart(number, error)) from None

    def _count(self, source: SparkSource, query: str, number: int) -> Release | None:
        """Count a batch; return all releases so far, or None."""
        with OpenedState(self.job) as state:
            self._refuse_unknown(state, query, number)
            job = self.job.with_options(
                allow_empty_windows=True, bad_rows=self._bad_rows(state, number)
            )
            prepared = prepare(job, state, source, datetime.now(UTC))
            self.check(prepared.spec)
            rows_read = read_rows(prepared)
            committed = commit(prepared, rows_read, decide(prepared, rows_read))
            release, chart_error = write_results(prepared, committed.stream)
            if chart_error is not None:
                warnings.warn(ChartWarning(chart_error), stacklevel=2)
            return release if committed.stream.step else None

    def _bad_rows(self, state: OpenedState, number: int) -> str | None:
        """Return what happens to unreadable rows of a batch: each batch has a file of its own."""
        job = self.job
        if state.saved is not None:
            job = StreamSpec.of_stream(state.saved).complete_job(job)
        policy = job.bad_rows
        if policy is None or not policy.startswith(QUARANTINE):
            return policy
        file = Path(policy.removeprefix(QUARANTINE))
        is_of_earlier_batch = policy != self.job.bad_rows
        stem = file.stem.rpartition(".")[0] if is_of_earlier_batch else file.stem
        return f"{QUARANTINE}{file.with_name(f'{stem}.{number}{file.suffix}')}"

    def _kept_apart(self, number: int, error: Exception) -> str:
        """Write an error to a file of its owner alone; return a message for Spark to log."""
        kind = type(error).__name__
        message = f"batch {number:,} of stream {stream_name(self.job)!r} cannot be counted ({kind})"
        assert self.job.state is not None
        place = next(iter(state_files(self.job.state, self.job.key)), Path("counton"))
        file = place.with_name(f"{place.name}.error")
        words = "".join(format_exception(error))
        try:
            descriptor, temporary = tempfile.mkstemp(prefix=".counton-error-", dir=file.parent)
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(f"{message}\n{error}\n\n{words}")
            os.replace(temporary, file)
        except OSError as unwritten:
            message += f"; the reason is kept out of Spark's logs, and {file} cannot be written: "
            return message + str(unwritten.strerror)
        return f"{message}; the reason is in {file}, for its owner alone, since it may quote rows"

    def _refuse_unknown(self, state: OpenedState, query: str, number: int) -> None:
        """Refuse a checkpoint and a state that do not belong together: one may be an old copy.

        The state has counted none of the last batches that the query has passed, or events that a
        new checkpoint does not know.
        """
        if self.job.allow_empty_windows:
            return
        name = state.name
        last = range(number, max(-1, number - _MOST_EMPTY_BATCHES), -1)
        digests = (MicroBatch(query, batch).digest() for batch in last)
        if any(state.is_counted(f"sha256:{digest}") for digest in digests):
            return
        if number <= self.empty and state.saved is not None:
            raise StreamMismatchError(
                f"stream {name!r} has counted events before, but the checkpoint of this query is "
                "new and does not tell which events; go on with the checkpoint that belongs to the "
                f"stream, or give {param('allow_empty_windows', True)} if none of the query's "
                "rows was counted"
            )
        if number > self.empty:
            raise StateRolledBackError(
                f"the checkpoint is at batch {number:,}, but stream {name!r} has counted none of "
                f"the {min(number, _MOST_EMPTY_BATCHES):,} batches before it: restore the state "
                f"that belongs to the checkpoint, or give {param('allow_empty_windows', True)} if "
                "these batches had no rows"
            )
