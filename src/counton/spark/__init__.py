"""Jobs over Spark data frames: executors count the rows, and one run releases the same numbers.

PySpark is imported on first use; in a checkout: ``pip install '.[spark]'``. It needs Java.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from counton.base.errors import InvalidInput, field
from counton.base.lazy import require
from counton.job.job import Job
from counton.run.outputs import Progress, silent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from counton.released.release import Release
    from counton.run.definition import Definition
    from counton.spark.streaming import Batches

__all__ = ["batches", "merge_text", "run"]


def run(
    job: Job,
    frame: DataFrame,
    progress: Progress = silent,
    *,
    approve: Callable[[Definition], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    trigger: Mapping[str, Any] | None = None,
) -> Any:
    """Carry out a job over the rows of a Spark frame, as `counton.run.run` does over files.

    Executors compute windows and groups and add rows up; the driver gets the sums, adds noise and
    keeps the stream. The key stays with the driver. The release does not depend on the distribution
    of the rows: it equals that of `counton.run.run` on the same rows, bit for bit.

    A streaming frame is counted batch by batch, as new events. The newest event and the
    ``watermark`` decide which windows have ended; later rows count at the next release. A batch
    that Spark runs again is recognised.

    Args:
        job: its ``events`` are ignored.
        approve: gets the definition of the stream before rows are read; its exception ends the run.
        checkpoint: for a streaming frame: folder of Spark's progress, for this job alone.
        trigger: for a streaming frame: arguments of ``DataStreamWriter.trigger``, such as
            ``{"processingTime": "1 minute"}``.

    Returns:
        A `counton.run.Outcome`; for a streaming frame Spark's ``StreamingQuery``, which keeps
        running.

    Raises:
        MissingExtra: PySpark is not installed.
        InvalidInput: see `counton.run.run`; or the statistic counts rows in their order; or the
            frame gives other rows each time.
        StateError, ReplayMismatch: see `counton.run.run`.

    Example::

        >>> job = Job("count", "-", "visits.db", time="at", every="1d",  # doctest: +SKIP
        ...           start="2024-03-01", steps=365, until="newest", epsilon=1)
        >>> with run(job, spark.table("visits")) as outcome:             # doctest: +SKIP
        ...     outcome.read().table()
        >>> query = run(job, spark.readStream.table("visits"),           # doctest: +SKIP
        ...             checkpoint="visits.checkpoint")
    """
    from counton.run.runs import commit, read_rows
    from counton.run.settlement import resolve

    check = _check_of(frame, approve)
    from counton.spark.source import SparkSource
    from counton.spark.streaming import start

    if frame.isStreaming:
        return start(job, frame, checkpoint, trigger, check)
    if checkpoint is not None or trigger is not None:
        raise InvalidInput(
            "checkpoint and trigger are only for streaming frames, and this frame is not "
            "streaming; leave them out"
        )
    source: Any = SparkSource(frame)
    job = job.having(events=source)
    settled = resolve(job, progress=progress)
    try:
        check(settled.definition)
        outcome = commit(settled, read_rows(settled, progress), progress)
    except BaseException:
        settled.close()
        raise
    try:
        outcome.outputs.write(outcome.stream, outcome.definition, progress)
    except BaseException:
        outcome.close()
        raise
    return outcome


def batches(
    job: Job, frame: DataFrame, *, approve: Callable[[Definition], None] | None = None
) -> Batches:
    """Return a function for your own ``foreachBatch`` that counts a streaming frame's batches.

    Call it with the frame and the number that Spark passes. A batch that runs again adds nothing:
    all other effects of your function must tolerate a second run.

    Args:
        frame: for its columns: errors of the job are raised at once.

    It returns the `counton.Release` of all steps so far; None if there is none, or the batch has no
    rows.

    Raises:
        MissingExtra, InvalidInput, StateError: see `run`.

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
        raise InvalidInput(
            "the frame is not streaming, so it has no batches; use counton.spark.run"
        )
    return Batches.of(job, frame, check)


def merge_text(released: Release, table: str, rows: str = "released") -> str:
    """Return SQL that adds missing released rows to a table: Delta, Iceberg, Databricks.

    A row is known by step, group and other names. Released rows never change, so none is updated,
    and a repeated statement does nothing.

    ``table`` has the columns of `Release.to_spark`, the view ``rows`` those to add.

    Example::

        >>> released.to_spark(spark).createOrReplaceTempView("released")  # doctest: +SKIP
        >>> spark.sql(merge_text(released, "lake.visits"))                # doctest: +SKIP
    """
    from counton.released.series import labels_of

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
    frame: DataFrame, approve: Callable[[Definition], None] | None
) -> Callable[[Definition], None]:
    """Return a check of a stream's definition against a frame, which then calls ``approve``."""
    require("pyspark")
    require("pyarrow")
    from pyspark.sql import DataFrame

    if not isinstance(frame, DataFrame):
        raise InvalidInput(
            f"the rows are of type {type(frame).__name__}, which is not a Spark frame; give a "
            "Spark frame, or use counton.run.run"
        )

    def check(definition: Definition) -> None:
        if not definition.cut.goes_on and frame.isStreaming:
            raise InvalidInput(
                f"a {definition.what} of rows without times is released once, but a streaming "
                f"frame goes on; give {field('time')} and windows, or a frame that is not streaming"
            )
        if approve is not None:
            approve(definition)

    return check
