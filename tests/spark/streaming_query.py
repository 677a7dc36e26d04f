"""A query over a folder of files, one file a batch, until all are counted: tests kill it.

Run as ``python streaming_query.py FOLDER MASTER``: reads FOLDER/in, keeps FOLDER/s.db, writes
FOLDER/out.parquet. Says "begun" when Spark runs, and "ended" at the end.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

from counton import spark as counton_spark
from counton.run import Job


def job(folder: Path) -> Job:
    """A table of groups, of which each user's day counts at most twice."""
    return Job(
        "count", "-", folder / "s.db", time="at", every="6h", group_by="page", groups="a,b,c",
        start="2024-03-01", windows=200, until="latest-event", release_delay="6h", epsilon=1,
        user="user",
        max_contributions=2, contribution_period="1d", strategy="binary", stream="visits",
        output=folder / "out.parquet",
    )  # fmt: skip


def main(folder: Path, master: str) -> None:
    """The whole of it."""
    # The same key in each folder, so that what they release can be compared.
    token_bytes = patch("secrets.token_bytes", lambda size: bytes(range(size)))
    token_hex = patch("secrets.token_hex", lambda size: "5a" * size)
    # States of one identity have no witness in common.
    modules = ("keys", "rollback_guard")
    none = [patch(f"counton.state.{one}.default_folder", lambda: "none") for one in modules]
    with token_bytes, token_hex, none[0], none[1]:
        count(folder, master)


def count(folder: Path, master: str) -> None:
    """Start Spark and the query, and wait for its end."""
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.executor.memory", "600m")
        .config("spark.driver.memory", "700m")
        .config("spark.task.maxFailures", "20")
        .config("spark.executor.maxNumFailures", "1000")
        .config("spark.deploy.maxExecutorRetries", "-1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    frame = (
        session.readStream.schema("at string, page string, user string")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / "in"))
    )
    print("begun", flush=True)
    trigger = {"availableNow": True}
    query: Any = counton_spark.run(
        job(folder), frame, checkpoint=folder / "checkpoint", trigger=trigger
    )
    query.awaitTermination()
    print("ended", flush=True)
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
