"""The statement that keeps a table of released rows adds what it lacks, and changes nothing."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from spark_jobs import events, job

from counton.run import run
from counton.spark import merge_text

duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")


@pytest.mark.parametrize("name", ["groups", "found", "hierarchy", "quantiles"])
def test_merge_statement_updates_table_with_released_rows(name: str, tmp_path: Path) -> None:
    rows = events(rows=400)
    nights = rows.filter(pl.col("at") < "2024-03-08"), rows.filter(pl.col("at") >= "2024-03-08")
    asked = job(name, tmp_path, append=True, epsilon=9)
    with closing(duckdb.connect()) as database:
        for night, part in enumerate(nights):
            with run(asked.derive(events=part)) as outcome:
                released = outcome.read()
                table = released.table()
                text = merge_text(released, "lake.visits")
            table.write_parquet(tmp_path / "released.parquet")
            database.read_parquet(str(tmp_path / "released.parquet")).create_view(
                "released", replace=True
            )
            if not night:
                database.sql("create schema lake")
                database.sql("create table lake.visits as select * from released limit 0")
            for _ in range(2):  # a batch that Spark runs again
                database.execute(text.replace("`", '"'))
            database.sql("copy lake.visits to '" + str(tmp_path / "kept.parquet") + "'")
            kept = pl.read_parquet(tmp_path / "kept.parquet")
            assert kept.sort(pl.all()).rows() == table.sort(pl.all()).rows()
            assert table.height > night * 20


def test_names_of_columns_are_quoted(tmp_path: Path) -> None:
    rows = events(rows=60).rename({"page": "the `page`"})
    asked = job("two columns", tmp_path, group_by="the `page`,place")
    domain = {"the `page`": list("abc"), "place": list("xyz")}
    with run(asked.derive(groups=domain, events=rows)) as outcome:
        text = merge_text(outcome.read(), "visits", "rows_of_today")
    assert text == (
        "MERGE INTO visits AS kept USING rows_of_today AS released\n"
        "ON kept.`window_index` IS NOT DISTINCT FROM released.`window_index` AND "
        "kept.`series` IS NOT DISTINCT FROM released.`series` AND "
        "kept.`group` IS NOT DISTINCT FROM released.`group` AND "
        "kept.`the ``page``` IS NOT DISTINCT FROM released.`the ``page``` AND "
        "kept.`place` IS NOT DISTINCT FROM released.`place`\n"
        "WHEN NOT MATCHED THEN INSERT *"
    )
