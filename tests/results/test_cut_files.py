"""Tables that other tools cut and wrote again."""

import json
from pathlib import Path

import polars as pl
import pytest

from counton import read
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
