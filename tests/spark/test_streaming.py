"""Streaming frames: what batch runs over the same new events release, once, whatever happens."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from databases import rows_in
from spark_jobs import JOBS, events, job

from counton.base.errors import InputChangedError, InvalidInputError
from counton.base.private import reveal
from counton.run import Job, publish, run
from counton.state import Stream

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("pyspark", reason="pyspark is not installed: make test-spark")

from pyspark.errors import StreamingQueryException  # noqa: E402 - after the skip

from counton import spark as counton_spark  # noqa: E402
from counton.spark.streaming import Batches  # noqa: E402

COLUMNS = "at string, page string, place string, user string, paid double, id string"


def nights() -> list[pl.DataFrame]:
    """New events of several nights, some late by days; the third brings none."""
    rows = events(rows=400).sort("at")
    parts = [rows[:120], rows[120:250], rows[:0], rows[250:]]
    return [pl.concat([part, rows[number * 7 : number * 7 + 3]]) if part.height else part
            for number, part in enumerate(parts)]  # fmt: skip


def written(folder: Path, parts: list[pl.DataFrame], first: int = 0) -> None:
    """A file a night, in the order in which Spark reads them."""
    (folder / "in").mkdir(exist_ok=True)
    for number, part in enumerate(parts, first):
        file = folder / "in" / f"{number}.parquet"
        part.write_parquet(file)
        os.utime(file, (10**9 + number, 10**9 + number))


def rows_of(spark: Any, folder: Path) -> Any:
    reader = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder / "in"))


def counted(asked: Job, spark: Any, folder: Path, checkpoint: str = "checkpoint") -> None:
    """Let a query count all files that there are."""
    query: Any = counton_spark.run(
        asked,
        rows_of(spark, folder),
        checkpoint=folder / checkpoint,
        trigger={"availableNow": True},
    )
    query.awaitTermination()


def table(asked: Job) -> pl.DataFrame:
    return pl.read_parquet(str(asked.output))


@pytest.mark.parametrize(
    "name",
    [
        "groups", "two columns", "windows", "quantiles", "hierarchy", "people", "ids of people",
        "found",
    ],
)  # fmt: skip
@pytest.mark.smoke
def test_streaming_query_releases_values_of_append_runs(
    name: str, tmp_path: Path, spark: Any, one_key: None
) -> None:
    parts = nights()
    asked = job(name, tmp_path, until=None, release_delay="12h", output=tmp_path / "out.parquet")
    asked = asked.derive(epsilon=3)
    written(tmp_path, parts[:2])
    counted(asked, spark, tmp_path)
    early = table(asked)
    written(tmp_path, parts[2:], first=2)
    counted(asked, spark, tmp_path)  # goes on from the checkpoint
    found = table(asked)
    here = asked.derive(state=tmp_path / "here.db", output=None, until="latest-event", append=True)
    for part in parts:
        if part.height:
            with run(here.derive(events=part)) as outcome:
                expected = outcome.read().table()
    assert found.equals(expected)
    steps = early["window_index"].unique().implode()
    if name != "found":  # of which more are shown later
        assert found.filter(pl.col("window_index").is_in(steps)).equals(early)
    assert "row_id" in JOBS[name][1] or found["window_index"].max() > 15  # type: ignore[operator]


def test_a_batch_that_runs_again_changes_nothing(tmp_path: Path, spark: Any) -> None:
    asked = job(
        "groups", tmp_path, until="latest-event", append=True, output=tmp_path / "out.parquet"
    )
    batches = Batches(asked, lambda spec: None)
    first, second = (spark.createDataFrame(part.to_arrow()) for part in (events(1), events(2)))
    spark.sparkContext.setLocalProperty("sql.streaming.queryId", "a query")
    batches(first, 0)
    shown = table(asked)
    batches(first.repartition(5), 0)
    assert table(asked).equals(shown)
    with pytest.raises(InputChangedError, match="batch 0 of stream 'it' cannot be counted"):
        batches(second, 0)
    why = (tmp_path / "s.db.error").read_text()
    assert "batch 0 of the query has been counted already" in why
    batches(first, 1)  # the same rows, and others' events
    run(asked.derive(events=events(1).head(0), until="2024-03-19"))
    with Stream.open(str(asked.state), "it", key=asked.key) as stream:
        blocks = reveal(stream.observed_blocks())
        assert sum(int(kept[:, 0].sum()) for _, kept in blocks) == 2 * events(1).height
    batches(first.limit(0), 2)
    with pytest.raises(InputChangedError, match="batch 1 of stream 'it' cannot be counted"):
        batches(second, 1)


def test_a_query_and_a_state_that_do_not_belong_together(tmp_path: Path, spark: Any) -> None:
    parts = nights()
    written(tmp_path, parts[:2])
    asked = job("groups", tmp_path, until=None, output=tmp_path / "out.parquet")
    counted(asked, spark, tmp_path)
    shown = table(asked)
    with pytest.raises(StreamingQueryException, match="the checkpoint of this query is new"):
        counted(asked, spark, tmp_path, "another checkpoint")
    written(tmp_path, parts[3:], first=3)
    other = asked.derive(state=tmp_path / "other.db", output=tmp_path / "other.parquet")
    with pytest.raises(StreamingQueryException, match="none of the 2 batches before it"):
        counted(other, spark, tmp_path)
    assert table(asked).equals(shown)
    counted(asked, spark, tmp_path)
    assert table(asked).height > shown.height


def test_streaming_query_refuses_unsupported_options(tmp_path: Path, spark: Any) -> None:
    written(tmp_path, nights()[:1])
    frame = rows_of(spark, tmp_path)
    asked = job("groups", tmp_path, until=None)
    for wrong, words in (
        (asked.derive(until="2024-03-03"), "newest event determines which windows"),
        (asked.derive(time="when"), "has no column 'when'"),
        (asked.derive(epsilon=None), "epsilon"),
        (asked.derive(output=tmp_path / "no" / "out.parquet"), "does not exist"),
    ):  # fmt: skip
        with pytest.raises(InvalidInputError, match=words):
            counton_spark.run(wrong, frame, checkpoint=tmp_path / "checkpoint")
    with pytest.raises(InvalidInputError, match="there is no statistic 'triangles'"):
        asked.derive(what="triangles")
    with pytest.raises(InvalidInputError, match="needs a checkpoint"):
        counton_spark.run(asked, frame)
    assert not (tmp_path / "s.db").exists()
    assert not (tmp_path / "checkpoint").exists()


def test_quarantined_rows_have_one_file_per_batch(tmp_path: Path, spark: Any) -> None:
    bad = pl.DataFrame({"at": ["never"], "page": ["a"]})
    parts = [pl.concat([part, bad], how="diagonal") for part in nights()[:2]]
    written(tmp_path, parts)
    aside = f"quarantine:{tmp_path / 'bad.csv'}"
    counted(job("groups", tmp_path, until=None, bad_rows=aside), spark, tmp_path)
    for number in range(2):
        lines = (tmp_path / f"bad.{number}.csv").read_text().splitlines()
        assert lines[1:] == ["the data frame,,a time that cannot be read,never,a"]
    written(tmp_path, [bad], first=2)
    counted(job("groups", tmp_path, until=None), spark, tmp_path)  # the policy is remembered
    assert len((tmp_path / "bad.2.csv").read_text().splitlines()) == 2
    assert sorted(path.name for path in tmp_path.glob("bad*")) == [f"bad.{n}.csv" for n in range(3)]


@pytest.mark.parametrize("column", ["at", "page"])
def test_reason_for_stopped_query_is_confidential(
    column: str, tmp_path: Path, spark: Any, events_logged: Path, caplog: pytest.LogCaptureFixture
) -> None:
    value = f"Mrs Aldous of {column}"
    row = {"at": "2024-03-02T10:00", "page": "a"} | {column: value}
    written(tmp_path, [*nights()[:1], pl.DataFrame([row])])
    asked = job("groups", tmp_path, until=None)
    with pytest.raises(StreamingQueryException, match="the reason is in") as raised:
        counted(asked, spark, tmp_path)
    file = tmp_path / "s.db.error"
    assert value in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert str(file) in str(raised.value)
    assert "Aldous" not in f"{raised.value!r} {raised.value}{caplog.text}"
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    logged = b"".join(path.read_bytes() for path in events_logged.iterdir())
    assert b"QueryTerminatedEvent" in logged
    assert b"the reason is in" in logged
    assert b"Aldous" not in logged


def test_batch_with_missing_time_is_counted_and_quarantines_nothing(
    tmp_path: Path, spark: Any
) -> None:
    nothing = pl.DataFrame(
        {"at": [None], "page": ["a"]}, schema={"at": pl.String, "page": pl.String}
    )
    parts = [pl.concat([part, nothing], how="diagonal") for part in nights()[:2]]
    written(tmp_path, parts)
    aside = f"quarantine:{tmp_path / 'bad.csv'}"
    asked = job("groups", tmp_path, until=None, bad_rows=aside, missing_values="drop")
    counted(asked, spark, tmp_path)
    for number in range(2):
        assert len((tmp_path / f"bad.{number}.csv").read_text().splitlines()) == 1


def test_bad_row_stops_query_which_continues_with_quarantine(tmp_path: Path, spark: Any) -> None:
    bad = pl.DataFrame({"at": ["never"], "page": ["a"]})
    asked = job("groups", tmp_path, until=None, output=tmp_path / "out.parquet")
    early = events(rows=9).with_columns(at=pl.lit("2023-12-31"))
    written(tmp_path, [early, *nights()[:1], bad, *nights()[1:2]])
    with pytest.raises(StreamingQueryException, match="FOREACH_BATCH"):
        counted(asked, spark, tmp_path)
    shown = table(asked)
    counted(asked.derive(bad_rows=f"quarantine:{tmp_path / 'bad.csv'}"), spark, tmp_path)
    assert shown.height < table(asked).height
    assert (tmp_path / "bad.2.csv").exists()


def test_released_values_land_once_in_postgresql(
    tmp_path: Path, spark: Any, postgres: str, one_key: None
) -> None:
    parts = nights()
    asked = job("groups", tmp_path, until=None).derive(state=postgres, key=tmp_path / "key")
    written(tmp_path, parts[:2])
    counted(asked, spark, tmp_path)
    publish(postgres, stream="it", key=tmp_path / "key")
    written(tmp_path, parts[3:], first=3)
    counted(asked, spark, tmp_path)  # what is new lands by itself
    with run(
        asked.derive(events=events().head(0), append=True, until="2024-03-01T01:00")
    ) as outcome:
        expected = outcome.read().table()
    query = (
        'SELECT window_index, "group", estimate FROM counton_releases '
        'ORDER BY window_index, "group"'
    )
    found = [tuple(row.values()) for row in rows_in(postgres, query)]
    assert found == expected.select("window_index", "group", "estimate").rows()
