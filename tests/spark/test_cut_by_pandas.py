"""Released tables that pyarrow, pandas and Spark read, cut and write again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import counton
from counton import PureDP, release

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: make test-spark")
pd = pytest.importorskip("pandas", reason="pandas is not installed: make test-spark")
import pyarrow.compute as pc  # noqa: E402 - after the skip
import pyarrow.dataset as ds  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402


def by_pyarrow(whole: Path, cut: Path) -> None:
    rows = pq.read_table(whole)
    rows = rows.filter(
        pc.and_(pc.greater(rows["window_index"], 2), pc.equal(rows["group"], "shop"))
    )
    pq.write_table(rows, cut)


def by_a_dataset(whole: Path, cut: Path) -> None:
    wanted = (pc.field("window_index") > 2) & (pc.field("group") == "shop")
    pq.write_table(ds.dataset(whole).to_table(filter=wanted), cut)


def by_pandas(whole: Path, cut: Path) -> None:
    rows = pd.read_parquet(whole)
    rows = rows[(rows.window_index > 2) & (rows["group"] == "shop")].reset_index(drop=True)
    rows.sort_values("window_index", ascending=False).drop(columns="window_start").to_parquet(cut)


TOOLS: list[Callable[[Path, Path], None]] = [by_pyarrow, by_a_dataset, by_pandas]


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    visits = pl.DataFrame({
        "time": ["2024-03-01T09:00", "2024-03-02T11:30", "2024-03-05T10:15"],
        "page": ["home", "shop", "home"],
    })  # fmt: skip
    release(
        "count", visits, time="time", every="1d", start="2024-03-01", windows=365, group_by="page",
        until="latest-event", groups=["home", "shop"], guarantee=PureDP(1),
        timezone="Europe/Berlin",
        state=tmp_path / "visits.db", output=tmp_path / "visits.parquet",
    )  # fmt: skip
    return tmp_path / "visits.parquet"


@pytest.mark.parametrize("cut_by", TOOLS)
def test_metadata_stays_with_rows_cut_by_pandas(whole: Path, cut_by: Any) -> None:
    cut = whole.with_name("cut.parquet")
    cut_by(whole, cut)
    found = counton.read(cut)
    assert found.table().equals(counton.read(whole).only(range(3, 5), ["shop"]).table())
    again = whole.with_name("again.parquet")
    cut_by(cut, again) if cut_by is not by_pandas else pd.read_parquet(cut).to_parquet(again)
    assert counton.read(again).table().equals(found.table())
