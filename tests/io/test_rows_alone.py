"""What a row says is a function of that row alone, whatever other rows hold."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from adds import Grid

from counton.base.errors import InvalidInputError
from counton.io.files import open_source
from counton.io.row_assignment import Columns, RowMapping, assign_rows
from counton.windowing.windows import Windows

WINDOWS = Windows(datetime(2024, 3, 1, tzinfo=UTC), "1h", 4)
DAY = "2024-03-01T00:10"
ODD: list[Any] = [2, 2.0, 2.5, "2.0", True, None, 10**19, [2], {"a": 2}, "x"]


def said(path: Path, columns: Columns, **how: Any) -> list[tuple[Any, ...]]:
    return assign_rows(open_source(path), RowMapping(columns, WINDOWS, **how)).collect().rows()


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_one_json_row_changes_no_other(odd: Any, tmp_path: Path) -> None:
    usual: list[dict[str, Any]] = [
        {"at": DAY, "group": 1, "user": 7, "id": 5},
        {"at": DAY, "group": "1", "user": "7"},
    ]
    columns = Columns("at", "group", None, "user", "id")
    before = said(write(tmp_path / "a.jsonl", usual), columns)
    odd_row = {"at": DAY, "group": odd, "user": odd, "id": odd}
    for rows in ([*usual, odd_row], [odd_row, *usual]):
        found = said(write(tmp_path / "b.jsonl", rows), columns)
        assert [row for row in found if row in before] == before
    assert [row[1:3] for row in before] == [("1", "7"), ("1", "7")]


@pytest.mark.parametrize("odd", [0.5, "x", None, 1709251200000000001.5])
@pytest.mark.parametrize("unit", [0, 3, 6, 9])
def test_one_json_time_changes_no_other(unit: int, odd: Any, tmp_path: Path) -> None:
    name = {0: "epoch", 3: "epoch_ms", 6: "epoch_us", 9: "epoch_ns"}[unit]
    whole = [1709251199 * 10**unit + 10**unit - 1, 1709251200 * 10**unit]
    rows = [{"at": time} for time in whole]
    before = said(write(tmp_path / "a.jsonl", rows), Columns("at"), time_format=name)
    found = said(write(tmp_path / "b.jsonl", [*rows, {"at": odd}]), Columns("at"), time_format=name)
    assert found[:2] == before
    assert [row[1] for row in before] == [0, 1]


@pytest.mark.parametrize("odd", ["x", None, [1.0], {"a": 1}, True])
def test_one_json_value_changes_no_other(odd: Any, tmp_path: Path) -> None:
    def grid(values: Any) -> Any:
        return (values * 1000).round().astype("int64")

    rows = [{"at": DAY, "value": value} for value in (0.1, 3, 2.5e-3, "7")]
    columns = Columns("at", value="value")
    before = said(write(tmp_path / "a.jsonl", rows), columns, row_rule=Grid(grid))
    more = write(tmp_path / "b.jsonl", [*rows, {"at": DAY, "value": odd}])
    assert said(more, columns, row_rule=Grid(grid))[:4] == before
    assert [row[-1] for row in before] == [100, 3000, 2, 7000]


@pytest.mark.parametrize("name", ["group", "user", "id"])
@pytest.mark.parametrize("dtype", [pl.Float64, pl.Float32, pl.Decimal(9, 2)])
@pytest.mark.parametrize("of", ["file", "frame"])
def test_floats_are_no_names(name: str, dtype: Any, of: str, tmp_path: Path) -> None:
    frame = pl.DataFrame({"at": [DAY, DAY], name: pl.Series([1, None], dtype=dtype)})
    path = tmp_path / "night.parquet"
    frame.write_parquet(path)
    source = open_source(path if of == "file" else frame)
    of_name: dict[str, Any] = {name: name}
    columns = Columns("at", **of_name)
    with pytest.raises(
        InvalidInputError, match=rf"column '{name}' of .* holds .*convert the column to whole"
    ):
        assign_rows(source, RowMapping(columns, WINDOWS))


@pytest.mark.parametrize("dtype", [pl.Int8, pl.UInt64, pl.Decimal(9, 0), pl.String])
def test_one_name_has_one_text_in_all_types(dtype: Any, tmp_path: Path) -> None:
    frame = pl.DataFrame({"at": [DAY, DAY], "group": pl.Series(["1", None]).cast(dtype)})
    path = tmp_path / "night.parquet"
    frame.write_parquet(path)
    found = assign_rows(open_source(path), RowMapping(Columns("at", "group"), WINDOWS)).collect()
    assert found["group"].to_list() == ["1", None]


def test_floats_are_no_nanoseconds() -> None:
    frame = pl.DataFrame({"at": [1.7e18, None]})
    with pytest.raises(
        InvalidInputError, match="'at' holds Float64, which is too coarse for nanoseconds"
    ):
        assign_rows(open_source(frame), RowMapping(Columns("at"), WINDOWS, time_format="epoch_ns"))
