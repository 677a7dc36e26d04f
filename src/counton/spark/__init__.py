"""Jobs over Spark data frames: executors count the rows, and one run releases the same numbers.

PySpark is imported on first use; in a checkout: ``pip install '.[spark]'``. It needs Java.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from counton.base.errors import ChartWarning, InvalidInputError, param
from counton.base.lazy import require

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from counton.job.common_options import Job
    from counton.results.release import Release
    from counton.run.progress import Progress
    from counton.run.run_job import RunResult
    from counton.run.spec.stream_spec import StreamSpec
    from counton.spark.streaming import Batches

__all__ = ["batches", "merge_text", "run"]


def run(
    job: Job,
    frame: DataFrame,
    progress: Progress | None = None,
    *,
    approve: Callable[[StreamSpec], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    trigger: Mapping[str, object] | None = None,
) -> RunResult | StreamingQuery:
    """Carry out a job over the rows of a Spark frame, as `counton.run.run` does over files.

    Executors compute windows and groups and add rows up; the driver gets the sums, adds noise and
    keeps the stream. The key stays with the driver. The release does not depend on the distribution
    of the rows: it equals that of `counton.run.run` on the same rows, bit for bit.

    A streaming frame is counted batch by batch, as new events. The newest event and the
    ``release_delay`` decide which windows have ended; later rows count at the next release. A batch
    that Spark runs again is recognised.

    Args:
        job: its ``events`` are ignored.
        frame: a table or a streaming frame that has the columns of the job.
        progress: function that is told the current task, and the fraction of the run that is done.
        approve: gets the specification of the stream before rows are read; its exception ends the
            run.
        checkpoint: for a streaming frame: folder of Spark's progress, for this job alone.
        trigger: for a streaming frame: arguments of ``DataStreamWriter.trigger``, such as
            ``{"processingTime": "1 minute"}``.

    Returns:
        A `counton.run.RunResult`; for a streaming frame Spark's ``StreamingQuery``, which keeps
        running.

    Warns:
        JobWarning: a new stream's numbers may mislead; see `counton.release`. A streaming frame
            has no such warning.

    Raises:
        MissingDependencyError: PySpark is not installed.
        InvalidInputError: see `counton.run.run`; or the statistic counts rows in their order; or
            the frame gives other rows each time.
        StateError, InputChangedError: see `counton.run.run`.

    Example::

        >>> job = Job("count", "-", "visits.db", time="at", every="1d",  # doctest: +SKIP
        ...           start="2024-03-01", windows=365, until="latest-event", epsilon=1)
        >>> run(job, spark.table("visits")).release.table()              # doctest: +SKIP
        >>> query = run(job, spark.readStream.table("visits"),           # doctest: +SKIP
        ...             checkpoint="visits.checkpoint")
    """
    check = _check_of(frame, approve)
    from counton.run.progress import no_progress
    from counton.run.run_job import run as run_job
    from counton.run.stream_notes import job_warnings
    from counton.spark.source import SparkSource
    from counton.spark.streaming import start

    if frame.isStreaming:
        return start(job, frame, checkpoint, trigger, check)
    if checkpoint is not None or trigger is not None:
        raise InvalidInputError(
            "checkpoint and trigger are only for streaming frames, and this frame is not "
            "streaming; leave them out"
        )
    progress = no_progress if progress is None else progress
    result = run_job(job, progress, rows=SparkSource(frame), approve=check)
    for warning in job_warnings(result):
        warnings.warn(warning, stacklevel=2)
    if result.chart_error is not None:
        warnings.warn(ChartWarning(result.chart_error), stacklevel=2)
    return result


def batches(
    job: Job, frame: DataFrame, *, approve: Callable[[StreamSpec], None] | None = None
) -> Batches:
    """Return a function for your own ``foreachBatch`` that counts a streaming frame's batches.

    Call it with the frame and the number that Spark passes. A batch that runs again adds nothing:
    all other effects of your function must tolerate a second run.

    Args:
        job: its ``events`` are ignored.
        frame: for its columns: errors of the job are raised at once.
        approve: function that gets the specification of the stream before rows are read; its
            exception ends the run.

    Returns:
        A function. It returns the `counton.Release` of all steps so far; None if there is none, or
        the batch has no rows.

    Raises:
        MissingDependencyError, InvalidInputError, StateError: see `run`.

    Example::

        >>> count = batches(job, arriving)                                # doctest: +SKIP
        >>> def each(rows, number):                                       # doctest: +SKIP
        ...     released = count(rows, number)
        ...     if released is not None:
        ...         released.to_spark(spark).write.mode("overwrite").saveAsTable("released")
        >>> query = (arriving.writeStream.foreachBatch(each)              # doctest: +SKIP
        ...          .option("checkpointLocation", "visits.checkpoint").start())
    """
    check = _check_of(frame, approve)
    from counton.spark.streaming import Batches

    if not frame.isStreaming:
        raise InvalidInputError(
            "the frame is not streaming, so it has no batches; use counton.spark.run"
        )
    return Batches.of(job, frame, check)


def merge_text(released: Release, table: str, rows: str = "released") -> str:
    """Return SQL that adds missing released rows to a table: Delta, Iceberg, Databricks.

    A row is known by step, group and other names. Released rows never change, so none is updated,
    and a repeated statement does nothing.

    Args:
        released: the release whose rows are added.
        table: name of the table. It has the columns of `Release.to_spark`, and is not quoted.
        rows: name of the temporary view that holds the rows to add.

    Example::

        >>> released.to_spark(spark).createOrReplaceTempView("released")  # doctest: +SKIP
        >>> spark.sql(merge_text(released, "lake.visits"))                # doctest: +SKIP
    """
    from counton.results.table_rows import labels_of

    last = released.steps.stop - 1
    labels = labels_of(released.table(range(last, last + 1) if last else None))
    quoted = [f"`{name.replace('`', '``')}`" for name in labels]
    same = [f"kept.{name} IS NOT DISTINCT FROM released.{name}" for name in quoted]
    return (
        f"MERGE INTO {table} AS kept USING {rows} AS released\n"
        f"ON {' AND '.join(same) or '1 = 1'}\n"
        f"WHEN NOT MATCHED THEN INSERT *"
    )


def _check_of(
    frame: DataFrame, approve: Callable[[StreamSpec], None] | None
) -> Callable[[StreamSpec], None]:
    """Return a check of a stream against a frame, which then calls ``approve``."""
    require("pyspark")
    require("pyarrow")
    from pyspark.sql import DataFrame

    if not isinstance(frame, DataFrame):
        raise InvalidInputError(
            f"the rows are of type {type(frame).__name__}, which is not a Spark frame; give a "
            "Spark frame, or use counton.run.run"
        )

    from counton.run.spec.terms import SingleTable

    def check(spec: StreamSpec) -> None:
        if isinstance(spec.terms.windowing, SingleTable) and frame.isStreaming:
            raise InvalidInputError(
                f"a {spec.terms.statistic.name} of rows without times is released once, but a "
                f"streaming frame goes on; give {param('time')} and windows, or a frame that is "
                "not streaming"
            )
        if approve is not None:
            approve(spec)

    return check
