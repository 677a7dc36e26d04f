"""Jobs over frames of Spark: one run, the same bits, rows added up where they are.

PySpark is imported when it is first used; in a checkout: ``pip install '.[spark]'``. It needs Java.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from counton.errors import InvalidInput, field
from counton.jobs.job import Job
from counton.jobs.progress import Progress, silent
from counton.lazy import require

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from counton.jobs.definition import Definition

__all__ = ["run"]


def run(
    job: Job,
    frame: DataFrame,
    progress: Progress = silent,
    *,
    approve: Callable[[Definition], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    trigger: Mapping[str, Any] | None = None,
) -> Any:
    """Carry out a job over the rows of a Spark frame, as `counton.jobs.run` does over files.

    Executors mark rows and add them up; the driver gets sums by window and group, adds noise and
    keeps the stream. The key stays with the driver, and executors get nothing that is secret. What
    is released does not depend on how the rows are spread: it is what `counton.jobs.run` releases
    of the same rows, bit for bit.

    A streaming frame is counted batch by batch, as new events. The newest event and the job's
    watermark say which windows have ended; rows that come later count at the next release. A query
    that was killed goes on where it was: a batch that Spark runs again is known.

    Args:
        job: what is asked; its ``events`` are not looked at.
        frame: the rows.
        progress, approve: as in `counton.jobs.run`; of a streaming frame ``approve`` is called with
            each batch.
        checkpoint: of a streaming frame, where Spark keeps how far it has read; for this job alone.
        trigger: of a streaming frame, when batches are made, as ``{"processingTime": "1 minute"}``;
            arguments of Spark's ``DataStreamWriter.trigger``.

    Returns:
        A `counton.jobs.Outcome`, after the job's files are written; of a streaming frame Spark's
        ``StreamingQuery``, which runs on by itself.

    Raises:
        MissingExtra: PySpark is not installed.
        InvalidInput: as in `counton.jobs.run`; a statistic whose rows count in their order; or a
            frame that gives other rows each time it is read.
        StateError, ReplayMismatch: as in `counton.jobs.run`.

    Example::

        >>> job = Job("count", "-", "visits.db", time="at", every="1d",  # doctest: +SKIP
        ...           start="2024-03-01", steps=365, until="newest", epsilon=1)
        >>> with run(job, spark.table("visits")) as outcome:             # doctest: +SKIP
        ...     outcome.read().table()
        >>> query = run(job, spark.readStream.table("visits"),           # doctest: +SKIP
        ...             checkpoint="visits.checkpoint")
    """
    require("pyspark")
    require("pyarrow")
    from pyspark.sql import DataFrame

    from counton.jobs.runs import run as run_job
    from counton.jobs.writing import Outputs
    from counton.spark.source import SparkSource
    from counton.spark.streaming import start

    if not isinstance(frame, DataFrame):
        raise InvalidInput(
            f"the rows are of type {type(frame).__name__}, which is no frame of Spark; give one, "
            f"or use counton.jobs.run"
        )

    def check(definition: Definition) -> None:
        if definition.ordered:
            raise InvalidInput(
                f"{definition.what} takes rows in their order, one after the other, which a Spark "
                f"frame does not have; use counton.jobs.run, or a statistic that is added up"
            )
        if definition.once and frame.isStreaming:
            raise InvalidInput(
                f"a {definition.what} of rows without times is released once, and a streaming "
                f"frame goes on; give {field('time')} and windows, or a frame that is whole"
            )
        if approve is not None:
            approve(definition)

    if frame.isStreaming:
        return start(job, frame, checkpoint, trigger, check)
    if checkpoint is not None or trigger is not None:
        raise InvalidInput(
            "checkpoint and trigger are of streaming frames, and this one is not; leave them out"
        )
    source: Any = SparkSource(frame)
    job = replace(job, events=source)
    outputs = Outputs.of(job)

    def approve_all(definition: Definition) -> None:
        check(definition)
        outputs.approve(definition)

    outcome = run_job(job, progress, approve=approve_all)
    try:
        outputs.write(outcome, progress)
    except BaseException:
        outcome.close()
        raise
    return outcome
