"""What was released as a frame of Spark: its rows, its description, and tables kept of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from spark_jobs import events, job

import counton
from counton.base.errors import InputChangedError, InvalidInputError
from counton.run import run

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("pyspark", reason="pyspark is not installed: make test-spark")

from counton import spark as counton_spark  # noqa: E402 - after the skip


def rows_of(frame: Any) -> list[tuple[Any, ...]]:
    """What a frame holds, with times in UTC, in some order of its own."""
    found = pl.DataFrame(pl.from_arrow(frame.toArrow()))
    times = pl.selectors.datetime(time_zone="*")
    return found.with_columns(times.dt.convert_time_zone("UTC")).sort(pl.all()).rows()


@pytest.mark.parametrize("name", ["groups", "local days", "top", "report", "found"])
def test_spark_frame_equals_released_table(name: str, tmp_path: Path, spark: Any) -> None:
    with run(job(name, tmp_path, epsilon=9).derive(events=events(rows=300))) as outcome:
        released = outcome.read()
        frame = released.to_spark(spark)
        table = released.table()
        assert frame.columns == table.columns
        assert rows_of(frame) == rows_of(spark.createDataFrame(table.to_arrow()))
        again = counton.read(frame)
        assert again.table().equals(table)
        assert again.describe() == released.describe()
        frame.write.mode("overwrite").saveAsTable("released")
        kept = counton.read(spark.table("released"), stream="it")
        assert kept.table().equals(table)
        if name == "groups":
            late = counton.read(spark.table("released").where("window_index > 9"))
            assert late.numbers.shown_steps == range(10, 19)
    with pytest.raises(InvalidInputError, match="belongs to stream 'it': correct stream=other"):
        counton.read(frame, stream="other")
    with pytest.raises(InvalidInputError, match="has lost the description of its stream"):
        counton.read(spark.range(3))


def test_a_folder_of_parquet_is_kept_by_overwriting_steps(tmp_path: Path, spark: Any) -> None:
    rows = events(rows=300)
    place = str(tmp_path / "table")
    asked = job("groups", tmp_path, append=True)
    nights = rows.filter(pl.col("at") < "2024-03-08"), rows.filter(pl.col("at") >= "2024-03-08")
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        before = 0
        for part in nights:
            with run(asked.derive(events=part)) as outcome:
                released = outcome.read()
            new = released.only(range(before + 1, released.steps.stop))
            for _ in range(2):
                frame = new.to_spark(spark)
                frame.write.partitionBy("window_index").mode("overwrite").parquet(place)
            before = released.steps.stop - 1
        assert counton.read(spark.read.parquet(place)).table().equals(released.table())
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")


def test_spark_reads_the_statement_that_merges(tmp_path: Path, spark: Any) -> None:
    with run(job("two columns", tmp_path).derive(events=events(rows=60))) as outcome:
        text = counton_spark.merge_text(outcome.read(), "lake.visits")
    parser = spark._jsparkSession.sessionState().sqlParser()
    assert "MergeIntoTable" in parser.parsePlan(text).toString()


def test_a_function_of_ones_own_takes_batches(tmp_path: Path, spark: Any, one_key: None) -> None:
    rows = events(rows=300).sort("at")
    arriving = spark.readStream.schema("at string, page string").option("maxFilesPerTrigger", 1)
    (tmp_path / "in").mkdir()
    for number, part in enumerate((rows[:150], rows[150:])):
        file = tmp_path / "in" / f"{number}.parquet"
        part.write_parquet(file)
        os.utime(file, (1_700_000_000 + number,) * 2)  # by which Spark takes them in order
    asked = job("groups", tmp_path, until=None)
    frame = arriving.parquet(str(tmp_path / "in"))
    count = counton_spark.batches(asked, frame)
    seen: list[int] = []

    def each(batch: Any, number: int) -> None:
        released = count(batch, number)
        again = count(batch, number)
        assert released is not None
        assert again is not None
        assert again.table().equals(released.table())
        assert count(batch.limit(0), number + 7) is None
        released.to_spark(batch.sparkSession).write.mode("overwrite").saveAsTable("each")
        seen.append(number)
        if number:
            with pytest.raises(InputChangedError):
                count(batch, 0)

    place = str(tmp_path / "checkpoint")
    query = frame.writeStream.foreachBatch(each).option("checkpointLocation", place)
    query.trigger(availableNow=True).start().awaitTermination()
    assert seen == [0, 1]
    here = asked.derive(state=tmp_path / "here.db", until="latest-event", append=True)
    for part in (rows[:150], rows[150:]):
        with run(here.derive(events=part)) as outcome:
            expected = outcome.read().table()
    assert counton.read(spark.table("each")).table().equals(expected)
    spark.sparkContext.setLocalProperty("sql.streaming.queryId", None)
    with pytest.raises(InvalidInputError, match="cannot be counted"):
        count(spark.createDataFrame(rows.to_arrow()), 2)
    assert "is not part of a streaming query" in (tmp_path / "s.db.error").read_text()
    with pytest.raises(InvalidInputError, match="not streaming, so it has no batches"):
        counton_spark.batches(asked, spark.range(3))
    with pytest.raises(InvalidInputError, match="has no column 'when'"):
        counton_spark.batches(asked.derive(time="when", state=tmp_path / "new.db"), frame)
