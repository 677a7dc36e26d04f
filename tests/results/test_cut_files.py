"""Tables that other tools cut and wrote again."""

import json
from datetime import datetime
from pathlib import Path

import polars as pl
import pytest

from counton import ApproxDP, read, release
from counton.base.errors import InvalidInputError
from counton.results.metadata_codec import ATTRS

from .test_files import made, released


def test_a_table_without_its_description_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "t.parquet"
    released(made("count by group", tmp_path, output=out))
    pl.read_parquet(out).filter(pl.col("window_index") > 3).write_parquet(tmp_path / "cut.parquet")
    with pytest.raises(
        InvalidInputError, match="cut that one by counton export \\(windows, groups\\)"
    ):
        read(tmp_path / "cut.parquet")


def test_metadata_is_read_from_schema_of_pandas_and_pyarrow(tmp_path: Path) -> None:
    """As `tests/spark/test_cut_by_pandas.py` has it of these two themselves."""
    out = tmp_path / "t.parquet"
    windows = tmp_path / "cut.parquet"
    own = released(made("both", tmp_path, output=out))
    facts = pl.read_parquet_metadata(out)["counton"]
    kept = json.dumps({"counton": facts})
    pl.read_parquet(out).filter(pl.col("window_index") > 3).write_parquet(
        windows, metadata={"counton": facts}
    )
    own_rows = own.only(range(4, 11)).table()
    assert read(windows).table().equals(own_rows)
    pl.read_parquet(out).filter(pl.col("window_index") > 3).write_parquet(
        windows, metadata={ATTRS: kept}
    )
    assert read(windows).table().equals(own_rows)


def test_early_steps_of_discovered_groups_are_read_from_cut_file(tmp_path: Path) -> None:
    """Groups that were shown later have no rows; a missing row of another group changes nothing."""
    rows = [
        (datetime(2024, 3, day), page)
        for page, first_day in (("home", 1), ("shop", 4))
        for day in range(first_day, 7)
        for _ in range(200)
    ]
    out = tmp_path / "t.csv"
    own = release(
        "count",
        pl.DataFrame(rows, schema=["time", "page"], orient="row"),
        time="time",
        every="1d",
        start="2024-03-01",
        windows=30,
        until="2024-03-07",
        group_by="page",
        unlisted_groups="discover",
        guarantee=ApproxDP(9, 1e-6),
        privacy_unit="visit",
        state=tmp_path / "s.db",
        output=out,
    )
    table = pl.read_csv(out)
    table.filter((pl.col("window_index") != 2) | (pl.col("group") != "home")).write_csv(out)
    early = own.only(range(1, 4)).table()
    assert early["group"].to_list() == ["home"] * 3
    cut = read(out).only(range(1, 4))
    assert cut.table().equals(early.filter(pl.col("window_index") != 2))
