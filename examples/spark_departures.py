"""The departures counted with Spark on several processes, in one go and as they arrive."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import polars as pl

from examples.departures import options_for

#: Rows of a file that arrives.
_PART = 60_000


def run_spark(folder: str, workers: int = 2) -> None:
    """Count the year twice and print its last hours.

    Args:
        folder: of the data and the results.
        workers: processes that count.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    from counton import spark as counton_spark

    target = Path(folder)
    job = options_for(folder).derive(chart=None)
    spark = (
        SparkSession.builder.master(f"local[{workers}]")
        .appName("counton")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", str(workers))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    for old in ("spark.db", "spark.parquet", "streamed.db", "streamed.parquet"):
        for file in target.glob(f"{old}*"):
            file.unlink()
    for old in ("arriving", "checkpoint"):
        shutil.rmtree(target / old, ignore_errors=True)

    frame = spark.read.parquet(str(target / "departures.parquet"))
    batch = job.derive(state=target / "spark.db", output=target / "spark.parquet")
    print(f"{frame.count():,} departures, counted in {workers} processes")
    with counton_spark.run(batch, frame) as outcome:
        print(f"{outcome.after:,} hours of {len(outcome.spec.metadata().groups)} carriers released")
    print(pl.read_parquet(target / "spark.parquet").tail(5))

    rows = pl.read_parquet(target / "departures.parquet").sort("time_hour")
    (target / "arriving").mkdir()
    for number, start in enumerate(range(0, rows.height, _PART)):
        rows[start : start + _PART].write_parquet(target / "arriving" / f"{number}.parquet")
    arriving = spark.readStream.schema(frame.schema).option("maxFilesPerTrigger", 1)
    stream = job.derive(
        until="latest-event",
        state=target / "streamed.db",
        output=target / "streamed.parquet",
    )
    print("the same departures as a stream, a file at a time")
    query: Any = counton_spark.run(
        stream,
        arriving.parquet(str(target / "arriving")),
        checkpoint=target / "checkpoint",
        trigger={"availableNow": True},
    )
    query.awaitTermination()
    print(pl.read_parquet(target / "streamed.parquet").tail(5))
    print(f"tables: {target / 'spark.parquet'} and {target / 'streamed.parquet'}")
    spark.stop()
